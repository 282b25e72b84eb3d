"""Compute reductions of few results in parts, which fill a chip, and add these up.

    %y = graph.dot_general(%x, %w) : bf16[8, 512]          // of 4096 terms
  →
    %p = graph.dot_general(%x', %w') : f32[16, 8, 512]     // of views, 256 terms each
    %y = graph.cast(graph.reduce_sum(%p) {axes = (0)})

So are products of few rows, gradients of biases and other sums over a batch. Each sum
is made in an order that depends on nothing but the program and the target. In how many
parts, a model of the chip says (`Capabilities.part_count`). A kernel for processors
goes along neighbouring axes, so reductions over others, or over all but the last axes,
are made of those of matrices (`Capabilities.inner_axes`). On GPUs, a norm over the
first axes, as that of a batch, becomes the reductions that it is made of, and attention
of few queries by many keys, as in a step of a decoder, two products with a softmax
between (`Capabilities.is_better_composed`).

Requires that derivatives are written. Ensures that reductions have as many parts as
they gain by.
"""

from __future__ import annotations

from collections.abc import Container

from aotc.dialects.builder import Builder, replace_op
from aotc.dialects.functions.functions import before
from aotc.dialects.functions.walking import (
    clone,
    defining_op,
    has_one_use,
    is_before,
    users_of,
)
from aotc.dialects.graph import GraphOp
from aotc.dialects.lowering.conversion import accumulator
from aotc.dialects.ops.contraction import DotGeneral
from aotc.dialects.ops.normalization import Normalize
from aotc.dialects.ops.quantization import Dequantize
from aotc.dialects.ops.reduction import Reduction
from aotc.dialects.ops.shape import Broadcast, Reshape, varying_axes
from aotc.dialects.patterns.values import made_by
from aotc.dialects.types import Shape, Size, Tensor
from aotc.kernels.capabilities import Capabilities, NoTargetKernels, capabilities_of
from aotc.kernels.gpu.lifting import can_lift
from aotc.kernels.planning.reductions import leading_axes, reduced_axes
from aotc.kernels.scopes import functions_with_weights
from aotc.kernels.transposes import with_factors_in_order
from aotc.mlir import Function, Value
from aotc.passes.base import Pass, Unit
from aotc.passes.inner_reductions import (
    normalize_by_parts,
    normalize_by_sums,
    reduce_by_parts,
    split_first,
)
from aotc.passes.properties import DERIVATIVES_WRITTEN


class SplitReductions(Pass):
    """Split large reductions into partial ones that run in parallel, then combine
    them.
    """

    name = "split-reductions"
    level = 2
    keeps_graph = True
    requires = (DERIVATIVES_WRITTEN,)

    def run(self, unit: Unit) -> bool:
        """Rewrite the unit's module in place; return whether anything changed."""
        capabilities = capabilities_of(unit.target)
        if isinstance(capabilities, NoTargetKernels):
            return False
        changed, numerics = False, unit.program.numerics
        for function, weights in functions_with_weights(unit.module):
            if capabilities.emitted.on_gpus:
                changed |= _split_in(function, weights, capabilities, numerics)
            else:
                changed |= _reduce_matrices_in(function, weights, capabilities)
        return changed


def _is_over_first_axes(op: Normalize) -> bool:
    """Return whether a norm reduces exactly the first axes, and not all."""
    return len(op.axes) < Tensor.of(op.x).rank and leading_axes(op) == reduced_axes(op)


def _reduce_matrices_in(
    function: Function, weights: Container[Value], capabilities: Capabilities
) -> bool:
    """Rewrite reductions for CPU kernels, which reduce neighbouring axes; return
    whether any were.
    """
    changed = False
    for op in _computed_ops(function, weights):
        if isinstance(op, DotGeneral) and capabilities.numbers_products(op):
            _multiply_by_images(op)
            changed = True
        if not isinstance(op, Reduction | Normalize):
            continue
        inner = capabilities.inner_axes(op)
        if inner and isinstance(op, Normalize):
            normalize_by_parts(op, inner)
        elif inner and isinstance(op, Reduction):
            reduce_by_parts(op, inner)
        changed |= bool(inner)
    return changed


