"""Functions of `aotc.numpy` that work element by element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from aotc.core import dtypes
from aotc.numpy.broadcasting import broadcast_arrays, broadcast_to, common
from aotc.tracing.array import Array
from aotc.tracing.conversion import (
    ArrayLike,
    as_float,
    is_number,
    is_weak,
    lift,
    weak_dtype,
)
from aotc.tracing.source_locations import fail
from aotc.tracing.tracing import emit

__all__ = [
    "absolute", "add", "bitwise_and", "bitwise_or", "bitwise_xor", "clip", "divide",
    "divmod", "equal", "fabs", "floor", "floor_divide", "fmax", "fmin", "fmod",
    "greater", "greater_equal", "heaviside", "invert", "isnan", "left_shift", "less",
    "less_equal", "logical_and", "logical_not", "logical_or", "logical_xor", "maximum",
    "minimum", "multiply", "negative", "not_equal", "positive", "power", "reciprocal",
    "remainder", "right_shift", "sign", "sqrt", "square", "subtract",
]  # fmt: skip

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
    return emit("divide", *common_floats(x1, x2))


def common_floats(*xs: ArrayLike) -> list[Array]:
    """Convert operands to floats of one dtype, broadcast to one shape."""
    if all(map(is_weak, xs)):
        return common(*map(as_float, xs))
    return common(*(x if is_weak(x) else as_float(x) for x in xs))


def floor_divide(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The largest whole number not above x1 / x2. Integer division by zero gives -1."""
    x, y = common(x1, x2)
    if dtypes.is_float(x.dtype):
        return _floor_divide_floats(x, y)
    quotient = emit("divide", x, y)
    if x.dtype in dtypes.UNSIGNED:
        return quotient
    inexact = not_equal(multiply(quotient, y), x)
    opposite = not_equal(less(x, 0), less(y, 0))
    lower = logical_and(logical_and(inexact, opposite), not_equal(y, 0))
    return subtract(quotient, emit("cast", lower, dtype=x.dtype))


def _floor_divide_floats(x: Array, y: Array) -> Array:
    """Return the floored quotient of floats, exact as NumPy's."""
    ratio = emit("stop_gradient", emit("divide", x, y))
    rest = emit("remainder", x, y)
    quotient = divide(subtract(x, rest), y)
    quotient = where(_is_opposite(rest, y), subtract(quotient, 1), quotient)
    whole = floor(quotient)
    whole = where(greater(subtract(quotient, whole), 0.5), add(whole, 1), whole)
    whole = where(equal(quotient, 0), multiply(ratio, 0), whole)  # for the sign of 0
    return where(equal(y, 0), ratio, whole)


def _is_opposite(rest: Array, y: Array) -> Array:
    """Return where a remainder is nonzero and has another sign than the divisor."""
    return logical_and(not_equal(rest, 0), not_equal(less(rest, 0), less(y, 0)))


