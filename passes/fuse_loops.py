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
from functools import cached_property

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
from aotc.dialects.functions.walking import clone
from aotc.dialects.graph import GraphOp, has_effect
from aotc.dialects.sizes.symbols import contracts_of, known_contracts
from aotc.dialects.types import Size, SymbolicDim, Tensor, element_count, evaluate_size
from aotc.kernels.capabilities import Capabilities, NoTargetKernels, capabilities_of
from aotc.kernels.facts import bytes_of, flops_of, work_of
from aotc.kernels.shared_work import note_shared_work
from aotc.kernels.typical import typical_size
from aotc.mlir import Function, Operation, Value, func
from aotc.passes.base import Pass, Unit
from aotc.passes.properties import OPS_DECOMPOSED
from aotc.passes.step_runs import (
    is_table,
    keeps_order,
    ops_made_again,
    split_into_runs,
    stored_values,
    written,
)

MOST_WORK = 16_000_000  # float operations of a step: some 0.1 ms of one core
_MOST_ELEMENTS = 1 << 16  # of a value that a step computes without a tile
_ROWS = 32  # of a step, where a call decides how many


@dataclass(frozen=True)
class FuseLoops(Pass):
    """Turn each scan of small steps into one kernel (a `scan` region), innermost first.

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
        """Rewrite the unit's module in place; return whether any loop became one
        kernel.
        """
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
    """Turns the scans of functions into regions.

    Args:
        functions: of the module, as a table that knows new ones.
        capabilities: of the target.
        visited: functions whose loops were looked at.
    """

    functions: Functions
    capabilities: Capabilities
    visited: set[str] = field(default_factory=set)

    def fuse_in(self, function: Function) -> bool:
        """Turn scans in a function, and in its loop bodies, into regions; return
        whether any did.
        """
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
        """Replace the call of a scan by that of a region; return whether a kernel can
        do it.
        """
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
    """The body of a loop, to be rewritten as calls of regions.

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
        """The ops of the loop body without the return, in order."""
        *ops, _ = self.body.entry_block.operations
        return list(ops)

    @cached_property
    def returned(self) -> set[Value]:
        """The values that the loop body returns."""
        *_, end = self.body.entry_block.operations
        return {*end.operands}

    def are_small(self) -> bool:
        """Return whether a step has only regions and small pure ops, with little work
        in total.
        """
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
                work += self._typical_size(work_of(kernel))
            elif not isinstance(op, GraphOp) or has_effect(op):
                return False
            else:
                counts = [element_count(Tensor.of(x).shape) for x in op.results]
                if any(self._typical_size(count) > _MOST_ELEMENTS for count in counts):
                    return False
                work += 8 * self._typical_size(flops_of(op))
        return work <= MOST_WORK

    def stay_in_cache(self, captured: Sequence[Value]) -> bool:
        """Return whether the captures that every step reads fit the L2 cache of one
        core.

        Several cores have more of that together.
        """
        size = sum(self._typical_size(bytes_of(value)) for value in captured)
        return bool(size <= self.fusing.capabilities.machine.second_cache)

    def _typical_size(self, size: Size) -> int:
        """Evaluate a symbolic size for a typical call."""
        count = len(contracts_of(self.body))
        symbols = (SymbolicDim.symbol(n) for n in range(count))
        return evaluate_size(size, [typical_size(each, _ROWS) for each in symbols])

    def write(self) -> str | None:
        """Define a loop body that calls regions alone; return its name, or None if it
        cannot be.
        """
        tables = [x for x in self.ops if isinstance(x, GraphOp) and is_table(x)]
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
            for run in split_into_runs([x for x in self.ops if x not in tables]):
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
        """Erase the functions in `names`, and all regions defined for this body."""
        for name in (*names, *self.written):
            erase(find(name))
        self.written = []

    def _write_run(self, run: Sequence[Operation], known: dict[Value, Value]) -> bool:
        """Define and call a `nests` region of a run of ops; False if there is no kernel
        for it.

        The results are added to `known`, by the values of the body.
        """
        wanted = stored_values(run, self.returned)
        if not wanted:
            return True
        ops = [*ops_made_again(run, known), *run]
        own = {x for op in ops for x in op.results}
        operands = [
            *dict.fromkeys(x for op in ops for x in op.operands if x not in own)
        ]

        def body(arguments: list[Value]) -> list[Value]:
            values = dict(zip(operands, arguments, strict=True))
            for op in ops:
                made = written(op, [values[x] for x in op.operands])
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


def _needs_no_region(op: Operation) -> bool:
    """Return whether an op is a call, or a reshape-like op that keeps the order."""
    return isinstance(op, func.CallOp) or keeps_order(op)
