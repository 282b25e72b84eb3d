"""An entry and its calls, as the reference evaluator and compiled code compute them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from aotc import reference
from aotc.checks.samples import CallSequence
from aotc.checks.uses import Use, uses_of_inputs
from aotc.core import printing
from aotc.dialects.calls.callees import declaration_of, reachable_functions
from aotc.dialects.control import While, control_of
from aotc.dialects.functions.entries import Entry
from aotc.dialects.functions.functions import callee_of, functions_of
from aotc.dialects.graph import GraphOp
from aotc.mlir import Module, func
from aotc.programs.program import Program

Arrays = list[np.ndarray]


class CallingProcess(Protocol):
    """Protocol of a process that computes calls, such as `CompiledProcess`."""

    def call(
        self,
        entry: str,
        arrays: Sequence[np.ndarray],
        before: Mapping[str, Arrays] | None = None,
        after: Sequence[str] = (),
        seconds: float | None = None,
    ) -> tuple[Arrays, Arrays]:
        """Call an entry; return its outputs and the leaves of states after it."""
        ...


@dataclass
class CheckedEntry:
    """An entry that is compared with the reference evaluator.

    Args:
        program: what was compiled.
        graph: a copy of its module in which all derivatives are written.
        entry: of the program.
    """

    program: Program
    graph: Module
    entry: Entry

    @property
    def names(self) -> list[str]:
        """Names of all results: the outputs, then the leaves of updated states."""
        outputs = [port.name for port in self.entry.ports("output")]
        return [*outputs, *self._updated_leaves]

    @property
    def _updated_leaves(self) -> list[str]:
        """Names of the leaves of the states that the entry updates."""
        return [
            leaf
            for state in self.program.states
            if state.name in self.entry.updates
            for leaf in state.leaves
        ]

    @cached_property
    def uses(self) -> dict[str, Use]:
        """The `Use` of each input in the graph (index, length or mask), by name."""
        return uses_of_inputs(self.graph, self.entry)

    @property
    def ops(self) -> tuple[list[GraphOp], list[GraphOp]]:
        """A pair: the ops of the entry itself, and those that its calls run for
        certain.

        What loops and branches run depends on values.
        """
        known = functions_of(self.graph)
        found: dict[str, list[GraphOp]] = {}

        def ops_of(name: str) -> tuple[list[GraphOp], list[GraphOp]]:
            own, inner = list[GraphOp](), list[GraphOp]()
            for op in known[name].entry_block.operations:
                if isinstance(op, GraphOp):
                    own.append(op)
                elif isinstance(op, func.CallOp):
                    inner += run_by(callee_of(op))
            return own, inner

        def run_by(name: str) -> list[GraphOp]:
            if declaration_of(known[name]) is not None:
                return []
            if name not in found:
                own, inner = ops_of(name)
                found[name] = own + inner
            return found[name]

        return ops_of(self.entry.name)

    @property
    def may_be_endless(self) -> bool:
        """Return whether the entry has a loop whose end depends on computed values
        alone.
        """
        known = functions_of(self.graph)
        names = reachable_functions(known, self.entry.name)
        found = [control_of(known[name]) for name in names]
        return any(isinstance(x, While) and x.max_steps is None for x in found)

    def arguments(
        self, inputs: Sequence[np.ndarray], stored: Mapping[str, Any]
    ) -> Arrays:
        """Return all arguments of a call: its inputs, and stored weights and states."""
        rest = iter(inputs)
        return [
            next(rest) if port.kind == "input" else stored[port.name]
            for port in self.entry.arguments
        ]

    def reference_results(
        self, calls: CallSequence, with_op: reference.EvaluateOp | None
    ) -> Iterator[tuple[Arrays, Arrays]]:
        """Yield the arguments and results of each call in turn, by the reference
        evaluator.
        """
        stored = {**self.program.parameters, **calls.states}
        for inputs in calls.inputs:
            arguments = self.arguments(inputs, stored)
            with printing.silence():  # what the model prints of random numbers
                found = reference.evaluate(
                    self.graph, self.entry.name, arguments, with_op=with_op
                )
            ports = list(zip(self.entry.results, found, strict=True))
            stored |= {port.name: x for port, x in ports if port.kind == "state"}
            outputs = [x for port, x in ports if port.kind == "output"]
            yield (
                arguments,
                [*outputs, *(stored[name] for name in self._updated_leaves)],
            )

    def compiled_results(
        self, calls: CallSequence, process: CallingProcess, seconds: float | None = None
    ) -> Iterator[Arrays]:
        """Yield the compiled results of each call in turn; a call may take
        `seconds`.
        """
        states = self.program.states
        before = {s.name: [calls.states[n] for n in s.leaves] for s in states}
        updated = [s.name for s in states if s.name in self.entry.updates]
        for inputs in calls.inputs:
            given = self._compiled_arguments(inputs)
            outputs, after = process.call(
                self.entry.name, given, before, updated, seconds
            )
            before = {}
            yield self._compiled_result(outputs, after)

    def _compiled_arguments(self, inputs: Sequence[np.ndarray]) -> Arrays:
        """Return the arrays that a process takes for the inputs of a call."""
        return list(inputs)

    def _compiled_result(self, outputs: Arrays, states: Arrays) -> Arrays:
        """Return what a process gave for a call, in the order of `names`."""
        return [*outputs, *states]
