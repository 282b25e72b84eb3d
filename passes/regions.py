"""Regions: an anchor and the elementwise ops around it, which one kernel computes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from aotc.core.dtypes import bits
from aotc.dialects.builder import Builder
from aotc.dialects.functions.functions import before
from aotc.dialects.functions.fusion import Fused
from aotc.dialects.functions.walking import (
    backward_slice,
    defining_op,
    has_one_use,
    in_order,
    users_of,
)
from aotc.dialects.graph import GraphOp
from aotc.dialects.ops.quantization import Dequantize, Lookup
from aotc.dialects.ops.reduction import Reduction
from aotc.dialects.ops.selection import Cast
from aotc.dialects.patterns.values import made_by
from aotc.dialects.types import Tensor
from aotc.kernels.capabilities import Capabilities
from aotc.kernels.elementwise import CONDITION, NARROW, Elementwise, condition_of
from aotc.kernels.family import KernelFamily, Packing
from aotc.kernels.operands import is_repeated, viewed_operand
from aotc.kernels.planning.dequantized import blocks_of, rounded_rows
from aotc.kernels.schedules import key_of
from aotc.mlir import Operation, Value
from aotc.passes.widening import widens


@dataclass
class Region:
    """A region to outline: an anchor op, its epilogue, and the ops that compute its
    operands.

    Args:
        anchor: the product, or whatever the kernel is for.
        fused: its kernel.
        capabilities: of the target.
        states: values that no region computes, but as its anchor.
        before: the ops that make its operand, in order; no other ops read their values.
        members: the ops after it, in order.
        values: what all of them give.
        reads: what they take from elsewhere, beside the operands of the anchor.
        views: operands of the anchor that its kernel reads through, and what they are
            of.
        second: the anchor's second operand, if it has one, or what the kernel reads in
            the place of that, and makes it of.
        blocks: what there is for each block of that, if it is dequantised.
    """

    anchor: GraphOp
    fused: Fused
    capabilities: Capabilities
    states: Container[Value] = ()
    before: list[GraphOp] = field(default_factory=list)
    members: list[GraphOp] = field(default_factory=list)
    values: dict[Value, None] = field(default_factory=dict)
    reads: dict[Value, None] = field(default_factory=dict)
    views: Mapping[Value, Value] = field(default_factory=dict)
    second: Value | None = None
    blocks: tuple[Value, ...] = ()

    @classmethod
    def of(
        cls,
        anchor: GraphOp,
        fused: Fused,
        states: Container[Value],
        capabilities: Capabilities,
    ) -> Region:
        """Return the region of the anchor alone, without neighbouring ops."""
        found = cls(anchor, fused, capabilities, states)
        found.values[anchor.results[0]] = None
        if found.family.all_results:
            read = (x for x in anchor.results if any(True for _ in x.uses))
            found.values.update(dict.fromkeys(read))
        found.second = anchor.operands[1] if len(anchor.operands) > 1 else None
        found.views = found.family.views(anchor)
        return found

    @property
    def family(self) -> KernelFamily[Any, Any]:
        """The kernel family of the region."""
        return self.capabilities.family_of(self.fused)

    @property
    def packing(self) -> Packing | None:
        """The packed layout of the second operand; None if the kernel reads it in
        place.
        """
        return self.family.packing_of(self.fused)

    @property
    def packed(self) -> Value | None:
        """The operand that is passed packed; None if there is none."""
        return self.second if self.packing else None

    @cached_property
    def epilogue(self) -> Elementwise:
        """The elementwise ops that the kernel can compute after the anchor."""
        return self.family.epilogue_of(self.anchor, self.capabilities.machine)

    @property
    def ops(self) -> list[GraphOp]:
        """All ops of the region in program order."""
        return [*self.before, self.anchor, *self.members]

    def operands(self) -> list[Value]:
        """Return the values that the region reads from outside, those of the anchor
        first.

        An operand that the anchor takes twice is there twice: one may be packed. What
        a kernel knows without memory is not there.
        """
        first = [self.views.get(value, value) for value in self.anchor.operands]
        if self.second is not None:
            first[1] = self.views.get(self.second, self.second)
        if self.family.knows_constants:
            first = [value for value in first if viewed_operand(value).in_memory]
        reads = dict.fromkeys(self.views.get(value, value) for value in self.reads)
        others = [value for value in reads if value not in first]
        return [value for value in (*first, *others) if value not in self.values]

    def key(self) -> str:
        """Return the key under which tuning files store the region's schedule."""
        others = [op for op in self.ops if op is not self.anchor]
        return key_of(self.fused, self.family, self.anchor, others, self.views.values())

    @property
    def last(self) -> GraphOp:
        """The last op of the region: of the epilogue, or the anchor."""
        return self.members[-1] if self.members else self.anchor

    def results(self) -> list[Value]:
        """Return the region's values used outside; the last op's result if none is."""
        found = [
            value
            for value in self.values
            if any(not self.computes(use.owner) for use in value.uses)
        ]
        return found or [self.last.results[0]]

    def computes(self, op: Operation) -> bool:
        """Return whether an op belongs to the region."""
        return any(value in self.values for value in op.results)

    def is_for_anchor(self, value: Value) -> bool:
        """Return whether a value is passed packed or as a view, so that only the anchor
        can read it.
        """
        is_packed = self.packed is not None and value == self.packed
        return is_packed or value in self.views

    def holds(self, reads: Collection[Value]) -> bool:
        """Return whether the region with additional `reads` binds few enough
        tensors.
        """
        read, emitted = {*self.reads, *reads}, self.capabilities.emitted
        if emitted.on_gpus:
            read.update(self.anchor.operands)
        tensors = len(read - self.values.keys()) + len(self.results())
        return tensors <= emitted.most_tensors

    def source(self, value: Value) -> Value | None:
        """Return the tensor that the kernel reads directly in place of a view; None for
        other values.
        """
        source = self.family.source
        if source is None:
            return None
        return source(self.anchor, self.family.schedule_of(self.fused), value)

    def depends(self, value: Value) -> bool:
        """Return whether a value from outside is computed from one of the region's."""
        first = (*self.before, self.anchor)[0].operation  # sums before it have readers
        behind = backward_slice([value], lambda x: first.is_before_in_block(x.owner))
        return any(each in self.values for each in behind)


