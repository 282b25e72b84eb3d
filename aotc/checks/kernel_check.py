"""Evaluates the kernels of GPUs in the calls of a self-check, where no GPU is.

What is evaluated is the very text that was compiled (`aotc.kernels.ttir`): it must read
and write nothing but its own memory, each element once, and give what the reference
evaluator does. What the compiler makes of it, and the code of IREE's between kernels,
is not known then, so an entry counts as not checked; how much was evaluated is told.

The evaluator runs so many steps, and no more, so that what is told is the same on every
machine: of a launch that would take too many, some programs, and the elements that
these write take the place of the reference's.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import isinf
from typing import Any

import numpy as np

from aotc import reference
from aotc.checks.kernel_count import KernelCount
from aotc.core.cache import digest
from aotc.core.json_values import JsonObject
from aotc.dialects.functions.function_table import name_of
from aotc.dialects.sizes.symbols import contracts_of, known_contracts
from aotc.errors import CompileError
from aotc.kernels.gpu.emitter import NoTermKernel
from aotc.kernels.gpu.families import kernel_of_region
from aotc.kernels.gpu.kernel import GpuKernel
from aotc.kernels.gpu.reference import ReferenceLaunch
from aotc.kernels.term_builder import term_of
from aotc.kernels.terms import Term
from aotc.kernels.ttir.memory import Buffer
from aotc.mlir import Function
from aotc.programs.program import Program

Arrays = list[np.ndarray]
STEPS = 50_000  # of the evaluator, for all entries of a target
_SHARE = 8  # launches that share what is left


def kernel_texts(kernels: JsonObject) -> set[str]:
    """Return the digests of the kernel sources that a variant was compiled with."""
    rows = kernels.get("regions", ())
    return {row["device"]["text"] for row in rows if "device" in row}


def uncompiled_texts(kernels: JsonObject) -> set[str]:
    """Return the digests of kernel sources that did not compile; IREE computes their
    ops.
    """
    rows = kernels.get("without", ())
    return {row["text"] for row in rows if "text" in row}


@dataclass
class EvaluatedKernels:
    """Computes entries by the reference evaluator, and their kernel regions by
    interpreting kernels.

    It stands in the place of a process that runs compiled code.

    Args:
        program: at the stage `regions`, for the target.
        compiled: digests of the texts that were compiled.
        uncompiled: the same of those that could not be.
        steps: that the evaluator may still run.
        count: what it has evaluated.
        known: the kernel and the term of each region that it has met.
    """

    program: Program
    compiled: Collection[str]
    uncompiled: Collection[str]
    steps: float
    count: KernelCount = field(default_factory=KernelCount)
    known: dict[str, tuple[GpuKernel, Term]] = field(default_factory=dict)
    _stored: dict[str, Any] = field(default_factory=dict)

    def call(
        self,
        entry: str,
        arrays: Sequence[np.ndarray],
        before: Mapping[str, Arrays] | None = None,
        after: Sequence[str] = (),
        seconds: float | None = None,
    ) -> tuple[Arrays, Arrays]:
        """Return the outputs of a call, and the leaves of states after it.

        As `aotc.checks.process.CompiledProcess.call` does.
        """
        states = {state.name: state.leaves for state in self.program.states}
        for name, leaves in (before or {}).items():
            self._stored.update(zip(states[name], leaves, strict=True))
        known = self.program.entry(entry)
        stored, rest = {**self.program.parameters, **self._stored}, iter(arrays)
        arguments = [
            next(rest) if port.kind == "input" else stored[port.name]
            for port in known.arguments
        ]
        found = reference.evaluate(
            self.program.module, entry, arguments, with_region=self._region
        )
        ports = [*zip(known.results, found, strict=True)]
        changed = {port.name: x for port, x in ports if port.kind == "state"}
        self._stored |= changed
        outputs = [x for port, x in ports if port.kind == "output"]
        return outputs, [(stored | changed)[x] for name in after for x in states[name]]

    def _region(
        self,
        function: Function,
        arguments: Sequence[np.ndarray],
        symbols: Sequence[int],
    ) -> Arrays:
        """Compute the results of a region by its kernel, or by the reference if not
        compiled.
        """
        name, module = name_of(function), self.program.module
        if name not in self.known:
            self.known[name] = self.kernel_of(function)
            text = digest(self.known[name][0].text)
            is_known = text in self.compiled or text in self.uncompiled
            assert is_known, "another text was compiled"
        kernel, term = self.known[name]
        wanted = reference.evaluate(module, name, arguments)
        if digest(kernel.text) in self.uncompiled:
            return wanted
        try:
            launch = ReferenceLaunch.of(kernel, term, arguments, symbols)
            if not launch.programs:
                return wanted
            run = self._run_some(launch)
            is_whole = run == launch.programs
            results = [
                _written_over(array, memory, is_whole=is_whole)
                for array, memory in zip(wanted, launch.results, strict=True)
            ]
        except CompileError as error:
            raise CompileError(
                "self-check", f"the kernel of the region '{name}': {error.message}"
            ) from error
        self.count = self.count.plus(launch.programs, run)
        return results

    def kernel_of(self, function: Function) -> tuple[GpuKernel, Term]:
        """Return a region's GPU kernel, built anew, and its term (the ops that it
        computes).
        """
        kernel = kernel_of_region(function)
        assert not isinstance(kernel, NoTermKernel), kernel.why
        with function.context, known_contracts(contracts_of(function)):
            term = term_of(function)
        assert term is not None
        return kernel, term

    def _run_some(self, launch: ReferenceLaunch) -> int:
        """Run as many workgroups of a launch as the step budget allows; return their
        number.

        The first one tells how many steps one takes.
        """
        if isinf(self.steps):
            launch.run()
            return launch.programs
        steps = launch.run([0])
        self.steps -= steps
        affordable = max(1, int(self.steps / _SHARE // max(1, steps)))
        places = np.linspace(
            0, launch.programs - 1, min(affordable + 1, launch.programs)
        )
        chosen = {int(place) for place in places.round()} | {0}
        self.steps -= launch.run(chosen - {0})
        return len(chosen)


def _written_over(array: np.ndarray, memory: Buffer, *, is_whole: bool) -> np.ndarray:
    """Return an array with the elements replaced that a kernel has written to
    memory.
    """
    if is_whole:
        return memory.written_elements().reshape(array.shape)
    elements = np.ascontiguousarray(array).reshape(-1).copy()
    known = memory.is_known
    elements[known] = memory.elements.view(memory.dtype)[known]
    return elements.reshape(array.shape)
