"""The kernels of a program for GPUs: compiled by Triton, and as IREE dispatches them.

They are compiled by processes side by side, and each is kept in the cache by all that
it depends on: its text, the chip, Triton's version and how numbers may be computed.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from pathlib import Path

from aotc.artifacts.leftovers import temporary_folder
from aotc.core import options
from aotc.core.cache import Cache, CacheRecipe, digest
from aotc.core.installation import triton_version
from aotc.core.json_values import JsonObject
from aotc.dialects.iree_text import frame
from aotc.errors import CompileError
from aotc.errors.exit_status import exit_cause
from aotc.kernels.gpu import compiling
from aotc.kernels.gpu.compiling import GpuCode, KernelSource
from aotc.kernels.gpu.machines import Gpu, gpu_of
from aotc.kernels.gpu.tying import write_over
from aotc.kernels.gpu.worker import read_result, write_job
from aotc.kernels.lowered import GpuLaunch, kernels_of
from aotc.machine.target import Target
from aotc.mlir import Module
from aotc.processes.running import RunningProcesses, run_python

# IREE 3.13's drivers of CUDA and HIP load no code that binds more (native_executable.h)
MOST_BINDINGS = 16
_SUFFIXES = {"cuda": ".ptx", "rocm": ".hsaco"}


@dataclass(frozen=True)
class DeviceKernels:
    """The GPU kernels of a program, compiled by Triton, with their code so far.

    Args:
        target: that they are for.
        machine: the model of its chip.
        numerics: what results may be.
        launches: by the name of the executable.
        jobs: processes that compile them at most.
        cache: what keeps their code.
        made: what has been compiled so far.
    """

    target: Target
    machine: Gpu
    numerics: str
    launches: Mapping[str, GpuLaunch]
    jobs: int
    cache: Cache | None
    made: dict[KernelSource, GpuCode] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        module: Module,
        target: Target,
        numerics: str,
        jobs: int,
        cache: Cache | None,
    ) -> DeviceKernels | None:
        """Return the GPU kernels of a lowered module; None if it has none."""
        found = {each.name: each.launch for each in kernels_of(module) if each.launch}
        machine = gpu_of(target)
        if not found or machine is None:
            return None
        return cls(target, machine, numerics, found, jobs, cache)

    def parts(self) -> dict[str, str]:
        """Return the cache key parts of all inputs of the kernels' code."""
        rows = {name: asdict(each) for name, each in self.launches.items()}
        return {"GPU kernels": digest(json.dumps(rows)), **self._tools()}

    def _tools(self) -> dict[str, str]:
        """Return the cache key parts of chip, numerics and Triton's version."""
        return {
            "chip": str(self.machine),
            "numerics": self.numerics,
            "triton": triton_version(),
            "driver of triton": digest(Path(compiling.__file__).read_bytes()),
        }

    def placeholders(self) -> dict[str, GpuCode]:
        """Return empty code for each kernel, for jobs that need only memory plans."""
        return {
            name: GpuCode(b"", self.machine.warp * launch.warps, 0, launch.stages)
            for name, launch in self.launches.items()
        }

    def compile(
        self, running_processes: RunningProcesses, unaligned: Collection[str] = ()
    ) -> tuple[dict[str, GpuCode], dict[str, str]]:
        """Compile the kernels not compiled yet; return code, and reasons for those
        without.

        Args:
            running_processes: notes the processes that compile.
            unaligned: the kernels whose memory may begin anywhere.

        Raises:
            CompileError: `kernel-not-compiled`: a process ended before it was done,
                and not of a kernel.
        """
        many = {
            name: f"it binds {count} tensors, and IREE's drivers of GPUs take "
            f"{MOST_BINDINGS}"
            for name, launch in self.launches.items()
            if (count := len(_accesses(launch))) > MOST_BINDINGS
        }
        sources = {
            name: source_of(launch, is_aligned=name not in unaligned)
            for name, launch in self.launches.items()
            if name not in many
        }
        missing: dict[KernelSource, str] = {}
        for name, source in sources.items():
            kept = self.made.get(source) or self._find(source)
            if kept is not None:
                self.made[source] = kept
            else:
                missing.setdefault(source, name)
        refused: dict[KernelSource, str] = {}
        for source, found in self._compile_all(missing, running_processes):
            if isinstance(found, str):
                refused[source] = found
                continue
            self.made[source] = found
            self._keep(source, found)
        codes = {
            name: self.made[source]
            for name, source in sources.items()
            if source not in refused
        }
        whys = {name: refused[x] for name, x in sources.items() if x in refused}
        return codes, {**many, **whys}

    def _compile_all(
        self, missing: Mapping[KernelSource, str], running_processes: RunningProcesses
    ) -> Iterator[tuple[KernelSource, GpuCode | str]]:
        """Compile kernels in parallel; yield the code of each, or why there is none."""
        sources = [*missing]
        count = max(1, min(self.jobs, len(sources)))
        shares = [sources[number::count] for number in range(count) if sources]
        with ThreadPoolExecutor(max_workers=count) as pool:
            work = pool.map(
                lambda share: self._compile_share(share, running_processes), shares
            )
            for share, results in zip(shares, work, strict=True):
                yield from zip(share, results, strict=True)

    def _compile_share(
        self, sources: Sequence[KernelSource], running_processes: RunningProcesses
    ) -> list[GpuCode | str]:
        """Compile kernels in one process, restarted after each kernel that kills it.

        Raises:
            CompileError: `kernel-not-compiled`: a process ended, and of no kernel.
        """
        found: list[GpuCode | str] = []
        while len(found) < len(sources):
            rest = sources[len(found) :]
            with temporary_folder() as folder:
                settings = {
                    "arch": self.machine.arch,
                    "numerics": self.numerics,
                    "most_shared": self.machine.shared_bytes,
                }
                write_job(folder, rest, settings)
                code, log = _run_worker(folder, running_processes)
                if running_processes.is_stopped:
                    raise CancelledError
                for number in range(len(rest)):
                    result = read_result(folder, number)
                    if result is None:
                        found.append(_why_died(rest[number], self.target, code, log))
                        break
                    found.append(result)
        return found

    def _recipe(self, source: KernelSource) -> CacheRecipe:
        """Return the cache key of a kernel."""
        parts = {"source": digest(json.dumps(asdict(source))), **self._tools()}
        return CacheRecipe("gpu-kernel", f"{self.target}: {source.name}", parts)

    def _find(self, source: KernelSource) -> GpuCode | None:
        """Return a kernel's code from the cache, or None."""
        value = self.cache.find(self._recipe(source)) if self.cache else None
        if value is None:
            return None
        facts, _, code = value.partition(b"\n")
        return GpuCode(code, **json.loads(facts))

    def _keep(self, source: KernelSource, made: GpuCode) -> None:
        """Store a kernel's code in the cache."""
        if self.cache is not None:
            facts = asdict(replace(made, code=b""))
            del facts["code"]
            value = json.dumps(facts).encode() + b"\n" + made.code
            self.cache.keep(self._recipe(source), value)

    def write_objects(self, folder: Path, codes: Mapping[str, GpuCode]) -> None:
        """Write the kernels' code to the files that IREE links."""
        for name, made in codes.items():
            (folder / self._object_name(name)).write_bytes(made.code)

    def executables(self, codes: Mapping[str, GpuCode]) -> list[str]:
        """Return the lines of IREE's frame that define the compiled kernels."""
        return [
            line
            for name, launch in self.launches.items()
            if name in codes
            for line in frame.device_executable(
                name,
                self.target.backend,
                launch.function,
                self._object_name(name),
                _accesses(launch),
                launch.numbers,
                codes[name].threads,
                codes[name].shared,
            )
        ]

    def _object_name(self, name: str) -> str:
        """Return the file name of a kernel's code."""
        number = [*self.launches].index(name)
        return f"kernel-{number}{_SUFFIXES[self.target.backend]}"

    def facts(
        self,
        codes: Mapping[str, GpuCode],
        refused: Mapping[str, str],
        unaligned: Collection[str],
    ) -> JsonObject:
        """Return the manifest's facts on the kernels' code and its compiler.

        Args:
            codes: of the kernels that there is code of.
            refused: why there is none of the others.
            unaligned: the kernels whose memory may begin anywhere.
        """
        rows = {
            name: {
                "threads": made.threads,
                "shared_bytes": made.shared,
                "stages": made.stages,
                "registers": made.registers,
                "spilled": made.spilled,
                "aligned": name not in unaligned,
                "sha256": sha256(made.code).hexdigest(),
                "text": digest(self.launches[name].text),
            }
            for name, made in codes.items()
        }
        whys = {
            name: {"why": why, "text": digest(self.launches[name].text)}
            for name, why in refused.items()
        }
        compiler = f"triton {triton_version()}"
        return {"codes": rows, "refused": whys, "compiler": compiler}


