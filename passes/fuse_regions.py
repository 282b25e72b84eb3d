"""Outline what one kernel of the target computes: a product and what follows it.

    %0 = graph.dot_general(%x, %w)              %p = graph.transpose(graph.reshape(%w))
    %1 = graph.add(%0, graph.broadcast(%b))  →  %2 = call @contraction(%x, %p, %b)
    %2 = graph.relu(%1)

The function keeps the ops, after those that undo the packing of the right operand; the
attribute `graph.fused` says how it is cut up for the target. What packs a weight is
arithmetic on parameters, which `fold-parameters` does at build time.

Requires: derivatives are written (autodiff): a region is differentiated by no one.
Ensures: regions of one meaning and one schedule are one function.
"""

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from aotc.dialects.builder import Builder
from aotc.dialects.entries import Entry, entries_of
from aotc.dialects.function_table import erase, index_functions
from aotc.dialects.functions import call, define, find, functions_of
from aotc.dialects.fusion import Fused, mark_fused
from aotc.dialects.graph import GraphOp, has_effect
from aotc.dialects.ops.contraction import DotGeneral
from aotc.dialects.ops.creation import Constant
from aotc.dialects.ops.effects import Effect
from aotc.dialects.ops.shape import Broadcast
from aotc.dialects.symbols import contracts_of, known_contracts
from aotc.dialects.types import Tensor, element_count
from aotc.dialects.walking import clone, in_order
from aotc.kernels.epilogue import defining_op, readable_source
from aotc.kernels.families import FAMILIES, choose, fetch_ahead, is_packed
from aotc.kernels.listing import note_refusals
from aotc.kernels.machine import Machine, machine_of
from aotc.kernels.packing import pack, unpack
from aotc.kernels.scopes import scopes_of
from aotc.kernels.shared_work import note_shared_work
from aotc.kernels.tile import Tile
from aotc.kernels.transposes import without_transposes
from aotc.mlir import Function, Operation, Value, ir
from aotc.passes.base import Pass, Unit

_MOST_TENSORS = 12  # that a region reads and writes

_Anchor: TypeAlias = tuple[GraphOp, Fused]


@dataclass(frozen=True)
class FuseRegions(Pass):
    """Form the regions of every entry, and of the loops that it runs.

    There are none where the target has no kernels.

    Args:
        anchors_only: whether a region is a product, or whatever a kernel is for, and
            nothing around it: then `rematerialize` can compute each op again by itself.
        without: families of kernels that are left out, with `+` between.
    """

    anchors_only: bool = False
    without: str = ""

    name = "fuse-regions"
    level = 2
    keeps_graph = True

    def run(self, unit: Unit) -> bool:
        """Whether there are any."""
        machine = None if unit.target is None else machine_of(unit.target)
        if machine is None:
            return False
        known: dict[str, str] = {}
        left_out = frozenset(self.without.split("+"))
        region_of = _Region.of if self.anchors_only else _region_at
        functions = functions_of(unit.module)
        with index_functions(unit.module):
            for entry in entries_of(unit.module):
                states = _new_states(functions[entry.name], entry)
                for name, anchors in _all_anchors(
                    functions, entry, machine, left_out
                ).items():
                    with known_contracts(contracts_of(functions[name])):
                        for anchor, fused in anchors:
                            region = region_of(anchor, fused, states)
                            _outline(region, fused, known)
            note_refusals(unit.module, machine, left_out)
            note_shared_work(unit.module)
        return bool(known)


# ---- what becomes a region ----------------------------------------------------------


def _all_anchors(
    functions: Mapping[str, Function],
    entry: Entry,
    machine: Machine,
    left_out: Container[str],
) -> dict[str, list[_Anchor]]:
    """What kernels compute of an entry and of the bodies of its loops.

    Between two readings of a weight, a step of a loop reads the other weights of the
    body, and a call all there are. What does not stay in the caches until then is
    fetched ahead.
    """
    found = {
        name: _anchors(functions[name], weights, machine, left_out)
        for name, weights in scopes_of(functions, entry.name).items()
    }
    between = {name: _packed_bytes(anchors) for name, anchors in found.items()}
    between[entry.name] = sum(between.values())
    return {
        name: [(op, fetch_ahead(op, fused)) for op, fused in anchors]
        if between[name] > machine.third_cache
        else anchors
        for name, anchors in found.items()
    }