def _split_in(
    function: Function,
    weights: Container[Value],
    capabilities: Capabilities,
    numerics: str,
) -> bool:
    """Split reductions and matrix products for GPUs into partial ones; return whether
    any were.
    """
    changed = False
    before_all = {op.results[0] for op in _computed_ops(function, weights)}
    statistics = set[Value]()
    for op in _computed_ops(function, weights):
        if not capabilities.is_better_composed(op):
            continue
        if isinstance(op, Normalize) and _is_over_first_axes(op):
            statistics.update(normalize_by_sums(op, capabilities.part_count(op)))
        else:
            replace_op(op, type(op).composition)
        changed = True
    for op in _computed_ops(function, weights):
        if op.results[0] in statistics:  # in parts already
            continue
        if isinstance(op, DotGeneral):
            changed |= _dequantize_alone(op)
            by_weight = op.rhs in weights
            orders = capabilities.factor_orders(op, numerics, by_weight=by_weight)
            if orders:  # as `fuse-regions` does, of what is no transpose
                op = with_factors_in_order(op, orders)
                changed = True
        if isinstance(op, Reduction) and op.results[0] not in before_all:
            _compute_alone(op, capabilities)
        parts = capabilities.part_count(op)
        if parts > 1 and isinstance(op, (DotGeneral, Reduction)):
            changed |= _split(op, parts)
    return changed


def _multiply_by_images(op: DotGeneral) -> None:
    """Replace a matrix product summed over images by the sum of one product for each
    image.
    """
    kind = Tensor.of(op.y).dtype
    with before(op):
        b = Builder()
        parts = b.dot_general(
            op.lhs,
            op.rhs,
            lhs_batch=(0,),
            rhs_batch=(0,),
            lhs_contract=op.lhs_contract[1:],
            rhs_contract=op.rhs_contract[1:],
            dtype=accumulator(kind),
        )
        value = b.reduce_sum(parts, axes=(0,))
        if accumulator(kind) != kind:
            value = b.cast(value, dtype=kind)
    op.y.replace_all_uses_with(value)
    op.operation.erase()


def _computed_ops(function: Function, weights: Container[Value]) -> list[GraphOp]:
    """Return the ops of a function that depend on inputs: run in each call."""
    return [
        op
        for op in function.entry_block.operations
        if isinstance(op, GraphOp)
        if len(op.results) and op.results[0] not in weights
    ]


def _compute_alone(op: Reduction, capabilities: Capabilities) -> None:
    """Duplicate shared cheap elementwise ops before a reduction, so that its kernel
    fuses them.

    Its kernel computes them of what lies in memory; else the others would write them.
    """
    rest: list[tuple[GraphOp, int]] = [(op, 0)]
    while rest:
        reader, place = rest.pop()
        value = reader.operands[place]
        inner = defining_op(value)
        if not isinstance(inner, GraphOp) or not capabilities.is_cheap(inner):
            continue
        if Tensor.of(value).shape != Tensor.of(op.x).shape:
            continue
        if not has_one_use(value):
            with before(reader):
                (own,) = clone(inner, [*inner.operands])
            reader.operation.operands[place] = own
            inner = own.owner.opview
        rest += [(inner, n) for n in range(len(inner.operands))]


def _dequantize_alone(op: DotGeneral) -> bool:
    """Give a matrix product its own copy of a dequantised weight; return whether it was
    shared.
    """
    table = made_by(op.rhs, Dequantize)
    if table is None or has_one_use(op.rhs):
        return False
    with before(op):
        (op.operation.operands[1],) = clone(table, [*table.operands])
    return True


def _split(op: DotGeneral | Reduction, parts: int) -> bool:
    """Replace an op by the combination of `parts` partial ones; return False if it
    cannot be.
    """
    with before(op):
        b = Builder()
        found = (
            _parts_of_product(b, op, parts)
            if isinstance(op, DotGeneral)
            else _parts_of_reduction(b, op, parts)
        )
        if found is None:
            return False
        combine = b.reduce_sum
        if isinstance(op, Reduction):
            combine = getattr(b, op.OPERATION_NAME.removeprefix("graph."))
        value, dtype = combine(found, axes=(0,)), Tensor.of(op.results[0]).dtype
        if Tensor.of(value).dtype != dtype:
            value = b.cast(value, dtype=dtype)
    op.results[0].replace_all_uses_with(value)
    op.operation.erase()
    return True


