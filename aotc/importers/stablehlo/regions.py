"""Regions that ops can compute: reducers, comparators and updates.

A region of one op is known by its name. A region that only compares and chooses is
known by what it does: it is run on every case that it can tell apart.

Note [cases of a comparator]: comparisons, choices between the arguments, and logic on
bools see nothing of numbers but their order among each other and to the constants 0 and
NaN, which is all that a region may have to pass `_only_chooses`. So a function of two
numbers is known from its results on pairs out of -inf, -2, -1, -0, 0, 1, 2, inf and
NaN: they hold every such order, with each number on either side.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy

from aotc.core import dtypes
from aotc.importers.stablehlo.operation import Op
from aotc.importers.stablehlo.ops.shapes import literal
from aotc.importers.stablehlo.values import array, kind_of
from aotc.mlir import ir
from aotc.tracing.conversion import lift
from aotc.tracing.scopes import without_tracing

_CHOOSERS = {
    "stablehlo.compare",
    "stablehlo.select",
    "stablehlo.and",
    "stablehlo.or",
    "stablehlo.xor",
    "stablehlo.not",
    "stablehlo.maximum",
    "stablehlo.minimum",
    "stablehlo.constant",
    "stablehlo.return",
}
_NUMBERS = (-numpy.inf, -2.0, -1.0, -0.0, 0.0, 1.0, 2.0, numpy.inf, numpy.nan)


def ops_in(op: Op, region: int = 0) -> list[ir.Operation]:
    """Return the operations of a region."""
    return [each.operation for each in op.op.regions[region].blocks[0].operations]


def single_op(op: Op, region: int = 0) -> str | None:
    """Return the name of a region's only op if it combines its two arguments, or
    None.
    """
    return _single_op(op.op.regions[region].blocks[0])


def called_op(op: Op) -> str | None:
    """Return the name of the only op of a custom call's function; None otherwise."""
    (name,) = ir.ArrayAttr(op.attribute("called_computations"))
    module = op.op
    while module.parent is not None:
        module = module.parent.operation
    function = ir.SymbolTable(module)[ir.FlatSymbolRefAttr(name).value]
    return _single_op(function.regions[0].blocks[0])


def _single_op(block: ir.Block) -> str | None:
    """Return the name of a block's only op if it combines its two arguments, or
    None.
    """
    found = [each.operation for each in block.operations]
    if len(found) != 2 or list(found[1].operands) != list(found[0].results):
        return None
    return str(found[0].name) if _combines_arguments(found[0], block) else None


def _combines_arguments(operation: ir.Operation, block: ir.Block) -> bool:
    """Return whether an op's operands are its block's arguments, or commuted."""
    operands, arguments = list(operation.operands), list(block.arguments)
    commutes = operation.name != "stablehlo.subtract"
    return operands == arguments or (commutes and operands == arguments[::-1])


def returns_argument(op: Op, number: int, region: int = 0) -> bool:
    """Return whether a region returns its argument with this number unchanged."""
    block = op.op.regions[region].blocks[0]
    found = ops_in(op, region)
    return len(found) == 1 and list(found[0].operands) == [block.arguments[number]]


# ---- by behaviour -------------------------------------------------------------------


def _only_chooses(op: Op, region: int = 0) -> bool:
    """Return whether a region only compares, selects and uses logic, so cases decide
    it.
    """
    return all(
        each.name in _CHOOSERS and _is_simple(each) for each in ops_in(op, region)
    )


def _is_simple(operation: ir.Operation) -> bool:
    """Return whether an op is no constant, or one of 0, NaN or bools."""
    if operation.name != "stablehlo.constant":
        return True
    op = Op(operation)
    values = literal(op).astype(object).ravel()
    return all(v == 0 or v != v or op.kind.dtype == "bool" for v in values)


def cases(dtype: str) -> list[Any]:
    """Return elements of a dtype that show all orderings a comparator can tell
    apart.
    """
    if dtype == "bool":
        return [False, True]
    if dtypes.is_float(dtype):
        return list(_NUMBERS)
    if dtype in dtypes.UNSIGNED:
        return [0, 1, 2, 3]
    return [-2, -1, 0, 1, 2]


def behaviour(op: Op, columns: Sequence[object], region: int = 0) -> list[Any]:
    """Run a region on columns of numbers, one for each argument; return its results."""
    block = op.op.regions[region].blocks[0]
    with without_tracing():
        inputs = []
        for argument, column in zip(block.arguments, columns, strict=True):
            dtype = dtype_of(argument)
            inputs.append(lift(numpy.array(column, dtypes.to_numpy(dtype))))
        results = op.regions[region](*inputs)
        return [numpy.asarray(array(result)) for result in results]


def dtype_of(argument: ir.Value) -> str:
    """Return the dtype of a region's argument."""
    kind = kind_of(argument.type)
    return "i32" if kind is None else kind.dtype