def _packed_bytes(anchors: list[_Anchor]) -> int:
    """The bytes of what kernels read packed, where they are known."""
    packed = {op.operands[1] for op, fused in anchors if is_packed(fused)}
    sizes = [element_count(Tensor.of(value).shape) for value in packed]
    return sum(4 * size for size in sizes if isinstance(size, int))


def _anchors(
    function: Function,
    weights: Container[Value],
    machine: Machine,
    left_out: Container[str],
) -> list[_Anchor]:
    """The ops of a function that a kernel computes, in order."""
    with known_contracts(contracts_of(function)):
        return [*_find_anchors(function, weights, machine, left_out)]


def _find_anchors(
    function: Function,
    weights: Container[Value],
    machine: Machine,
    left_out: Container[str],
) -> Iterator[_Anchor]:
    for op in [*function.entry_block.operations]:
        if not isinstance(op, GraphOp) or has_effect(op):
            continue
        if op.results[0] in weights:
            continue
        if isinstance(op, DotGeneral) and Tensor.of(op.lhs).dtype == "f32":
            op = without_transposes(op)
        by_weight = len(op.operands) > 1 and op.operands[1] in weights
        fused = choose(op, machine, by_weight=by_weight, without=left_out)
        if fused is not None:
            yield op, fused


def _new_states(function: Function, entry: Entry) -> set[Value]:
    """What an entry leaves in its states: loops of their own write it in place."""
    *_, end = function.entry_block.operations
    returned = zip(entry.results, end.operands, strict=True)
    return {value for port, value in returned if port.kind == "state"}


