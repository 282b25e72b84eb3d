"""Functions of `aotc.fft`: transforms along one axis and several, and of cosines."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy

from aotc import numpy as np
from aotc.complexes.pairs import (
    Complex,
    ComplexLike,
    as_complex,
    conj,
)
from aotc.core import dtypes
from aotc.core.dtypes import DTypeLike
from aotc.numpy.axes import axis_list, one_axis
from aotc.tracing.array import Array
from aotc.tracing.conversion import ArrayLike, as_float, astype, lift
from aotc.tracing.source_locations import fail
from aotc.tracing.tracing import emit_all

__all__ = [
    "dct", "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "idct", "ifft",
    "ifft2", "ifftn", "ifftshift", "ihfft", "irfft", "irfft2", "irfftn", "rfft",
    "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip

Norm = str | None


# ---- one axis -----------------------------------------------------------------------


def fft(
    a: ComplexLike, n: int | None = None, axis: int = -1, norm: Norm = None
) -> Complex:
    """The discrete Fourier transform along an axis, cut or zero-padded to `n`
    elements.
    """
    z, axis, size = _prepare(a, n, axis)
    return _apply_norm(_transform(z, axis, False), size, norm, False)


def ifft(
    a: ComplexLike, n: int | None = None, axis: int = -1, norm: Norm = None
) -> Complex:
    """The inverse of `fft`."""
    z, axis, size = _prepare(a, n, axis)
    return _apply_norm(_transform(z, axis, True), size, norm, True)


def rfft(
    a: ArrayLike, n: int | None = None, axis: int = -1, norm: Norm = None
) -> Complex:
    """Return the first n // 2 + 1 elements of the transform of real numbers."""
    _require_real(a)
    z, axis, size = _prepare(a, n, axis)
    if size % 2:
        half = _truncate(_transform(z, axis, False), axis, size // 2 + 1)
    else:
        half = _transform_reals(z.real, axis)
    return _apply_norm(half, size, norm, False)


def irfft(
    a: ComplexLike, n: int | None = None, axis: int = -1, norm: Norm = None
) -> Array:
    """The inverse of `rfft`: `n` real numbers; by default 2 (m - 1) of m elements."""
    z = _floating(a)
    number = one_axis(z.real, axis)
    size = _size(z.real, number)
    count = 2 * (size - 1) if n is None else n
    if count < 1:
        fail("bad-shape", f"expected n of 1 or more; got {count}")
    whole = _full_spectrum(_resize(z, number, count // 2 + 1), number, count)
    return _apply_norm(_transform(whole, number, True), count, norm, True).real


def hfft(
    a: ComplexLike, n: int | None = None, axis: int = -1, norm: Norm = None
) -> Array:
    """Transform half of a Hermitian-symmetric signal to its real spectrum."""
    return irfft(conj(_floating(a)), n, axis, _opposite_norm(norm))


def ihfft(
    a: ArrayLike, n: int | None = None, axis: int = -1, norm: Norm = None
) -> Complex:
    """The inverse of `hfft`."""
    return conj(rfft(a, n, axis, _opposite_norm(norm)))


def _opposite_norm(norm: Norm) -> Norm:
    """Return the norm argument with forward and backward exchanged."""
    opposite = {None: "forward", "backward": "forward", "forward": "backward"}
    return opposite.get(norm, norm)


def _transform(z: Complex, axis: int, inverse: bool) -> Complex:
    """Emit the FFT op along an axis; neither direction is scaled."""
    return Complex(*emit_all("fft", *z, axis=axis, inverse=inverse))


def _apply_norm(z: Complex, count: int, norm: Norm, inverse: bool) -> Complex:
    """Divide `z` by `count`, its root, or 1, as `norm` and the direction say."""
    divided = {None: inverse, "backward": inverse, "forward": not inverse}
    if norm == "ortho":
        return z.map(lambda x: x * (1 / math.sqrt(count)))
    if norm not in divided:
        fail("bad-norm", f"expected norm backward, ortho or forward; got {norm!r}")
    return z.map(lambda x: x * (1 / count)) if divided[norm] else z


def _transform_reals(x: Array, axis: int) -> Complex:
    """Return half the spectrum of an even number of reals, by a half as long FFT."""
    parts = np.moveaxis(x, axis, -1)
    half = _size(x, axis) // 2
    z = _transform(Complex(parts[..., ::2], parts[..., 1::2]), x.ndim - 1, False)
    z = z.map(lambda part: np.concatenate([part, part[..., :1]], -1))
    mirror = conj(z.map(lambda part: np.flip(part, -1)))
    even, odd = (z + mirror) * 0.5, (z - mirror) * 0.5  # odd is of i x[1::2]
    angles = -numpy.pi * (numpy.arange(half + 1) / half + 0.5)
    turn = _constant(numpy.exp(1j * angles), x.dtype)
    return (even + odd * turn).map(lambda part: np.moveaxis(part, -1, axis))


def _full_spectrum(half: Complex, axis: int, count: int) -> Complex:
    """Return all elements of a spectrum of reals, given the first count // 2 + 1."""
    inner = (count - 1) // 2
    before = (slice(None),) * axis
    rest = conj(half.map(lambda x: x[(*before, slice(1, 1 + inner))]))
    parts = zip(half, rest, strict=True)
    re, im = (np.concatenate([x, np.flip(y, axis)], axis) for x, y in parts)
    # what has no mirror image is real
    place = np.arange(count).reshape([-1] + [1] * (half.ndim - axis - 1))
    alone = np.logical_or(place == 0, place * 2 == count)
    return Complex(re, np.where(alone, 0.0, im))


def _constant(values: numpy.ndarray, dtype: str) -> Complex:
    """Return complex NumPy values as a Complex of a float dtype."""
    target = dtypes.to_numpy(dtype)
    return Complex(lift(values.real.astype(target)), lift(values.imag.astype(target)))


# ---- operands -----------------------------------------------------------------------


def _prepare(a: ComplexLike, n: int | None, axis: int) -> tuple[Complex, int, int]:
    """Return the operand as Complex cut or padded to `n`, the axis, and its size."""
    z = _floating(a)
    number = one_axis(z.real, axis)
    size = _size(z.real, number) if n is None else n
    return _resize(z, number, size), number, size


def _floating(a: ComplexLike) -> Complex:
    """Convert an operand to a Complex of f32 or f64."""
    given: Any = a
    if getattr(getattr(a, "dtype", None), "kind", None) == "c":
        return _constant(given, "f32" if given.dtype.itemsize == 8 else "f64")
    z = as_complex(a)
    return z if z.dtype in ("f32", "f64") else z.map(lambda x: astype(x, "f32"))


def _require_real(a: ComplexLike) -> None:
    """Raise if an operand is complex."""
    kind = getattr(getattr(a, "dtype", None), "kind", None)
    if isinstance(a, (Complex, complex)) or kind == "c":
        fail("not-real", "expected real numbers; got complex ones", "use fft")


def _size(x: Array, axis: int) -> int:
    """Return the size of an axis; raise if it is symbolic."""
    size = x.shape[axis]
    if not isinstance(size, int):
        fail(
            "symbolic-size",
            f"expected a fixed size along the transformed axis {axis}; got {size!r}",
            "give it in the Spec as a number",
        )
    return size


def _resize(z: Complex, axis: int, n: int) -> Complex:
    """Cut an axis at the end, or fill it with zeros, to `n` elements."""
    if n < 1:
        fail("bad-shape", f"expected n of 1 or more; got {n}")
    size = _size(z.real, axis)
    if n <= size:
        return z if n == size else _truncate(z, axis, n)
    widths = [(0, n - size if i == axis else 0) for i in range(z.ndim)]
    return z.map(lambda x: np.pad(x, widths))


def _truncate(z: Complex, axis: int, n: int) -> Complex:
    """Return the first `n` elements along an axis."""
    return z.map(lambda x: x[(*(slice(None),) * axis, slice(n))])


# ---- several axes -------------------------------------------------------------------

Sizes = Sequence[int] | None
Axes = Sequence[int] | None
Plan = list[tuple[int | None, int]]


def _plan(z: Complex, s: Sizes, axes: Axes) -> Plan:
    """Return the (size, axis) of each one-dimensional transform, in order."""
    if axes is None:
        axes = range(z.ndim) if s is None else range(z.ndim - len(s), z.ndim)
    numbers = axis_list(z.real, tuple(axes))
    sizes = [None] * len(numbers) if s is None else list(s)
    if len(sizes) != len(numbers):
        fail("bad-shape", f"expected a size for each of axes {numbers}; got {s}")
    return list(zip(sizes, numbers, strict=True))


def _along(
    transform: Callable[..., Any], z: object, plan: Sequence[Any], norm: Norm
) -> Any:
    """Apply a one-dimensional transform along each axis of the plan, the last first."""
    for n, axis in reversed(plan):
        z = transform(z, n, axis, norm)
    return z


def fftn(
    a: ComplexLike, s: Sizes = None, axes: Axes = None, norm: Norm = None
) -> Complex:
    """The discrete Fourier transform along several axes; None for all of them."""
    z = _floating(a)
    transformed: Complex = _along(fft, z, _plan(z, s, axes), norm)
    return transformed


def ifftn(
    a: ComplexLike, s: Sizes = None, axes: Axes = None, norm: Norm = None
) -> Complex:
    """The inverse of `fftn`."""
    z = _floating(a)
    transformed: Complex = _along(ifft, z, _plan(z, s, axes), norm)
    return transformed


def _split_last(plan: Plan) -> tuple[Plan, tuple[int | None, int]]:
    """Split the plan into the complex transforms and the last, real one."""
    if not plan:
        fail("bad-axis", "expected axes to name one or more; got none")
    return plan[:-1], plan[-1]


def rfftn(
    a: ArrayLike, s: Sizes = None, axes: Axes = None, norm: Norm = None
) -> Complex:
    """`rfft` along the last of several axes, `fft` along the others."""
    _require_real(a)
    z = _floating(a)
    others, (n, axis) = _split_last(_plan(z, s, axes))
    transformed: Complex = _along(fft, rfft(z.real, n, axis, norm), others, norm)
    return transformed


def irfftn(
    a: ComplexLike, s: Sizes = None, axes: Axes = None, norm: Norm = None
) -> Array:
    """The inverse of `rfftn`."""
    z = _floating(a)
    others, (n, axis) = _split_last(_plan(z, s, axes))
    return irfft(_along(ifft, z, others, norm), n, axis, norm)


def fft2(
    a: ComplexLike, s: Sizes = None, axes: Axes = (-2, -1), norm: Norm = None
) -> Complex:
    """The discrete Fourier transform along two axes; see `fftn`."""
    return fftn(a, s, axes, norm)


def ifft2(
    a: ComplexLike, s: Sizes = None, axes: Axes = (-2, -1), norm: Norm = None
) -> Complex:
    """`ifftn` along two axes."""
    return ifftn(a, s, axes, norm)


def rfft2(
    a: ArrayLike, s: Sizes = None, axes: Axes = (-2, -1), norm: Norm = None
) -> Complex:
    """`rfftn` along two axes."""
    return rfftn(a, s, axes, norm)


def irfft2(
    a: ComplexLike, s: Sizes = None, axes: Axes = (-2, -1), norm: Norm = None
) -> Array:
    """`irfftn` along two axes."""
    return irfftn(a, s, axes, norm)


# ---- frequencies --------------------------------------------------------------------


def fftfreq(n: int, d: float = 1.0, dtype: DTypeLike = "f32") -> Array:
    """Return the frequency of each element of `fft`; `d` is the distance of samples."""
    return np.asarray(numpy.fft.fftfreq(*_spacing(n, d)), dtype)


def rfftfreq(n: int, d: float = 1.0, dtype: DTypeLike = "f32") -> Array:
    """Return the frequency of each element of `rfft`; see `fftfreq`."""
    return np.asarray(numpy.fft.rfftfreq(*_spacing(n, d)), dtype)


def _spacing(n: int, d: float) -> tuple[int, float]:
    """Return `n` and `d`; raise unless n is positive and d is not zero."""
    if n < 1 or d == 0:
        fail("bad-shape", f"expected n of 1 or more, and a d but 0; got {n} and {d}")
    return n, d


def fftshift(x: ComplexLike, axes: int | Axes = None) -> Any:
    """Move frequency zero to the middle of each of the axes."""
    return _roll(x, axes, lambda size: size // 2)


def ifftshift(x: ComplexLike, axes: int | Axes = None) -> Any:
    """The inverse of `fftshift`."""
    return _roll(x, axes, lambda size: -(size // 2))


def _roll(x: ComplexLike, axes: int | Axes, shift: Callable[[Any], Any]) -> Any:
    """Roll along each of the axes by `shift(size)` elements, given its size."""
    if isinstance(x, Complex):
        return x.map(lambda part: _roll(part, axes, shift))
    x = lift(x)
    for axis in axis_list(x, range(x.ndim) if axes is None else axes):
        x = np.roll(x, shift(x.shape[axis]), axis)
    return x


# ---- cosine transforms --------------------------------------------------------------


def dct(x: ArrayLike, type: int = 2, axis: int = -1, norm: Norm = None) -> Array:  # noqa: A002
    """The discrete cosine transform of type 2, 3 or 4, scaled as SciPy does.

    By its matrix: n**2 products, as suits the sizes it is used at.
    """
    return _by_cosines(x, type, axis, norm)


def idct(x: ArrayLike, type: int = 2, axis: int = -1, norm: Norm = None) -> Array:  # noqa: A002
    """The inverse of `dct` of that type."""
    inverse = {2: 3, 3: 2, 4: 4}.get(type, type)
    y = _by_cosines(x, inverse, axis, norm)
    return y if norm == "ortho" else y * (1 / (2 * _size(y, axis)))


def _by_cosines(x: ArrayLike, type: int, axis: int, norm: Norm) -> Array:  # noqa: A002
    """Return the DCT along an axis, as a product with a cosine matrix."""
    x = as_float(x)
    if type not in (2, 3, 4) or norm not in (None, "backward", "ortho"):
        fail(
            "bad-argument",
            f"expected type 2, 3 or 4 and norm backward or ortho; got {type} and "
            f"{norm!r}",
        )
    number = one_axis(x, axis)
    n = _size(x, number)
    if not n:
        fail("bad-shape", f"expected elements along axis {axis}; got {x.type}")
    matrix = _cosines(n, type, norm == "ortho").astype(dtypes.to_numpy(x.dtype))
    return np.moveaxis(np.moveaxis(x, number, -1) @ lift(matrix), -1, number)


def _cosines(n: int, type: int, ortho: bool) -> Any:  # noqa: A002
    """Return the n × n cosine matrix of a DCT of type 2, 3 or 4."""
    j = numpy.arange(n)
    if type == 4:
        matrix = 2 * numpy.cos(numpy.pi / n * numpy.outer(j + 0.5, j + 0.5))
        return matrix / math.sqrt(2 * n) if ortho else matrix
    matrix = 2 * numpy.cos(numpy.pi / n * numpy.outer(j + 0.5, j))
    if ortho:
        matrix = matrix / math.sqrt(2 * n)
        matrix[:, 0] /= math.sqrt(2)
    if type == 2:
        return matrix
    if not ortho:
        matrix[:, 0] /= 2
    return matrix.T