def region_at(
    anchor: GraphOp, fused: Fused, states: Container[Value], capabilities: Capabilities
) -> Region:
    """Build the region of an anchor with all neighbouring elementwise ops that its
    kernel can fuse.
    """
    region = Region.of(anchor, fused, states, capabilities)
    _add_before(region)
    rest = in_order(users_of(anchor.results)) if region.family.epilogue else []
    while rest:
        op = rest.pop(0)
        if not isinstance(op, GraphOp) or region.computes(op):
            continue
        # a comparison may be both
        made = in_order([*_condition(op, region), *_widening(op, region)])
        if not (_add(region, [*made, op]) or _add(region, [op])):
            continue
        rest = in_order([*rest, *users_of(op.results)])
    _drop_widened(region)
    _leave_widening_to_readers(region)
    _leave_to_readers(region)
    if region.family.is_part is not None:
        _add_parts(region, anchor, region.family.is_part)
        region.views = _views(region)
    elif region.family.prologue:
        _add_prologues(region)
    _add_second(region)
    return region


def _add(region: Region, ops: Sequence[GraphOp]) -> bool:
    """Add epilogue ops to a region; return False, leaving it as it was, if the kernel
    cannot.

    Args:
        region: of the anchor.
        ops: in order; what those before the last give, nothing else reads.
    """
    reads = dict(region.reads)
    conditions = {made.y for made in map(condition_of, ops) if made is not None}
    for place, op in enumerate(ops):
        is_condition = any(value in conditions for value in op.results)
        found = _reads(op, region, is_condition=is_condition)
        if found is None:
            for added in ops[:place]:
                del region.values[added.results[0]]
            region.reads = reads
            return False
        region.values[op.results[0]] = None
        region.reads = {**region.reads, **dict.fromkeys(found)}
    region.members += ops
    return True


def _condition(op: GraphOp, region: Region) -> list[GraphOp]:
    """Return a comparison that an op needs in the region, as a list; empty if it is
    there.
    """
    made = condition_of(op)
    return [] if made is None or region.computes(made) else [made]


