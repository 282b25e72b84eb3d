"""Computes regions by their kernels, which the evaluator of Triton's IR runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from aotc.core.dtypes import to_numpy
from aotc.core.numerics import STRICT
from aotc.dialects.functions.function_table import name_of
from aotc.dialects.functions.fusion import target_of
from aotc.dialects.sizes.symbols import contracts_of, known_contracts
from aotc.dialects.types import Tensor, evaluate_size
from aotc.kernels.gpu.emitter import NoTermKernel, emit
from aotc.kernels.gpu.families import kernel_of_region
from aotc.kernels.gpu.kernel import GpuKernel
from aotc.kernels.gpu.machines import Gpu, gpu_of
from aotc.kernels.reference import evaluate as evaluate_term
from aotc.kernels.term_builder import term_of
from aotc.kernels.terms import Term
from aotc.kernels.ttir.evaluator import evaluate
from aotc.kernels.ttir.memory import Buffer
from aotc.machine.target import Target
from aotc.mlir import Function

_Arrays = Sequence[np.ndarray]


def launch(
    kernel: GpuKernel,
    term: Term,
    arguments: _Arrays,
    symbols: Sequence[int],
    programs: Iterable[int] | None = None,
) -> list[Buffer]:
    """Run a GPU kernel on the evaluator of Triton's IR; return the result buffers."""
    found = ReferenceLaunch.of(kernel, term, arguments, symbols)
    found.run(programs)
    return found.results


@dataclass(frozen=True)
class ReferenceLaunch:
    """A launch of a GPU kernel on the evaluator of Triton's IR.

    Args:
        kernel: that is launched.
        arguments: its memory and numbers.
        results: the memory of its results, among them.
        programs: how many there are.
    """

    kernel: GpuKernel
    arguments: Sequence[Buffer | int]
    results: list[Buffer]
    programs: int

    @classmethod
    def of(
        cls, kernel: GpuKernel, term: Term, arguments: _Arrays, symbols: Sequence[int]
    ) -> ReferenceLaunch:
        """Allocate the buffers of a launch; no program instance runs yet.

        Args:
            kernel: of the term.
            term: of it.
            arguments: of the region.
            symbols: the values of the region's symbols.
        """
        with term.function.context, known_contracts(contracts_of(term.function)):
            count = evaluate_size(kernel.programs, symbols)
            made = [
                Buffer.of_unknown(
                    f"r{number}",
                    evaluate_size(kind.elements, symbols),
                    to_numpy(kind.dtype),
                )
                for number, kind in enumerate(map(Tensor.of, term.results))
            ]
        given = [Buffer.of(f"a{number}", x) for number, x in enumerate(arguments)]
        return cls(kernel, [*given, *made, *kernel.numbers(symbols)], made, count)

    def run(self, programs: Iterable[int] | None = None) -> int:
        """Run program instances that have not run yet; return the number of steps.

        Args:
            programs: their numbers; all if None.

        Raises:
            CompileError: `bad-kernel`: they do what no kernel may.
        """
        grid = self.programs, 1, 1
        return evaluate(self.kernel.text, self.arguments, grid, programs)


def _is_planned(region: Function) -> bool:
    """Return whether a region's program has a target that is a GPU."""
    target = target_of(region)
    return target is not None and gpu_of(Target.parse(target)) is not None


@dataclass
class KernelsOfRegions:
    """An evaluator of regions by their GPU kernels, for `with_region` of a reference.

    Regions of a program for GPUs have kernels as they are planned, others in the form
    that takes them.

    Args:
        machine: the chip.
        numerics: what results may be.
        refused: of each region without a kernel, why; those are computed by their term.
        computed: the names of the others.
    """

    machine: Gpu
    numerics: str = STRICT
    refused: dict[str, str] = field(default_factory=dict)
    computed: set[str] = field(default_factory=set)

    def __call__(
        self, function: Function, arguments: _Arrays, symbols: Sequence[int]
    ) -> list[np.ndarray]:
        """Return the results of a region; record whether it has a kernel."""
        name = name_of(function)
        with function.context, known_contracts(contracts_of(function)):
            term = term_of(function)
        assert term is not None  # all regions have terms
        kernel = (
            kernel_of_region(function)
            if _is_planned(function)
            else emit(term, "kernel", self.machine, self.numerics)
        )
        if isinstance(kernel, NoTermKernel):
            self.refused[name] = kernel.why
            return evaluate_term(term, arguments, symbols)
        self.computed.add(name)
        found = launch(kernel, term, arguments, symbols)
        with function.context, known_contracts(contracts_of(function)):
            shapes = [
                [evaluate_size(size, symbols) for size in Tensor.of(value).shape]
                for value in term.results
            ]
        pairs = zip(found, shapes, strict=True)
        return [memory.written_elements().reshape(shape) for memory, shape in pairs]
