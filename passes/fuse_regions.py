"""Outline regions that one kernel of the target computes: a product and its epilogue.

    %0 = graph.dot_general(%x, %w)              %p = graph.transpose(graph.reshape(%w))
    %1 = graph.add(%0, graph.broadcast(%b))  →  %2 = call @contraction(%x, %p, %b)
    %2 = graph.relu(%1)

The function keeps the ops, after those that undo the packing of the right operand; the
attribute `graph.fused` says how it is cut up for the target. What packs a weight is
arithmetic on parameters, which `fold-parameters` does at build time.

A region is differentiated by no one, so derivatives are written before.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from aotc.core.dtypes import INTEGERS
from aotc.dialects.functions.entries import Entry, entries_of, weight_ports
from aotc.dialects.functions.function_table import erase, index_functions, table_of
from aotc.dialects.functions.functions import callee_of, functions_of
from aotc.dialects.functions.fusion import Fused, is_region
from aotc.dialects.graph import GraphOp, has_effect
from aotc.dialects.ops.contraction import DotGeneral
from aotc.dialects.ops.quantization import Dequantize
from aotc.dialects.ops.shape import Transpose
from aotc.dialects.patterns.values import made_by
from aotc.dialects.sizes.symbols import contracts_of, known_contracts
from aotc.dialects.types import Tensor
from aotc.errors import InputError
from aotc.kernels.capabilities import (
    Capabilities,
    NoTargetKernels,
    capabilities_of,
    family_names,
)
from aotc.kernels.facts import bytes_of
from aotc.kernels.family import KernelFamily
from aotc.kernels.geometry import attach_bound
from aotc.kernels.listing import note_refusals
from aotc.kernels.narrow_gains import slow_products_in
from aotc.kernels.refusal import weights_dequantized_in
from aotc.kernels.schedules import tuned_schedules
from aotc.kernels.scopes import scopes_of
from aotc.kernels.shared_work import note_shared_work
from aotc.kernels.transposes import (
    bring_rounding_to_transposes,
    merge_transposes,
    with_factors_in_order,
    without_transposes,
)
from aotc.mlir import Function, Module, Value, func
from aotc.passes.base import Pass, Unit
from aotc.passes.fold_parameters import folds_parameters
from aotc.passes.inline import inline_calls
from aotc.passes.outlining import Outlining
from aotc.passes.properties import DERIVATIVES_WRITTEN, REGIONS_UNIQUE
from aotc.passes.quantized.ranges import Range, value_range
from aotc.passes.regions import Region, region_at
from aotc.passes.widening import bring_to_readers
from aotc.programs.program import Program

_Anchor: TypeAlias = tuple[GraphOp, Fused]


@dataclass(frozen=True)
class _Choosing:
    """Parameters of the choice of a kernel for an op: target, numerics, weight ranges.

    Args:
        capabilities: of the target.
        left_out: families that are not taken.
        numerics: what results may be.
        ranges: of weights that are integers.
    """

    capabilities: Capabilities
    left_out: Container[str]
    numerics: str
    ranges: Mapping[Value, Range]

    def kernel_for(self, op: GraphOp, packable: Container[Value]) -> Fused | None:
        """Choose the kernel for an op; None if there is none.

        An integer weight's bound is attached to the op. `packable` are the operands
        that can be packed beforehand.
        """
        by_weight = len(op.operands) > 1 and op.operands[1] in packable
        if by_weight:
            self._attach_bound(op)
        return self.capabilities.choose(
            op,
            by_weight=by_weight,
            without=self.left_out,
            numerics=self.numerics,
        )

    def _attach_bound(self, op: GraphOp) -> None:
        """Attach an integer weight's bound if it is within an instruction's limit."""
        dtypes = tuple(Tensor.of(value).dtype for value in op.operands[:2])
        known = self.capabilities.machine.multipliers
        most = max((each.within for each in known if dtypes in each.dtypes), default=0)
        if most:
            low, high = value_range(op.operands[1], self.ranges)
            if max(-low, high) <= most:
                attach_bound(op, max(-low, high))


@dataclass(frozen=True)
class FuseRegions(Pass):
    """Outline ops that one kernel computes into regions, in entries and their loop
    bodies.

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
    requires = (DERIVATIVES_WRITTEN,)
    ensures = (REGIONS_UNIQUE,)

    def __post_init__(self) -> None:
        for name in sorted(self._left_out):
            if name not in (known := family_names()):
                raise InputError(
                    "bad-pass-option",
                    "expected families of kernels for 'fuse-regions{without=…}', with "
                    f"+ between; got '{name}'",
                    hint=f"there are {', '.join(known)}",
                )

    def run(self, unit: Unit) -> bool:
        """Outline regions, and note why other ops have none; False without kernels for
        the target.
        """
        capabilities = capabilities_of(unit.target)
        if isinstance(capabilities, NoTargetKernels):
            unit.notes += weights_dequantized_in(unit.module, capabilities)
            return False
        outlining = Outlining()
        tuned = tuned_schedules(unit.program.tuning, str(unit.target), capabilities)
        with index_functions(unit.module):
            if not self.anchors_only:
                _bring_widening_to_readers(unit)
            for fusing in (self, replace(self, anchors_only=True)):
                for region in fusing.regions(unit, capabilities):
                    fused = tuned.choose(region.fused, region.anchor, region.key)
                    outlining.outline(region, fused)
                unwritten = _take_back_unwritten(unit.module, capabilities)
                if not unwritten:
                    break
                outlining.forget(unwritten)
            note_refusals(
                unit.module,
                capabilities,
                self._left_out,
                folds_weights=folds_parameters(unit.program),
            )
            note_shared_work(unit.module, capabilities)
        unit.notes += weights_dequantized_in(unit.module, capabilities)
        mixed = unit.program.mixed_precision
        unit.notes += slow_products_in(unit.module, capabilities, mixed)
        if unit.program.tuning is not None:
            unit.notes.append(tuned.use(str(unit.target)))
        return True

    def regions(self, unit: Unit, capabilities: Capabilities) -> Iterator[Region]:
        """Yield the regions to outline in a program, with schedules from the cost
        model.

        The caller outlines each before the next. The functions of the module are to be
        indexed (`index_functions`).
        """
        left_out, families = self._left_out, capabilities.families
        if self.anchors_only:  # no region of these is an anchor alone
            left_out |= {name for name, each in families.items() if each.is_never_alone}
        last = {name for name, each in families.items() if each.is_last}
        ranges = _WeightRanges(unit.program)
        for others in (last, families.keys() - last):
            for function in functions_of(unit.module).values():
                merge_transposes(function)  # packings repeat those of other readers
                if others is not last and _transposes_compute(families.values()):
                    bring_rounding_to_transposes(function)
            numerics = unit.program.numerics
            choosing = _Choosing(capabilities, left_out | others, numerics, ranges)
            yield from self._regions(unit, choosing)

    def _regions(self, unit: Unit, choosing: _Choosing) -> Iterator[Region]:
        """Yield the regions of the families that `choosing` does not leave out."""
        region_of = Region.of if self.anchors_only else region_at
        capabilities, functions = choosing.capabilities, table_of(unit.module)
        entries = entries_of(unit.module)
        all_found = list[dict[str, list[_Anchor]]]()
        for entry in entries:
            states = _new_states(functions[entry.name], entry)
            found = _all_anchors(functions, entry, choosing, states)
            known = {name for others in all_found for name in others}  # shared loops
            all_found.append({k: x for k, x in found.items() if k not in known})
        _share_packings(functions, entries, all_found, capabilities)
        for entry, found in zip(entries, all_found, strict=True):
            states = _new_states(functions[entry.name], entry)
            for name, anchors in found.items():
                with known_contracts(contracts_of(functions[name])):
                    for anchor, fused in anchors:
                        yield region_of(anchor, fused, states, capabilities)

    @property
    def _left_out(self) -> frozenset[str]:
        """The names of kernel families that are left out."""
        return frozenset(filter(None, self.without.split("+")))


