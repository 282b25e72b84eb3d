"""The discrete Fourier transform, on pairs of real arrays; compiled as matrix products.

Cooley and Tukey, "An algorithm for the machine calculation of complex Fourier series",
Mathematics of Computation 19 (1965) 297: a transform of n = n1 n2 numbers is n2
transforms of n1, a multiplication by roots of unity, and n1 transforms of n2. Small
ones are products with the matrix of the transform. Sizes without a small factor become
a convolution: Bluestein, "A linear filtering approach to the computation of discrete
Fourier transform", IEEE Transactions on Audio and Electroacoustics 18 (1970) 451.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from aotc.core import dtypes as dt
from aotc.dialects.attributes import Bool, Int
from aotc.dialects.builder import Builder
from aotc.dialects.graph import GraphOp, Operand, Pure, Result, Tangent
from aotc.dialects.movement.permutations import moving, permute
from aotc.dialects.ops.contraction import dot_axes
from aotc.dialects.rules.batching import leading, shift_axes
from aotc.dialects.rules.checks import require_axes, require_dtype, require_equal
from aotc.dialects.rules.padding import along_axis, harmless_but_along
from aotc.dialects.rules.samples import OpSample, f32
from aotc.dialects.types import Size, Tensor, element_count
from aotc.errors import InputError
from aotc.mlir import Value


class Fft(GraphOp, name="fft", traits=[Pure]):
    """y[k] = the sum over j of (re + i im)[j] e**(-2 pi i j k / n) along `axis`.

    The results are its real and its imaginary part. With `inverse` the exponent has the
    other sign. Neither direction divides by n.
    """

    is_costly = True
    in_memory = True
    is_approximated = True
    why = "factored by its length; its adjoint is the opposite direction"

    re: Operand[Any]
    im: Operand[Any]
    axis: Int
    inverse: Bool
    out_re: Result[Any]
    out_im: Result[Any]
    dtypes = ("f32", "f64")

    @staticmethod
    def infer(
        re: Tensor, im: Tensor, *, axis: int, inverse: bool
    ) -> tuple[Tensor, Tensor]:
        """Return the type of the operands, twice."""
        require_dtype(re, Fft.dtypes)
        require_equal(re, im)
        require_axes(re, (axis,))
        if not isinstance(re.shape[axis], int):
            raise InputError(
                "symbolic-size",
                f"expected a fixed size along the axis of a Fourier transform; got "
                f"{re.shape[axis]} along axis {axis} of {re}",
                hint="give that size in the Spec as a number, or pad to a fixed one",
            )
        if re.shape[axis] == 0:
            raise InputError(
                "bad-shape", f"a Fourier transform of no elements: axis {axis} of {re}"
            )
        return re, im

    @staticmethod
    def ref(
        re: np.ndarray, im: np.ndarray, *, axis: int, inverse: bool
    ) -> tuple[np.ndarray, ...]:
        """Return the unscaled transform by np.fft in f64: real and imaginary part."""
        x = re.astype(np.float64) + 1j * im
        if inverse:
            y = np.fft.ifft(x, axis=axis, norm="forward")
        else:
            y = np.fft.fft(x, axis=axis)
        return y.real, y.imag

    @staticmethod
    def jvp(b: Builder, op: "Fft", dre: Tangent, dim: Tangent) -> list[Value]:
        """Return the transforms of the tangents, as the op is linear."""
        parts = _both_tangents(b, op.re, dre, dim)
        return b.fft(*parts, axis=op.axis, inverse=op.inverse)

    @staticmethod
    def vjp(b: Builder, op: "Fft", dre: Value, dim: Value) -> list[Value]:
        """Return the inverse transforms of the cotangents: the matrix is symmetric."""
        parts = _both_tangents(b, op.re, dre, dim)
        return list(b.fft(*parts, axis=op.axis, inverse=not op.inverse))

    batch = leading(axis=shift_axes)

    pad = harmless_but_along(along_axis)

    @staticmethod
    def decompose(b: Builder, op: "Fft") -> list[Value]:
        """Emit transforms of rows: the axis goes to the end, all others become one."""
        kind, axis = Tensor.of(op.re), op.axis
        sizes = permute(kind.shape, moving(kind.rank, axis, -1))
        rows = (element_count(sizes[:-1]), sizes[-1])
        z = [b.reshape(b.move_axis(x, axis, -1), shape=rows) for x in op.operands]
        return [
            b.move_axis(b.reshape(y, shape=sizes), -1, axis)
            for y in _transform(b, z, 1 if op.inverse else -1)
        ]

    samples = [
        OpSample((f32(3, 8), f32(3, 8)), {"axis": 1, "inverse": False}),
        OpSample((f32(6, "n"), f32(6, "n")), {"axis": 0, "inverse": True}),
        OpSample((f32("n", 72, 2), f32("n", 72, 2)), {"axis": 1, "inverse": False}),
        OpSample((f32(67), f32(67)), {"axis": 0, "inverse": True}),
        OpSample((f32(1), f32(1)), {"axis": 0, "inverse": False}),
        OpSample((f32(0, 4), f32(0, 4)), {"axis": 1, "inverse": False}),
    ]


def _both_tangents(b: Builder, like: Value, re: Tangent, im: Tangent) -> list[Value]:
    """Return the real and the imaginary part's tangents; emit zeros for None."""
    return [b.full_like(like, 0.0) if x is None else x for x in (re, im)]


# ---- the algorithm, on rows: [count, n] ---------------------------------------------

_LARGEST_MATRIX = 32
_LARGEST_RADIX = 16
_LARGEST_TABLE = 1 << 15  # numbers in one constant


