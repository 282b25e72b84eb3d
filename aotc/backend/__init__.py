"""The crossing to IREE: a linalg module in, a `.vmfb` and its costs out.

The linalg module crosses as MLIR bytecode of upstream dialects. What only IREE knows is
written as text and added on its side, in a worker process (`aotc.worker`), one
per target: globals for weights and state, and the exported functions around the graph
functions. IREE's compiler can crash on odd input; in a worker that is a diagnosed
failure.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aotc.artifacts.backends import BACKENDS
from aotc.artifacts.leftovers import temporary_folder
from aotc.backend.failures import failure_of, refusal_of, translate_disk_errors
from aotc.backend.memory_plans import (
    Memory,
    planned_memory,
    plans_of,
    unknown_memory,
)
from aotc.backend.reuse import KeptModule
from aotc.core import options
from aotc.core.cache import Cache
from aotc.core.installation import install_command
from aotc.core.json_values import JsonObject
from aotc.core.writing import make_folder, write_text
from aotc.counting import counters
from aotc.dialects.functions.entries import Entry
from aotc.dialects.lowering.summation import BLOCK
from aotc.errors import SetupError
from aotc.machine.target import PEELING, Target
from aotc.passes.base import PassRecord, Unit
from aotc.processes.running import RunningProcesses, run_python
from aotc.programs.program import Program

if TYPE_CHECKING:
    from aotc.backend.device_kernels import DeviceKernels
    from aotc.kernels.gpu.compiling import GpuCode
    from aotc.kernels.lowered import GpuLaunch

VECTOR_SUMS = "--iree-llvmcpu-reassociate-fp-reductions=true"

# For every target. Of what IREE does at higher levels than O0, sums are vectorised. The
# rest of O2 is wrong where an op reads a sum by rows and by columns (see
# `tests/dialects/test_double_reads.py`), and aggressive fusion fails where reductions
# share an operand. Constants are not evaluated while it compiles: code with kernels of
# ours cannot be loaded there. The defaults change f64 to f32 in public signatures;
# source paths would make builds differ.
COMMON_FLAGS = (
    "--iree-opt-level=O0",
    VECTOR_SUMS,
    "--iree-dispatch-creation-enable-aggressive-fusion=false",
    "--iree-opt-strip-assertions=false",
    "--iree-opt-const-eval=false",
    "--iree-input-demote-f64-to-f32=false",
    "--iree-vm-bytecode-module-strip-source-map",
    "--iree-vm-bytecode-module-strip-debug-ops",
    "--iree-llvmcpu-debug-symbols=false",
    "--iree-input-type=none",  # only upstream dialects cross to IREE
)

# IREE's plugins that it would load unasked. Compilation of a dispatch looks at all ops
# of all dialects that are loaded, so those of other inputs and other targets would take
# two fifths of its time.
PLUGINS = (
    "hal_target_cuda",
    "hal_target_llvm_cpu",
    "hal_target_local",
    "hal_target_metal_spirv",
    "hal_target_rocm",
    "hal_target_vmvx",
    "hal_target_vulkan_spirv",
    "input_stablehlo",
    "input_torch",
    "input_tosa",
)

# For a module of which IREE makes a dispatch that takes more numbers than a CPU does:
# ops whose results are read several times are not merged with their readers, so that
# there are more dispatches, of fewer operands.
SMALLER_STEPS = ("--iree-dispatch-creation-fuse-multi-use=false",)


# What IREE says where loops take too many vectors at once: products of f64 matrices do
# for AVX-512, and sums over two axes around one that stays, of symbolic sizes.
_TOO_LARGE = "operations with large vector sizes", "exceeded stack allocation limit"


@dataclass(frozen=True)
class CompiledVariant:
    """A module compiled for one target, with its costs and facts for the manifest.

    Args:
        target: what it was compiled for.
        vmfb: the module.
        passes: that the program went through, with their options.
        rewrites: what the passes over IREE's own IR did (`aotc.worker.rewrites`).
        flags: flags of the compiler, in order.
        compiler: version and revision of IREE's compiler.
        statistics: dispatches, transient bytes and the like, as IREE counts them.
        memory: of each entry that has a plan.
        memory_unknown: of each that has none, `why`, and its `unlimited` sizes.
        seconds: wall time of the worker.
        peak_bytes: largest resident set of the worker.
        kernels: of aotc's own, see `aotc.kernels.listing`.
        reuse: whether the cache had it: `off`, `hit`, or `miss` and why.
        kept: where the cache has the module; None if it has not.
    """

    target: Target
    vmfb: bytes
    passes: tuple[str, ...]
    rewrites: tuple[PassRecord, ...]
    flags: tuple[str, ...]
    compiler: dict[str, str]
    statistics: dict[str, int]
    memory: dict[str, Memory]
    memory_unknown: JsonObject
    seconds: float
    peak_bytes: int
    kernels: JsonObject
    reuse: str = "off"
    kept: KeptModule | None = None


def compile_targets(
    program: Program, targets: Sequence[Target]
) -> list[CompiledVariant]:
    """Compile one lowered program for each target; see `compile_units`."""
    return compile_units([Unit(program, target) for target in targets])


def compile_units(
    units: Sequence[Unit],
    *,
    dump: Path | None = None,
    finished: Callable[[CompiledVariant], None] | None = None,
    cache: Cache | None = None,
    meanwhile: Callable[[], object] = lambda: None,
) -> list[CompiledVariant]:
    """Compile lowered programs in parallel, each for its target; return the variants.

    Args:
        units: with their targets.
        dump: folder for what the compiler is given beside the IR.
        finished: is told of each variant as soon as it is compiled.
        cache: where modules are taken from and kept.
        meanwhile: is called while the compilers work.

    Raises:
        CompileError: the compiler refused the module, or died.
        SetupError: the compiler is not installed.
    """
    require_compiler()
    processes = max(1, _most_processes() // max(1, len(units)))
    jobs = [_Job.of(unit, cache, dump=dump, processes=processes) for unit in units]
    with _workers(len(jobs)) as (pool, running):
        work = [pool.submit(_compile, job, running) for job in jobs]
        meanwhile()
        for future in as_completed(work):
            if finished is not None:
                finished(future.result())
        return [future.result() for future in work]


def plan_memory(unit: Unit) -> dict[str, Memory]:
    """Return each entry's memory plan for a lowered program, without compiling it
    fully.

    Entries without a plan are left out: those that take a symbolic size without limit,
    and those whose memory depends on what they compute.

    Raises:
        CompileError: the compiler refused the module, or died.
    """
    job = _Job.of(unit, only_plans=True)
    with _workers(1) as (pool, running):
        report, _ = pool.submit(_run, job, running).result()
        return planned_memory(job.entries, report)


def compile_gpu_kernels(
    launches: Mapping[str, GpuLaunch], target: Target, numerics: str
) -> dict[str, GpuCode]:
    """Compile GPU kernels by Triton; return the code by name, without those that fail.

    Args:
        launches: by names of the caller's.
        target: a GPU.
        numerics: what results may be.
    """
    from aotc.backend.device_kernels import DeviceKernels
    from aotc.kernels.gpu.machines import gpu_of

    machine = gpu_of(target)
    assert machine is not None
    jobs = _most_processes()
    kernels = DeviceKernels(target, machine, numerics, launches, jobs, None)
    with _workers(1) as (pool, running):
        codes, _ = pool.submit(kernels.compile, running).result()
        return codes


@contextmanager
def _workers(count: int) -> Iterator[tuple[ThreadPoolExecutor, RunningProcesses]]:
    """Yield a thread pool and the compiler processes, which are killed if the block
    raises.
    """
    running = RunningProcesses()
    with ThreadPoolExecutor(max_workers=min(_most_processes(), count)) as pool:
        try:
            yield pool, running
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            running.stop()
            raise


def _most_processes() -> int:
    """Return the number of compiler processes to run in parallel."""
    return options.get("AOTC_JOBS") or os.cpu_count() or 1


def require_compiler() -> None:
    """Refuse to continue if IREE's compiler is not installed."""
    from importlib.util import find_spec

    if find_spec("iree") is None or find_spec("iree.compiler") is None:
        raise SetupError(
            "missing-extra",
            "compiling needs 'iree-base-compiler', which is not installed",
            hint=install_command("compiler"),
        )