def _transposes_compute(families: Iterable[KernelFamily[Any, Any]]) -> bool:
    """Return whether transpose kernels can fuse the elementwise ops before them."""
    return any(Transpose in each.anchors and each.prologue for each in families)


def _take_back_unwritten(module: Module, capabilities: Capabilities) -> set[str]:
    """Inline the regions that no emitter supports; return their names."""
    functions = functions_of(module)
    unwritten = {
        name
        for name, function in functions.items()
        if is_region(function) and capabilities.emitted.why_unwritten(function)
    }

    def chosen(call: func.CallOp) -> Function | None:
        name = callee_of(call)
        return functions[name] if name in unwritten else None

    if unwritten:
        for name, function in functions.items():
            if name not in unwritten and not function.is_external:
                inline_calls(function, chosen)
        for name in unwritten:
            erase(functions[name])
    return unwritten


# ---- what becomes a region ----------------------------------------------------------


class _WeightRanges(Mapping[Value, Range]):
    """Lazy mapping from integer weights to the minimum and maximum of their
    elements.
    """

    def __init__(self, program: Program) -> None:
        functions, self._parameters = functions_of(program.module), program.parameters
        self._found: dict[Value, Range] = {}
        self._names = {
            value: port.name
            for entry in entries_of(program.module)
            for value, port in weight_ports(functions[entry.name], entry)
            if program.has_arrays and port.type.dtype in INTEGERS
        }

    def __getitem__(self, value: Value) -> Range:
        if value not in self._found:
            array = np.asarray(self._parameters[self._names[value]])
            both = (array.min(), array.max()) if array.size else (0, 0)
            self._found[value] = int(both[0]), int(both[1])
        return self._found[value]

    def __iter__(self) -> Iterator[Value]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _bring_widening_to_readers(unit: Unit) -> None:
    """Copy casts from bytes to floats to each reader, in entries and loop bodies, to be
    fused.
    """
    functions = table_of(unit.module)
    for entry in entries_of(unit.module):
        for name, weights in scopes_of(functions, entry.name).items():
            bring_to_readers(functions[name], weights)


