"""Make one kernel of a loop of small steps.

    %h, %ys = call @f.scan(%h0, %xs, %w)        (its steps call kernels, and compute)
    →
    %h, %ys = call @scan(%h0, %xs, %w)          (a region: it calls @f.scan_1, all of
                                                 whose steps call regions)

What a step computes beside its kernels becomes regions of the family `nests`. A loop
stays as it is where a step has an op that these cannot compute, or so much work that
threads had better share it.

The innermost loops come first: what is a region then may be part of a step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from aotc.dialects.builder import Builder
from aotc.dialects.control import Scan, control_of, invoke
from aotc.dialects.functions.function_table import Functions, erase, index_functions
from aotc.dialects.functions.functions import (
    before,
    call,
    callee_of,
    define,
    find,
    is_private,
    name_of,
    signature,
    types_of,
)
from aotc.dialects.functions.fusion import Fused, is_region, mark_fused
from aotc.dialects.functions.walking import (
    backward_slice,
    clone,
    has_one_use,
    in_order,
)
from aotc.dialects.graph import GraphOp, has_effect, has_view
from aotc.dialects.ops.contraction import (
    DotGeneral,
    has_single_terms,
    product_of_repeated,
)
from aotc.dialects.ops.creation import Constant
from aotc.dialects.ops.shape import Broadcast, Reshape
from aotc.dialects.patterns.values import number_in
from aotc.dialects.sizes.symbols import contracts_of, known_contracts
from aotc.dialects.types import Size, SymbolicDim, Tensor, element_count, evaluate_size
from aotc.kernels.capabilities import Capabilities, NoTargetKernels, capabilities_of
from aotc.kernels.facts import bytes_of, flops_of, work_of
from aotc.kernels.shared_work import note_shared_work
from aotc.kernels.typical import typical_size
from aotc.mlir import Function, Operation, Value, func, ir
from aotc.passes.base import Pass, Unit
from aotc.passes.properties import OPS_DECOMPOSED

MOST_WORK = 16_000_000  # float operations of a step: some 0.1 ms of one core
_MOST_ELEMENTS = 1 << 16  # of a value that a step computes without a tile
_FEW = 4  # elements that are made again for each of their readers
_ROWS = 32  # of a step, where a call decides how many


@dataclass(frozen=True)
class FuseLoops(Pass):
    """Form the regions of loops in every entry, the innermost first.

    Args:
        without: families of kernels that are left out, with `+` between: where `scan`
            or `nests` is, there are none.
    """

    without: str = ""

    name = "fuse-loops"
    level = 2
    keeps_graph = True
    requires = (OPS_DECOMPOSED,)

    def run(self, unit: Unit) -> bool:
        """Run the pass; return whether there are loops that are one kernel."""
        capabilities = capabilities_of(unit.target)
        if isinstance(capabilities, NoTargetKernels):
            return False
        left_out = self.without.split("+")
        if not all(
            name in capabilities.families and name not in left_out
            for name in ("scan", "nests")
        ):
            return False
        with index_functions(unit.module) as functions:
            fusing = _Fusing(functions, capabilities)
            entries = [each for each in functions.values() if not is_private(each)]
            changed = any([fusing.fuse_in(each) for each in entries])
        if changed:  # such loops have no turns in which threads could wait
            note_shared_work(unit.module, capabilities)
        return changed


@dataclass
class _Fusing:
    """Forms the regions of loops.

    Args:
        functions: of the module, as a table that knows new ones.
        capabilities: of the target.
        visited: functions whose loops were looked at.
    """

    functions: Functions
    capabilities: Capabilities
    visited: set[str] = field(default_factory=set)

    def fuse_in(self, function: Function) -> bool:
        """Form those of all loops in a function, and in the bodies of these."""
        changed = False
        if function.is_external or is_region(function):
            return False
        for op in list(function.entry_block.operations):
            if not isinstance(op, func.CallOp):
                continue
            control = control_of(self.functions[callee_of(op)])
            for name in () if control is None else control.functions:
                if name not in self.visited:
                    self.visited.add(name)
                    changed |= self.fuse_in(self.functions[name])
            if isinstance(control, Scan):
                with known_contracts(contracts_of(function)):
                    changed |= self._fuse(op, control)
        return changed

    def _fuse(self, op: func.CallOp, scan: Scan) -> bool:
        """Put the call of a region in the place of that of a scan, if it can be one."""
        steps = _Steps(self.functions[scan.functions[0]], self)
        captured = [*op.operands][scan.first_capture :]
        if not steps.are_small() or not steps.stay_in_cache(captured):
            return False
        with before(op):
            name = steps.write()
            if name is None:
                return False
            tables = [clone(each, [])[0] for each in steps.tables]
            given = [*op.operands, *tables]
            loop = replace(scan, functions=(name,))

            def body(arguments: list[Value]) -> list[Value]:
                return invoke(loop, arguments)

            region = define("scan", types_of(given), body)
            inner, _ = find(region).entry_block.operations
            assert isinstance(inner, func.CallOp)
            family = self.capabilities.families["scan"]
            schedule = family.plan(inner, self.capabilities.machine)
            if schedule is None:
                steps.forget([region, callee_of(inner), name])
                for each in tables:
                    each.owner.erase()
                return False
            mark_fused(find(region), Fused("scan", schedule.to_plain()))
            results = call(region, given)
        for old, new in zip(op.results, results, strict=True):
            old.replace_all_uses_with(new)
        op.operation.erase()
        return True


@dataclass
class _Steps:
    """The steps of a loop, as calls of regions.

    Args:
        body: of the loop.
        fusing: that it is for.
        tables: constants that are no numbers, which the loop is given.
        written: names of functions that were made.
    """

    body: Function
    fusing: _Fusing
    tables: list[GraphOp] = field(default_factory=list)
    written: list[str] = field(default_factory=list)

    @property
    def ops(self) -> list[Operation]:
        """The ops of a step, in order."""
        *ops, _ = self.body.entry_block.operations
        return list(ops)

    @property
    def returned(self) -> set[Value]:
        """The values that a step returns."""
        *_, end = self.body.entry_block.operations
        return {*end.operands}

    def are_small(self) -> bool:
        """Return whether a step has only regions and ops of few elements, and some."""
        work: int = 0
        arguments = [*self.body.entry_block.arguments]
        made = [value for op in self.ops for value in op.results]
        if any(0 in Tensor.of(value).shape for value in (*arguments, *made)):
            return False
        for op in self.ops:
            if isinstance(op, func.CallOp):
                region = self.fusing.functions[callee_of(op)]
                kernel = self.fusing.capabilities.planned_kernel(region)
                if kernel is None:
                    return False
                work += self._usual(work_of(kernel))
            elif not isinstance(op, GraphOp) or has_effect(op):
                return False
            else:
                counts = [element_count(Tensor.of(x).shape) for x in op.results]
                if any(self._usual(count) > _MOST_ELEMENTS for count in counts):
                    return False
                work += 8 * self._usual(flops_of(op))
        return work <= MOST_WORK

    def stay_in_cache(self, captured: Sequence[Value]) -> bool:
        """Return whether what every step reads stays in the second cache of one core.

        Several cores have more of that together.
        """
        size = sum(self._usual(bytes_of(value)) for value in captured)
        return bool(size <= self.fusing.capabilities.machine.second_cache)

    def _usual(self, size: Size) -> int:
        """Return a size in a usual call."""
        count = len(contracts_of(self.body))
        symbols = (SymbolicDim.symbol(n) for n in range(count))
        return evaluate_size(size, [typical_size(each, _ROWS) for each in symbols])

    def write(self) -> str | None:
        """Write a body that calls regions alone; None if it cannot."""
        tables = [op for op in self.ops if isinstance(op, GraphOp) and _is_table(op)]
        self.tables = tables
        kinds, _ = signature(self.body)
        more = [Tensor.of(op.results[0]) for op in tables]
        failed = False

        def body(arguments: list[Value]) -> list[Value]:
            nonlocal failed
            known = dict(zip(self.body.entry_block.arguments, arguments, strict=False))
            known.update(
                zip(
                    [op.results[0] for op in tables],
                    arguments[len(kinds) :],
                    strict=True,
                )
            )
            for run in self._runs():
                first, *others = run
                if not others and _needs_no_region(first):
                    made = clone(first, [known[x] for x in first.operands])
                    known.update(zip(first.results, made, strict=True))
                elif not self._write_run(run, known):
                    failed = True
                    break
            *_, end = self.body.entry_block.operations
            if failed:
                return arguments[:1]
            return [known[value] for value in end.operands]

        name = define(f"{name_of(self.body)}.fused", [*kinds, *more], body)
        if failed:
            self.forget([name])
            return None
        return name

    def forget(self, names: Sequence[str]) -> None:
        """Erase functions, and the regions that were made for them."""
        for name in (*names, *self.written):
            erase(find(name))
        self.written = []

    def _runs(self) -> list[list[Operation]]:
        """Return the ops of a step: those that are one region are one list."""
        runs: list[list[Operation]] = []
        is_open = False
        for op in self.ops:
            if isinstance(op, GraphOp) and _is_table(op):
                continue
            alone = isinstance(op, func.CallOp) or (
                _keeps_order(op) and not self._is_computed(op)
            )
            if alone or not is_open or _combines_shared(op, runs[-1]):
                runs.append([op])
            else:
                runs[-1].append(op)
            is_open = not alone
        return runs

    def _is_computed(self, op: Operation) -> bool:
        """Return whether an op of a run makes what a reshape reads, if in no memory."""
        owner = getattr(op.operands[0].owner, "opview", None)
        return isinstance(owner, GraphOp) and not _keeps_order(owner)

    def _write_run(self, run: Sequence[Operation], known: dict[Value, Value]) -> bool:
        """Write the call of a region of some ops; whether there is code for it."""
        wanted = self._stored(run)
        if not wanted:
            return True
        own = {x for op in run for x in op.results}
        reads = dict.fromkeys(x for op in run for x in op.operands if x not in own)
        numbers = [x for each in filter(_is_number, reads) for x in _ops_behind(each)]
        operands = [x for x in reads if not _is_number(x)]

        def body(arguments: list[Value]) -> list[Value]:
            values = dict(zip(operands, arguments, strict=True))
            for op in (*in_order(numbers), *run):
                made = _written(op, [values[x] for x in op.operands])
                values.update(zip(op.results, made, strict=True))
            return [values[x] for x in wanted]

        name = define("nests", types_of(operands), body)
        self.written.append(name)
        capabilities = self.fusing.capabilities
        *_, last, _ = find(name).entry_block.operations
        schedule = capabilities.families["nests"].plan(last, capabilities.machine)
        if schedule is None:
            return False
        mark_fused(find(name), Fused("nests", schedule.to_plain()))
        made = call(name, [known[x] for x in operands])
        known.update(zip(wanted, made, strict=True))
        return True

    def _stored(self, run: Sequence[Operation]) -> list[Value]:
        """Return what is stored of what some ops make, in order.

        What others read, and what several of them read, unless it is a condition or
        costs nothing: an expression is computed for each of its readers, and so is a
        number that all elements have, but for kernels of other families.
        """
        found = []
        returned, own = self.returned, {x for op in run for x in op.results}
        for op in run:
            for value in op.results:
                users = [use.owner for use in value.uses]
                others = [user for user in users if own.isdisjoint(user.results)]
                if _is_number(value):
                    others = [x for x in others if isinstance(x.opview, func.CallOp)]
                is_read = bool(others)
                is_shared = len(users) > 1 and _is_worth_storing(op)
                if is_read or value in returned or is_shared:
                    found.append(value)
        return found


def _is_worth_storing(op: Operation) -> bool:
    """Return whether an op computes numbers, element by element or as sums."""
    if not isinstance(op, GraphOp) or not op.operands or has_view(op):
        return False
    return not type(op).rearranges and Tensor.of(op.results[0]).dtype != "bool"


def _combines_shared(op: Operation, run: Sequence[Operation]) -> bool:
    """Return whether an op combines elements of what ops of a run are stored for.

    In a region of its own it reads them from memory; in the same one it would compute
    them again.
    """
    if not isinstance(op, GraphOp) or not type(op).nests(op):
        return False
    own = {x for each in run for x in each.results}

    def is_computed(value: Value) -> bool:
        return value in own and not type(value.owner.opview).nests(value.owner.opview)

    behind = backward_slice(op.operands, is_computed)
    return any(
        is_computed(x) and _is_worth_storing(x.owner.opview) and not has_one_use(x)
        for x in behind
    )


def _is_number(value: Value) -> bool:
    """Return whether all elements of a value are one constant number."""
    owners = [x.owner for x in backward_slice([value])]
    if any(isinstance(owner, ir.Block) for owner in owners):
        return False
    *views, first = in_order(owners)[::-1]
    return (
        isinstance(first.opview, Constant)
        and not _is_table(first.opview)
        and all(isinstance(each.opview, Broadcast | Reshape) for each in views)
    )


def _ops_behind(value: Value) -> list[Operation]:
    """Return the op that computes a value, and those that it depends on."""
    return [x.owner for x in backward_slice([value])]


def _written(op: Operation, operands: Sequence[Value]) -> list[Value]:
    """Write an op of a run: a product of one term each as a multiplication.

    What is computed of that is then no loop of its own.
    """
    product = op.opview
    if isinstance(product, DotGeneral) and has_single_terms(product):
        return [product_of_repeated(Builder(), product, operands)]
    return clone(op, operands)


def _needs_no_region(op: Operation) -> bool:
    return isinstance(op, func.CallOp) or _keeps_order(op)


def _keeps_order(op: Operation) -> bool:
    return isinstance(op, GraphOp) and bool(type(op).keeps_order)


def _is_table(op: GraphOp) -> bool:
    """Return whether an op without operands gives other elements than one number."""
    if op.operands or len(op.results) != 1:
        return False
    if not isinstance(op, Constant):
        return True
    return number_in(np.asarray(op.value)) is None
