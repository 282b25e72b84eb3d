"""Computes regions by their kernels, which the evaluator of Triton's IR runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from aotc.dialects.function_table import name_of
from aotc.dialects.fusion import target_of
from aotc.dialects.symbols import contracts_of, known_contracts
from aotc.dialects.types import Tensor, evaluate_size
from aotc.dtypes import to_numpy
from aotc.kernels.gpu.emitter import NoKernel, emit
from aotc.kernels.gpu.families import kernel_of_region
from aotc.kernels.gpu.kernel import GpuKernel
from aotc.kernels.gpu.machines import Gpu, gpu_of
from aotc.kernels.reference import evaluate as evaluate_term
from aotc.kernels.term_builder import term_of
from aotc.kernels.terms import Term
from aotc.kernels.ttir.evaluator import evaluate
from aotc.kernels.ttir.memory import Buffer
from aotc.mlir import Function
from aotc.numerics import STRICT
from aotc.target import Target

_Arrays = Sequence[np.ndarray[Any, Any]]


def launch(
    kernel: GpuKernel,
    term: Term,
    arguments: _Arrays,
    symbols: Sequence[int],
    programs: Iterable[int] | None = None,
) -> list[Buffer]:
    """Return the memory of the results of a kernel, once it has run: `run_kernel`."""
    return run_kernel(kernel, term, arguments, symbols, programs)[0]


def run_kernel(
    kernel: GpuKernel,
    term: Term,
    arguments: _Arrays,
    symbols: Sequence[int],
    programs: Iterable[int] | None = None,
) -> tuple[list[Buffer], int]:
    """Run a kernel; return the memory of its results, and how many steps that took.

    Args:
        kernel: of the term.
        term: of it.
        arguments: of the region.
        symbols: the values of the region's symbols.
        programs: the numbers of those that are run; all if None.

    Raises:
        CompileError: `bad-kernel`: it does what no kernel may.
    """
    with term.function.context, known_contracts(contracts_of(term.function)):
        count = evaluate_size(kernel.programs, symbols)
        made = [
            Buffer.unwritten(
                f"r{number}",
                evaluate_size(kind.elements, symbols),
                to_numpy(kind.dtype),
            )
            for number, kind in enumerate(map(Tensor.of, term.results))
        ]
    given = [Buffer.of(f"a{number}", x) for number, x in enumerate(arguments)]
    taken: list[Buffer | int] = [*given, *made, *kernel.numbers(symbols)]
    steps = evaluate(kernel.text, taken, (count, 1, 1), programs)
    return made, steps


def _is_planned(region: Function) -> bool:
    """Whether a region is one of a program for GPUs."""
    target = target_of(region)
    return target is not None and gpu_of(Target.parse(target)) is not None


@dataclass
class KernelsOfRegions:
    """Computes regions by their kernels for a chip, as `with_region` of a reference.

    Those of a program for GPUs have kernels as they are planned, others in the form
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
    ) -> list[np.ndarray[Any, Any]]:
        """Return the results of a region."""
        name = name_of(function)
        with function.context, known_contracts(contracts_of(function)):
            term = term_of(function)
        assert term is not None  # all regions have terms
        kernel = (
            kernel_of_region(function)
            if _is_planned(function)
            else emit(term, "kernel", self.machine, self.numerics)
        )
        if isinstance(kernel, NoKernel):
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
        return [memory.written().reshape(shape) for memory, shape in pairs]
