"""Faults in rows and columns, and the order of rows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from aotc.dialects.lowering import scalars
from aotc.kernels.cpu import columns, sorting, vectors
from aotc.kernels.cpu.rows import _RowKernel as RowsKernel
from aotc.kernels.cpu.rows import formulas, walk
from aotc.kernels.cpu.vectors import add, index
from aotc.mlir import Value, arith, ir

from ..planting import Fault


def _whole_tiles_only(right: Any) -> Any:
    """Return a faulty writer that skips partial tiles."""

    def write(self: Any, first: Value, rows: int) -> None:
        if rows == self.tile.rows:
            right(self, first, rows)

    return write


def _part_only(right: Any) -> Any:
    """Return a faulty reduction that leaves out the remainder of a sum."""

    def reduce(self: Any, how: Any, elements: Any, first: Value, count: int) -> Any:
        part = walk._PART
        kept = count // part * part if how.is_sum and count > part else count
        return right(self, how, elements, first, kept)

    return reduce


def _without_epsilon(right: Any) -> Any:
    """Return a faulty norm with an epsilon of 0."""
    return lambda op, row: right(
        SimpleNamespace(epsilon=0.0, centered=op.centered), row
    )


def _turned(right: Any) -> Any:
    """Return a faulty order in which equal keys come in reverse."""

    def precedes(one: Any, other: Any) -> Value:
        is_less = scalars.int_compare("ult", one.key, other.key)
        is_equal = scalars.int_compare("eq", one.key, other.key)
        is_after = scalars.int_compare("ugt", one.position, other.position)
        return arith.ori(is_less, arith.andi(is_equal, is_after))

    return precedes


def _first_child(right: Any) -> Any:
    """Return a faulty heap step that always takes the first child."""

    def child(self: Any, place: Value, end: Value) -> Any:
        first = add(vectors.scale(place, 2), 1)
        return first, self._item_at(first)

    return child


def _not_before_equal(right: Any) -> Any:
    """Return a faulty comparison of keys: unused heap slots replace an equal top."""

    def compare(predicate: str, x: Value, y: Value) -> Value:
        is_of_keys = isinstance(x.type, ir.IntegerType) and x.type.width == 32
        return right("ule" if is_of_keys else predicate, x, y)

    return compare


def _reading_first(right: Any) -> Any:
    """Return a faulty writer that reads the first matrix only."""

    def write(self: Any, matrix: Value, column: Value, count: int) -> None:
        right(self, index(0), column, count)

    return write


def _about_zero(right: Any) -> Any:
    """Return a faulty writer that does not subtract the mean."""

    def write(self: Any, norm: Any, *rest: Any) -> None:
        kept = {name: getattr(norm, name) for name in ("x", "mean", "variance")}
        right(self, SimpleNamespace(centered=False, **kept), *rest)

    return write


FAULTS = [
    Fault(
        "zeros after the end of a row take part",
        "rows", "row_max", vectors, "select_first",
        lambda right: lambda x, count, otherwise: x, frozenset({"columns"}),
    ),
    Fault(
        "rows after the last whole tile are not written",
        "rows", "row_max", RowsKernel, "_write_tile", _whole_tiles_only,
    ),
    Fault(
        "a norm has no epsilon",
        "rows", "norm", formulas, "_normalize", _without_epsilon,
    ),
    Fault(
        "steps after the last whole part are left out",
        "rows", "row_sum", walk.Walk, "_reduce_steps", _part_only,
        frozenset({"columns"}),
    ),
    Fault(
        "the last row is left out",
        "columns", "columns", columns, "Walk",
        lambda right: lambda side, length, *rest, **named: right(
            side, length - 1, *rest, **named
        ),
    ),
    Fault(
        "a matrix reads the rows of the first",
        "columns", "columns", columns._ColumnKernel, "_write_tile",
        _reading_first,
    ),
    Fault(
        "a variance is the mean of squares",
        "columns", "statistics", columns._ColumnKernel, "_write_statistics",
        _about_zero,
    ),
    Fault(
        "ties are in the opposite order",
        "sort", "sort", sorting, "_precedes", _turned,
    ),
    Fault(
        "a heap does not look at second children",
        "sort", "sort", sorting._Heap, "_later_child", _first_child,
    ),
    Fault(
        "a later one of equal elements takes the place of an earlier one",
        "sort", "top", sorting, "int_compare", _not_before_equal,
    ),
]  # fmt: skip