def _all_anchors(
    functions: Mapping[str, Function],
    entry: Entry,
    choosing: _Choosing,
    states: Container[Value],
) -> dict[str, list[_Anchor]]:
    """Return the anchors with kernels, by function, of an entry and its loop bodies.

    Between two readings of a weight, a step of a loop reads the other weights of the
    body, and a call all there are. What does not stay in the caches until then is
    fetched ahead.
    """
    packable = scopes_of(functions, entry.name, with_invariants=True)
    found = {
        name: _anchors(functions[name], weights, packable[name], choosing, states)
        for name, weights in scopes_of(functions, entry.name).items()
    }
    capabilities = choosing.capabilities
    between = {
        name: _packed_bytes(anchors, capabilities) for name, anchors in found.items()
    }
    between[entry.name] = sum(between.values())
    return {
        name: [
            (op, capabilities.family_of(fused).fetch_ahead(op, fused))
            for op, fused in anchors
        ]
        if between[name] > capabilities.kept_bytes
        else anchors
        for name, anchors in found.items()
    }


def _share_packings(
    functions: Mapping[str, Function],
    entries: Sequence[Entry],
    found: Sequence[dict[str, list[_Anchor]]],
    capabilities: Capabilities,
) -> None:
    """Give all products by the same weight kernels that read one packed layout, in
    place.

    Args:
        functions: of the module, by name.
        entries: of the program.
        found: the anchors of each entry by function; kernels are replaced in it.
        capabilities: of the target.
    """
    readers: dict[tuple[str, str], list[tuple[str, list[_Anchor], int]]] = {}
    for entry, by_function in zip(entries, found, strict=True):
        ports = weight_ports(functions[entry.name], entry)
        names = {value: port.name for value, port in ports}
        anchors = by_function.get(entry.name, [])
        for place, (op, fused) in enumerate(anchors):
            family = capabilities.family_of(fused)
            is_packed = (
                family.alike is not None and family.packing_of(fused) is not None
            )
            if is_packed and op.operands[1] in names:
                key = names[op.operands[1]], fused.kernel
                readers.setdefault(key, []).append((entry.name, anchors, place))
    for rows in readers.values():
        contracts = [contracts_of(functions[name]) for name, _, _ in rows]
        alike = [anchors[place] for _, anchors, place in rows]
        planned = capabilities.plan_alike(alike, contracts)
        for (_, anchors, place), fused in zip(rows, planned, strict=True):
            anchors[place] = anchors[place][0], fused


