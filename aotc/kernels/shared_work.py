"""Work of a call that several threads can share, by which the loader decides.

Stated at entries as `graph.shared_work`, as it is for the greatest sizes of a call. An
entry has none where that is not known: sizes without a greatest, a loop that ends by a
condition, a branch, or an op of which not even the number of operations is clear.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from aotc.dialects.control import Scan, control_of
from aotc.dialects.functions.entries import entries_of
from aotc.dialects.functions.functions import callee_of, functions_of
from aotc.dialects.graph import GraphOp
from aotc.dialects.plain import attribute_of
from aotc.dialects.sizes.symbols import contracts_of, known_contracts
from aotc.dialects.types import Size, evaluate_size
from aotc.kernels.capabilities import Capabilities
from aotc.kernels.facts import bytes_of, work_of
from aotc.kernels.scopes import Weights, scopes_of
from aotc.kernels.sharing import share_count
from aotc.mlir import Function, Module, Operation, func, ir

SHARED_WORK = "graph.shared_work"

_SLOWER = 10  # code that IREE generates, at times, than a kernel for as much work


@dataclass(frozen=True)
class SharedWork:
    """The work of a call that several threads can share, and its loop turns.

    Args:
        work: of all dispatches that are shared, as `facts.work_of` has it, and more
            where IREE generates the code.
        turns: of all loops; threads that wait sleep after each.
    """

    work: int = 0
    turns: int = 0

    def __add__(self, other: SharedWork) -> SharedWork:
        """Return the sums of both works and of both numbers of turns."""
        return SharedWork(self.work + other.work, self.turns + other.turns)


def note_shared_work(module: Module, capabilities: Capabilities) -> None:
    """Set an attribute at each entry with the work that its threads can share.

    Args:
        module: with its regions.
        capabilities: of the target that they are for.
    """
    if capabilities.emitted.on_gpus:
        return
    functions = functions_of(module)
    for entry in entries_of(module):
        function = functions[entry.name]
        contracts = contracts_of(function)
        greatest = [each.max // each.multiple_of for each in contracts if each.max]
        if len(greatest) < len(contracts):
            continue
        scopes = scopes_of(functions, entry.name)
        counter = _Counter(functions, scopes, greatest, capabilities)
        with ir.InsertionPoint(function.entry_block), known_contracts(contracts):
            found = counter.of_function(entry.name)
        if found is not None:
            stated = {"work": found.work, "turns": found.turns}
            function.attributes[SHARED_WORK] = attribute_of(stated)


@dataclass(frozen=True)
class _Counter:
    """A counter of the shareable work of functions and ops; None for unknown work.

    Args:
        functions: of the module.
        scopes: the entry and its loops, with what is of weights alone: that is
            computed by the build.
        symbols: their values.
        capabilities: of the target.
    """

    functions: Mapping[str, Function]
    scopes: Weights
    symbols: Sequence[int]
    capabilities: Capabilities

    def of_function(self, name: str) -> SharedWork | None:
        """Return the shareable work of an entry or loop body; None if unknown."""
        weights, total = self.scopes.get(name), SharedWork()
        if weights is None:
            return None
        *ops, _ = self.functions[name].entry_block.operations
        for op in ops:
            if any(value in weights for value in op.results):
                continue
            found = self._of_op(op)
            if found is None:
                return None
            total += found
        return total

    def _of_op(self, op: Operation) -> SharedWork | None:
        """Return the shareable work of an op or call; None if unknown."""
        if isinstance(op, func.CallOp):
            return self._of_call(self.functions[callee_of(op)])
        if not isinstance(op, GraphOp):
            return None
        if type(op).is_free:
            return SharedWork()
        flops = type(op).flops(op)
        if flops is None:
            return None
        read = op.results if type(op).rearranges else op.operands
        moved = sum(map(bytes_of, (*read, *op.results)), start=0)
        work = _SLOWER * (self._value(flops) + 2 * self._value(moved))
        return _shared(work, share_count(work, work))

    def _of_call(self, function: Function) -> SharedWork | None:
        """Return the shareable work of a call of a kernel or loop; None if unknown."""
        kernel, loop = self.capabilities.planned_kernel(function), control_of(function)
        if kernel is not None:
            work = self._value(work_of(kernel))
            groups = map(self._value, kernel.workgroups)
            return _shared(work, kernel.most_shares(work, prod(groups)))
        if not isinstance(loop, Scan):
            return None
        step = self.of_function(loop.functions[0])
        if step is None:
            return None
        length = self._value(loop.length)
        turns = sum(divmod(length, loop.steps_of_turn(length)))
        return SharedWork(length * step.work, turns + length * step.turns)

    def _value(self, size: Size) -> int:
        """Return a size with its symbols evaluated."""
        return evaluate_size(size, self.symbols)


def _shared(work: int, shares: int) -> SharedWork:
    """Return the work of a dispatch as shareable work; 0 if it has one share only."""
    return SharedWork(work if shares > 1 else 0)