# ---- the worker ---------------------------------------------------------------------


def target_flags(target: Target) -> tuple[str, ...]:
    """Return all flags of IREE's compiler for a target, in order."""
    return (*target.flags, *COMMON_FLAGS, *_flags_without_plugins(target))


def _flags_without_plugins(target: Target) -> list[str]:
    """Return the flags by which IREE loads no plugin that a target does not use."""
    own = f"hal_target_{target.backend.replace('-', '_')}"
    used = {own, "hal_target_local"}  # IREE asks each build for a CPU device
    return [f"--iree-plugin=-{name}" for name in PLUGINS if name not in used]


@dataclass(frozen=True)
class _Job:
    """The input of a worker process that compiles a module for a target.

    Args:
        target: what to compile for.
        entries: of the program.
        crossed: bytecode of the graph functions, and the frame around them.
        settings: what the worker is told beside these.
        passes: that the program went through.
        kernels: of the program.
        kept: where the cache has the module, if there is one.
        device_kernels: those for a GPU, if there are any.
        cross_without: the same as `crossed`, but for some of these kernels.
    """

    target: Target
    entries: Sequence[Entry]
    crossed: tuple[bytes, str]
    settings: dict[str, Any]
    passes: tuple[str, ...]
    kernels: JsonObject
    kept: KeptModule | None
    device_kernels: DeviceKernels | None
    cross_without: Callable[[Collection[str]], tuple[bytes, str]]

    @classmethod
    def of(
        cls,
        unit: Unit,
        cache: Cache | None = None,
        *,
        dump: Path | None = None,
        only_plans: bool = False,
        processes: int = 1,
    ) -> _Job:
        """Return the job that compiles a lowered program for its target.

        Args:
            unit: the program, and its target.
            cache: where modules are taken from and kept.
            dump: folder for what the compiler is given beside the IR.
            only_plans: whether only the memory of calls is asked for.
            processes: that compile kernels for GPUs.
        """
        from aotc.backend.crossing import crossing  # with all kernels
        from aotc.backend.device_kernels import DeviceKernels
        from aotc.kernels.listing import kernels_listed

        assert unit.target is not None
        target, entries = unit.target, unit.program.entries
        crossed = crossing(unit.program)
        settings = {
            "flags": target_flags(target),
            "plans": plans_of(entries),
            "is_mapped": BACKENDS[target.backend].on_cpu,
            "only_plans": only_plans,
            "verifies_each": options.get("AOTC_VERIFY_EACH"),
            "sum_block": BLOCK,
            "smaller_steps": SMALLER_STEPS,
            "dump": None,
        }
        if dump is not None:
            folder = make_folder(dump / target.id)
            write_text(folder / "iree-frame.mlir", crossed[1])
            settings["dump"] = str(folder.absolute() / "vmfb-passes")
        device_kernels = DeviceKernels.of(
            unit.module, target, unit.program.numerics, processes, cache
        )
        settings["device_kernels"] = device_kernels.parts() if device_kernels else {}
        kept = KeptModule.of(cache, unit, crossed, settings) if cache else None
        passes = tuple(unit.program.passes)
        kernels = kernels_listed(unit.module, target, passes)
        return cls(
            target,
            entries,
            crossed,
            settings,
            passes,
            kernels,
            kept,
            device_kernels,
            lambda uncompiled: crossing(unit.program, uncompiled),
        )


