"""Kernels of whole models on a GPU, without one: a table for docs/gpu.md.

    pip install -e '.[torch,gpu]'
    python -m benchmarks.gpu_models [--targets TARGET …] [--models NAME …] [--kernels]
                                    [--precision f32|bf16|mixed:bf16]

For each model and target: how many dispatches a call has and how many are kernels of
aotc's own, how many different kernels these are, how long all calls of kernels take by
the model of the chip beside the floor (float operations over the nominal rate, or bytes
over the bandwidth, whichever is longer, kernel by kernel; of attention, which has no
model, the floor and a launch), which part of their time
products would take at the floor, without what a launch takes, the processor time of
Triton and the assembler, and how many kernels spill or have no code. `--kernels` lists
each kernel besides, and what IREE compiles. `train:NAME` is the training step of a
network, and `example:NAME` that of an example.

`--precision bf16` has weights and inputs in bf16; with `mixed:bf16` they are f32, and
products are computed in bf16, as `aotc build --precision mixed:bf16` has it.
"""

from __future__ import annotations

import argparse
import re
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
from aotc.backend.device_kernels import DeviceKernels, source_of
from aotc.core.numerics import MIXED
from aotc.dialects.functions.functions import functions_of
from aotc.dialects.functions.fusion import fused_of
from aotc.dialects.sizes.symbols import contracts_of, known_contracts
from aotc.errors import CompileError
from aotc.importers import load
from aotc.kernels.gpu import attention, matrices, products, rows, scatter, selection
from aotc.kernels.gpu.compiling import GpuCode, KernelSource
from aotc.kernels.gpu.families import kernel_of_region
from aotc.kernels.gpu.kernel import GpuKernel
from aotc.kernels.gpu.machines import Gpu, gpu_of
from aotc.kernels.gpu.worker import compile_source
from aotc.kernels.term_builder import term_of
from aotc.machine.target import Target
from aotc.mlir import Function
from aotc.passes import run_passes
from aotc.passes.base import Unit
from aotc.passes.mix_precision import MixPrecision
from aotc.passes.stages import PASS_STAGES

BENCHMARKS = Path(__file__).parent
MODELS = ("resnet50", "bert", "vit", "gpt2", "llama")
TRAINED = tuple(f"train:{name}" for name in MODELS)
EXAMPLES = tuple(f"example:{name}" for name in ("bert", "gpt", "resnet", "mlp"))
HEAD = (
    "| model | target | dispatches | by kernels | different | us, model | us, floor | "
    "products | s to compile | spill | refused |"
)
# IREE's names of what it compiles, which stand in PTX before those of their arguments
_DISPATCH = re.compile(rb"(?!_initializer)\b\w+?_dispatch_\d+\w*?(?=_param_0\b)")


@dataclass(frozen=True)
class Row:
    """The code size, resources and modelled time of one kernel.

    Args:
        name: of its region.
        schedule: how it is cut up.
        calls: of it in a call of the model.
        expected: nanoseconds by the model of the chip.
        floor: at least.
        is_product: whether it is one of matrices.
        code: what it became; None where Triton refused it.
    """

    name: str
    schedule: str
    calls: int
    expected: float
    floor: float
    is_product: bool
    code: GpuCode | None

    @property
    def without_launch(self) -> float:
        """Nanoseconds by the model, without the launch."""
        return max(self.expected - matrices.START, self.floor)

    def __str__(self) -> str:
        """Return a line of a list."""
        code = self.code
        told = (
            "refused"
            if code is None
            else f"{code.registers} registers, {code.spilled} spilled"
        )
        return (
            f"    {self.calls} x {self.name} ({self.schedule}): "
            f"{self.expected / 1e3:.1f} us, floor {self.floor / 1e3:.1f}; {told}"
        )


