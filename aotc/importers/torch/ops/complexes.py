"""ATen ops on complex tensors, which are pairs of real arrays (`aotc.complexes`).

`OPS` holds for nodes with a complex argument or result. What rearranges elements is
done to both parts alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from aotc import complexes
from aotc import numpy as np
from aotc.complexes import Complex, as_complex
from aotc.dialects.types import Size, SymbolicDim
from aotc.importers.torch.ops import creation, fourier, indexing, reductions, shapes
from aotc.importers.torch.ops.elementwise import same
from aotc.importers.torch.promotion import as_dtype, result_dtype
from aotc.importers.torch.tensors import PARTS
from aotc.tracing.array import Array

Number = Array | Complex | SymbolicDim | bool | int | float | complex
Result = TypeVar("Result")

# ---- pairs of reals -----------------------------------------------------------------


def view_as_real(z: Complex) -> Array:
    """Return real and imaginary parts along a new last axis."""
    return np.stack([z.real, z.imag], -1)


def view_as_complex(x: Array) -> Complex:
    """Return complex numbers from real and imaginary parts along the last axis."""
    return Complex(x[..., 0], x[..., 1])


def view_bits(x: Array | Complex, dtype: str) -> Array | Complex:
    """Return neighbouring pairs of reals viewed as complex numbers, or the reverse."""
    *rest, last = x.shape
    if isinstance(x, Complex):
        return np.reshape(view_as_real(x), (*rest, last * 2))
    return view_as_complex(np.reshape(x, (*rest, last // 2, 2)))


def pair(real: Array, imag: Array) -> Complex:
    """Return complex numbers with these real and imaginary parts."""
    return Complex(*np.broadcast_arrays(real, imag))


def cast(x: Any, dtype: str | None = None, *_: object, **__: object) -> Any:
    """Return x in another dtype; complex to real takes the real part."""
    if dtype not in PARTS:
        return x if dtype is None else np.astype(x.real, dtype)
    parts = x if isinstance(x, Complex) else Complex(x, np.zeros_like(x))
    return parts.map(lambda part: np.astype(part, PARTS[dtype]))


def full(size: Sequence[Size], value: Any, *, dtype: str | None = None) -> Complex:
    """Return a complex array of a size, filled with one value."""
    name = PARTS[dtype or "complex64"]
    is_array = isinstance(value, (Array, Complex))
    z = as_complex(value if is_array else complex(value), name)
    return z.map(lambda part: creation.full(size, part, dtype=name))


def full_like(
    z: Array | Complex, value: Number, *, dtype: str | None = None
) -> Complex:
    """Return a complex array in the shape of z, filled with one value."""
    return full(z.shape, value, dtype=dtype or _name_of(z))


def copy(into: Complex, x: Number, *_: object) -> Complex:
    """Return x broadcast to the shape, and in the dtype, of `into`."""
    z = cast(x, _name_of(into))
    return Complex(*(np.broadcast_to(part, into.shape) for part in z))


def _from_real(function: Callable[..., Array]) -> Callable[..., Complex]:
    """Wrap a function that creates real arrays to create complex ones."""

    def call(*args: object, dtype: str) -> Any:
        return cast(function(*args, dtype=PARTS[dtype]), dtype)

    return call


def _full_of(value: int) -> Callable[..., Complex]:
    """Return a function that creates a complex array of a size, filled with `value`."""
    return lambda size, dtype=None: full(size, value, dtype=dtype)


def _full_like(value: int) -> Callable[..., Complex]:
    """Return a function that creates a complex array like another, filled with
    `value`.
    """
    return lambda z, dtype=None: full_like(z, value, dtype=dtype)


def _name_of(z: Array | Complex) -> str:
    """Return PyTorch's name of a complex pair's dtype."""
    return next(name for name, part in PARTS.items() if part == z.dtype)


# ---- arithmetic ---------------------------------------------------------------------


def _promote(*operands: Number) -> list[Complex]:
    """Return operands as complex pairs of their common dtype."""
    wide = result_dtype(*(_part("real", x) for x in operands))
    dtype = "f64" if wide == "f64" else "f32"
    pairs = [as_complex(x, dtype) for x in operands]
    return [z.map(lambda part: as_dtype(part, dtype)) for z in pairs]


def _promoting(function: Callable[..., Result]) -> Callable[..., Result]:
    """Wrap a function of complex arrays of one dtype to promote mixed operands."""
    return lambda *operands: function(*_promote(*operands))


def add(x: Number, y: Number, alpha: Number = 1) -> Complex:
    """Return `x + alpha * y`."""
    x, y = _promote(x, y)
    total: Complex = x + (y if alpha == 1 else y * alpha)
    return total


def power(z: Number, w: Number) -> Complex:
    """Return `z ** w`; an exponent that is a number stays one."""
    if isinstance(w, (Array, Complex)):
        return complexes.power(*_promote(z, w))
    return complexes.power(_promote(z)[0], w)


def float_power(z: Number, w: Number) -> Complex:
    """Return `z ** w` in complex128."""
    return power(*(cast(as_complex(x, "f64"), "complex128") for x in (z, w)))


def linear(x: Complex, weight: Complex, bias: Complex | None = None) -> Complex:
    """Return `x @ weight.T + bias`."""
    found = x @ weight.transpose()
    return found if bias is None else found + bias


def _scaled_sum(function: Callable[..., Complex]) -> Callable[..., Complex]:
    """Return a function `beta * x + alpha * function(a, b)`."""

    def call(
        x: Complex, a: Complex, b: Complex, *, beta: complex = 1, alpha: complex = 1
    ) -> Complex:
        scaled = function(a, b) * alpha
        return scaled if beta == 0 else add(x * beta, scaled)

    return call


def subtract(x: Number, y: Number, alpha: Number = 1) -> Complex:
    """Return `x - alpha * y`."""
    return add(x, y, -alpha)


def where(condition: Array, x: Number, y: Number) -> Complex:
    """Return x where the condition holds, else y."""
    x, y = _promote(x, y)
    return Complex(*(np.where(condition, a, b) for a, b in zip(x, y, strict=True)))


# ---- truth --------------------------------------------------------------------------


def is_true(x: Array | Complex) -> Array:
    """Return whether numbers are not 0."""
    if isinstance(x, Complex):
        return np.logical_or(np.not_equal(x.real, 0), np.not_equal(x.imag, 0))
    return np.astype(x, "bool")


def _converting_to_bools(function: Callable[..., Array]) -> Callable[..., Array]:
    """Wrap a function of bools so that arrays are first converted by `x != 0`."""

    def call(*args: object, **named: object) -> Array:
        arrays = (Array, Complex)
        truths = (is_true(x) if isinstance(x, arrays) else x for x in args)
        return function(*truths, **named)

    return call


def _either(function: Callable[[Array], Array]) -> Callable[[Complex], Array]:
    """Return a predicate: `function` holds for the real or the imaginary part."""
    return lambda z: np.logical_or(function(z.real), function(z.imag))


def is_finite(z: Complex) -> Array:
    """Return whether both parts are finite."""
    return np.logical_and(np.isfinite(z.real), np.isfinite(z.imag))


# ---- spread -------------------------------------------------------------------------


def variance(z: Complex, *args: object, **named: object) -> Array:
    """Return the mean of `|z - mean(z)|**2`, the sum of the parts' variances."""
    real, imag = (reductions.variance(part, *args, **named) for part in z)
    total: Array = real + imag
    return total


