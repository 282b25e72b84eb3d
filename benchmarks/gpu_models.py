"""What whole models become on a GPU, without one: a table for docs/gpu.md.

    pip install -e '.[torch,gpu]' && python -m benchmarks.gpu_models [--models NAME …]

For each model: how many dispatches a call has and how many are kernels of aotc's own,
how many different kernels these are, how long all calls of kernels take by the model of
the chip beside the floor (float operations over the nominal rate, or bytes over the
bandwidth, whichever is longer, kernel by kernel), the processor time that Triton and
the assembler take for them, and how many of them spill or have no code. `train:NAME` is
the training step of an example.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aotc.backend import compile_units
from aotc.backend.device_kernels import DeviceKernels
from aotc.dialects.functions import functions_of
from aotc.dialects.fusion import fused_of
from aotc.dialects.symbols import contracts_of, known_contracts
from aotc.errors import CompileError
from aotc.importers import load
from aotc.kernels.gpu import matrices, products, rows, scatter
from aotc.kernels.gpu.compiling import Compiled, KernelSource
from aotc.kernels.gpu.families import kernel_of_region
from aotc.kernels.gpu.machines import Gpu, gpu_of
from aotc.kernels.gpu.worker import compile_source
from aotc.kernels.term_builder import term_of
from aotc.mlir import Function
from aotc.passes import run_passes
from aotc.passes.base import Unit
from aotc.passes.stages import PASS_STAGES
from aotc.target import Target

BENCHMARKS = Path(__file__).parent
MODELS = ("resnet50", "bert", "vit", "gpt2", "llama")
TRAINED = ("train:bert", "train:gpt", "train:resnet", "train:mlp")
HEAD = (
    "| model | dispatches | by kernels | different | us, model | us, floor | s to "
    "compile | spill | refused |"
)


@dataclass(frozen=True)
class Figures:
    """What there is to be told of a model."""

    dispatches: int
    calls: int
    kernels: int
    expected: float
    floor: float
    seconds: float
    spilled: int
    refused: int

    def row(self, name: str) -> str:
        """Return a line of the table."""
        return (
            f"| {name} | {self.dispatches} | {self.calls} | {self.kernels} | "
            f"{self.expected / 1e3:,.0f} | {self.floor / 1e3:,.0f} | "
            f"{self.seconds:.1f} | {self.spilled} | {self.refused} |"
        )


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu_models", description=__doc__
    )
    parser.add_argument("--models", nargs="+", default=[*MODELS, *TRAINED])
    parser.add_argument("--target", default="cuda:sm_80")
    parser.add_argument("--dtype", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--batch", type=int, default=8)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print(HEAD, "|---" * HEAD.count(" | ") + "|---|", sep="\n", flush=True)
    for name in options.models:
        with tempfile.TemporaryDirectory() as folder:
            unit = _unit(name, options, Path(folder))
            figures = measure(unit, Target.parse(options.target))
        print(figures.row(name), flush=True)
    return 0


def _unit(name: str, options: argparse.Namespace, folder: Path) -> Unit:
    """Import a model of the zoo, or the training step of an example."""
    if name.startswith("train:"):
        example = BENCHMARKS.parent / "examples" / name.partition(":")[2] / "model.py"
        entry = "train_mlp" if name.endswith("mlp") else "train_step"
        return Unit(load(example, (entry,)))
    sys.path.insert(0, str(BENCHMARKS))
    import models_zoo
    import torch

    module, inputs = models_zoo.module(name), models_zoo.inputs(name, options.batch)
    if options.dtype == "bf16":
        module = module.to(torch.bfloat16)
        floats = {k: x for k, x in inputs.items() if x.is_floating_point()}
        inputs |= {k: x.to(torch.bfloat16) for k, x in floats.items()}
    file = folder / "program.pt2"
    with torch.no_grad():
        torch.export.save(torch.export.export(module, (), kwargs=inputs), file)
    return Unit(load(file))


def measure(unit: Unit, target: Target) -> Figures:
    """Return the figures of a program for a target."""
    machine = gpu_of(target)
    assert machine is not None
    times: dict[str, tuple[float, float]] = {}
    sources: dict[str, KernelSource] = {}
    for stage in PASS_STAGES:
        if stage.per_target and unit.target is None:
            unit = unit.fork(target)
        run_passes(unit, stage.passes(), silently=True)
        if stage.name == "regions":
            for name, function in functions_of(unit.module).items():
                if fused_of(function) is not None:
                    kernel = kernel_of_region(function)
                    sources[name] = kernel.source  # type: ignore[union-attr]
                    times[name] = times_of(function, machine)
    found, made = _compiled(unit), _code([*{*sources.values()}], machine)
    calls = {
        row["name"].removesuffix(".kernel"): sum(
            each["calls"] for each in row["entries"].values()
        )
        for row in found.kernels["regions"]
    }
    codes = [each for each, _ in made if each is not None]
    return Figures(
        found.statistics["dispatches"],
        sum(calls.values()),
        len(made),
        sum(count * times[name][0] for name, count in calls.items()),
        sum(count * times[name][1] for name, count in calls.items()),
        sum(seconds for _, seconds in made),
        sum(1 for each in codes if each.spilled),
        len(made) - len(codes),
    )


def times_of(function: Function, machine: Gpu) -> tuple[float, float]:
    """Return how long a kernel takes by the model of a chip, and at least."""
    with function.context, known_contracts(contracts_of(function)):
        term = term_of(function)
        assert term is not None
        moved, dtype, operations = rows.moved_bytes(term), "f32", 0
        anchor = products.anchor_of(term)
        if anchor is not None:
            counts, dtype = matrices.Counts.of(anchor), matrices.factor_dtype(anchor)
            operations = 2 * counts.batch * counts.rows * counts.columns * counts.depth
            tile = products.plan(term, machine)
            expected = matrices.nanoseconds(tile, counts, dtype, machine)
        elif scatter.parts_of(term) is not None:
            expected = scatter.nanoseconds(term, machine)
        elif (first := rows.anchor_of(term)) is not None:
            expected = rows.nanoseconds(rows.Work.of(term, first), machine)
        else:
            expected = rows.START + moved / machine.bandwidth
    floor = max(operations / machine.rate(dtype), moved / machine.bandwidth)
    return max(expected, floor), floor


def _compiled(unit: Unit) -> Any:
    """Return the variant of a program, with nothing in the place of kernels' code."""
    whole = DeviceKernels.__dict__["_compile_all"]

    def nothing(_: Any, missing: Any, __: Any) -> Iterator[Any]:
        for source in missing:
            yield source, Compiled(b"//", 32 * source.warps, 0, source.stages, 1, 0)

    try:
        DeviceKernels._compile_all = nothing  # type: ignore[method-assign]
        (found,) = compile_units([unit])
    finally:
        DeviceKernels._compile_all = whole  # type: ignore[method-assign]
    return found


def _code(
    sources: list[KernelSource], machine: Gpu
) -> list[tuple[Compiled | None, float]]:
    """Return the code of kernels, or None, and the processor time that it took."""
    with ProcessPoolExecutor(max_workers=2) as pool:
        return [*pool.map(_compile_one, sources, [machine] * len(sources))]


def _compile_one(source: KernelSource, machine: Gpu) -> tuple[Compiled | None, float]:
    start = _processor_seconds()
    try:
        made = compile_source(source, machine.arch, "strict", machine.shared_bytes)
    except CompileError:
        made = None
    return made, _processor_seconds() - start


def _processor_seconds() -> float:
    """Return the processor time of this process and of the assemblers that it ran."""
    used = time.process_time()
    import resource

    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used + children.ru_utime + children.ru_stime


if __name__ == "__main__":
    sys.exit(main())
