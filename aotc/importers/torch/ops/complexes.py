"""ATen ops on complex tensors, which are pairs of real arrays (`aotc.fft.Complex`).

`OPS` holds for nodes with a complex argument or result. What rearranges elements is
done to both parts alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from aotc import fft
from aotc import numpy as np
from aotc.dialects.types import Size
from aotc.fft import Complex, as_complex
from aotc.importers.torch.ops import creation, indexing, reductions, shapes
from aotc.importers.torch.ops.elementwise import same
from aotc.importers.torch.promotion import as_dtype
from aotc.importers.torch.tensors import PARTS
from aotc.tracing.array import Array

# ---- transforms ---------------------------------------------------------------------

_FORWARD = {0: "backward", 1: "ortho", 2: "forward"}
_INVERSE = {0: "forward", 1: "ortho", 2: "backward"}


def transform(z: Any, dim: Sequence[int], normalization: int, forward: bool) -> Complex:
    """The discrete Fourier transform over axes, or its inverse."""
    if not dim:
        return as_complex(z)
    if forward:
        return fft.fftn(z, axes=tuple(dim), norm=_FORWARD[normalization])
    return fft.ifftn(z, axes=tuple(dim), norm=_INVERSE[normalization])


def transform_of_reals(
    x: Array, dim: Sequence[int], normalization: int, onesided: bool
) -> Complex:
    """The transform of real numbers: all of it, or what says all on the last axis."""
    if not onesided:
        return transform(x, dim, normalization, True)
    return fft.rfftn(x, axes=tuple(dim), norm=_FORWARD[normalization])


def transform_to_reals(
    z: Complex, dim: Sequence[int], normalization: int, last_dim_size: int
) -> Array:
    """The inverse of that, with so many elements along the last axis."""
    *others, last = dim
    y = transform(z, others, normalization, False)
    return fft.irfft(y, last_dim_size, last, _INVERSE[normalization])


# ---- pairs of reals -----------------------------------------------------------------


def view_as_real(z: Complex) -> Array:
    """The parts along a new last axis."""
    return np.stack([z.real, z.imag], -1)


def view_as_complex(x: Array) -> Complex:
    """The numbers whose parts lie along the last axis."""
    return Complex(x[..., 0], x[..., 1])


def view_bits(x: Any, dtype: str) -> Any:
    """Neighbours along the last axis as the parts of a number, or the reverse."""
    *rest, last = x.shape
    if isinstance(x, Complex):
        return np.reshape(view_as_real(x), (*rest, last * 2))
    return view_as_complex(np.reshape(x, (*rest, last // 2, 2)))


def pair(real: Array, imag: Array) -> Complex:
    """The numbers with these parts."""
    return Complex(*np.broadcast_arrays(real, imag))


def cast(x: Any, dtype: str | None = None, *_: Any, **__: Any) -> Any:
    """`x` in another dtype; a real one takes the real parts."""
    if dtype not in PARTS:
        return x if dtype is None else np.astype(x.real, dtype)
    parts = x if isinstance(x, Complex) else Complex(x, np.zeros_like(x))
    return parts.map(lambda part: np.astype(part, PARTS[dtype]))


def full(size: Sequence[Size], value: Any, *, dtype: str | None = None) -> Complex:
    """One value everywhere."""
    name = PARTS[dtype or "complex64"]
    z = value if isinstance(value, Complex) else as_complex(complex(value), name)
    return z.map(lambda part: creation.full(size, part, dtype=name))


def _filled(value: int) -> Callable[..., Complex]:
    return lambda size, dtype=None: full(size, value, dtype=dtype)


def _filled_like(value: int) -> Callable[..., Complex]:
    def call(z: Any, *, dtype: str | None = None) -> Complex:
        return full(z.shape, value, dtype=dtype or _name_of(z))

    return call


def _name_of(z: Complex) -> str:
    return next(name for name, part in PARTS.items() if part == z.dtype)


# ---- arithmetic ---------------------------------------------------------------------


def _promoted(x: Any, y: Any) -> tuple[Complex, Complex]:
    """Both as complex numbers of the wider parts."""
    known = [part.dtype for part in (x, y) if isinstance(part, (Array, Complex))]
    dtype = "f64" if "f64" in known else "f32"
    one, other = (as_complex(part, dtype) for part in (x, y))
    return (
        one.map(lambda part: as_dtype(part, dtype)),
        other.map(lambda part: as_dtype(part, dtype)),
    )


def _binary(function: Callable[[Complex, Complex], Any]) -> Callable[..., Any]:
    return lambda x, y: function(*_promoted(x, y))


def add(x: Any, y: Any, alpha: Any = 1) -> Any:
    """`x + alpha * y`."""
    x, y = _promoted(x, y)
    return x + (y if alpha == 1 else y * alpha)


def subtract(x: Any, y: Any, alpha: Any = 1) -> Any:
    """`x - alpha * y`."""
    return add(x, y, -alpha)


def equal(x: Complex, y: Complex) -> Array:
    """Whether both parts are."""
    return np.logical_and(np.equal(x.real, y.real), np.equal(x.imag, y.imag))


def where(condition: Array, x: Any, y: Any) -> Complex:
    """`x` where the condition holds, else `y`."""
    x, y = _promoted(x, y)
    return Complex(*(np.where(condition, a, b) for a, b in zip(x, y, strict=True)))


def direction(z: Complex) -> Complex:
    """`z / |z|`, and 0 for 0."""
    size = fft.absolute(z)
    return z.map(lambda part: np.where(size == 0, 0.0, part / size))


# ---- both parts alike ---------------------------------------------------------------


def _part(of: str, value: Any) -> Any:
    if isinstance(value, Complex):
        return getattr(value, of)
    return [_part(of, each) for each in value] if isinstance(value, list) else value


def alike(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of both parts."""

    def call(*args: Any, **named: Any) -> Any:
        real, imag = (
            function(
                *_part(of, list(args)),
                **{name: _part(of, value) for name, value in named.items()},
            )
            for of in ("real", "imag")
        )
        if isinstance(real, list):
            return [Complex(*parts) for parts in zip(real, imag, strict=True)]
        return Complex(real, imag)

    return call


