"""Scans whose steps are computed again for derivatives, in segments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from aotc.core.pytree import PyTree, tree_map
from aotc.dialects.types import Size
from aotc.numpy.indexing import getitem
from aotc.numpy.joining import concatenate
from aotc.numpy.shaping import reshape
from aotc.tracing.array import Array
from aotc.tracing.custom import checkpoint
from aotc.tracing.source_locations import fail

Scan = Callable[..., tuple[Any, Any]]
Carried = TypeVar("Carried")
Element = TypeVar("Element")
Stacked = TypeVar("Stacked")


def in_segments(
    scan: Scan,
    function: Callable[[Carried, Element], tuple[Carried, Stacked]],
    initial: Carried,
    xs: Element,
    count: Size,
    reverse: bool,
    size: int,
) -> tuple[Carried, Stacked]:
    """Scan in checkpointed segments: reverse mode saves one carried value per segment.

    With segments of √n of n steps it holds 2 √n carried values and not n, for one more
    forward computation. (Griewank, "Achieving logarithmic growth of temporal and
    spatial complexity in reverse automatic differentiation", 1992.)

    Args:
        scan: of which this is a form.
        function: of one step.
        initial: what is carried first.
        xs: the scanned values.
        count: how many steps there are.
        reverse: whether they come from the last to the first.
        size: steps of a segment; those left over are the last to be done.
    """
    if not isinstance(count, int):
        fail(
            "symbolic-length",
            f"expected a fixed number of steps where 'checkpoint_every' is given; got "
            f"{count}",
        )
    if size < 1:
        fail("bad-argument", f"expected 'checkpoint_every' of at least 1; got {size}")
    whole, rest = divmod(count, size)
    first = rest if reverse else 0  # where the segments begin
    left = slice(0, rest) if reverse else slice(whole * size, count)

    def segment(carried: PyTree, part: PyTree) -> object:
        inner = checkpoint(lambda c, p: scan(function, c, p, size, reverse))
        return inner(carried, part)

    parts = tree_map(lambda x: _segments_of(x, first, whole, size), xs)
    carried, stacked = scan(segment, initial, parts, whole, reverse)
    ys = tree_map(lambda y: reshape(y, (whole * size, *y.shape[2:])), stacked)
    if not rest:
        return carried, ys
    tail = tree_map(lambda x: getitem(x, left), xs)
    carried, others = scan(function, carried, tail, rest, reverse)
    pair = (others, ys) if reverse else (ys, others)
    return carried, tree_map(lambda a, b: concatenate([a, b]), *pair)


def _segments_of(x: Array, first: int, whole: int, size: int) -> Array:
    """Reshape the leading axis from index `first` on to [`whole`, `size`]."""
    some = getitem(x, slice(first, first + whole * size))
    return reshape(some, (whole, size, *some.shape[1:]))
