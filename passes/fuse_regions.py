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

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from aotc.dialects.builder import Builder
from aotc.dialects.entries import Entry, entries_of
from aotc.dialects.function_table import erase, index_functions, table_of
from aotc.dialects.functions import call, define, find
from aotc.dialects.fusion import Fused, mark_fused
from aotc.dialects.graph import GraphOp, has_effect
from aotc.dialects.ops.contraction import DotGeneral
from aotc.dialects.ops.effects import Effect
from aotc.dialects.symbols import contracts_of, known_contracts
from aotc.dialects.types import Tensor
from aotc.dialects.walking import clone
from aotc.errors import InputError
from aotc.kernels.facts import bytes_of
from aotc.kernels.families import FAMILIES, choose, fetch_ahead, packing_of
from aotc.kernels.listing import note_refusals
from aotc.kernels.machine import Machine, machine_of
from aotc.kernels.schedules import tuned_schedules
from aotc.kernels.scopes import scopes_of
from aotc.kernels.shared_work import note_shared_work
from aotc.kernels.transposes import without_transposes
from aotc.mlir import Function, Operation, Value, ir
from aotc.passes.base import Pass, Unit
from aotc.passes.fold_parameters import folds_parameters
from aotc.passes.regions import Region, region_at

_Anchor: TypeAlias = tuple[GraphOp, Fused]


@dataclass(frozen=True)
class _Choosing:
    """What decides about kernels.

    Args:
        machine: that they are for.
        left_out: families that are not taken.
        numerics: what results may be.
    """

    machine: Machine
    left_out: Container[str]
    numerics: str

    def kernel_for(self, op: GraphOp, weights: Container[Value]) -> Fused | None:
        """The kernel for an op, given which values are weights."""
        by_weight = len(op.operands) > 1 and op.operands[1] in weights
        return choose(
            op,
            self.machine,
            by_weight=by_weight,
            without=self.left_out,
            numerics=self.numerics,
        )


@dataclass(frozen=True)
class FuseRegions(Pass):
    """Form the regions of every entry, and of the loops that it runs.

    There are none where the target has no kernels.

    Args:
        anchors_only: whether a region is a product, or whatever a kernel is for, and
            nothing around it: then `rematerialize` can compute each op again by itself.
        without: families of kernels that are left out, with `+` between.

    Raises:
        InputError: `bad-pass-option`: there is no such family.
    """

    anchors_only: bool = False
    without: str = ""

    name = "fuse-regions"
    level = 2
    keeps_graph = True

    def __post_init__(self) -> None:
        for name in sorted(self._left_out):
            if name not in FAMILIES:
                raise InputError(
                    "bad-pass-option",
                    "expected families of kernels for 'fuse-regions{without=…}', with "
                    f"+ between; got '{name}'",
                    hint=f"there are {', '.join(FAMILIES)}",
                )

    def run(self, unit: Unit) -> bool:
        """Whether there are any."""
        machine = None if unit.target is None else machine_of(unit.target)
        if machine is None:
            return False
        known: dict[str, str] = {}
        tuned = tuned_schedules(unit.program.tuning, str(unit.target), machine)
        with index_functions(unit.module):
            for region, fused in self.regions(unit, machine):
                fused = tuned.choose(fused, region.anchor, region.key(fused))
                outline(region, fused, known)
            note_refusals(
                unit.module,
                machine,
                self._left_out,
                folds_weights=folds_parameters(unit.program),
            )
            note_shared_work(unit.module)
        if unit.program.tuning is not None:
            unit.notes.append(tuned.use(str(unit.target)))
        return bool(known)

    def regions(self, unit: Unit, machine: Machine) -> Iterator[tuple[Region, Fused]]:
        """The regions of a program, with the schedules that the model chooses.

        The caller outlines each before the next. The functions of the module are to be
        indexed (`index_functions`).
        """
        region_of = Region.of if self.anchors_only else region_at
        functions = table_of(unit.module)
        for entry in entries_of(unit.module):
            states = _new_states(functions[entry.name], entry)
            choosing = _Choosing(machine, self._left_out, unit.program.numerics)
            found = _all_anchors(functions, entry, choosing)
            for name, anchors in found.items():
                with known_contracts(contracts_of(functions[name])):
                    for anchor, fused in anchors:
                        yield region_of(anchor, fused, states, machine), fused

    @property
    def _left_out(self) -> frozenset[str]:
        return frozenset(filter(None, self.without.split("+")))


# ---- what becomes a region ----------------------------------------------------------


def _all_anchors(
    functions: Mapping[str, Function],
    entry: Entry,
    choosing: _Choosing,
) -> dict[str, list[_Anchor]]:
    """What kernels compute of an entry and of the bodies of its loops.

    Between two readings of a weight, a step of a loop reads the other weights of the
    body, and a call all there are. What does not stay in the caches until then is
    fetched ahead.
    """
    found = {
        name: _anchors(functions[name], weights, choosing)
        for name, weights in scopes_of(functions, entry.name).items()
    }
    between = {name: _packed_bytes(anchors) for name, anchors in found.items()}
    between[entry.name] = sum(between.values())
    return {
        name: [(op, fetch_ahead(op, fused)) for op, fused in anchors]
        if between[name] > choosing.machine.third_cache
        else anchors
        for name, anchors in found.items()
    }