def _widening(op: GraphOp, region: Region) -> list[GraphOp]:
    """Return the casts and scalings from narrow integers that make an op's operands, in
    order.
    """
    found: dict[GraphOp, None] = {}
    for value in op.operands:
        steps: list[GraphOp] = []
        while value not in region.values and Tensor.of(value).dtype not in NARROW:
            inner = defining_op(value)
            if not isinstance(inner, GraphOp) or not region.epilogue.takes(inner):
                break
            if not has_one_use(value) or value in region.states:
                break
            steps.insert(0, inner)
            others = [x for x in inner.operands if not is_repeated(x)]
            if len(others) != 1:
                break
            (value,) = others
        else:
            found.update(dict.fromkeys(steps))
    return [*found]


def _drop_widened(region: Region) -> None:
    """Drop epilogue ops that only widen bytes: readers do so, and less memory is
    written.

    Whoever reads the bytes can do that: fewer of them go through memory.
    """
    narrow: set[Value] = set()
    kept: list[GraphOp] = []
    for op in region.members:
        (value,) = op.results
        wide = [x for x in op.operands if not is_repeated(x) and x not in narrow]
        if Tensor.of(value).dtype in NARROW or all(
            Tensor.of(operand).dtype in NARROW for operand in wide
        ):
            narrow.add(value)
    for op in reversed(region.members):
        (value,) = op.results
        is_read = any(region.computes(use.owner) for use in value.uses)
        if value in narrow and Tensor.of(value).dtype not in NARROW and not is_read:
            del region.values[value]
        else:
            kept.insert(0, op)
    _keep(region, kept)


def _leave_to_readers(region: Region) -> None:
    """Drop cheap epilogue ops that only add results and that readers can recompute.

    What they are computed from is written anyway, and their readers are elementwise or
    add them up: so the derivative of a batch norm reads what flows back once, and not
    each product with it that it adds up.
    """
    kept = list[GraphOp]()
    for op in reversed(region.members):
        (value,) = op.results
        own = [x for x in op.operands if x in region.values]
        readers = [use.owner.opview for use in value.uses]
        if (
            not _is_costly(op)
            and own
            and all(_is_made_of_results(x, region) for x in own)
            and all(_makes_elements(x, value) for x in readers)
            and not any(map(region.computes, readers))
        ):
            del region.values[value]
        else:
            kept.insert(0, op)
    _keep(region, kept)


def _leave_widening_to_readers(region: Region) -> None:
    """Drop casts from 16-bit floats to f32 at the region's end; readers widen instead.

    Their readers widen what they read, which is half as much.
    """
    kept = list[GraphOp]()
    for op in reversed(region.members):
        (value,) = op.results
        readers = [use.owner.opview for use in value.uses]
        if (
            isinstance(op, Cast)
            and widens(op)
            and op.x in region.values
            and not any(map(region.computes, readers))
            and all(_computes_operand(x, region) for x in readers)
        ):
            del region.values[value]
        else:
            kept.insert(0, op)
    _keep(region, kept)


def _computes_operand(reader: object, region: Region) -> bool:
    """Return whether a reader can fuse the elementwise op of one of its operands."""
    if not isinstance(reader, GraphOp):
        return False
    families = region.capabilities.families_for(type(reader))
    return type(reader).on_scalars or any(each.prologue for _, each in families)


def _is_costly(op: GraphOp) -> bool:
    """Return whether an op takes more than one instruction for each vector."""
    return type(op).is_approximated or isinstance(op, Lookup)


def _is_made_of_results(value: Value, region: Region) -> bool:
    """Return whether a value is, or is cheap to compute from, values written to
    memory.
    """
    if any(not region.computes(use.owner) for use in value.uses):
        return True
    op = defining_op(value)
    if not isinstance(op, GraphOp) or op == region.anchor or _is_costly(op):
        return False
    own = [x for x in op.operands if x in region.values]
    return bool(own) and all(_is_made_of_results(x, region) for x in own)


def _makes_elements(reader: object, value: Value) -> bool:
    """Return whether a reader is elementwise or a reduction, so that it can fuse
    `value`.
    """
    if isinstance(reader, Reduction):
        return True
    if not isinstance(reader, GraphOp) or not type(reader).on_scalars:
        return False
    return all(Tensor.of(x).shape == Tensor.of(value).shape for x in reader.results)


def _keep(region: Region, kept: list[GraphOp]) -> None:
    """Replace the region's epilogue by the ops in `kept`; recompute its reads."""
    if len(kept) == len(region.members):
        return
    region.members, region.reads = kept, {}
    for op in region.before:
        region.reads.update(dict.fromkeys(_reads_before(op, region)))
    for op in kept:
        found = _reads(op, region, is_condition=True)
        region.reads.update(dict.fromkeys(found or ()))