def _sizes(z: Sequence[Value]) -> tuple[Size, int]:
    """Return the number of rows, and their length."""
    count, n = Tensor.of(z[0]).shape
    assert isinstance(n, int), "infer lets no symbolic size through"
    return count, n


def _transform(b: Builder, z: Sequence[Value], sign: int) -> list[Value]:
    """Emit the DFT of each row of `z` = (re, im), by the method for its length."""
    _, n = _sizes(z)
    if n <= _LARGEST_MATRIX:
        return _by_matrix(b, z, _roots(n, np.outer(np.arange(n), np.arange(n)), sign))
    radix = max(k for k in range(1, _LARGEST_RADIX + 1) if n % k == 0)
    if radix == 1:
        return _by_convolution(b, z, sign)
    return _by_factors(b, z, radix, sign)


def _roots(n: int, powers: np.ndarray, sign: int) -> Any:
    """Return e**(sign 2 pi i powers / n) in NumPy, with exact quarter turns.

    The angles are of at most an eighth of a turn. So quarter turns are exact, and with
    them the zeros in transforms of real numbers.
    """
    parts = 4 * (powers % n)
    quarters = np.rint(parts / n).astype(int)
    near = np.exp(sign * 0.5j * np.pi / n * (parts - quarters * n))
    return near * np.array([1, sign * 1j, -1, sign * -1j])[quarters % 4]


def _by_matrix(
    b: Builder, z: Sequence[Value], matrix: np.ndarray, axis: int = 1
) -> list[Value]:
    """Emit the product with a complex constant matrix along `axis`, which goes last."""
    re, im = z
    cosine, sine = _constants(b, matrix, re)
    contract = dot_axes(contract=((axis,), (0,)))

    def product(x: Value, y: Value) -> Value:
        return b.dot_general(x, y, **contract)

    return [
        b.subtract(product(re, cosine), product(im, sine)),
        b.add(product(re, sine), product(im, cosine)),
    ]


def _constants(b: Builder, table: np.ndarray, like: Value) -> list[Value]:
    """Emit a constant's real and imaginary part, in the dtype of `like`."""
    dtype = dt.to_numpy(Tensor.of(like).dtype)
    return [b.constant(value=part.astype(dtype)) for part in (table.real, table.imag)]


def _by_factors(b: Builder, z: Sequence[Value], radix: int, sign: int) -> list[Value]:
    """Emit a Cooley-Tukey step for length n = radix * rest.

    Position j = j1 rest + j2, frequency k = k1 + radix k2.
    """
    count, n = _sizes(z)
    rest = n // radix
    grid = [b.reshape(x, shape=(count, radix, rest)) for x in z]
    powers = np.outer(np.arange(radix), np.arange(radix))
    inner = _by_matrix(b, grid, _roots(radix, powers, sign), axis=1)
    turned = _twiddle(b, inner, n, sign)
    rows = [
        b.reshape(b.transpose(x, permutation=(0, 2, 1)), shape=(count * radix, rest))
        for x in turned
    ]
    outer = [
        b.reshape(x, shape=(count, radix, rest)) for x in _transform(b, rows, sign)
    ]
    return [
        b.reshape(b.transpose(x, permutation=(0, 2, 1)), shape=(count, n))
        for x in outer
    ]


def _twiddle(b: Builder, z: Sequence[Value], n: int, sign: int) -> list[Value]:
    """Emit [count, j, k] times e**(sign 2 pi i j k / n), in two steps for large n."""
    count, rows, columns = Tensor.of(z[0]).shape
    assert isinstance(rows, int)
    assert isinstance(columns, int)
    fine = rows
    while fine * columns > _LARGEST_TABLE:
        fine = next(d for d in range(fine // 2, 0, -1) if rows % d == 0)
    k = np.arange(columns)
    z = [b.reshape(x, shape=(count, rows // fine, fine, columns)) for x in z]
    z = _times(b, z, _roots(n, np.outer(np.arange(fine), k), sign), (2, 3))
    if fine < rows:
        steps = np.arange(0, rows, fine)
        z = _times(b, z, _roots(n, np.outer(steps, k), sign), (1, 3))
    return [b.reshape(x, shape=(count, rows, columns)) for x in z]


def _times(
    b: Builder, z: Sequence[Value], table: np.ndarray, axes: tuple[int, ...]
) -> list[Value]:
    """Emit the product with a complex constant along some of the axes."""
    re, im = z
    shape = Tensor.of(re).shape
    c, s = (b.broadcast(x, shape=shape, axes=axes) for x in _constants(b, table, re))
    return [
        b.subtract(b.multiply(re, c), b.multiply(im, s)),
        b.add(b.multiply(re, s), b.multiply(im, c)),
    ]


def _by_convolution(b: Builder, z: Sequence[Value], sign: int) -> list[Value]:
    """Emit the transform as a convolution with a chirp (Bluestein).

    By j k = (j**2 + k**2 - (k - j)**2) / 2.
    """
    _, n = _sizes(z)
    size = 1 << (2 * n - 2).bit_length()
    chirp = _roots(2 * n, np.arange(n) ** 2, sign)
    kernel = np.zeros(size, complex)
    kernel[:n] = chirp.conj()
    kernel[size - n + 1 :] = chirp[:0:-1].conj()
    spectrum = np.fft.fft(kernel) / size
    padded = [_resize(b, x, size) for x in _times(b, z, chirp, (1,))]
    product = _times(b, _transform(b, padded, -1), spectrum, (1,))
    whole = [_resize(b, x, n) for x in _transform(b, product, 1)]
    return _times(b, whole, chirp, (1,))


def _resize(b: Builder, x: Value, size: int) -> Value:
    """Emit rows cut to `size` elements, or extended by zeros."""
    return b.pad_to(x, (_sizes([x])[0], size))