@dataclass
class _Region:
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

    @classmethod
    def of(cls, anchor: GraphOp, fused: Fused, states: Container[Value]) -> "_Region":
        """The anchor alone."""
        packed = anchor.operands[1] if is_packed(fused) else None
        rank = Tensor.of(anchor.results[0]).rank
        count = FAMILIES[fused.kernel].column_axes(anchor)
        return cls(
            anchor,
            states,
            values={anchor.results[0]: None},
            packed=packed,
            columns=range(rank - count, rank),
            views=FAMILIES[fused.kernel].views(anchor),
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
        others = [value for value in self.reads if value not in first]
        return [value for value in (*first, *others) if value not in self.values]

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

    def depends(self, value: Value) -> bool:
        """Whether a value from elsewhere is computed from one of the region."""
        rest, seen = [value], set()
        while rest:
            each = rest.pop()
            if each in self.values:
                return True
            if each not in seen and _is_after(self.anchor, each):
                seen.add(each)
                rest += each.owner.operands
        return False


def _is_after(anchor: GraphOp, value: Value) -> bool:
    """Whether a value of the same block is computed after an op."""
    owner = value.owner
    return not isinstance(owner, ir.Block) and anchor.operation.is_before_in_block(
        owner
    )


def _region_at(anchor: GraphOp, fused: Fused, states: Container[Value]) -> _Region:
    """The anchor with the elementwise ops after it that can be computed with it."""
    family = FAMILIES[fused.kernel]
    region = _Region.of(anchor, fused, states)
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
    return region


def _add_prologue(region: _Region, value: Value, columns: range) -> None:
    """Add the ops that make an operand of the shape of the rows, as far as they can be.

    Nothing else reads what they give.
    """
    op = defining_op(value)
    if not isinstance(op, GraphOp) or not type(op).on_vectors:
        return
    if value in region.values or not all(
        region.computes(use.owner) for use in value.uses
    ):
        return
    found = []
    for operand in op.operands:
        source = readable_source(operand, columns)
        if source is None or isinstance(defining_op(source), Broadcast):
            return
        found.append(source)
    reads = [each for each in found if not _is_number(each)]
    if len({*region.reads, *reads}) + len(region.values) > _MOST_TENSORS:
        return
    region.before.insert(0, op)
    region.values[value] = None
    region.reads.update(dict.fromkeys(reads))
    for operand in op.operands:
        _add_prologue(region, operand, columns)


def _users(op: Operation) -> list[Operation]:
    """The ops that read the results of one, in order."""
    return in_order([use.owner.opview for value in op.results for use in value.uses])


def _reads(op: GraphOp, region: _Region) -> list[Value] | None:
    """What an op would take from outside of a region; None if it cannot be in it."""
    kind = Tensor.of(region.anchor.results[0])
    if not type(op).on_vectors or [Tensor.of(y) for y in op.results] != [kind]:
        return None
    if op.results[0] in region.states:
        return None
    outside = [value for value in op.operands if value not in region.values]
    sources = [readable_source(value, region.columns) for value in outside]
    found = [each for each in sources if each is not None]
    if len(found) < len(sources) or any(map(region.depends, found)):
        return None
    if any(map(region.is_for_anchor, found)):
        return None
    found = [value for value in found if not _is_number(value)]
    if len({*region.reads, *found}) + len(region.values) > _MOST_TENSORS:
        return None
    return found


def _is_number(value: Value) -> bool:
    """Whether a value is a constant without axes, which needs no memory."""
    return isinstance(defining_op(value), Constant) and Tensor.of(value).rank == 0


# ---- a region as a function ---------------------------------------------------------


def _outline(region: _Region, fused: Fused, known: dict[str, str]) -> None:
    """Put a call of a region in the place of its ops.

    Args:
        region: the ops.
        fused: how they are computed.
        known: the functions so far, by their text.
    """
    anchor = region.anchor
    late, results = _readers_before_end(region), region.results()
    with ir.InsertionPoint(region.last), anchor.location:
        operands = region.operands()
        given = [*operands]
        if region.packed is not None:
            given[1] = pack(Builder(), anchor, Tile.of_plain(fused.tile))
        name = _define(region, operands, given, results, fused)
        made = call(_shared(name, known), given)
    for old, new in zip(results, made, strict=True):
        old.replace_all_uses_with(new)
    after = made[0].owner
    for op in late:
        op.operation.move_after(after)
        after = op.operation
    for op in reversed(region.ops):
        op.operation.erase()


def _readers_before_end(region: _Region) -> list[Operation]:
    """What others compute from values of a region before it ends, in order.

    What has an effect and comes after one of these is among them: effects keep their
    order.
    """
    found: list[Operation] = []
    if not region.members:
        return found
    values, after_effect = set(region.values), False
    for op in _ops_between(region.anchor, region.last):
        if region.computes(op):
            continue
        is_effect = isinstance(op, Effect)
        if any(x in values for x in op.operands) or (is_effect and after_effect):
            found.append(op)
            values.update(op.results)
            after_effect = after_effect or is_effect
    return found


def _ops_between(first: GraphOp, last: GraphOp) -> list[Operation]:
    """The ops of a block after one and before another."""
    ops: list[Operation] = list(first.operation.block.operations)
    places = [ops.index(each) for each in (first, last)]
    return ops[places[0] + 1 : places[1]]


def _define(
    region: _Region,
    operands: list[Value],
    given: list[Value],
    results: list[Value],
    fused: Fused,
) -> str:
    """The function of a region.

    Args:
        region: its ops.
        operands: what they read from elsewhere.
        given: what is given for that; the second may be packed.
        results: the values that it returns.
        fused: how it is computed.
    """
    anchor = region.anchor

    def body(arguments: list[Value]) -> list[Value]:
        # what is there twice is the anchor's: the first is as it is, the second packed
        pairs = zip(reversed(operands), reversed(arguments), strict=True)
        values = dict(pairs)
        for op in region.ops:
            given = [_copied(value, values) for value in op.operands]
            if op is anchor and region.packed is not None:
                tile = Tile.of_plain(fused.tile)
                given = [given[0], unpack(Builder(), anchor, arguments[1], tile)]
            copied = clone(op, given)
            values.update(zip(op.results, copied, strict=True))
        return [values[each] for each in results]

    name = define(fused.kernel, [Tensor.of(value) for value in given], body)
    mark_fused(find(name), fused)
    return name


def _shared(name: str, known: dict[str, str]) -> str:
    """A function like the one called `name`, which goes if there is an earlier one."""
    function = find(name)
    # by itself: aliases are looked for in the whole module, a hundred times as long
    text = function.operation.get_asm(use_local_scope=True)
    text = text.replace(f"@{name}(", "@(", 1)
    if text in known:
        erase(function)
    return known.setdefault(text, name)


def _copied(value: Value, values: dict[Value, Value]) -> Value:
    """A value in the function of a region; what it repeats is written there again."""
    if value not in values:
        op = value.owner.opview
        (values[value],) = clone(op, [_copied(each, values) for each in op.operands])
    return values[value]
