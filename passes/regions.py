"""What one kernel computes: an anchor and the elementwise ops around it."""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import dataclass, field

from aotc.dialects.fusion import Fused
from aotc.dialects.graph import GraphOp
from aotc.dialects.ops.contraction import DotGeneral, free_axes
from aotc.dialects.ops.creation import Constant
from aotc.dialects.ops.selection import Cast
from aotc.dialects.ops.shape import Broadcast
from aotc.dialects.ops.slicing import Concatenate
from aotc.dialects.types import Tensor
from aotc.dialects.walking import backward_slice, in_order
from aotc.dtypes import bits
from aotc.kernels.epilogue import (
    defining_op,
    is_elementwise,
    readable_source,
    sliced_source,
)
from aotc.kernels.families import FAMILIES, ops_before, packing_of
from aotc.kernels.machine import Machine
from aotc.kernels.movement import is_inner
from aotc.kernels.movement.views import view_of
from aotc.kernels.schedules import key_of
from aotc.mlir import Operation, Value

_MOST_TENSORS = 12  # that a region reads and writes
_NARROW = ("i8", "u8")  # of which casts make floats


@dataclass
class Region:
    """An anchor, what is computed from its result, and what its operand is made by.

    Args:
        anchor: the product, or whatever the kernel is for.
        states: values that no region computes, but as its anchor.
        before: the ops that make its operand, in order; no other ops read their values.
        members: the ops after it, in order.
        values: what all of them give.
        reads: what they take from elsewhere, beside the operands of the anchor.
        packed: the operand that the kernel gets packed, so that only the anchor can
            read it; None if there is none.
        columns: the axes of the result along which rows share vectors.
        views: operands of the anchor that its kernel reads through, and what they are
            of.
        reads_columns: whether the kernel reads some columns of wider tensors.
        dtypes: of the elements that its kernel reads and writes.
        second: what the kernel reads in the place of the anchor's second operand, where
            it makes that of it.
    """

    anchor: GraphOp
    states: Container[Value] = ()
    before: list[GraphOp] = field(default_factory=list)
    members: list[GraphOp] = field(default_factory=list)
    values: dict[Value, None] = field(default_factory=dict)
    reads: dict[Value, None] = field(default_factory=dict)
    packed: Value | None = None
    columns: range = range(0)
    views: Mapping[Value, Value] = field(default_factory=dict)
    reads_columns: bool = False
    dtypes: Sequence[str] = ("f32",)
    second: Value | None = None

    @classmethod
    def of(
        cls,
        anchor: GraphOp,
        fused: Fused,
        states: Container[Value],
        machine: Machine,
    ) -> Region:
        """The anchor alone."""
        packed = anchor.operands[1] if packing_of(fused) else None
        rank = Tensor.of(anchor.results[0]).rank
        count = FAMILIES[fused.kernel].column_axes(anchor)
        return cls(
            anchor,
            states,
            values={anchor.results[0]: None},
            packed=packed,
            columns=range(rank - count, rank),
            views=FAMILIES[fused.kernel].views(anchor),
            reads_columns=FAMILIES[fused.kernel].reads_columns and count == 1,
            dtypes=FAMILIES[fused.kernel].dtypes(anchor, machine),
        )

    @property
    def ops(self) -> list[GraphOp]:
        """All of them, in order."""
        return [*self.before, self.anchor, *self.members]

    def operands(self) -> list[Value]:
        """What all of them take from elsewhere, those of the anchor first.

        An operand that the anchor takes twice is there twice: one may be packed.
        """
        first = [self.views.get(value, value) for value in self.anchor.operands]
        if self.second is not None:
            first[1] = self.second
        reads = dict.fromkeys(self.views.get(value, value) for value in self.reads)
        others = [value for value in reads if value not in first]
        return [value for value in (*first, *others) if value not in self.values]

    def tensors(self, reads: Collection[Value]) -> int:
        """How many tensors it reads and writes at most, given what it reads.

        What the ops before the anchor give is read by nothing else, so never written.
        """
        return len(reads) + len(self.values) - len(self.before)

    def key(self, fused: Fused) -> str:
        """What a tuning file calls it; see `aotc.kernels.schedules`."""
        others = [op for op in self.ops if op is not self.anchor]
        return key_of(fused, self.anchor, others, self.views.values())

    @property
    def last(self) -> GraphOp:
        """The op that ends it."""
        return self.members[-1] if self.members else self.anchor

    def results(self) -> list[Value]:
        """The values that others read; of one that is read by none, the last."""
        found = [
            value
            for value in self.values
            if any(not self.computes(use.owner) for use in value.uses)
        ]
        return found or [self.last.results[0]]

    def computes(self, op: Operation) -> bool:
        """Whether an op is a member."""
        return any(value in self.values for value in op.results)

    def is_for_anchor(self, value: Value) -> bool:
        """Whether the kernel has a value in a form that only the anchor can read."""
        is_packed = self.packed is not None and value == self.packed
        return is_packed or value in self.views

    def source_of(self, value: Value) -> Value | None:
        """What the kernel reads for an operand of an op after the anchor, if it can."""
        if self.reads_columns:
            found = sliced_source(value)
            if found is not None and Tensor.of(value).dtype in self.dtypes:
                return found
        return readable_source(value, self.columns, self.dtypes, by_rows=True)

    def depends(self, value: Value) -> bool:
        """Whether a value from elsewhere is computed from one of the region."""
        anchor = self.anchor.operation
        behind = backward_slice([value], lambda x: anchor.is_before_in_block(x.owner))
        return any(each in self.values for each in behind)