def _parts_of_product(b: Builder, op: DotGeneral, parts: int) -> Value | None:
    """Emit partial matrix products along a new axis, in f32 if narrower; None if it
    cannot be split.
    """
    axes = op.lhs_contract[0], op.rhs_contract[0]
    left = _with_parts(b, op.lhs, axes[0], parts)
    right = _with_parts(b, op.rhs, axes[1], parts)
    if left is None or right is None:
        return None
    return b.dot_general(
        left,
        right,
        lhs_batch=(axes[0], *_moved(op.lhs_batch, axes[0])),
        rhs_batch=(axes[1], *_moved(op.rhs_batch, axes[1])),
        lhs_contract=_moved(op.lhs_contract, axes[0]),
        rhs_contract=_moved(op.rhs_contract, axes[1]),
        dtype=accumulator(Tensor.of(op.y).dtype),
    )


def _moved(axes: tuple[int, ...], split: int) -> tuple[int, ...]:
    """Renumber axes after axis `split` became two; `split` itself becomes the
    second.
    """
    return tuple(axis + (axis >= split) for axis in axes)


def _with_parts(b: Builder, value: Value, axis: int, parts: int) -> Value | None:
    """Emit a tensor with an axis split into (parts, rest), also of a dequantisation; or
    None.
    """
    table = made_by(value, Dequantize)
    if table is None:
        return b.reshape(value, shape=_split_shape(value, axis, parts))
    sides = [table.scale, table.offset]
    blocks: Size = Tensor.of(table.scale).shape[axis]
    if axis == table.axis and (not isinstance(blocks, int) or blocks % parts):
        return None
    q = b.reshape(table.q, shape=_split_shape(table.q, axis, parts))
    scale, offset = (
        b.reshape(x, shape=_split_shape(x, axis, parts)) if Tensor.of(x).rank else x
        for x in sides
    )
    own = table.axis + (axis <= table.axis)
    return b.dequantize(q, scale, offset, axis=own, bits=table.bits)


def _split_shape(value: Value, axis: int, parts: int) -> tuple[Size, ...]:
    """Return a value's shape with an axis split into (parts, size / parts)."""
    shape = Tensor.of(value).shape
    size = shape[axis]
    assert isinstance(size, int)
    return (*shape[:axis], parts, size // parts, *shape[axis + 1 :])


def _parts_of_reduction(b: Builder, op: Reduction, parts: int) -> Value | None:
    """Emit partial reductions along a new first axis, in f32 if narrower; or None.

    The axis that counts parts comes first, as all axes before it are reduced.
    """
    kind, first = Tensor.of(op.x), leading_axes(op)
    if not first:
        return None
    value: Value = op.x
    rest = sorted(op.axes)[1:]
    if kind.shape[0] != parts:
        gone = len(first) - 2  # axes that are one with others then
        rest = [1, *(axis - gone for axis in sorted(op.axes)[len(first) :])]
        shape = split_first(kind.shape, len(first), parts)
        value = _reshaped(b, op.x, shape, len(first), op)
    wide = accumulator(kind.dtype)
    if wide != kind.dtype:
        value = b.cast(value, dtype=wide)
    found: Value = op.rebuild(value, axes=tuple(rest))
    return found


def _reshaped(
    b: Builder, value: Value, shape: Shape, first: int, reader: GraphOp
) -> Value:
    """Emit a value with leading axes split in two, pushing the reshape before cheap
    ops.

    Cheap elementwise ops that nothing else reads are of the new shape, so that kernels
    read what these are made of, and no reshape of what they give.

    Args:
        b: writes ops.
        value: that a reduction reads.
        shape: the new one.
        first: how many axes are put together.
        reader: before which it is computed.
    """
    op = defining_op(value)
    if isinstance(op, Broadcast):
        kept = varying_axes(op)
        if all(axis >= first for axis in kept):
            sizes = tuple(Tensor.of(value).shape[axis] for axis in kept)
            narrow = b.reshape(op.x, shape=sizes)
            axes = tuple(axis - first + 2 for axis in kept)
            return b.broadcast(narrow, shape=shape, axes=axes)
    elif has_one_use(value) and isinstance(op, GraphOp) and _is_cheap(op):
        operands = [_reshaped(b, x, shape, first, reader) for x in op.operands]
        found: Value = op.rebuild(*operands)
        return found
    for user in users_of([value]):  # what another reduction reads, too
        is_known = isinstance(user, Reshape) and is_before(user, reader)
        if is_known and Tensor.of(user.results[0]).shape == shape:
            return user.results[0]
    return b.reshape(value, shape=shape)


def _is_cheap(op: GraphOp) -> bool:
    """Return whether GPU kernels can fuse an elementwise op at the cost of few
    instructions.
    """
    return can_lift(op) and not type(op).is_approximated