@dataclass(frozen=True)
class Figures:
    """The counts and costs of all kernels of a model.

    Args:
        dispatches: of a call.
        calls: of kernels among them.
        kernels: how many different ones these are.
        rows: a kernel each.
        others: names of what IREE compiles, and why ops have no kernel.
        seconds: processor time of Triton and the assembler.
        spilled: kernels that spill registers.
        refused: kernels without code.
    """

    dispatches: int
    calls: int
    kernels: int
    rows: list[Row]
    others: list[str]
    seconds: float
    spilled: int
    refused: int

    def line(self, name: str, target: Target) -> str:
        """Return a line of the table."""
        expected = sum(each.calls * each.expected for each in self.rows)
        floor = sum(each.calls * each.floor for each in self.rows)
        products = [each for each in self.rows if each.is_product]
        whole = sum(
            x.calls * max(x.expected - matrices.START, x.floor) for x in products
        )
        least = sum(each.calls * each.floor for each in products)
        share = f"{least / whole:.2f}" if whole else "-"
        return (
            f"| {name} | {target} | {self.dispatches} | {self.calls} | "
            f"{self.kernels} | {expected / 1e3:,.0f} | {floor / 1e3:,.0f} | {share} | "
            f"{self.seconds:.1f} | {self.spilled} | {self.refused} |"
        )


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu_models", description=__doc__
    )
    parser.add_argument("--models", nargs="+", default=[*MODELS, *TRAINED, *EXAMPLES])
    targets = "cuda:sm_80", "cuda:sm_89", "cuda:sm_90a", "rocm:gfx942"
    parser.add_argument("--targets", nargs="+", type=Target.parse, default=targets)
    parser.add_argument("--kernels", action="store_true", help="list each kernel")
    known = "f32", "bf16", *MIXED
    parser.add_argument("--precision", choices=known, default="f32")
    parser.add_argument("--batch", type=int, default=8)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print(HEAD, "|---" * HEAD.count(" | ") + "|---|", sep="\n", flush=True)
    for name in options.models:
        with tempfile.TemporaryDirectory() as folder:
            unit = _unit(name, options, Path(folder))
            if options.precision in MIXED:
                mixing = MixPrecision(MIXED[options.precision])
                run_passes(unit, (mixing,), silently=True)
            graph, *_ = PASS_STAGES
            run_passes(unit, graph.passes(), silently=True)
            for target in map(Target.parse, map(str, options.targets)):
                figures = measure(Unit(unit.program.copy()).fork(target), target)
                print(figures.line(name, target), flush=True)
                if options.kernels:
                    others = [f"    IREE: {each}" for each in figures.others]
                    print(*figures.rows, *others, sep="\n", flush=True)
    return 0


def _unit(name: str, options: argparse.Namespace, folder: Path) -> Unit:
    """Import a network of the zoo, its training step, or that of an example."""
    kind, _, own = name.rpartition(":")
    if kind == "example":
        example = BENCHMARKS.parent / "examples" / own / "model.py"
        entry = "train_mlp" if own == "mlp" else "train_step"
        return Unit(load(example, (entry,)))
    sys.path.insert(0, str(BENCHMARKS))
    if kind == "train":
        from models_zoo import training

        model = folder / "model.py"
        model.write_text(training.source(own, options.batch), encoding="utf-8")
        return Unit(load(model, ("train_step",)))
    import models_zoo
    import torch

    module, inputs = models_zoo.module(name), models_zoo.inputs(name, options.batch)
    if options.precision == "bf16":
        module = module.to(torch.bfloat16)
        floats = {k: x for k, x in inputs.items() if x.is_floating_point()}
        inputs |= {k: x.to(torch.bfloat16) for k, x in floats.items()}
    file = folder / "program.pt2"
    with torch.no_grad():
        torch.export.save(torch.export.export(module, (), kwargs=inputs), file)
    return Unit(load(file))


def measure(unit: Unit, target: Target) -> Figures:
    """Run the passes and compile all kernels of a program; return the figures."""
    machine = gpu_of(target)
    assert machine is not None
    times: dict[str, tuple[float, float, bool]] = {}
    kernels: dict[str, GpuKernel] = {}
    for stage in PASS_STAGES[1:]:
        run_passes(unit, stage.passes(), silently=True)
        if stage.name == "regions":
            for name, function in functions_of(unit.module).items():
                if fused_of(function) is not None:
                    kernel = kernel_of_region(function)
                    assert isinstance(kernel, GpuKernel)
                    kernels[name] = kernel
                    times[name] = times_of(function, machine)
    found, sources = _compiled(unit)
    different = [*{*sources.values()}]
    made = _code(different, machine)
    code_of = {x: code for x, (code, _) in zip(different, made, strict=True)}
    calls = {
        row["name"]: sum(each["calls"] for each in row["entries"].values())
        for row in found.kernels["regions"]
    }
    codes = [each for each, _ in made if each is not None]
    dispatched = sorted({each.decode() for each in _DISPATCH.findall(found.vmfb)})
    return Figures(
        found.statistics["dispatches"],
        sum(calls.values()),
        len(made),
        [
            Row(
                name,
                str(kernels[_region_of(name)].schedule),
                count,
                *times[_region_of(name)],
                code_of[sources[name]],
            )
            for name, count in sorted(calls.items())
        ],
        [*dispatched, *(_refusal_text(row) for row in found.kernels["without"])],
        sum(seconds for _, seconds in made),
        sum(1 for each in codes if each.spilled),
        len(made) - len(codes),
    )