def _compile(job: _Job, running_processes: RunningProcesses) -> CompiledVariant:
    """Compile a job's module, or find it in the cache; return the variant."""
    start = time.perf_counter()
    found = job.kept.find() if job.kept else None
    with ExitStack() as stack:
        if job.kept and not found:  # one process compiles it, others wait for that
            wait = job.kept.lock(lambda: running_processes.is_stopped)
            found = stack.enter_context(wait)
        if found:
            report, vmfb = found
            own = {"seconds": time.perf_counter() - start, "peak_bytes": 0}
            report = {**report, **own}
            for each in report["rewrites"]:
                each["seconds"] = 0.0
            reuse = "hit"
        else:
            reuse = job.kept.why_missing() if job.kept else "off"
            report, vmfb = _run(job, running_processes)
            if job.kept:
                reuse += job.kept.keep(report, vmfb)
    labels = {"layer": "backend", "kind": "warm" if found else "cold"}
    counters.counter("compiles", labels).add()
    counters.histogram("compile_duration_seconds", labels).observe(report["seconds"])
    plans = planned_memory(job.entries, report)
    return CompiledVariant(
        target=job.target,
        vmfb=vmfb,
        passes=job.passes,
        rewrites=tuple(PassRecord(**each) for each in report["rewrites"]),
        flags=tuple(report["flags"]),
        compiler=report["compiler"],
        statistics=report["statistics"],
        memory=plans,
        memory_unknown=unknown_memory(job.entries, plans),
        seconds=report["seconds"],
        peak_bytes=report["peak_bytes"],
        kernels=_with_device_facts(job.kernels, report.get("device_kernels", {})),
        reuse=reuse,
        kept=job.kept,
    )


