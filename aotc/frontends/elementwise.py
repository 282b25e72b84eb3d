"""Functions of `aotc.numpy` that work element by element."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from aotc import dtypes
from aotc.dialects.types import Dim
from aotc.frontends.array import Array
from aotc.frontends.broadcasting import broadcast_arrays, broadcast_to, common
from aotc.frontends.conversion import ArrayLike, as_float, is_weak, lift, weak_dtype
from aotc.frontends.places import fail
from aotc.frontends.tracing import emit

# ---- arithmetic ---------------------------------------------------------------------


def add(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """`x1 + x2`; logical or on bool."""
    x, y = common(x1, x2)
    return emit("bitwise_or" if x.dtype == "bool" else "add", x, y)


def subtract(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """`x1 - x2`."""
    return emit("subtract", *common(x1, x2))


def multiply(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """`x1 * x2`; logical and on bool."""
    x, y = common(x1, x2)
    return emit("bitwise_and" if x.dtype == "bool" else "multiply", x, y)


def divide(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """`x1 / x2`, always a float: integers are converted to f32."""
    x, y = (x if is_weak(x) else as_float(x) for x in (x1, x2))
    if is_weak(x) and is_weak(y):
        x = as_float(x)
    return emit("divide", *common(x, y))


def floor_divide(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The largest whole number not above x1 / x2. Integer division by zero gives -1."""
    x, y = common(x1, x2)
    quotient = emit("divide", x, y)
    if dtypes.is_float(x.dtype):
        return floor(quotient)
    if x.dtype in dtypes.UNSIGNED:
        return quotient
    inexact = not_equal(multiply(quotient, y), x)
    opposite = not_equal(less(x, 0), less(y, 0))
    lower = logical_and(logical_and(inexact, opposite), not_equal(y, 0))
    return subtract(quotient, emit("cast", lower, dtype=x.dtype))


