"""Questions about sizes: the promises of contracts, and the spans of slices."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import SupportsIndex

from aotc.dialects.types import Size, SymbolicDim, bounds, ceil_divide, maximum, minimum
from aotc.tracing.call_sizes import compiler_size
from aotc.tracing.source_locations import fail
from aotc.tracing.tracing import current_trace

__all__ = ["StridedRange", "bounds", "describe_contracts", "position_of", "slice_span"]


def describe_contracts() -> str:
    """Return the traced function's contracts as text: `batch >= 1, length in [1,
    512]`.
    """
    trace = current_trace()
    return ", ".join(map(str, trace.contracts)) if trace else ""


@dataclass(frozen=True)
class StridedRange:
    """The positions `start, start + step, …` of an axis; `count` of them.

    With `backwards`, positions count from the end of the axis.
    """

    start: Size
    count: Size
    step: int
    backwards: bool = False


def slice_span(key: slice, size: Size) -> StridedRange:
    """Return the positions that a slice selects on an axis of symbolic size.

    Its ends may be sizes of the model's; the span has the compiler's.

    A minimum or maximum stands where no contract decides if an end lies inside.
    """
    step = 1 if key.step is None else _step(key.step)
    place = position_of if step > 0 else _position_from_end
    start = 0 if key.start is None else maximum(place(key.start, size), 0)
    count = maximum(size - start, 0)
    if key.stop is not None:
        stop = maximum(place(key.stop, size), 0)
        count = minimum(count, maximum(stop - start, 0))
    steps = ceil_divide(count, abs(step))
    return StridedRange(minimum(start, size), steps, abs(step), step < 0)


def _step(step: SupportsIndex) -> int:
    """Return a slice's step as an int; refuse 0 and symbolic ones."""
    if isinstance(step, SymbolicDim) or operator.index(step) == 0:
        fail("bad-index", f"expected a slice step that is a number but 0; got {step!r}")
    return operator.index(step)


def position_of(end: SupportsIndex, size: Size) -> Size:
    """Return a slice bound as a position from the front; negative ones count from
    the end.
    """
    position = (
        compiler_size(end) if isinstance(end, SymbolicDim) else operator.index(end)
    )
    low, high = bounds(position)
    if low < 0 <= high:
        fail(
            "symbolic-size",
            f"the position '{position}' may be negative, which counts from the end, or "
            f"not; promised: {describe_contracts()}",
            "promise a min or max that decides it",
        )
    return position if low >= 0 else size + position


def _position_from_end(end: SupportsIndex, size: Size) -> Size:
    """Return a slice bound as a position counted from the end of the axis."""
    return size - 1 - position_of(end, size)