def _run(job: _Job, running_processes: RunningProcesses) -> tuple[JsonObject, bytes]:
    """Run the worker on a job; return its report, and the module if it compiles one."""
    report: JsonObject
    with temporary_folder() as root:
        if job.device_kernels is not None:
            report = _run_with_kernels(job, job.device_kernels, root, running_processes)
        else:
            _write_module(root, *job.crossed)
            report = _report(job, root, running_processes)
        only_plans = job.settings["only_plans"]
        return report, b"" if only_plans else (root / "module.vmfb").read_bytes()


def _run_with_kernels(
    job: _Job, kernels: DeviceKernels, root: Path, running_processes: RunningProcesses
) -> JsonObject:
    """Compile a module and its GPU kernels; return the worker's report.

    Kernels expect memory that begins at multiples of 16 bytes, as that of a tensor of
    its own does. Where IREE lets one read or write a part of a tensor in place, which
    may begin anywhere, it is compiled anew for that (see `aotc.worker.alignment`). Of
    a kernel that cannot be compiled, IREE compiles the ops.
    """
    from aotc.backend.crossing import with_executables

    unaligned: list[str] = []
    while True:
        only_plans = job.settings["only_plans"]  # which do not depend on the code
        codes, refused = (
            (kernels.placeholders(), {})
            if only_plans
            else kernels.compile(running_processes, unaligned)
        )
        bytecode, frame = job.cross_without([*refused]) if refused else job.crossed
        with translate_disk_errors(root):
            kernels.write_objects(root, codes)
        frame = with_executables(frame, kernels.executables(codes))
        _write_module(root, bytecode, frame)
        report = _report(job, root, running_processes)
        met = [name for name in report.pop("unaligned") if name not in unaligned]
        if not met or only_plans:
            facts = kernels.facts(codes, refused, unaligned)
            return {**report, "device_kernels": facts}
        unaligned += met


def _write_module(root: Path, bytecode: bytes, frame: str) -> None:
    """Write a worker's input files: bytecode and frame."""
    with translate_disk_errors(root):
        (root / "graph.mlirbc").write_bytes(bytecode)
        (root / "frame.mlir").write_text(frame, encoding="utf-8")


def _report(
    job: _Job, root: Path, running_processes: RunningProcesses
) -> dict[str, Any]:
    """Run the worker on the files in a folder, with fewer vectors if need be; return
    its report.
    """
    for flags in with_fewer_vectors(job.settings["flags"]):
        code, log = _run_worker(
            root, {**job.settings, "flags": flags}, running_processes
        )
        if not any(said in log for said in _TOO_LARGE):
            break
    if running_processes.is_stopped:
        raise CancelledError
    if code != 0 or not (root / "report.json").is_file():
        refusal = refusal_of(job.target, code, log, root)
        raise refusal or failure_of(job.target, code, log)
    found: dict[str, Any] = json.loads(
        (root / "report.json").read_text(encoding="utf-8")
    )
    return found


def _with_device_facts(kernels: JsonObject, facts: JsonObject) -> JsonObject:
    """Return the manifest's list of kernels with facts on their GPU code."""
    if not facts:
        return kernels
    from aotc.kernels.listing import without_uncompiled

    found = without_uncompiled(kernels, facts["refused"])
    codes, compiler = facts["codes"], facts["compiler"]
    rows = [{**row, "device": codes[row["name"]]} for row in found["regions"]]
    return {**found, "regions": rows, "compiler": compiler}


def with_fewer_vectors(flags: Sequence[str]) -> Iterator[list[str]]:
    """Yield compiler flags by which IREE uses ever fewer vectors at once in a loop.

    After those given: loops masked instead of peeled, then reductions in series.
    """
    yield [*flags]
    masked = [flag for flag in flags if flag != PEELING]
    if PEELING in flags:
        yield masked
    yield [flag for flag in masked if flag != VECTOR_SUMS]


def _environment() -> dict[str, str]:
    """Return the environment without secrets and without IREE's own variables."""
    inherited = options.child_environment()
    return {k: value for k, value in inherited.items() if not k.startswith("IREE_")}


def _run_worker(
    folder: Path, settings: dict[str, object], running_processes: RunningProcesses
) -> tuple[int, str]:
    """Run a worker process on the files in `folder`; return exit code and
    diagnostics.
    """
    with translate_disk_errors(folder):
        (folder / "job.json").write_text(json.dumps(settings), encoding="utf-8")
    # IREE dies of a folder for temporary files that is not there.
    environment = {**_environment(), "TMPDIR": str(folder)}
    worker = "-m", "aotc.worker", str(folder), str(os.getpid())
    done = run_python(*worker, environment=environment, running=running_processes)
    return done.code, done.log