def times_of(function: Function, machine: Gpu) -> tuple[float, float, bool]:
    """Return a kernel's modelled nanoseconds, their lower bound, and if it is a
    product.

    With it whether it is a product.
    """
    with function.context, known_contracts(contracts_of(function)):
        term = term_of(function)
        assert term is not None
        moved, dtype, operations = rows.moved_bytes(term), "f32", 0
        anchors = [each.anchor for each in products.groups_of(term)]
        if anchors:
            joined = [*map(matrices.Counts.of, anchors)]
            dtype = matrices.factor_dtype(anchors[0])
            operations = sum(2 * x.batch * x.rows * x.columns * x.depth for x in joined)
            tile = products.plan(term, machine)
            expected = matrices.joined_nanoseconds(tile, joined, dtype, machine)
        elif (attended := attention.parts_of(term)) is not None:
            both = [matrices.Counts.of(x) for x in (attended.scores, attended.sums)]
            dtype = matrices.factor_dtype(attended.scores)
            operations = sum(2 * x.batch * x.rows * x.columns * x.depth for x in both)
            least = max(operations / machine.rate(dtype), moved / machine.bandwidth)
            expected = rows.START + least  # there is no model of it
        elif scatter.parts_of(term) is not None:
            expected = scatter.nanoseconds(term, machine)
        elif term.statements and selection.anchor_of(term) is not None:
            expected = selection.nanoseconds(term, machine)
        elif (first := rows.anchor_of(term)) is not None:
            expected = rows.nanoseconds(rows.ReductionWork.of(term, first), machine)
        else:
            expected = rows.START + moved / machine.bandwidth
    floor = max(operations / machine.rate(dtype), moved / machine.bandwidth)
    return max(expected, floor), floor, bool(anchors)


def _refusal_text(row: dict[str, Any]) -> str:
    """Return a row of ops without a kernel as text."""
    return f"{row['count']} x {row['op']}: {row['why']}"


def _region_of(kernel: str) -> str:
    """Return the region name of a kernel, with the in-place suffix removed."""
    return kernel.removesuffix(".kernel").partition(".in_place")[0]


def _compiled(unit: Unit) -> tuple[Any, dict[str, KernelSource]]:
    """Compile a program with empty kernels; return the variant and kernel sources.

    With it the sources of its kernels, by name.
    """
    sources: dict[str, KernelSource] = {}
    whole = DeviceKernels.__dict__["_compile_all"]

    def nothing(kernels: DeviceKernels, missing: Any, _: Any) -> Iterator[Any]:
        for name, launch in kernels.launches.items():
            sources.setdefault(name, source_of(launch, is_aligned=True))
        for source in missing:
            yield source, GpuCode(b"//", 32 * source.warps, 0, source.stages, 1, 0)

    try:
        DeviceKernels._compile_all = nothing  # type: ignore[method-assign]
        (found,) = compile_units([unit])
    finally:
        DeviceKernels._compile_all = whole  # type: ignore[method-assign]
    return found, sources


def _code(
    sources: list[KernelSource], machine: Gpu
) -> list[tuple[GpuCode | None, float]]:
    """Compile kernel sources in parallel; return code, None if refused, and seconds."""
    with ProcessPoolExecutor(max_workers=2) as pool:
        return [*pool.map(_compile_one, sources, [machine] * len(sources))]


def _compile_one(source: KernelSource, machine: Gpu) -> tuple[GpuCode | None, float]:
    """Compile one kernel; return its code or None, and the processor time."""
    start = _processor_seconds()
    try:
        made = compile_source(source, machine.arch, "strict", machine.shared_bytes)
    except CompileError:
        made = None
    return made, _processor_seconds() - start


def _processor_seconds() -> float:
    """Return the processor time of this process and its children."""
    used = time.process_time()
    import resource

    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used + children.ru_utime + children.ru_stime


if __name__ == "__main__":
    sys.exit(main())