def region_at(
    anchor: GraphOp, fused: Fused, states: Container[Value], machine: Machine
) -> Region:
    """The anchor with the elementwise ops after it that can be computed with it."""
    family = FAMILIES[fused.kernel]
    region = Region.of(anchor, fused, states, machine)
    _add_before(region, ops_before(fused, anchor))
    rest = _users(anchor) if family.has_epilogue else []
    while rest:
        op = rest.pop(0)
        if not isinstance(op, GraphOp) or region.computes(op):
            continue
        reads = _reads(op, region)
        if reads is None:
            continue
        region.members.append(op)
        region.values[op.results[0]] = None
        region.reads.update(dict.fromkeys(reads))
        rest = in_order([*rest, *_users(op)])
    if family.prologue_axes is not None:
        rank = Tensor.of(anchor.operands[0]).rank
        columns = range(rank - family.prologue_axes(anchor), rank)
        _add_prologue(region, anchor.operands[0], columns)
    if family.makes_second:
        _add_second(region)
    if isinstance(anchor, Concatenate):
        _add_parts(region, anchor)
        region.views = _views(region, anchor.axis, fused.tile["lanes"])
    return region


def _add_before(region: Region, ops: Sequence[GraphOp]) -> None:
    """Add the ops that a kernel computes before its anchor, and what they read."""
    last = Tensor.of(region.anchor.results[0]).rank - 1
    columns = range(last, last + 1)
    for op in ops:
        region.before.append(op)
        region.values[op.results[0]] = None
        reads = [value for value in op.operands if value not in region.values]
        if is_elementwise(op, region.dtypes):
            found = [readable_source(each, columns, region.dtypes) for each in reads]
            reads = [
                each for each in found if each is not None and not _is_number(each)
            ]
        region.reads.update(dict.fromkeys(reads))


def _add_parts(region: Region, op: Concatenate) -> None:
    """Add the other concatenations of a chain, and what makes their parts."""
    columns = range(op.axis, Tensor.of(op.y).rank)
    for value in op.operands:
        inner = defining_op(value)
        if isinstance(inner, Concatenate) and is_inner(inner):
            region.before.insert(0, inner)
            region.values[value] = None
            _add_parts(region, inner)
        else:
            region.reads[value] = None
            _add_prologue(region, value, columns)


