"""Functions of `aotc.numpy` that round."""

from __future__ import annotations

import operator

from aotc.core import dtypes
from aotc.numpy.bits import copysign
from aotc.numpy.elementwise import (
    add,
    bitwise_and,
    divide,
    equal,
    floor,
    floor_divide,
    greater,
    less,
    logical_and,
    logical_or,
    multiply,
    negative,
    subtract,
    where,
)
from aotc.numpy.predicates import isinf
from aotc.tracing.array import Array
from aotc.tracing.conversion import ArrayLike, as_float, astype, lift
from aotc.tracing.source_locations import fail
from aotc.tracing.tracing import emit

__all__ = ["ceil", "fix", "modf", "rint", "round", "trunc"]


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
    return where(less(array, 0), ceil(array), floor(array))


def rint(x: ArrayLike, /) -> Array:
    """The nearest whole number, of two the even one; always a float."""
    return emit("round_even", as_float(x))


def round(a: ArrayLike, decimals: int = 0) -> Array:
    """`a` to so many decimals, a tie to the even digit; tens and so on if negative."""
    array, places = lift(a), operator.index(decimals)
    if not dtypes.is_float(array.dtype):
        return array if places >= 0 else _round_whole(array, 10**-places)
    if places == 0:
        return rint(array)
    unit = float(10 ** abs(places))
    if places < 0:
        return multiply(rint(divide(array, unit)), unit)
    return divide(rint(multiply(array, unit)), unit)


def _round_whole(x: Array, unit: int) -> Array:
    """Round integers to the nearest multiple of `unit`, a tie to the even one."""
    if x.dtype == "bool":
        fail("dtype-mismatch", f"expected numbers to round; got {x.type}")
    quotient = floor_divide(x, unit)
    rest = subtract(x, multiply(quotient, unit))
    half = floor_divide(unit, 2)
    odd = equal(bitwise_and(quotient, 1), 1)
    up = logical_or(greater(rest, half), logical_and(equal(rest, half), odd))
    return multiply(add(quotient, astype(up, x.dtype)), unit)


fix = trunc


def modf(x: ArrayLike, /) -> tuple[Array, Array]:
    """The fraction of x and its whole part, both with the sign of x."""
    array = as_float(x)
    whole = trunc(array)
    fraction = where(isinf(array), 0, subtract(array, whole))
    return copysign(fraction, array), whole
