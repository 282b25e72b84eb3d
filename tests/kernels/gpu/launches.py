"""Kernels of functions, run by the evaluator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from aotc.dialects.symbols import contracts_of, known_contracts
from aotc.dialects.types import Tensor, evaluate_size
from aotc.dtypes import to_numpy
from aotc.kernels.gpu.emitter import NoKernel, emit
from aotc.kernels.gpu.kernel import GpuKernel
from aotc.kernels.gpu.machines import MACHINES
from aotc.kernels.term_builder import term_of
from aotc.kernels.ttir.evaluator import evaluate
from aotc.kernels.ttir.memory import Buffer
from aotc.mlir import Function


def kernel_of(
    function: Function, arch: str = "sm_80", **options: Any
) -> GpuKernel | NoKernel:
    """Return the kernel of a function, the name of which it has, too."""
    with function.context, known_contracts(contracts_of(function)):
        term = term_of(function)
    if term is None:
        return NoKernel("it has no term")
    return emit(term, "kernel", MACHINES[arch], **options)


def launch(
    kernel: GpuKernel,
    function: Function,
    arguments: Sequence[np.ndarray],
    symbols: Sequence[int],
) -> list[np.ndarray]:
    """Return what a kernel writes."""
    with function.context, known_contracts(contracts_of(function)):
        programs = evaluate_size(kernel.programs, symbols)
        *_, end = function.entry_block.operations
        kinds = [Tensor.of(value) for value in end.operands]
        shapes = [[evaluate_size(n, symbols) for n in kind.shape] for kind in kinds]
    given = [Buffer.of(f"a{n}", x) for n, x in enumerate(arguments)]
    made = [
        Buffer.unwritten(f"r{n}", int(np.prod(shape)), to_numpy(kind.dtype))
        for n, (shape, kind) in enumerate(zip(shapes, kinds, strict=True))
    ]
    taken = [*given, *made, *symbols[: kernel.symbols]]
    evaluate(kernel.text, taken, (programs, 1, 1))
    return [x.written().reshape(n) for x, n in zip(made, shapes, strict=True)]