def _prologue_of(region: Region, value: Value) -> Elementwise:
    """Return which elementwise ops the kernel can fuse into an operand of the
    anchor.
    """
    machine = region.capabilities.machine
    return region.family.prologue_of(region.anchor, value, machine)


def _add_before(region: Region) -> None:
    """Add the ops that the family computes before its anchor, with their reads."""
    for op in region.family.ops_before(region.anchor):
        region.before.append(op)
        region.values[op.results[0]] = None
        region.reads.update(dict.fromkeys(_reads_before(op, region)))


def _reads_before(op: GraphOp, region: Region) -> list[Value]:
    """Return the values that an op before the anchor reads from outside the region."""
    reads = [value for value in op.operands if value not in region.values]
    prologue = _prologue_of(region, op.results[0])
    if prologue.lifts is not None:
        viewed = map(viewed_operand, reads)
        return [each.source for each in viewed if each.in_memory]
    if prologue.takes(op):
        found = [prologue.operand(each) for each in reads]
        return [x.source for x in found if x is not None and x.in_memory]
    return reads


def _add_parts(region: Region, op: GraphOp, is_part: Callable[[GraphOp], bool]) -> None:
    """Add the family's inner ops that the anchor is composed of, with their
    prologues.
    """
    for value in op.operands:
        inner = defining_op(value)
        if isinstance(inner, GraphOp) and is_part(inner):
            region.before.insert(0, inner)
            region.values[value] = None
            _add_parts(region, inner, is_part)
        else:
            region.reads[value] = None
            _add_prologue(region, value, _prologue_of(region, value))


def _views(region: Region) -> dict[Value, Value]:
    """Return the operands that are views, each with the tensor that the kernel reads
    instead.
    """
    found = {}
    for value in (value for op in region.ops for value in op.operands):
        if value not in region.values and not is_repeated(value):
            source = region.source(value)
            if source is not None and source != value:
                found[value] = source
    return found


def _add_prologues(region: Region) -> None:
    """Add the elementwise ops that compute the anchor's operands, also through a
    view.
    """
    operands = list(region.anchor.operands)
    computed = region.family.computed(region.anchor)
    kept = [value for value in operands if value not in computed]
    for operand in computed:
        view, value = defining_op(operand), region.views.get(operand)
        if value is None:
            _add_prologue(region, operand, _prologue_of(region, operand), kept)
        elif has_one_use(operand):
            assert isinstance(view, GraphOp)
            _add_behind(region, view, value, kept)


def _add_behind(
    region: Region, view: GraphOp, value: Value, excluded: Collection[Value]
) -> None:
    """Add a view, and the elementwise ops that compute its source, if there are any."""
    region.before.insert(0, view)
    region.values[view.results[0]] = None
    _add_prologue(region, value, _prologue_of(region, value), excluded)
    if value in region.values:
        others = {x: y for x, y in region.views.items() if x != view.results[0]}
        region.views = others
    else:
        region.before.remove(view)
        del region.values[view.results[0]]


def _add_prologue(
    region: Region,
    value: Value,
    prologue: Elementwise,
    excluded: Collection[Value] = (),
) -> None:
    """Add the elementwise ops that compute an operand, recursively, while the kernel
    can.

    Nothing else reads what they give, which is none of the values that are `excluded`.
    """
    op = defining_op(value)
    if not isinstance(op, GraphOp) or not prologue.takes(op):
        return
    if value in region.values or value in excluded:
        return
    if not all(region.computes(use.owner) for use in value.uses):
        return
    condition = condition_of(op)
    made = [op] if condition is None else [condition, op]
    given = [each.results[0] for each in made]
    operands = [x for each in made for x in each.operands if x not in given]
    found = [prologue.operand(operand) for operand in operands]
    if any(read is None or is_repeated(read.source) for read in found):
        return
    reads = [read.source for read in found if read is not None and read.in_memory]
    if not region.holds(reads):
        return
    region.before[:0] = made
    region.values.update(dict.fromkeys(given))
    region.reads.update(dict.fromkeys(reads))
    for operand in operands:
        _add_prologue(region, operand, prologue, excluded)


