"""Axes as users name them: negative, several at once, or all of them."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from aotc.tracing.array import Array
from aotc.tracing.source_locations import fail


def one_axis(x: Array, axis: Any, new: int = 0) -> int:
    """`axis` counted from the front; `new` axes are about to be added to `x`."""
    rank = x.ndim + new
    try:
        number = operator.index(axis)
    except TypeError:
        fail("bad-axis", f"expected an axis to be an integer; got {axis!r}")
    if not -rank <= number < rank:
        fail("bad-axis", f"axis {axis} is out of range for {x.type}")
    return number % rank


def axis_list(x: Array, axes: Any, new: int = 0) -> list[int]:
    """Return one axis or several, counted from the front, in the order given."""
    wanted = axes if isinstance(axes, (tuple, list, range)) else (axes,)
    numbers = [one_axis(x, axis, new) for axis in wanted]
    if len(set(numbers)) != len(numbers):
        fail("bad-axis", f"an axis is named twice in {tuple(wanted)}")
    return numbers


def rising_axes(x: Array, axes: Any) -> tuple[int, ...]:
    """The axes in rising order; all of them for None."""
    return tuple(range(x.ndim) if axes is None else sorted(axis_list(x, axes)))


def other_axes(x: Array, axes: Sequence[int]) -> list[int]:
    """Return the other axes of `x`."""
    return [axis for axis in range(x.ndim) if axis not in axes]
