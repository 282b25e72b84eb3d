"""Walks over blocks, tiles or vectors, and their rests.

What lies beside each other is cut into parts of one size, of which the last one may be
smaller. All functions but `parts` write at the insertion point.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from aotc.dialects.types import Size
from aotc.kernels.cpu import loops
from aotc.kernels.cpu.vectors import add, index, scale
from aotc.kernels.planning.tile import split_groups
from aotc.mlir import Value, arith


def parts(length: int, size: int, first: int = 0) -> list[tuple[int, int]]:
    """Return the (start, length) of each part of a run, cut into parts of `size`.

    `[(0, 8), (8, 8), (16, 3)]` for 19 in parts of 8.
    """
    return [(at, min(size, length - at)) for at in range(first, length, size)]


def visit_parts(length: int, size: int, visit: Callable[[Value, int], None]) -> None:
    """Emit a loop over the parts of a run, the shorter last one by itself."""
    whole, rest = divmod(length, size)
    if whole:
        loops.repeat_for(0, whole * size, size, lambda at: visit(at, size))
    if rest:
        visit(index(whole * size), rest)


def visit_some_parts(
    part_range: tuple[Value, int],
    length: int,
    size: int,
    visit: Callable[[Value, int], None],
) -> None:
    """Emit a loop over some consecutive parts of a run, by their numbers.

    Args:
        part_range: the first of them, and how many there are, or fewer at the end of
            the run.
        length: of the run.
        size: of a part, unless it is the last one of the run.
        visit: is given the number of a part, and how many elements it has.
    """
    first, count = part_range
    end = add(first, count)
    whole, rest = divmod(length, size)
    if whole:
        loops.repeat_for(first, index_minimum(end, whole), 1, lambda n: visit(n, size))
    if rest:
        last = index_maximum(first, whole), index_minimum(end, whole + 1)
        loops.repeat_for(*last, 1, lambda n: visit(n, rest))


def visit_by_size(
    first: Value | int, last: Value, size: int, visit: Callable[[Value, int], None]
) -> None:
    """Emit a loop over `size` elements at a time, then one over the rest.

    The first element is a multiple of the size.
    """
    whole = arith.subi(last, arith.remui(last, index(size)))
    loops.repeat_for(first, whole, size, lambda at: visit(at, size))
    loops.repeat_for(whole, last, 1, lambda at: visit(at, 1))


Group = tuple[Value | int, int, Value | int]  # the first, of how many, and how many


def row_groups(count: Value | int, most: int) -> list[Group]:
    """Return (start, rows, repetitions) of tiles of at most `most` rows."""
    if isinstance(count, int):
        return [*split_groups(count, most)]
    whole = arith.divui(count, index(most))
    first = scale(whole, most)
    return [(0, most, whole), (first, 1, arith.subi(count, first))]


def visit_groups(groups: Iterable[Group], visit: Callable[[Value, int], None]) -> None:
    """Emit a loop over each group of tiles, given as (start, rows, repetitions)."""
    for first, rows, count in groups:

        def visit_tile(
            number: Value, first: Value | int = first, rows: int = rows
        ) -> None:
            visit(add(scale(number, rows), first), rows)

        loops.repeat_for(0, count, 1, visit_tile)


def branch_at_rest(
    counts: tuple[Size, Size],
    is_whole: Callable[[], Value],
    write_whole: Callable[[], None],
    write_rest: Callable[[], None],
) -> None:
    """Emit a branch between a whole part and a shorter last one, if there are both.

    Args:
        counts: of the whole parts, or of their elements, and of those of the rest.
        is_whole: writes whether it is whole; asked where there are both.
        write_whole: the one thing.
        write_rest: the other one.
    """
    whole, rest = counts
    if rest == 0:
        write_whole()
    elif whole == 0:
        write_rest()
    else:
        loops.branch(is_whole(), write_whole, write_rest)


def block_bounds(number: Value, size: int, end: int | Value) -> tuple[Value, Value]:
    """Emit the bounds of a block: its first element, and the one after its last."""
    first = scale(number, size)
    return first, index_minimum(add(first, size), end)


def index_minimum(value: Value, limit: int | Value) -> Value:
    """Emit the lesser of an index value and a limit."""
    return arith.minsi(value, index(limit) if isinstance(limit, int) else limit)


def index_maximum(value: Value, limit: int | Value) -> Value:
    """Emit the greater of an index value and a limit."""
    return arith.maxsi(value, index(limit) if isinstance(limit, int) else limit)