def _packed_bytes(anchors: list[_Anchor]) -> int:
    """The bytes of what kernels read packed, where they are known."""
    packed = {}
    for op, fused in anchors:
        packing = packing_of(fused)
        if packing is not None:
            size = bytes_of(op.operands[1])
            if isinstance(size, int):
                packed[op.operands[1]] = round(size * packing.growth)
    return sum(packed.values())


def _anchors(
    function: Function,
    weights: Container[Value],
    choosing: _Choosing,
) -> list[_Anchor]:
    """The ops of a function that a kernel computes, in order."""
    with known_contracts(contracts_of(function)):
        return [*_find_anchors(function, weights, choosing)]


def _find_anchors(
    function: Function,
    weights: Container[Value],
    choosing: _Choosing,
) -> Iterator[_Anchor]:
    for op in [*function.entry_block.operations]:
        if not isinstance(op, GraphOp) or has_effect(op):
            continue
        if op.results[0] in weights:
            continue
        dtypes = choosing.machine.dtypes
        if isinstance(op, DotGeneral) and Tensor.of(op.lhs).dtype in dtypes:
            op = without_transposes(op)
        fused = choosing.kernel_for(op, weights)
        if fused is not None:
            yield op, fused


def _new_states(function: Function, entry: Entry) -> set[Value]:
    """What an entry leaves in its states: loops of their own write it in place."""
    *_, end = function.entry_block.operations
    returned = zip(entry.results, end.operands, strict=True)
    return {value for port, value in returned if port.kind == "state"}


# ---- a region as a function ---------------------------------------------------------


def outline(region: Region, fused: Fused, known: dict[str, str]) -> None:
    """Put a call of a region in the place of its ops.

    Args:
        region: the ops.
        fused: how they are computed.
        known: the functions so far, by their text.
    """
    anchor = region.anchor
    results = region.results()
    late = readers_between(anchor, region.last, region.ops)
    with ir.InsertionPoint(region.last), anchor.location:
        name, given = define_region(region, fused)
        made = call(share_function(name, known), given)
    for old, new in zip(results, made, strict=True):
        old.replace_all_uses_with(new)
    after = made[0].owner
    for op in late:
        op.operation.move_after(after)
        after = op.operation
    for op in reversed(region.ops):
        op.operation.erase()


def readers_between(
    first: Operation, last: Operation, own: Sequence[Operation]
) -> list[Operation]:
    """What others compute from results of some ops between two of these, in order.

    What has an effect and comes after one of these is among them: effects keep their
    order.

    Args:
        first: of the ops.
        last: of them, in the same block.
        own: all of them.
    """
    computed = {value for op in own for value in op.results}
    found: list[Operation] = []
    known, after_effect = {*computed}, False
    for op in _ops_between(first, last):
        if any(value in computed for value in op.results):
            continue
        is_effect = isinstance(op, Effect)
        if any(x in known for x in op.operands) or (is_effect and after_effect):
            found.append(op)
            known.update(op.results)
            after_effect = after_effect or is_effect
    return found


def _ops_between(first: Operation, last: Operation) -> list[Operation]:
    """The ops of a block after one and before another."""
    if first == last:
        return []
    ops: list[Operation] = list(first.operation.block.operations)
    places = [ops.index(each) for each in (first, last)]
    return ops[places[0] + 1 : places[1]]


def define_region(region: Region, fused: Fused) -> tuple[str, list[Value]]:
    """The function of a region, and what to call it with at the insertion point.

    Args:
        region: its ops.
        fused: how it is computed.
    """
    anchor, operands, results = region.anchor, region.operands(), region.results()
    given = [*operands]
    packing = packing_of(fused)
    if packing is not None:
        given[1] = packing.pack(Builder(), anchor)

    def body(arguments: list[Value]) -> list[Value]:
        # what is there twice is the anchor's: the first is as it is, the second packed
        pairs = zip(reversed(operands), reversed(arguments), strict=True)
        values = dict(pairs)
        for op in region.ops:
            taken = [_copied(value, values) for value in op.operands]
            if op is anchor and packing is not None:
                unpacked = packing.unpack(Builder(), anchor, arguments[1])
                taken = [taken[0], unpacked]
            copied = clone(op, taken)
            values.update(zip(op.results, copied, strict=True))
        return [values[each] for each in results]

    name = define(fused.kernel, [Tensor.of(value) for value in given], body)
    mark_fused(find(name), fused)
    return name, given


def share_function(name: str, known: dict[str, str]) -> str:
    """A function like the one called `name`, which goes if there is an earlier one.

    Args:
        name: of a function without readers.
        known: the functions so far, by their text.
    """
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