def remainder(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """`x1 - x2 * floor(x1 / x2)`, with the sign of x2; x1 for integers modulo zero."""
    x, y = common(x1, x2)
    if not dtypes.is_float(x.dtype):
        return subtract(x, multiply(y, floor_divide(x, y)))
    rest = emit("remainder", x, y)
    return where(_is_opposite(rest, y), add(rest, y), rest)


def fmod(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """`x1 - x2 * trunc(x1 / x2)`, with the sign of x1; x1 for integers modulo zero."""
    x, y = common(x1, x2)
    if dtypes.is_float(x.dtype):
        return emit("remainder", x, y)
    return subtract(x, multiply(y, emit("divide", x, y)))


def divmod(x1: ArrayLike, x2: ArrayLike, /) -> tuple[Array, Array]:
    """`floor_divide(x1, x2)` and `remainder(x1, x2)`."""
    return floor_divide(x1, x2), remainder(x1, x2)


def power(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """`x1 ** x2`; small whole Python exponents become multiplications."""
    if is_number(x2):
        base = lift(x1)
        floating = dtypes.is_float(base.dtype)
        if weak_dtype(x2) == "i32" or (floating and float(x2).is_integer()):
            return _whole_power(base, int(x2))
        if floating and x2 == 0.5:
            return sqrt(base)
    return emit("power", *common(x1, x2))


def _whole_power(x: Array, exponent: int) -> Array:
    """Return `x` to an integer power, by multiplications if that is small."""
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
        return reciprocal(_power_by_squaring(x, -exponent))
    return _power_by_squaring(x, exponent)


def _power_by_squaring(x: Array, exponent: int) -> Array:
    """Return `x` to a power of 0 or more, by repeated squaring."""
    if exponent == 0:
        return broadcast_to(lift(1, x.dtype), x.shape)
    half = _power_by_squaring(x, exponent // 2) if exponent > 1 else None
    whole = x if half is None else multiply(half, half)
    return multiply(whole, x) if exponent % 2 and exponent > 1 else whole


def maximum(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The larger of x1 and x2; NaN if either is."""
    return emit("maximum", *common(x1, x2))


def minimum(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The smaller of x1 and x2; NaN if either is."""
    return emit("minimum", *common(x1, x2))


def fmax(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The larger of x1 and x2; the other one where one is NaN."""
    return _unless_nan(maximum, x1, x2)


def fmin(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The smaller of x1 and x2; the other one where one is NaN."""
    return _unless_nan(minimum, x1, x2)


def _unless_nan(choose: Callable[..., Array], x1: ArrayLike, x2: ArrayLike) -> Array:
    """Return `choose(x1, x2)`; the other operand where one is NaN."""
    x, y = common(x1, x2)
    if not dtypes.is_float(x.dtype):
        return choose(x, y)
    return where(isnan(x), y, where(isnan(y), x, choose(x, y)))


def clip(
    a: ArrayLike,
    a_min: ArrayLike | None = None,
    a_max: ArrayLike | None = None,
    *,
    min: ArrayLike | None = None,
    max: ArrayLike | None = None,
) -> Array:
    """`a` between `a_min` and `a_max`, which may also be given as `min` and `max`.

    At a bound the derivative by `a` is 1.
    """
    names = {"a_min": a_min, "a_max": a_max, "min": min, "max": max}
    given = [name for name, bound in names.items() if bound is not None]
    if len({name.startswith("a_") for name in given}) > 1:
        fail("bad-argument", f"expected a_min and a_max, or min and max; got {given}")
    low: Any = min if a_min is None else a_min
    high: Any = max if a_max is None else a_max
    if low is None and high is None:
        return lift(a)
    least, most = _range_of(common(a, high if low is None else low)[0].dtype)
    low, high = least if low is None else low, most if high is None else high
    return emit("clamp", *common(a, low, high))


def _range_of(dtype: str) -> tuple[object, object]:
    """Return the least and the greatest value of a dtype."""
    if dtypes.is_float(dtype) or dtype == "bool":
        return (-np.inf, np.inf) if dtypes.is_float(dtype) else (False, True)
    info = np.iinfo(dtypes.to_numpy(dtype))
    return int(info.min), int(info.max)


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


def fabs(x: ArrayLike, /) -> Array:
    """The size of each real number: `absolute`, with integers as f32."""
    return absolute(as_float(x))


def sign(x: ArrayLike, /) -> Array:
    """-1, 0 or 1."""
    array = lift(x)
    if array.dtype in dtypes.UNSIGNED:
        return minimum(array, 1)
    return emit("sign", array)


def heaviside(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """0 for negative x1, 1 for positive, x2 at zero."""
    x, y = common_floats(x1, x2)
    at_zero = where(isnan(x), x, y)
    return where(less(x, 0), 0, where(greater(x, 0), 1, at_zero))


def square(x: ArrayLike, /) -> Array:
    """`x * x`."""
    array = lift(x)
    return multiply(array, array)


def reciprocal(x: ArrayLike, /) -> Array:
    """`1 / x`, always a float."""
    return divide(1, x)


def sqrt(x: ArrayLike, /) -> Array:
    """Return the square root."""
    return emit("sqrt", as_float(x))


def root_of_squares(total: ArrayLike, /) -> Array:
    """The square root of a sum of squares, whose derivative at 0 is 0.

    That is a subgradient of the norm that it is: the root alone has an infinite slope
    there, which times the slope 0 of the squares is NaN.
    """
    x = as_float(total)
    is_zero = equal(x, 0)
    return where(is_zero, x, sqrt(where(is_zero, 1.0, x)))


def floor(x: ArrayLike, /) -> Array:
    """The largest whole number not above x."""
    array = lift(x)
    return emit("floor", array) if dtypes.is_float(array.dtype) else array


# ---- comparison ---------------------------------------------------------------------


def _compare(x1: ArrayLike, x2: ArrayLike, direction: str) -> Array:
    """Return the comparison of both operands in a direction, elementwise."""
    return emit("compare", *common(x1, x2), direction=direction, exact=True)


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
    """Return whether each element is NaN."""
    array = lift(x)
    return not_equal(array, array)


# ---- logic and bits -----------------------------------------------------------------


def truth(x: ArrayLike) -> Array:
    """Return a mask of the elements that are not zero."""
    array = lift(x)
    return array if array.dtype == "bool" else not_equal(array, 0)


def logical_and(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return whether both are true, elementwise."""
    return bitwise_and(truth(x1), truth(x2))


def logical_or(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return whether either is true, elementwise."""
    return bitwise_or(truth(x1), truth(x2))


def logical_xor(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return whether exactly one is true, elementwise."""
    return bitwise_xor(truth(x1), truth(x2))


def logical_not(x: ArrayLike, /) -> Array:
    """Return whether x is false, elementwise."""
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
