"""Times the schedules of kernels of GPUs on a device of this machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf

from aotc.backend import compile_gpu_kernels
from aotc.dialects.functions.functions import functions_of, signature
from aotc.dialects.types import static_size
from aotc.kernels.gpu.families import kernel_of_region
from aotc.kernels.gpu.kernel import GpuKernel
from aotc.kernels.lowered import GpuLaunch
from aotc.mlir import Function
from aotc.passes.base import Unit
from aotc.tuning.devices import TimedKernel, timer_of
from aotc.tuning.proposals import Proposal


def least_times(unit: Unit, proposals: Sequence[Proposal]) -> list[list[float]]:
    """Return the least seconds of each kernel's schedules, timed on this machine's GPU.

    Infinity for a schedule of which there is no code, or whose code spills registers.

    Args:
        unit: with the functions of the proposals.
        proposals: the kernels.
    """
    assert unit.target is not None
    functions = functions_of(unit.module)
    names = [name for each in proposals for name in each.functions]
    kernels = {
        name: kernel
        for name in names
        if isinstance(kernel := kernel_of_region(functions[name]), GpuKernel)
    }
    launches = {name: _launch(functions[name], x) for name, x in kernels.items()}
    codes = compile_gpu_kernels(launches, unit.target, unit.program.numerics)
    timer = timer_of(unit.target)

    def times(proposal: Proposal) -> Iterator[float]:
        for name in proposal.functions:
            made = codes.get(name)
            if made is None or made.spilled:
                yield inf
                continue
            yield 1e-6 * timer.microseconds(
                TimedKernel(
                    made.code,
                    kernels[name].name,
                    made.threads,
                    made.shared,
                    static_size(kernels[name].programs),
                    _buffers(functions[name]),
                )
            )

    return [[*times(each)] for each in proposals]


def _launch(function: Function, kernel: GpuKernel) -> GpuLaunch:
    """Return the `GpuLaunch` that describes a kernel whose sizes are all static."""
    taken, made = signature(function)
    source = kernel.source
    reads, writes = len(taken), len(made)
    return GpuLaunch(
        kernel.name, kernel.text, source.warps, source.stages, reads, writes, numbers=0
    )


def _buffers(function: Function) -> tuple[tuple[str, int], ...]:
    """Return (dtype, number of elements) of a function's arguments and then its
    results.
    """
    taken, made = signature(function)
    return tuple((kind.dtype, static_size(kind.elements)) for kind in (*taken, *made))