def _add_second(region: Region) -> None:
    """Add the ops that widen the second operand from fewer bytes, if the kernel can.

    One tensor of its shape is read.
    """
    anchor, machine = region.anchor, region.capabilities.machine
    if region.packing is not None and region.packing.blocks is not None:
        _add_dequantized(region)
        return
    prologue = region.family.second_of(anchor, region.fused, machine)
    if prologue is None or anchor.operands[0] == anchor.operands[1]:
        return
    kind = Tensor.of(anchor.operands[1])
    alone = Region(anchor, region.fused, region.capabilities)
    alone.values[anchor.results[0]] = None
    _add_prologue(alone, anchor.operands[1], prologue)
    reads = [read for read in alone.reads if read not in alone.values]
    whole = [read for read in reads if Tensor.of(read).shape == kind.shape]
    if len(whole) != 1 or bits(Tensor.of(whole[0]).dtype) >= bits(kind.dtype):
        return
    if any(x in region.values for x in reads) or whole[0] in region.reads:
        return
    made = [x for op in alone.before for x in op.results]
    lies_in_memory = anchor.operands[0] not in made  # as the kernel reads it
    if not (lies_in_memory and region.holds(reads)):
        return
    region.before += alone.before
    region.values.update(dict.fromkeys(made))
    region.reads.update(dict.fromkeys(reads))
    region.second = whole[0]


def _add_dequantized(region: Region) -> None:
    """Copy the op that dequantises the second operand into the region, for this kernel
    alone.
    """
    anchor = region.anchor
    table = made_by(anchor.operands[1], Dequantize)
    assert table is not None
    b, known = Builder(), region.capabilities.machine.dtypes

    def own_value(x: Value) -> Value:
        """Return a value that only this kernel packs, in a dtype that it reads."""
        dtype = Tensor.of(x).dtype
        if dtype in known and x not in region.reads:
            return x
        found: Value = b.cast(x, dtype=dtype if dtype in known else "f32")
        return found

    def own_part(x: Value) -> Value:
        """Copy a scale or offset for the kernel, dequantised inside if nested."""
        nested = made_by(x, Dequantize)
        return own_value(x) if nested is None else own_table(nested)

    def own_table(table: Dequantize) -> Value:
        scale, offset = map(own_part, (table.scale, table.offset))
        own: Value = b.dequantize(
            table.q, scale, offset, axis=table.axis, bits=table.bits
        )
        region.before.append(own.owner.opview)
        region.values[own] = None
        return own

    with before(anchor):
        own = own_table(table)
    anchor.operation.operands[1] = own
    _erase_unread_tables(table)
    region.second = own.owner.operands[0]
    region.blocks = tuple(dict.fromkeys(blocks_of(anchor)))
    region.reads.update(dict.fromkeys(region.blocks))
    rounded = rounded_rows(anchor)
    if rounded is not None:
        region.reads[rounded.scale] = None


def _erase_unread_tables(table: Dequantize) -> None:
    """Erase a `dequantize` op without uses, and those of its scales."""
    if any(True for _ in table.y.uses):
        return
    parts = dict.fromkeys((table.scale, table.offset))
    nested = [made_by(part, Dequantize) for part in parts]
    table.operation.erase()
    for each in filter(None, nested):
        _erase_unread_tables(each)


def _reads(
    op: GraphOp, region: Region, *, is_condition: bool = False
) -> list[Value] | None:
    """Return what an epilogue op would read from outside; None if the region cannot
    hold it.

    Args:
        op: that follows the anchor.
        region: of the anchor.
        is_condition: whether what it gives is read by the next op of the region alone.
    """
    shape = Tensor.of(region.anchor.results[0]).shape
    if not region.epilogue.takes(op):
        return None
    if [Tensor.of(y).shape for y in op.results] != [shape]:
        return None
    if op.results[0] in region.states:
        return None
    if Tensor.of(op.results[0]).dtype == CONDITION and not is_condition:
        return None
    outside = [value for value in op.operands if value not in region.values]
    found = [region.epilogue.operand(value) for value in outside]
    read = [each for each in found if each is not None]
    sources = [each.source for each in read]
    if len(read) < len(found) or any(map(region.depends, sources)):
        return None
    if any(map(region.is_for_anchor, sources)):
        return None
    reads = [each.source for each in read if each.in_memory]
    return reads if region.holds(reads) else None
