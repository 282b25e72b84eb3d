"""Kernels of usual shapes in many schedules, as machine code that is timed there."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from aotc.core.dtypes import bits
from aotc.dialects.functions.functions import functions_of
from aotc.dialects.sizes.symbols import contracts_of, known_contracts
from aotc.dialects.types import Tensor, static_size
from aotc.errors import CompileError
from aotc.importers import load
from aotc.kernels.gpu import matrices, products
from aotc.kernels.gpu.candidates import candidates
from aotc.kernels.gpu.compiling import ALONE, KernelSource, compile_kernel
from aotc.kernels.gpu.emitter import FORMS, NoTermKernel, emit_planned
from aotc.kernels.gpu.machines import MACHINES, Gpu
from aotc.kernels.term_builder import term_of
from aotc.kernels.terms import Term
from aotc.passes import run_passes
from aotc.passes.base import Unit
from aotc.passes.stages import PASS_STAGES

ARCHIVE = "schedules.tar.xz"
MOST = 16  # of a kernel, so that all have room in a run
MODEL = Path(__file__).with_name("models") / "kernels.py"


@dataclass(frozen=True)
class Timed:
    """A kernel compiled in one schedule, to be timed on a GPU.

    Args:
        kernel: name of what it computes.
        file: of its code in the archive; None where Triton has refused it.
        function: name of it in the code.
        schedule: how its work is cut up, as a file holds it.
        chosen: whether the model of the chip has chosen the schedule.
        threads: of a program.
        shared: bytes of memory that they share.
        programs: how many are launched.
        buffers: dtype and elements of arguments and results.
        inputs: how many of the buffers are arguments.
        expected: nanoseconds by the model of the chip; None where it has none.
        floor: the longer of operations over the rate and bytes over the bandwidth.
        operations: of the products.
        moved: bytes of arguments and results.
    """

    kernel: str
    file: str | None
    function: str
    schedule: dict[str, Any]
    chosen: bool
    threads: int
    shared: int
    programs: int
    buffers: list[tuple[str, int]]
    inputs: int
    expected: float | None
    floor: float
    operations: int
    moved: int


def write_schedules(folder: Path, arch: str, *, most: int = MOST) -> int:
    """Compile kernels in many schedules; write them as an archive.

    Returns how many schedules there are.

    Args:
        folder: in which the archive is written.
        arch: the chip, such as sm_90.
        most: schedules of a kernel, at most.
    """
    machine = MACHINES[arch]
    jobs = [*_jobs(machine, most)]
    with tempfile.TemporaryDirectory() as scratch:
        code = Path(scratch)
        with ProcessPoolExecutor(max_workers=2) as pool:
            numbered = enumerate(jobs)
            work = [(code, n, source, machine) for n, (_, source) in numbered]
            made = [*pool.map(_compile, *zip(*work, strict=True))]
        told = []
        for (row, _), found in zip(jobs, made, strict=True):
            file, shared = found or (None, 0)
            told.append(asdict(replace(row, file=file, shared=shared)))
        text = json.dumps({"arch": arch, "rows": told}, indent=1)
        (code / "schedules.json").write_text(text, encoding="utf-8")
        with tarfile.open(folder / ARCHIVE, "w:xz") as archive:
            archive.add(code, ".")
    return len(jobs)


def _jobs(machine: Gpu, most: int) -> Iterator[tuple[Timed, KernelSource]]:
    """Yield the kernels to compile, each in all its schedules."""
    unit = Unit(load(MODEL))
    run_passes(unit, PASS_STAGES[0].passes(), silently=True)
    for name, function in functions_of(unit.module).items():
        with function.context, known_contracts(contracts_of(function)):
            term = term_of(function)
            assert term is not None
            form = next(key for key, each in FORMS.items() if each.takes(term))
            chosen = FORMS[form].plan(term, machine)
            schedules = candidates(term, form, machine, chosen)[: most + 1]
        for schedule in schedules:
            kernel = emit_planned(term, name, form, schedule, "ieee")
            if isinstance(kernel, NoTermKernel):
                raise SystemExit(f"{name}: {kernel.why}")
            row = _row(name, term, form, schedule, kernel.programs, machine)
            row = replace(row, threads=kernel.warps * machine.warp)
            yield replace(row, chosen=schedule == chosen), kernel.source


def _row(
    name: str, term: Term, form: str, schedule: Any, programs: Any, machine: Gpu
) -> Timed:
    """Return the facts of a kernel in a schedule, without its code."""
    kinds = [Tensor.of(x) for x in (*term.arguments, *term.results)]
    moved = sum(static_size(k.elements) * bits(k.dtype) // 8 for k in kinds)
    operations, dtype, expected = 0, "f32", None
    for statement in term.statements:
        if len(statement.factors) == 2:
            count = matrices.Counts.of(statement)
            operations += 2 * count.batch * count.rows * count.columns * count.depth
            dtype = matrices.factor_dtype(statement)
    if form == "product":
        anchor = products.groups_of(term)[0].anchor
        counts = matrices.Counts.of(anchor)
        expected = matrices.nanoseconds(schedule, counts, dtype, machine)
    return Timed(
        kernel=name,
        file=None,
        function=name,
        schedule=schedule.to_plain(),
        chosen=False,
        threads=0,
        shared=0,
        programs=static_size(programs),
        buffers=[(k.dtype, static_size(k.elements)) for k in kinds],
        inputs=len(term.arguments),
        expected=expected,
        floor=max(operations / machine.rate(dtype), moved / machine.bandwidth),
        operations=operations,
        moved=moved,
    )


def _compile(
    folder: Path, number: int, source: KernelSource, machine: Gpu
) -> tuple[str, int] | None:
    """Compile a kernel to a cubin file; return its name and shared memory, None if
    refused.
    """
    from triton import knobs

    try:
        made = compile_kernel(source, machine.arch, "strict", machine.shared_bytes)
    except CompileError as error:
        print(f"{source.name}: {error.message}", file=sys.stderr, flush=True)
        return None
    text, code = folder / f"{number}.ptx", folder / f"{number}.cubin"
    text.write_bytes(made.code)
    suffix = "a" if machine.arch in ALONE else ""
    command = [knobs.nvidia.ptxas.path, f"--gpu-name={machine.arch}{suffix}"]
    subprocess.run([*command, str(text), "-o", str(code)], check=True)
    text.unlink()
    return code.name, made.shared