def _views(region: Region, first: int, lanes: int) -> dict[Value, Value]:
    """What is read in the place of the parts of a concatenation, where it is others."""
    found = {}
    for value in (value for op in region.ops for value in op.operands):
        if value not in region.values and not isinstance(defining_op(value), Broadcast):
            view = view_of(value, first, lanes)
            if view is not None and view.source != value:
                found[value] = view.source
    return found


def _add_prologue(region: Region, value: Value, columns: range) -> None:
    """Add the ops that make an operand of the shape of the rows, as far as they can be.

    Nothing else reads what they give.
    """
    op = defining_op(value)
    if not isinstance(op, GraphOp) or not is_elementwise(op, region.dtypes):
        return
    if value in region.values or not all(
        region.computes(use.owner) for use in value.uses
    ):
        return
    found = []
    for operand in op.operands:
        source = readable_source(operand, columns, region.dtypes)
        if source is None or isinstance(defining_op(source), Broadcast):
            return
        found.append(source)
    reads = [each for each in found if not _is_number(each)]
    if region.tensors({*region.reads, *reads}) > _MOST_TENSORS:
        return
    region.before.insert(0, op)
    region.values[value] = None
    region.reads.update(dict.fromkeys(reads))
    for operand in op.operands:
        _add_prologue(region, operand, columns)


def _add_second(region: Region) -> None:
    """Add the ops that make the second operand of fewer bytes, if vectors of it can be.

    One tensor of its shape is read, with columns along the last axes.
    """
    anchor = region.anchor
    if not isinstance(anchor, DotGeneral) or anchor.lhs == anchor.rhs:
        return
    value, kind = anchor.rhs, Tensor.of(anchor.rhs)
    free = free_axes(kind.rank, anchor.rhs_batch, anchor.rhs_contract)
    columns = range(kind.rank - len(free), kind.rank)
    if [*free] != [*columns] or anchor.rhs_batch:
        return
    alone = Region(anchor, values={anchor.y: None}, dtypes=(*region.dtypes, *_NARROW))
    _add_prologue(alone, value, columns)
    reads = [read for read in alone.reads if read not in alone.values]
    whole = [read for read in reads if Tensor.of(read).shape == kind.shape]
    if len(whole) != 1 or bits(Tensor.of(whole[0]).dtype) >= bits(kind.dtype):
        return
    if any(x in region.values for x in reads) or whole[0] in region.reads:
        return
    if any(not isinstance(op, Cast) and _is_narrow(op) for op in alone.before):
        return
    region.before += alone.before
    region.values.update(dict.fromkeys(x for op in alone.before for x in op.results))
    region.reads.update(dict.fromkeys(reads))
    region.second = whole[0]
    region.packed = region.packed and region.second


def _is_narrow(op: GraphOp) -> bool:
    return any(Tensor.of(value).dtype in _NARROW for value in op.operands)


def _users(op: Operation) -> list[Operation]:
    """The ops that read the results of one, in order."""
    return in_order([use.owner.opview for value in op.results for use in value.uses])


def _reads(op: GraphOp, region: Region) -> list[Value] | None:
    """What an op would take from outside of a region; None if it cannot be in it."""
    shape = Tensor.of(region.anchor.results[0]).shape
    if not is_elementwise(op, region.dtypes):
        return None
    if [Tensor.of(y).shape for y in op.results] != [shape]:
        return None
    if op.results[0] in region.states:
        return None
    outside = [value for value in op.operands if value not in region.values]
    sources = [region.source_of(value) for value in outside]
    found = [each for each in sources if each is not None]
    if len(found) < len(sources) or any(map(region.depends, found)):
        return None
    if any(map(region.is_for_anchor, found)):
        return None
    found = [value for value in found if not _is_number(value)]
    if region.tensors({*region.reads, *found}) > _MOST_TENSORS:
        return None
    return found


def _is_number(value: Value) -> bool:
    """Whether a value is a constant without axes, which needs no memory."""
    return isinstance(defining_op(value), Constant) and Tensor.of(value).rank == 0