_ALIKE: dict[str, Callable[..., Any]] = {
    **shapes.OPS,
    **{f"aten.{name}": same for name in ("clone", "alias", "contiguous", "lift_fresh")},
    "aten.lift_fresh_copy": same,
    "aten.index.Tensor": indexing.index,
    "aten.index_select": indexing.index_select,
    "aten.gather": indexing.gather,
    "aten.sum": reductions.total,
    "aten.mean": reductions.mean,
    "aten.cumsum": reductions.OPS["aten.cumsum"],
    "aten.neg": np.negative,
    "aten.resolve_conj": same,
    "aten.resolve_neg": same,
}
_product = _binary(Complex.__matmul__)

OPS: dict[str, Callable[..., Any]] = {
    **{name: alike(function) for name, function in _ALIKE.items()},
    "aten.constant_pad_nd": alike(lambda x, pad, _=0: shapes.constant_pad(x, pad)),
    "aten._fft_c2c": transform,
    "aten._fft_r2c": transform_of_reals,
    "aten._fft_c2r": transform_to_reals,
    "aten.view.dtype": view_bits,
    "aten.view_as_real": view_as_real,
    "aten.view_as_complex": view_as_complex,
    "aten.complex": pair,
    "aten.polar": lambda size, angle: fft.polar(size, angle),
    "aten.real": lambda z: z.real,
    "aten.imag": lambda z: z.imag,
    "aten._to_copy": cast,
    "aten.to.dtype": cast,
    "prims.convert_element_type": cast,
    "aten.full": full,
    "aten.zeros": _filled(0),
    "aten.ones": _filled(1),
    "aten.zeros_like": _filled_like(0),
    "aten.ones_like": _filled_like(1),
    "aten.empty.memory_format": _filled(0),
    "aten.empty_like": _filled_like(0),
    "aten._conj": fft.conj,
    "aten._conj_physical": fft.conj,
    "aten.conj_physical": fft.conj,
    "aten.add": add,
    "aten.sub": subtract,
    "aten.mul": _binary(Complex.__mul__),
    "aten.div": _binary(Complex.__truediv__),
    "aten.reciprocal": lambda z: 1.0 / z,
    "aten.square": lambda z: z * z,
    "aten.mm": _product,
    "aten.bmm": _product,
    "aten.matmul": _product,
    "aten.mv": _product,
    "aten.abs": fft.absolute,
    "aten.angle": fft.angle,
    "aten.sgn": direction,
    "aten.exp": fft.exp,
    "aten.eq": _binary(equal),
    "aten.ne": _binary(lambda x, y: np.logical_not(equal(x, y))),
    "aten.where.self": where,
}