def remainder(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """`x1 - x2 * floor(x1 / x2)`, with the sign of x2; x1 for integers modulo zero."""
    x, y = common(x1, x2)
    return subtract(x, multiply(y, floor_divide(x, y)))


def power(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """`x1 ** x2`; small whole Python exponents become multiplications."""
    if is_weak(x2) and not isinstance(x2, Dim):
        base = lift(x1)
        floating = dtypes.is_float(base.dtype)
        if weak_dtype(x2) == "i32" or (floating and float(x2).is_integer()):
            return _whole_power(base, int(x2))
        if floating and x2 == 0.5:
            return sqrt(base)
    return emit("power", *common(x1, x2))


def _whole_power(x: Array, exponent: int) -> Array:
    floating = dtypes.is_float(x.dtype)
    if not floating and exponent < 0:
        fail(
            "bad-exponent",
            f"integers have no negative powers: {x.type} ** {exponent}",
            "convert the base, for instance with .astype('float32')",
        )
    if floating and abs(exponent) > 16:
        return emit("power", *common(x, exponent))
    if exponent < 0:
        return reciprocal(_by_squaring(x, -exponent))
    return _by_squaring(x, exponent)


def _by_squaring(x: Array, exponent: int) -> Array:
    if exponent == 0:
        return broadcast_to(lift(1, x.dtype), x.shape)
    half = _by_squaring(x, exponent // 2) if exponent > 1 else None
    whole = x if half is None else multiply(half, half)
    return multiply(whole, x) if exponent % 2 and exponent > 1 else whole


def maximum(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The larger of x1 and x2; NaN if either is."""
    return emit("maximum", *common(x1, x2))


def minimum(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The smaller of x1 and x2; NaN if either is."""
    return emit("minimum", *common(x1, x2))


def clip(a: ArrayLike, a_min: Any = None, a_max: Any = None) -> Array:
    """`a` between `a_min` and `a_max`."""
    if a_min is None and a_max is None:
        return lift(a)
    if a_max is None:
        return maximum(a, a_min)
    if a_min is None:
        return minimum(a, a_max)
    return emit("clamp", *common(a, a_min, a_max))


def negative(x: ArrayLike, /) -> Array:
    """`-x`."""
    array = lift(x)
    if array.dtype in dtypes.UNSIGNED:
        return subtract(0, array)
    return emit("negate", array)


def positive(x: ArrayLike, /) -> Array:
    """`+x`."""
    return lift(x)


def absolute(x: ArrayLike, /) -> Array:
    """`|x|`."""
    array = lift(x)
    unsigned = array.dtype in ("bool", *dtypes.UNSIGNED)
    return array if unsigned else emit("abs", array)


def sign(x: ArrayLike, /) -> Array:
    """-1, 0 or 1."""
    array = lift(x)
    if array.dtype in dtypes.UNSIGNED:
        return minimum(array, 1)
    return emit("sign", array)


# ---- functions with float results ---------------------------------------------------


def exp(x: ArrayLike, /) -> Array:
    """`e ** x`."""
    return emit("exp", as_float(x))


def expm1(x: ArrayLike, /) -> Array:
    """`e ** x - 1`, without cancellation."""
    return emit("expm1", as_float(x))


def exp2(x: ArrayLike, /) -> Array:
    """`2 ** x`."""
    return exp(multiply(as_float(x), math.log(2)))


def log(x: ArrayLike, /) -> Array:
    """The natural logarithm."""
    return emit("log", as_float(x))


def log1p(x: ArrayLike, /) -> Array:
    """`ln(1 + x)`, without cancellation."""
    return emit("log1p", as_float(x))


def log2(x: ArrayLike, /) -> Array:
    """The logarithm to base 2."""
    return multiply(log(x), 1 / math.log(2))


def log10(x: ArrayLike, /) -> Array:
    """The logarithm to base 10."""
    return multiply(log(x), 1 / math.log(10))


def sqrt(x: ArrayLike, /) -> Array:
    """The square root."""
    return emit("sqrt", as_float(x))


def rsqrt(x: ArrayLike, /) -> Array:
    """`1 / sqrt(x)`, in one operation (JAX's; NumPy has none)."""
    return emit("rsqrt", as_float(x))


def square(x: ArrayLike, /) -> Array:
    """`x * x`."""
    array = lift(x)
    return multiply(array, array)


def reciprocal(x: ArrayLike, /) -> Array:
    """`1 / x`, always a float."""
    return divide(1, x)


def sin(x: ArrayLike, /) -> Array:
    """The sine of x radians."""
    return emit("sin", as_float(x))


def cos(x: ArrayLike, /) -> Array:
    """The cosine of x radians."""
    return emit("cos", as_float(x))


def tan(x: ArrayLike, /) -> Array:
    """`sin x / cos x`."""
    return divide(sin(x), cos(x))


def sinh(x: ArrayLike, /) -> Array:
    """The hyperbolic sine."""
    array = as_float(x)
    return multiply(subtract(exp(array), exp(negative(array))), 0.5)


def cosh(x: ArrayLike, /) -> Array:
    """The hyperbolic cosine."""
    array = as_float(x)
    return multiply(add(exp(array), exp(negative(array))), 0.5)


def tanh(x: ArrayLike, /) -> Array:
    """The hyperbolic tangent."""
    return emit("tanh", as_float(x))


def erf(x: ArrayLike, /) -> Array:
    """The Gauss error function (SciPy's; NumPy has none)."""
    return emit("erf", as_float(x))


def logaddexp(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """`log(exp(x1) + exp(x2))`, without overflow."""
    x, y = common(x1, x2)
    distance = absolute(subtract(x, y))
    return add(maximum(x, y), log1p(exp(negative(distance))))


def floor(x: ArrayLike, /) -> Array:
    """The largest whole number not above x."""
    array = lift(x)
    return emit("floor", array) if dtypes.is_float(array.dtype) else array


def ceil(x: ArrayLike, /) -> Array:
    """The smallest whole number not below x."""
    array = lift(x)
    if not dtypes.is_float(array.dtype):
        return array
    return negative(floor(negative(array)))


def trunc(x: ArrayLike, /) -> Array:
    """`x` without its fraction."""
    array = lift(x)
    if not dtypes.is_float(array.dtype):
        return array
    return multiply(sign(array), floor(absolute(array)))


# ---- comparison ---------------------------------------------------------------------


def _compare(x1: ArrayLike, x2: ArrayLike, direction: str) -> Array:
    return emit("compare", *common(x1, x2), direction=direction)


def equal(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """`x1 == x2`."""
    return _compare(x1, x2, "eq")


def not_equal(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """`x1 != x2`."""
    return _compare(x1, x2, "ne")


def less(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """`x1 < x2`."""
    return _compare(x1, x2, "lt")


def less_equal(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """`x1 <= x2`."""
    return _compare(x1, x2, "le")


def greater(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """`x1 > x2`."""
    return _compare(x1, x2, "gt")


def greater_equal(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """`x1 >= x2`."""
    return _compare(x1, x2, "ge")


def isnan(x: ArrayLike, /) -> Array:
    """Whether x is NaN."""
    array = lift(x)
    return not_equal(array, array)


def isinf(x: ArrayLike, /) -> Array:
    """Whether x is plus or minus infinity."""
    return equal(absolute(as_float(x)), math.inf)


def isfinite(x: ArrayLike, /) -> Array:
    """Whether x is neither NaN nor infinite."""
    return less(absolute(as_float(x)), math.inf)


def nan_to_num(x: ArrayLike, *, nan: float = 0.0) -> Array:
    """`x` with `nan` for NaN and the greatest finite numbers for infinities."""
    array = as_float(x)
    most = float(np.finfo(dtypes.to_numpy(array.dtype)).max)
    return clip(where(isnan(array), nan, array), -most, most)


# ---- logic and bits -----------------------------------------------------------------


def truth(x: ArrayLike) -> Array:
    """Whether x is not zero."""
    array = lift(x)
    return array if array.dtype == "bool" else not_equal(array, 0)


def logical_and(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Whether both hold."""
    return bitwise_and(truth(x1), truth(x2))


def logical_or(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Whether either holds."""
    return bitwise_or(truth(x1), truth(x2))


def logical_xor(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Whether exactly one holds."""
    return bitwise_xor(truth(x1), truth(x2))


def logical_not(x: ArrayLike, /) -> Array:
    """Whether x does not hold."""
    return emit("bitwise_not", truth(x))


def bitwise_and(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """`x1 & x2`."""
    return emit("bitwise_and", *common(x1, x2))


def bitwise_or(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """`x1 | x2`."""
    return emit("bitwise_or", *common(x1, x2))


def bitwise_xor(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """`x1 ^ x2`."""
    return emit("bitwise_xor", *common(x1, x2))


def left_shift(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """`x1 << x2`."""
    return emit("shift_left", *common(x1, x2))


def right_shift(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """`x1 >> x2`, with the sign of x1 for signed integers."""
    return emit("shift_right", *common(x1, x2))


def invert(x: ArrayLike, /) -> Array:
    """`~x`."""
    return emit("bitwise_not", lift(x))


def where(condition: ArrayLike, x: ArrayLike, y: ArrayLike, /) -> Array:
    """`x` where the condition holds, `y` elsewhere."""
    return emit("select", *broadcast_arrays(truth(condition), *common(x, y)))
