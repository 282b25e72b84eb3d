"""Products that are read in slices of their columns only, as several products."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from aotc.dialects.builder import Builder
from aotc.dialects.functions.functions import before, call, define, find
from aotc.dialects.functions.fusion import mark_fused
from aotc.dialects.functions.walking import in_order, users_of
from aotc.dialects.graph import GraphOp
from aotc.dialects.movement.reshaping import long_axes
from aotc.dialects.ops.contraction import DotGeneral, free_axes
from aotc.dialects.ops.creation import Constant
from aotc.dialects.ops.shape import Broadcast
from aotc.dialects.ops.slicing import Slice
from aotc.dialects.types import Tensor
from aotc.kernels.operands import PerColumn, ScalarOperand, SomeColumns, operand_of
from aotc.kernels.packing import pack, unpack
from aotc.mlir import Function, Operation, Value, func
from aotc.passes.joining.products import ProductCall, ops_behind, product_of


def column_slices(product: ProductCall) -> list[Slice]:
    """Return the disjoint column slices that are all readers of a product; else an
    empty list.

    Each reads as many rows as there are, and no two read the same column.
    """
    is_dequantized = product.tile.dequantizes
    if is_dequantized or len(product.call.results) > 1 or not _can_be_cut(product):
        return []
    result = product.call.results[0]
    readers = in_order(users_of([result]))
    found = [each for each in readers if isinstance(each, Slice)]
    if not 1 < len(found) == len(readers) <= product.most_joined:
        return []
    found.sort(key=lambda each: int(each.start[-1]))
    columns = [each for each in map(_columns_of, found) if each is not None]
    end = 0
    for each in columns:
        if each.first < end or 2 * each.width < product.tile.lanes:
            return []
        end = each.first + each.width
    is_stored = product.is_stored_by(product.tile, (each.width for each in columns))
    return found if len(columns) == len(found) and is_stored else []


def _columns_of(op: Slice) -> SomeColumns | None:
    """Return the column range that a slice reads; None unless it reads every row."""
    read = operand_of(op.y)
    return read if isinstance(read, SomeColumns) and read.width else None


def _can_be_cut(product: ProductCall) -> bool:
    """Return whether a product's region can be computed for a range of its columns."""
    anchor = product.anchor
    if _column_axis(anchor) is None:
        return False
    packing = ops_behind(anchor.operands[1])
    kind = Tensor.of(anchor.results[0])
    for op in product.function.entry_block.operations:
        if op in packing or op == anchor or isinstance(op, func.ReturnOp):
            continue
        if isinstance(op, (Broadcast, Constant)):
            continue
        if not isinstance(op, GraphOp) or not type(op).on_vectors:
            return False
        if any(Tensor.of(value) != kind for value in op.results):
            return False
    left, _, *others = product.function.entry_block.arguments
    if any(use.owner.opview != anchor for use in left.uses):
        return False
    return all(_column_axes(each) is not None for each in others)


def _column_axes(argument: Value) -> list[int] | None:
    """Return the axes of a region's argument that vary by column; None if any varies by
    row.
    """
    for use in argument.uses:
        op = use.owner.opview
        read = operand_of(op.y) if isinstance(op, Broadcast) else None
        if not isinstance(read, (ScalarOperand, PerColumn)) or not read.fits(
            op.shape[-1:]
        ):
            return None
    return long_axes(Tensor.of(argument).shape)


def _column_axis(anchor: GraphOp) -> int | None:
    """Return the axis of the right operand that is the last of the result; None for
    several.
    """
    rank = Tensor.of(anchor.operands[1]).rank
    if not isinstance(anchor, DotGeneral):
        return rank - 1
    free = [*free_axes(rank, anchor.rhs_batch, anchor.rhs_contract)]
    return free[0] if len(free) == 1 else None


def split_columns(
    product: ProductCall, slices: Sequence[Slice], functions: Mapping[str, Function]
) -> list[ProductCall]:
    """Replace column slices of a product by one product each; return the new products.

    Args:
        product: that is read by `slices` alone, and goes.
        slices: see `column_slices`.
        functions: of the module, as a table that knows new ones.
    """
    found: list[func.CallOp] = []
    with before(product.call):
        right = product.unpacked()
        for each in slices:
            columns = _columns_of(each)
            assert columns is not None
            (made,) = _call_part(product, right, columns)
            each.y.replace_all_uses_with(made)
            found.append(made.owner)
    for each in slices:
        each.operation.erase()
    product.call.operation.erase()
    parts = [product_of(each.opview, functions, product.capabilities) for each in found]
    return [each for each in parts if each is not None]


def _call_part(product: ProductCall, right: Value, columns: SomeColumns) -> list[Value]:
    """Define and call a region for a column range of a product; return the call's
    results.

    Args:
        product: that is taken apart.
        right: its weight, before it is packed.
        columns: those wanted.
    """
    b, anchor = Builder(), product.anchor
    axis = _column_axis(anchor)
    assert axis is not None
    part = b.part(right, axis, columns.first, columns.width)
    given = [product.call.operands[0], pack(b, anchor, product.tile, part)]
    arguments = [*product.function.entry_block.arguments][2:]
    for argument, value in zip(arguments, [*product.call.operands][2:], strict=True):
        for each in _column_axes(argument) or ():
            value = b.part(value, each, columns.first, columns.width)
        given.append(value)

    def body(arguments: list[Value]) -> list[Value]:
        packed, kind = arguments[1], Tensor.of(part)
        right = partial(unpack, Builder(), anchor, packed, product.tile, kind)
        return product.write(arguments, right, partial(_narrow, columns))

    name = define(product.fused.kernel, [Tensor.of(value) for value in given], body)
    mark_fused(find(name), product.fused)
    return call(name, given)


def _narrow(
    columns: SomeColumns, op: Operation, operands: Sequence[Value]
) -> list[Value]:
    """Emit an op of a region for a column range of its operands; return its results."""
    assert isinstance(op, GraphOp)
    if isinstance(op, Broadcast):
        return [op.rebuild(*operands, shape=(*op.shape[:-1], columns.width))]
    return [op.rebuild(*operands)]
