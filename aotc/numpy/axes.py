"""Axes as users name them: negative, several at once, or all of them."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeAlias

from aotc.tracing.array import Array
from aotc.tracing.source_locations import fail

if TYPE_CHECKING:
    # an axis, several, or None for all or for the usual one
    Axes: TypeAlias = SupportsIndex | Sequence[SupportsIndex] | None
else:  # `one_axis` refuses the rest, and says what it got
    Axes = Any


def one_axis(x: Array, axis: SupportsIndex | None, new: int = 0) -> int:
    """Return `axis` counted from the front, for `x` with `new` axes added."""
    rank = x.ndim + new
    try:
        number = operator.index(axis)  # type: ignore[arg-type]
    except TypeError:
        fail("bad-axis", f"expected an axis to be an integer; got {axis!r}")
    if not -rank <= number < rank:
        fail("bad-axis", f"axis {axis} is out of range for {x.type}")
    return number % rank


def axis_list(x: Array, axes: Axes, new: int = 0) -> list[int]:
    """Return axes counted from the front, in the order given; raise for duplicates."""
    wanted: Sequence[Any] = axes if isinstance(axes, (tuple, list, range)) else (axes,)
    numbers = [one_axis(x, axis, new) for axis in wanted]
    if len(set(numbers)) != len(numbers):
        fail("bad-axis", f"an axis is named twice in {tuple(wanted)}")
    return numbers


def rising_axes(x: Array, axes: Axes) -> tuple[int, ...]:
    """Return the axes in rising order; all of them for None."""
    return tuple(range(x.ndim) if axes is None else sorted(axis_list(x, axes)))


def other_axes(x: Array, axes: Sequence[int]) -> list[int]:
    """Return the axes of `x` that are not in `axes`."""
    return [axis for axis in range(x.ndim) if axis not in axes]