def source_of(launch: GpuLaunch, *, is_aligned: bool) -> KernelSource:
    """Return the Triton source of a kernel; without alignment hints if not aligned."""
    text = launch.text
    if launch.tied or launch.awaited:
        text = write_over(text, launch.reads, launch.tied, launch.awaited)
    found = KernelSource(launch.function, text, launch.warps, launch.stages)
    return found if is_aligned else found.without_alignment()


def _accesses(launch: GpuLaunch) -> list[bool]:
    """Return, for each tensor that a kernel binds, whether it is written."""
    read = [number in launch.tied for number in range(launch.reads)]
    own = launch.writes - sum(at >= 0 for at in launch.tied)
    return [*read, *[False] * launch.awaited, *[True] * own]


# what ends a process that is at fault itself, and not its user or the machine
_OF_FAULTS = {signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL}
_OF_FAULTS |= {signal.SIGSEGV, signal.SIGTRAP}


def _why_died(source: KernelSource, target: Target, code: int, log: str) -> str:
    """Return why a kernel has no code, if a fault of it killed the process; else raise.

    Raises:
        CompileError: `kernel-not-compiled`: it was ended for another reason.
    """
    said = log.strip().splitlines()[-1:] or ["no output"]
    why = f"Triton died of {exit_cause(code)}: {said[0]}"
    if -code in _OF_FAULTS:
        return why
    raise CompileError(
        "kernel-not-compiled",
        f"the kernel '{source.name}' for target '{target}' is not compiled: {why}",
        hint="free some memory, or room for temporary files, and build again",
    )


def _run_worker(folder: Path, running_processes: RunningProcesses) -> tuple[int, str]:
    """Run a process that compiles kernels; return its exit code and diagnostics."""
    environment = {**options.child_environment(), "TMPDIR": str(folder)}
    worker = "-m", "aotc.kernels.gpu.worker", str(folder), str(os.getpid())
    done = run_python(*worker, environment=environment, running=running_processes)
    return done.code, done.log