def deviation(z: Complex, *args: object, **named: object) -> Array:
    """Return the square root of the variance."""
    return np.sqrt(variance(z, *args, **named))


# ---- both parts alike ---------------------------------------------------------------


def _part(of: str, value: object) -> Any:
    """Return the part `of` ("real" or "imag") of an argument, or of a dtype; others as
    they are.
    """
    if isinstance(value, (Complex, complex)):
        return getattr(value, of)
    if isinstance(value, list) and any(isinstance(each, Complex) for each in value):
        return [getattr(z, of) for z in _promote(*value)]  # what is joined
    return PARTS.get(value, value) if isinstance(value, str) else value


def on_both_parts(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function to apply to real and imaginary parts separately."""

    def call(*args: object, **named: object) -> Any:
        real, imag = (
            function(
                *(_part(of, value) for value in args),
                **{name: _part(of, value) for name, value in named.items()},
            )
            for of in ("real", "imag")
        )
        if isinstance(real, list):
            return [Complex(*parts) for parts in zip(real, imag, strict=True)]
        return Complex(real, imag)

    return call


def constant_pad(z: Complex, pad: Sequence[Size], value: complex = 0) -> Complex:
    """Return z padded with a value; negative widths crop."""
    edge = complex(value)
    return Complex(
        shapes.constant_pad(z.real, pad, edge.real),
        shapes.constant_pad(z.imag, pad, edge.imag),
    )


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
    "aten._unsafe_index.Tensor": indexing.index,
    "aten.index_put": indexing.index_put,
    "aten._unsafe_index_put": indexing.index_put,
    "aten.scatter.src": indexing.scatter,
    "aten.scatter_add": indexing.scatter_add,
    "aten.index_add": indexing.index_add,
    "aten.index_copy": indexing.index_copy,
    "aten.masked_scatter": indexing.masked_scatter,
    "aten.take": indexing.take,
    "aten.put": indexing.put,
}
_product = _promoting(Complex.__matmul__)
_FUNCTIONS: dict[str, Callable[[Complex], Any]] = {
    "abs": complexes.absolute,
    "acos": complexes.arccos,
    "acosh": complexes.arccosh,
    "angle": complexes.angle,
    "asin": complexes.arcsin,
    "asinh": complexes.arcsinh,
    "atan": complexes.arctan,
    "atanh": complexes.arctanh,
    "cos": complexes.cos,
    "cosh": complexes.cosh,
    "exp": complexes.exp,
    "exp2": complexes.exp2,
    "expm1": complexes.expm1,
    "isfinite": is_finite,
    "isinf": _either(np.isinf),
    "isnan": _either(np.isnan),
    "log": complexes.log,
    "log10": complexes.log10,
    "log1p": complexes.log1p,
    "log2": complexes.log2,
    "reciprocal": lambda z: 1.0 / z,
    "rsqrt": complexes.rsqrt,
    "sgn": complexes.sign,
    "sigmoid": complexes.expit,
    "silu": lambda z: z * complexes.expit(z),
    "sin": complexes.sin,
    "sinh": complexes.sinh,
    "sqrt": complexes.sqrt,
    "square": complexes.square,
    "tan": complexes.tan,
    "tanh": complexes.tanh,
}

OPS: dict[str, Callable[..., Any]] = {
    **{name: on_both_parts(function) for name, function in _ALIKE.items()},
    **{f"aten.{name}": function for name, function in _FUNCTIONS.items()},
    "aten.constant_pad_nd": constant_pad,
    **fourier.OPS,
    "aten.view.dtype": view_bits,
    "aten.view_as_real": view_as_real,
    "aten.view_as_complex": view_as_complex,
    "aten.complex": pair,
    "aten.polar": complexes.polar,
    "aten.real": lambda z: z.real,
    "aten.imag": lambda z: z.imag,
    "aten._to_copy": cast,
    "aten.to.dtype": cast,
    "prims.convert_element_type": cast,
    "aten.full": full,
    "aten.zeros": _full_of(0),
    "aten.ones": _full_of(1),
    "aten.zeros_like": _full_like(0),
    "aten.ones_like": _full_like(1),
    "aten.empty.memory_format": _full_of(0),
    "aten.empty_like": _full_like(0),
    "aten.full_like": full_like,
    "aten.empty_strided": lambda size, _, dtype=None: full(size, 0, dtype=dtype),
    "aten.empty_permuted": lambda size, _, dtype=None: full(size, 0, dtype=dtype),
    "aten.fill": full_like,
    "aten.copy": copy,
    "aten.scalar_tensor": lambda value, dtype=None: full((), value, dtype=dtype),
    "aten.eye": _from_real(creation.eye),
    "aten._conj": complexes.conj,
    "aten._conj_physical": complexes.conj,
    "aten.conj_physical": complexes.conj,
    "aten.add": add,
    "aten.sub": subtract,
    "aten.rsub": lambda x, y, alpha=1: subtract(y, x, alpha),
    "aten.mul": _promoting(Complex.__mul__),
    "aten.div": _promoting(Complex.__truediv__),
    "aten.true_divide": _promoting(Complex.__truediv__),
    "aten.pow": power,
    "aten.float_power": float_power,
    "aten.linear": linear,
    "aten.dot": _product,
    "aten.vdot": lambda x, y: complexes.conj(x) @ y,
    "aten.addmm": _scaled_sum(_product),
    "aten.addmv": _scaled_sum(_product),
    "aten.baddbmm": _scaled_sum(_product),
    "aten.addbmm": _scaled_sum(lambda a, b: (a @ b).sum(0)),
    "aten.mm": _product,
    "aten.bmm": _product,
    "aten.matmul": _product,
    "aten.mv": _product,
    "aten.eq": _promoting(complexes.equal),
    "aten.ne": _promoting(complexes.not_equal),
    **dict.fromkeys(
        (
            *("aten.where.self", "aten.where.Scalar"),
            *("aten.where.ScalarSelf", "aten.where.ScalarOther"),
        ),
        where,
    ),
    "aten.logical_and": _converting_to_bools(np.logical_and),
    "aten.logical_or": _converting_to_bools(np.logical_or),
    "aten.logical_xor": _converting_to_bools(np.logical_xor),
    "aten.logical_not": _converting_to_bools(np.logical_not),
    "aten.any": _converting_to_bools(reductions.any_true),
    "aten.all": _converting_to_bools(reductions.all_true),
    "aten.count_nonzero": _converting_to_bools(reductions.OPS["aten.count_nonzero"]),
    "aten.var": variance,
    "aten.std": deviation,
    "aten.var_mean": reductions.with_mean(variance, on_both_parts(reductions.mean)),
    "aten.std_mean": reductions.with_mean(deviation, on_both_parts(reductions.mean)),
}