def _packed_bytes(anchors: list[_Anchor], capabilities: Capabilities) -> int:
    """Return the bytes of operands that kernels read packed; symbolic sizes are left
    out.
    """
    packed = {}
    for op, fused in anchors:
        packing = capabilities.family_of(fused).packing_of(fused)
        if packing is not None:
            table = made_by(op.operands[1], Dequantize)
            size = bytes_of(op.operands[1] if table is None else table.q)
            if isinstance(size, int):
                packed[op.operands[1]] = round(size * packing.growth)
    return sum(packed.values())


def _anchors(
    function: Function,
    weights: Container[Value],
    packable: Container[Value],
    choosing: _Choosing,
    states: Container[Value],
) -> list[_Anchor]:
    """Return the ops of a function that anchor a kernel, with their kernels, in order.

    Those that the kernel of a later anchor computes as well are left out, and those
    that give new states and are left to loops of their own.

    Args:
        function: an entry, or the body of a loop.
        weights: what weights alone decide in it, which the build computes.
        packable: these, and what every step of a loop reads: it is packed once.
        choosing: what decides about kernels.
        states: the new ones of the entry.
    """
    capabilities = choosing.capabilities
    with known_contracts(contracts_of(function)):
        found: list[_Anchor] = []
        computed: set[Value] = set()
        anchors = [*_find_anchors(function, weights, packable, choosing)]
        for op, fused in reversed(anchors):
            family = capabilities.family_of(fused)
            is_left = op.results[0] in states and not family.leaves_states
            if op.results[0] not in computed and not is_left:
                before = family.ops_before(op)
                computed.update(each.results[0] for each in before)
                found.append((op, fused))
        return found[::-1]


def _find_anchors(
    function: Function,
    weights: Container[Value],
    packable: Container[Value],
    choosing: _Choosing,
) -> Iterator[_Anchor]:
    """Yield ops that have a kernel, after normalizing transposes and factor orders."""
    capabilities = choosing.capabilities
    for op in [*function.entry_block.operations]:
        if not isinstance(op, GraphOp) or not capabilities.families_for(type(op)):
            continue
        if has_effect(op) or op.results[0] in weights:
            continue
        if isinstance(op, DotGeneral) and capabilities.multiplies(op):
            op = without_transposes(op)
            orders = capabilities.factor_orders(
                op, choosing.numerics, by_weight=op.rhs in packable
            )
            op = with_factors_in_order(op, orders)
        fused = choosing.kernel_for(op, packable)
        if fused is not None:
            capabilities.emitted.pack_factors(op, weights)
            yield op, fused


def _new_states(function: Function, entry: Entry) -> set[Value]:
    """Return the values that an entry returns as states; their own loops write them in
    place.
    """
    *_, end = function.entry_block.operations
    returned = zip(entry.results, end.operands, strict=True)
    return {value for port, value in returned if port.kind == "state"}