def is_complex(argument: ir.Value) -> bool:
    """Return whether an argument of a region is complex."""
    return "complex" in str(argument.type)


def sort_keys(op: Op) -> list[tuple[int, bool]] | None:
    """Return a comparator's sort keys as (operand, is descending); None if it has
    others.

    None where the comparator does anything else than to compare tuples of operands.
    """
    block = op.op.regions[0].blocks[0]
    count = len(block.arguments) // 2
    if any(map(is_complex, block.arguments)) or not _only_chooses(op):
        return None
    used = [n for n in range(count) if any(block.arguments[2 * n].uses)]
    for length in range(1, len(used) + 1):
        for keys in itertools.permutations(used, length):
            for signs in itertools.product((False, True), repeat=length):
                if length == len(used) and _orders_by(op, keys, signs):
                    return list(zip(keys, signs, strict=True))
    return None


def _orders_by(op: Op, keys: Sequence[int], signs: Sequence[bool]) -> bool:
    """Return whether a comparator orders lexicographically by these keys."""
    block = op.op.regions[0].blocks[0]
    if len(keys) > 2:
        return False
    dtype = [dtype_of(block.arguments[2 * key]) for key in keys]
    tables = [list(itertools.product(cases(d), repeat=2)) for d in dtype]
    rows = list(itertools.product(*tables))
    columns: list[Any] = []
    for number in range(len(block.arguments)):
        key = number // 2
        at = keys.index(key) if key in keys else None
        columns.append([0 if at is None else row[at][number % 2] for row in rows])
    (found,) = behaviour(op, columns)
    return bool(found.tolist() == [_precedes(row, signs) for row in rows])


def _precedes(row: Sequence[Any], signs: Sequence[bool]) -> bool:
    """Return whether a row of pairs compares as less, with NaN above any number."""
    for (one, other), descending in zip(row, signs, strict=True):
        a, b = _rank(one), _rank(other)
        if a != b:
            return a > b if descending else a < b
    return False


def _rank(x: Any) -> tuple[bool, float]:
    """Return a sort key for a number, with NaN above any."""
    missing = x != x
    return missing, 0.0 if missing else float(x)


def arg_reducer(op: Op) -> str | None:
    """Return `max` or `min` for a region that is argmax or argmin; None otherwise.

    That is the first of equal values, and of NaN, with its position.
    """
    block = op.op.regions[0].blocks[0]
    if len(block.arguments) != 4 or not _only_chooses(op):
        return None
    if any(map(is_complex, block.arguments)):
        return None
    dtype = dtype_of(block.arguments[0])
    rows = [
        (*values, *places)
        for values in itertools.product(cases(dtype), repeat=2)
        for places in ((0, 1), (1, 0), (1, 2), (2, 1))
    ]
    columns = [[row[n] for row in rows] for n in (0, 2, 1, 3)]
    found = behaviour(op, columns)
    for name in ("max", "min"):
        wanted = [_expected_choice(row, name) for row in rows]
        if _equals(found[0], [w[0] for w in wanted], dtype) and (
            found[1].tolist() == [w[1] for w in wanted]
        ):
            return name
    return None


def _expected_choice(row: tuple[Any, ...], name: str) -> tuple[Any, Any]:
    """Return the better of two (value, position) pairs: NaN first, ties by position."""
    one, other, i, j = row
    sign = -1.0 if name == "min" else 1.0

    def merit(x: Any, place: int) -> tuple[bool, float, int]:
        return x != x, 0.0 if x != x else sign * float(x), -place

    return (one, i) if merit(one, i) >= merit(other, j) else (other, j)


def _equals(found: Any, wanted: Sequence[Any], dtype: str) -> bool:
    """Return whether a region's results equal the expected ones."""
    return bool(
        numpy.array_equal(
            found,
            numpy.array(wanted, found.dtype),
            equal_nan=dtypes.is_float(dtype),
        )
    )


_DIRECTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "max": numpy.greater_equal,
    "min": numpy.less_equal,
}


def window_choice(op: Op) -> str | None:
    """Return `max` or `min` for a select region that keeps the larger or smaller
    element.
    """
    block = op.op.regions[0].blocks[0]
    if not _only_chooses(op):
        return None
    pairs = list(itertools.product(cases(dtype_of(block.arguments[0])), repeat=2))
    (found,) = behaviour(op, list(zip(*pairs, strict=True)))
    for name, keeps in _DIRECTIONS.items():
        if found.tolist() == [bool(keeps(*pair)) for pair in pairs]:
            return name
    return None


def elementwise(op: Op, region: int = 0) -> bool:
    """Return whether all ops of a region are on scalars, so it can run on whole
    arrays.
    """
    return all(
        not getattr(result.type, "rank", 0)
        for each in ops_in(op, region)
        for result in each.results
    )
