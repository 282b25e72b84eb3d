"""Drop unused results and unread operands of control flow.

    %h, %ys = call @rnn.scan(%h0, %xs, %w)
    return %h
    →
    %h = call @rnn.scan_1(%h0, %xs, %w)     (its body returns no element of %ys)

A part of `simplify`. The gradient of a loop leaves many of these: what the loop stacked
for the loss, beside what the backward loop reads.
"""

from __future__ import annotations

from collections.abc import Sequence

from aotc.dialects.builder import Builder
from aotc.dialects.control import control_of, invoke
from aotc.dialects.functions.function_table import Functions, index_functions
from aotc.dialects.functions.functions import before, callee_of, define, find, signature
from aotc.dialects.functions.walking import clone, walk
from aotc.dialects.graph import has_effect
from aotc.mlir import Operation, Value, func
from aotc.passes.base import Pass, Unit


class InputReads:
    """Memoized liveness: the inputs of a function that given outputs, or effects,
    depend on.

    That is worked out once for each function: loops within loops would be gone through
    once for each level. Simplification makes it less, never more.

    Args:
        functions: of the module.
    """

    def __init__(self, functions: Functions) -> None:
        self._functions = functions
        self._known: dict[str, dict[frozenset[int], set[int]]] = {}

    def forget(self, name: str) -> None:
        """Drop the memoized reads of a function whose body has changed."""
        self._known.pop(name, None)

    def __call__(self, name: str, outputs: set[int]) -> set[int]:
        """Return the indices of inputs that the given outputs, or effects, depend
        on.
        """
        known = self._known.setdefault(name, {})
        key = frozenset(outputs)
        if key not in known:
            known[key] = self._inputs_read(name, outputs)
        return known[key]

    def _inputs_read(self, name: str, outputs: set[int]) -> set[int]:
        """Compute the indices of inputs that some outputs depend on, without
        memoization.
        """
        function = self._functions[name]
        if function.is_external:
            return set(range(len(function.type.inputs)))
        *ops, end = function.entry_block.operations
        live = {end.operands[i] for i in outputs}
        for op in reversed(ops):
            wanted = {i for i, x in enumerate(op.results) if x in live}
            live.update(self._values_read(op, wanted))
        arguments = enumerate(function.entry_block.arguments)
        return {number for number, value in arguments if value in live}

    def _values_read(self, op: Operation, wanted: set[int]) -> Sequence[Value]:
        """Return the operands that an op's `wanted` results depend on; none if it is
        dead.
        """
        if not wanted and is_removable(op, self._functions):
            return []
        if isinstance(op, func.CallOp) and wanted:
            control = control_of(self._functions[callee_of(op)])
            if control is not None:
                operands, _ = control.needs(wanted, self)
                return [op.operands[i] for i in operands]
        return list(op.operands)


class Prune(Pass):
    """Drop unused results and operands of control flow calls in every function."""

    name = "prune"
    level = 1
    keeps_graph = True

    def run(self, unit: Unit) -> bool:
        """Rewrite the unit's module in place; return whether anything changed."""
        changed = False
        with index_functions(unit.module) as functions:
            reads = InputReads(functions)
            for function in [*functions.values()]:
                if not function.is_external:
                    for op in list(function.entry_block.operations):
                        changed |= prune(op, functions, reads)
        return changed


def prune(op: Operation, functions: Functions, reads: InputReads) -> bool:
    """Drop unused results and operands of a control flow call; return whether any were.

    The call is replaced by one of a smaller function.
    """
    if not isinstance(op, func.CallOp):
        return False
    control = control_of(functions[callee_of(op)])
    wanted = {i for i, value in enumerate(op.results) if list(value.uses)}
    if control is None or not wanted:
        return False
    if any(functions[name].is_external for name in control.functions):
        return False
    operands, results = map(sorted, control.needs(wanted, reads))
    if len(results) == len(op.results) and len(operands) == len(op.operands):
        return False
    with before(op):
        smaller = control.keep_only(operands, results, _define_restricted)
        found = invoke(smaller, [op.operands[i] for i in operands])
    for position, value in zip(results, found, strict=True):
        op.results[position].replace_all_uses_with(value)
    op.operation.erase()
    return True


def is_removable(op: Operation, functions: Functions) -> bool:
    """Return whether an op has no side effects, callees included."""
    if isinstance(op, func.CallOp):
        control = control_of(functions[callee_of(op)])
        names = control.functions if control else (callee_of(op),)
        return all(
            is_removable(inner, functions)
            for name in names
            if not functions[name].is_external
            for inner in functions[name].entry_block.operations
        )
    return isinstance(op, func.ReturnOp) or not has_effect(op)


def _define_restricted(name: str, inputs: Sequence[int], outputs: Sequence[int]) -> str:
    """Define a copy of a function with a subset of its inputs and outputs; return its
    name.
    """
    function = find(name)
    kinds, _ = signature(function)

    def body(values: list[Value]) -> list[Value]:
        given = dict(zip(inputs, values, strict=True))
        # the ops that read the rest are not used, and go with their operands
        arguments = [
            given[i] if i in given else Builder().full(kind, 0)
            for i, kind in enumerate(kinds)
        ]
        results = walk(function.entry_block, arguments, clone)
        return [results[i] for i in outputs]

    return define(name, [kinds[i] for i in inputs], body)
