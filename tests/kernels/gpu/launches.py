"""Kernels of functions, run by the evaluator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from aotc.dialects.sizes.symbols import contracts_of, known_contracts
from aotc.kernels.gpu.emitter import NoTermKernel, emit
from aotc.kernels.gpu.kernel import GpuKernel
from aotc.kernels.gpu.machines import MACHINES
from aotc.kernels.gpu.reference import KernelsOfRegions
from aotc.kernels.term_builder import term_of
from aotc.mlir import Function


def kernel_of(
    function: Function, arch: str = "sm_80", **options: Any
) -> GpuKernel | NoTermKernel:
    """Return the kernel of a function."""
    with function.context, known_contracts(contracts_of(function)):
        term = term_of(function)
    if term is None:
        return NoTermKernel("it has no term")
    return emit(term, "kernel", MACHINES[arch], **options)


def launched(
    function: Function,
    arguments: Sequence[np.ndarray],
    symbols: Sequence[int],
    arch: str = "sm_80",
    **options: Any,
) -> list[np.ndarray]:
    """Return what the kernel of a function writes."""
    kernels = KernelsOfRegions(MACHINES[arch], **options)
    found = kernels(function, arguments, symbols)
    assert not kernels.refused
    return found
