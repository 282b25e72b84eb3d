"""Products of transposed operands, rewritten as products of the sources.

    %t = graph.transpose(%x)            →   %y = graph.dot_general(%x, %w), over the
    %y = graph.dot_general(%t, %w)          axes of %x that those of %t are

A kernel reads an operand in any order of axes (`layout`), so no copy of it is needed.
Where one is slower so than with a copy, the operand is transposed again
(`with_factors_in_order`); of a weight, by the build.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from aotc.core.dtypes import is_float
from aotc.dialects.builder import Builder
from aotc.dialects.functions.functions import before
from aotc.dialects.ops.contraction import DotGeneral, free_axes
from aotc.dialects.ops.selection import Cast
from aotc.dialects.ops.shape import Reshape, Transpose
from aotc.dialects.patterns.values import made_by
from aotc.dialects.types import Shape, Tensor
from aotc.kernels.layout import layout_of
from aotc.kernels.planning.transposing import is_in_memory, rounds
from aotc.mlir import Function, Value, ir

Axes = tuple[int, ...]


def merge_transposes(function: Function) -> None:
    """Merge equal transposes and reshapes of a value in a function, in place.

    Other equal ops stay apart: a pass may have left each reader its own.
    """
    known = dict[tuple[object, ...], Value]()
    body = [] if function.is_external else [*function.entry_block.operations]
    for op in body:
        if isinstance(op, (Transpose, Reshape)):
            of = op.operation.attributes
            stated = tuple((name, str(of[name])) for name in of)
            key = type(op), op.x, stated, str(op.y.type)
            first = known.setdefault(key, op.y)
            if first != op.y:
                op.y.replace_all_uses_with(first)
                op.operation.erase()


def bring_rounding_to_transposes(function: Function) -> None:
    """Give each transpose of a rounding cast a cast of its own, in place.

    Its kernel then rounds what it reads. A product packs a weight in one order, its
    derivative in another, and both round it.
    """
    body = [] if function.is_external else [*function.entry_block.operations]
    for op in body:
        if not isinstance(op, Transpose):
            continue
        shapes = list[Shape]()
        value: Value = op.x
        while (view := made_by(value, Reshape)) is not None:
            shapes.insert(0, view.shape)
            value = view.x
        made = made_by(value, Cast)
        if made is None or not rounds(made) or not is_in_memory(made.x):
            continue
        with before(op):
            b = Builder()
            x: Value = made.x
            for shape in shapes:
                x = b.reshape(x, shape=shape)
            op.operation.operands[0] = b.cast(x, dtype=Tensor.of(value).dtype)
        _erase_unread(value)


def _erase_unread(value: Value) -> None:
    """Erase unread reshapes of a value, and its defining op if that is unread too."""
    for use in [*value.uses]:
        if isinstance(reader := use.owner.opview, Reshape):
            _erase_unread(reader.y)
    if not any(True for _ in value.uses):
        value.owner.erase()


@dataclass(frozen=True)
class _ProductOperand:
    """An operand of a product, with its batch and its contracted axes."""

    value: Value
    batch: Axes
    contract: Axes

    def before_transpose(self) -> _ProductOperand | None:
        """Return the operand before its transpose; None if that reorders free axes."""
        made = self.value.owner
        if isinstance(made, ir.Block) or not isinstance(made.opview, Transpose):
            return None
        order = made.opview.permutation
        free = free_axes(len(order), self.batch, self.contract)
        before = [order[axis] for axis in free]
        if before != sorted(before):
            return None
        batch, contract = (
            tuple(order[axis] for axis in axes) for axes in (self.batch, self.contract)
        )
        return _ProductOperand(made.opview.x, batch, contract)


def without_transposes(op: DotGeneral) -> DotGeneral:
    """Make a product read its operands before transposes; return it, or its new one.

    A transpose of the left operand stays where its rows would lie unevenly without, or
    where terms that are integers would not lie beside each other.
    """
    left = _ProductOperand(op.lhs, op.lhs_batch, op.lhs_contract)
    right = _ProductOperand(op.rhs, op.rhs_batch, op.rhs_contract)
    op = _with_operands(op, left, right.before_transpose() or right)
    right = _ProductOperand(op.rhs, op.rhs_batch, op.rhs_contract)
    before = left.before_transpose()
    if before is None:
        return op
    shorter = _insert_product(op, before, right)
    layout = layout_of(shorter)
    is_apart = layout is not None and layout.depth > 1
    is_unread = is_apart and not is_float(Tensor.of(op.lhs).dtype)
    if layout is None or layout.splits_rows or is_unread:
        shorter.operation.erase()
        return op
    return _replace(shorter, op)


def with_factors_in_order(op: DotGeneral, orders: Mapping[int, Axes]) -> DotGeneral:
    """Replace a product by one of operands transposed to the given axis orders.

    The result is `op` itself if there are no orders.

    Args:
        op: a product.
        orders: of the axes of operands, by their number; free axes come one after the
            other as before.
    """
    if not orders:
        return op
    operands = (
        _ProductOperand(op.lhs, op.lhs_batch, op.lhs_contract),
        _ProductOperand(op.rhs, op.rhs_batch, op.rhs_contract),
    )
    left, right = (
        _in_order(op, each, orders[number]) if number in orders else each
        for number, each in enumerate(operands)
    )
    return _replace(_insert_product(op, left, right), op)


def _in_order(op: DotGeneral, operand: _ProductOperand, order: Axes) -> _ProductOperand:
    """Return a product's operand, transposed to an axis order by an op before it."""
    batch, contract = (
        tuple(order.index(axis) for axis in axes)
        for axes in (operand.batch, operand.contract)
    )
    return _ProductOperand(
        _find_or_insert_transpose(op, operand.value, order), batch, contract
    )


def _find_or_insert_transpose(op: DotGeneral, value: Value, order: Axes) -> Value:
    """Return an existing transpose of a value from before a product, or insert one."""
    for use in value.uses:
        found = use.owner.opview
        if not isinstance(found, Transpose) or found.permutation != order:
            continue
        if found.operation.block == op.operation.block and (
            found.operation.is_before_in_block(op.operation)
        ):
            return found.y
    made = value.owner
    # an argument's is there before all products that may be joined with this one
    is_given = isinstance(made, ir.Block)
    point = (
        ir.InsertionPoint.at_block_begin(made) if is_given else ir.InsertionPoint(op)
    )
    with point, op.location:
        turned: Value = Builder().transpose(value, permutation=order)
    return turned


def _with_operands(
    op: DotGeneral, left: _ProductOperand, right: _ProductOperand
) -> DotGeneral:
    """Replace a product by one of other operands, unless the right one is the same."""
    if right.value == op.rhs:
        return op
    return _replace(_insert_product(op, left, right), op)


def _insert_product(
    op: DotGeneral, left: _ProductOperand, right: _ProductOperand
) -> DotGeneral:
    """Insert, before a product, the same product of other operands."""
    with ir.InsertionPoint(op), op.location:
        made: Value = Builder().dot_general(
            left.value,
            right.value,
            lhs_batch=left.batch,
            rhs_batch=right.batch,
            lhs_contract=left.contract,
            rhs_contract=right.contract,
            dtype=op.dtype,
        )
    found = made.owner.opview
    assert isinstance(found, DotGeneral)
    assert Tensor.of(found.y) == Tensor.of(op.y)
    return found


def _replace(new: DotGeneral, old: DotGeneral) -> DotGeneral:
    """Replace all uses of a product by another one, and erase it; return the other."""
    old.y.replace_all_uses_with(new.y)
    old.operation.erase()
    return new
