"""Programs of the model files here, built for GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

from aotc.checks.kernel_check import EvaluatedKernels
from aotc.dialects.functions.functions import functions_of
from aotc.dialects.functions.fusion import fused_of
from aotc.importers import load
from aotc.kernels.gpu.emitter import NoTermKernel
from aotc.kernels.gpu.families import kernel_of_region
from aotc.kernels.gpu.kernel import GpuKernel
from aotc.machine.target import Target
from aotc.passes import run_passes
from aotc.passes.base import Unit
from aotc.passes.stages import PASS_STAGES

HERE = Path(__file__).parent


def unit_at(stage: str, file: str, target: str, **options: str) -> Unit:
    """The unit of a model file for a target, once the passes up to a stage have run."""
    unit = Unit(load(HERE / file))
    for name, value in options.items():
        setattr(unit.program, name, value)
    for each in PASS_STAGES:
        if each.per_target and unit.target is None:
            unit = unit.fork(Target.parse(target))
        run_passes(unit, each.passes(), silently=True)
        if each.name == stage:
            break
    return unit


@cache
def kernels_by_name(file: str, target: str) -> dict[str, GpuKernel]:
    """The kernels of the regions of a model file."""
    unit = unit_at("regions", file, target)
    found = {}
    for name, function in functions_of(unit.module).items():
        if fused_of(function) is not None:
            kernel = kernel_of_region(function)
            assert not isinstance(kernel, NoTermKernel), kernel.why
            found[f"{name}.kernel"] = kernel
    return found


def evaluated(
    steps: float,
    change: Mapping[str, str] | None = None,
    file: str = "dispatched.py",
    target: str = "cuda:sm_80",
) -> EvaluatedKernels:
    """Return an evaluator of a model file's entries by kernels, some of them edited."""
    unit = unit_at("regions", file, target)
    found = EvaluatedKernels(unit.program, (), (), steps)
    for name, function in functions_of(unit.module).items():
        if fused_of(function) is not None:
            kernel, term = found.kernel_of(function)
            for before, after in (change or {}).items():
                kernel = replace(kernel, text=kernel.text.replace(before, after))
            found.known[name] = kernel, term
    return found
