"""Numbers that whole trees share: rates, counts of steps, and their corrections.

They stay scalars, so that an update is one loop over the elements of each parameter.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

from aotc import numpy as np
from aotc.core import dtypes
from aotc.tracing.array import Array
from aotc.tracing.calls import shown_value
from aotc.tracing.conversion import ArrayLike, astype, is_number, lift
from aotc.tracing.source_locations import fail

__all__ = ["Schedule"]

Schedule = Callable[[Array], ArrayLike]
# a number, a float scalar, or a schedule: a function of the number of steps so far
if TYPE_CHECKING:
    Rate: TypeAlias = ArrayLike | Schedule
else:  # `rate` refuses the rest
    Rate = Any

_LAST = 2**31 - 1  # counts stay there


# ---- rates --------------------------------------------------------------------------


def number(name: str, x: ArrayLike) -> Array | float:
    """Return a Python number or scalar float array as it is; raise for others."""
    if is_number(x):
        return x
    array = lift(x)
    if array.ndim or not dtypes.is_float(array.dtype):
        fail(
            "bad-number",
            f"expected '{name}' to be a number or a float scalar; got {shown_value(x)}",
        )
    return array


def rate(name: str, x: Rate) -> Array | float | Schedule:
    """Return a schedule, or a checked number, as it is."""
    return x if callable(x) else number(name, x)


def scheduled_value(name: str, schedule: Schedule, count: Array) -> Array | float:
    """Return the value of a schedule after `count` steps."""
    return number(f"{name}(count)", schedule(count))


def in_dtype(x: ArrayLike, dtype: str) -> Array:
    """Return a number as a scalar array of a dtype."""
    return astype(lift(x, dtype), dtype)


def fraction(name: str, x: float) -> float:
    """Return a decay rate; raise unless it is at least 0 and below 1."""
    if not 0 <= x < 1:
        fail("bad-number", f"expected '{name}' to be at least 0 and below 1; got {x}")
    return x


def natural(name: str, x: int, least: int = 0) -> int:
    """Return an integer; raise if it is below `least`."""
    if x < least:
        fail("bad-number", f"expected '{name}' to be {least} or more; got {x}")
    return x


# ---- counts -------------------------------------------------------------------------


def zero_count() -> Array:
    """Return the initial step count, an i32 scalar."""
    return np.zeros((), "i32")


def increment(count: ArrayLike) -> Array:
    """Return the step count plus one."""
    return np.minimum(count, _LAST - 1) + 1


def in_each_dtype(compute: Callable[[str], Array]) -> Callable[[Array], Array]:
    """Return a function that gives a number in an array's dtype, computed in f32 or
    f64.

    Args:
        compute: the number in f32 or f64.

    Returns:
        What it is for an array, in the dtype of that.
    """
    computed = cache(compute)

    def number_for(x: Array) -> Array:
        return astype(computed("f64" if x.dtype == "f64" else "f32"), x.dtype)

    return number_for


def bias_corrector(decay: float, count: Array) -> Callable[[Array], Array]:
    """Return a function that divides a zero-initialised moving average by 1 - decay **
    count.

    That is 1 - decay ** count, without the cancellation that the formula suffers while
    `count` is small.
    """
    if decay == 0:
        return lambda average: average

    def scale(dtype: str) -> Array:
        return -1.0 / np.expm1(astype(count, dtype) * math.log(decay))

    correction = in_each_dtype(scale)
    return lambda average: average * correction(average)
