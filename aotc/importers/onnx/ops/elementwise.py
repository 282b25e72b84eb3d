"""Arithmetic, comparison and logic, element by element."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from aotc import numpy as np
from aotc import special
from aotc.core import dtypes
from aotc.importers.onnx.calling import Imports
from aotc.importers.onnx.elements import element
from aotc.tracing.array import Array
from aotc.tracing.conversion import lift


def _variadic(function: Callable[[Array, Array], Array]) -> Imports:
    """Extend a function of two arrays to any number of them."""

    def apply(*xs: Array) -> Array:
        return reduce(function, xs)

    return apply


def div(a: Array, b: Array) -> Array:
    """Return the quotient, rounded towards 0 for integers."""
    if dtypes.is_float(a.dtype):
        return np.divide(a, b)
    down = np.floor_divide(a, b)
    if a.dtype in dtypes.UNSIGNED:
        return down
    rest = np.subtract(a, np.multiply(down, b))
    up = np.logical_and(np.not_equal(rest, 0), np.less(down, 0))
    return np.where(up, np.add(down, 1), down)


def mod(a: Array, b: Array, *, fmod: int = 0) -> Array:
    """Return the remainder, with the sign of b, or of a if `fmod`."""
    return np.fmod(a, b) if fmod else np.remainder(a, b)


def power(base: Array, exponent: Array) -> Array:
    """Compute base ** exponent in the type of the base."""
    if exponent.dtype == base.dtype:
        return np.power(base, exponent)
    if dtypes.is_float(base.dtype):
        return np.power(base, np.astype(exponent, base.dtype))
    if dtypes.is_float(exponent.dtype):
        found = np.power(np.astype(base, exponent.dtype), exponent)
        return np.astype(found, base.dtype)
    return np.power(base, np.astype(exponent, base.dtype))


def mean(*xs: Array) -> Array:
    """Return the elementwise mean of the inputs."""
    return np.divide(reduce(np.add, xs), float(len(xs)))


def bit_shift(x: Array, by: Array, *, direction: str) -> Array:
    """Return integers with their bits shifted left or right."""
    return np.left_shift(x, by) if direction == "LEFT" else np.right_shift(x, by)


def is_inf(x: Array, *, detect_negative: int = 1, detect_positive: int = 1) -> Array:
    """Return whether each element is an infinity of a sign to detect."""
    above = np.isposinf(x) if detect_positive else None
    below = np.isneginf(x) if detect_negative else None
    if above is not None and below is not None:
        return np.logical_or(above, below)
    if above is None and below is None:
        return np.zeros(x.shape, "bool")
    return lift(below if above is None else above)


def clip(
    x: Array,
    low: Array | None = None,
    high: Array | None = None,
    *,
    min: float | None = None,
    max: float | None = None,
) -> Array:
    """Return x clipped to bounds; the upper bound wins."""
    least = min if low is None else low
    greatest = max if high is None else high
    above = x if least is None else np.maximum(x, least)
    return above if greatest is None else np.minimum(above, greatest)


def bit_cast(x: Array, *, to: int) -> Array:
    """Return the bits of x reinterpreted as another type."""
    if x.dtype == "bool":
        x = np.astype(x, "u8")
    if element(to).dtype == "bool":
        return np.not_equal(np.bitcast(x, "u8"), 0)
    return np.bitcast(x, element(to).dtype)


TABLE: dict[str, Imports] = {
    "Abs": np.absolute,
    "Acos": np.arccos,
    "Acosh": np.arccosh,
    "Add": np.add,
    "And": np.logical_and,
    "Asin": np.arcsin,
    "Asinh": np.arcsinh,
    "Atan": np.arctan,
    "Atanh": np.arctanh,
    "BitCast": bit_cast,
    "BitShift": bit_shift,
    "BitwiseAnd": np.bitwise_and,
    "BitwiseNot": np.invert,
    "BitwiseOr": np.bitwise_or,
    "BitwiseXor": np.bitwise_xor,
    "Ceil": np.ceil,
    "Clip": clip,
    "Cos": np.cos,
    "Cosh": np.cosh,
    "Div": div,
    "Equal": np.equal,
    "Erf": special.erf,
    "Exp": np.exp,
    "Floor": np.floor,
    "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal,
    "IsInf": is_inf,
    "IsNaN": np.isnan,
    "Less": np.less,
    "LessOrEqual": np.less_equal,
    "Log": np.log,
    "Max": _variadic(np.maximum),
    "Mean": mean,
    "Min": _variadic(np.minimum),
    "Mod": mod,
    "Mul": np.multiply,
    "Neg": np.negative,
    "Not": np.logical_not,
    "Or": np.logical_or,
    "Pow": power,
    "Reciprocal": np.reciprocal,
    "Round": np.rint,
    "Sign": np.sign,
    "Sin": np.sin,
    "Sinh": np.sinh,
    "Sqrt": np.sqrt,
    "Sub": np.subtract,
    "Sum": _variadic(np.add),
    "Tan": np.tan,
    "Tanh": np.tanh,
    "Where": np.where,
    "Xor": np.logical_xor,
}
