"""Profiles of a call: the time of each dispatch, by IREE's own profiler.

IREE's runtime package brings two programs: `iree-benchmark-module` calls a function
and notes when each dispatch began and ended, and `iree-profile` reads that. The Python
bindings of IREE 3.13 do not profile (`HalDevice.begin_profiling` has nowhere to write
to), and its CUDA and ROCm drivers note nothing: this is for processors alone.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from aotc.artifacts.leftovers import temporary_folder
from aotc.artifacts.manifest import Code, EntryPoint, Leaf, Variant
from aotc.artifacts.pack import VerifiedBundle, read_bundle
from aotc.artifacts.trust import Trust
from aotc.core.json_values import JsonObject
from aotc.core.options import child_environment
from aotc.errors import InputError, SetupError
from aotc.errors.system import raise_system_error, translate_system_errors
from aotc.runtime.engine import pool_flag
from aotc.runtime.padding import SIZES, CallPadding
from aotc.timing.inputs import Array, sizes_for
from aotc.timing.rounds import BundleMeasurement

_SECONDS, _MOST_CALLS = 1.0, 200  # of a profile, which takes 20 to 50 KB a call


@dataclass(frozen=True)
class Dispatch:
    """The dispatches of one compiled function in a call: their number and their times.

    Args:
        name: of the function.
        count: how many dispatches of it a call makes.
        ms: from the first of its workgroups to the end of the last, for all dispatches.
        processor_ms: the time of its workgroups, on all threads.
        kernel: of aotc's own, as the manifest lists it; None for code by IREE.
    """

    name: str
    count: float
    ms: float
    processor_ms: float
    kernel: Mapping[str, Any] | None = None

    @property
    def gflops(self) -> float | None:
        """GFLOP/s of one of aotc's own kernels.

        None where the manifest tells of other sizes than the call has.
        """
        if self.kernel is None or self.kernel["flops"] is None or not self.ms:
            return None
        return float(self.kernel["flops"]) * self.count / self.ms / 1e6

    def to_json(self) -> JsonObject:
        """Return the figures by name."""
        return {**vars(self), "gflops": self.gflops}


@dataclass(frozen=True)
class DispatchProfile:
    """The dispatches of a call, the longest first; medians over calls.

    Args:
        export: that was called: the entry, or a specialization of it.
        calls: how many.
        dispatches: of a call.
    """

    export: str
    calls: int
    dispatches: tuple[Dispatch, ...]

    @property
    def ms(self) -> float:
        """Sum of the times of all dispatches of a call."""
        return sum(each.ms for each in self.dispatches)

    @property
    def uneven(self) -> tuple[str, ...]:
        """Names of dispatches whose number differs between calls.

        What runs when a module is loaded, once for all calls, is none of them.
        """
        often = (each for each in self.dispatches if each.count > 1 / 2)
        return tuple(each.name for each in often if each.count % 1)

    def to_json(self) -> JsonObject:
        """Return the profile as a document."""
        found = [each.to_json() for each in self.dispatches]
        head = {"export": self.export, "calls": self.calls, "ms": self.ms}
        head |= {"uneven": [*self.uneven]}
        return {**head, "dispatches": found}


def profile_of(measured: BundleMeasurement) -> DispatchProfile:
    """Profile the entry of a bundle by IREE's profiler, in a process of its own.

    Args:
        measured: the same calls without it. A file of states that they began with is
            left out.

    Raises:
        InputError: `profile-unsupported`, where no processor computes.
        SetupError: `profile-failed`: the profiler does not run.
    """
    subject, threads = measured.subject, measured.loaded.threads
    trust = Trust.of(*subject.keys) if subject.keys else None
    bundle = read_bundle(subject.bundle, trust, subject.allow_unsigned)
    chosen = bundle.manifest.variants[measured.loaded.variant]
    if threads is None:
        raise InputError(
            "profile-unsupported",
            f"expected a variant for a processor, got {chosen.id}: IREE notes the "
            "times of dispatches on processors only",
            hint="measure without --profile, or name another variant: --target",
        )
    fitting = int(_SECONDS * 1e9 / median(measured.times))
    calls = max(1, min(_MOST_CALLS, fitting))
    point = bundle.manifest.entry_points[subject.entry]
    sizes = sizes_for(bundle.manifest, point, {}, subject.inputs)
    code = point.code_for(sizes)
    if code is None:
        raise InputError("no-code-for-sizes", f"{point.name}: no code has these sizes")
    with translate_system_errors(), ExitStack() as stack:
        folder = Path(stack.enter_context(temporary_folder()))
        program = (
            *_module_options(stack, bundle, chosen, folder),
            *_device_options(threads),
            f"--function={code.export}",
            *_input_options(*_arguments(code, point, sizes, subject.inputs), folder),
        )
        calls, told = _profile_calls(program, calls, threads, folder)
    rows = (chosen.kernels or {}).get("regions", ())
    kernels = {row["name"]: _kernel_row(row, sizes) for row in rows}
    return DispatchProfile(
        code.export, calls, tuple(dispatches_in(told, calls, kernels))
    )


def _profile_calls(
    program: Sequence[str], calls: int, threads: int, folder: Path
) -> tuple[int, str]:
    """Call an entry under IREE's profiler; return the number of calls and its output.

    Threads of IREE 3.13 now and then spoil each other's notes, and the file cannot be
    read: as a rule where a call has thousands of dispatches. Then fewer are made.

    Args:
        program: what to call, as options of `iree-benchmark-module`.
        calls: to make, at most.
        threads: that compute.
        folder: for the file.

    Raises:
        SetupError: `profile-failed`.
    """
    record = folder / f"{calls}.ireeprof"
    run_program(
        "iree-benchmark-module",
        *program,
        f"--benchmark_min_time={calls}x",
        "--device_profiling_mode=host-execution,executable-metadata",
        f"--device_profiling_output={record}",
    )
    options = "--format=jsonl", "--dispatch_events"
    try:
        return calls, run_program("iree-profile", "dispatch", *options, record)
    except SetupError:
        if threads == 1 or calls == 1:
            raise
    return _profile_calls(program, max(1, calls // 4), threads, folder)


def _kernel_row(row: JsonObject, sizes: Mapping[str, int]) -> Mapping[str, object]:
    """Return the manifest's row of a kernel; `flops` is None if it is for other
    sizes.
    """
    if all(sizes.get(name) == size for name, size in row.get("sizes", {}).items()):
        return row
    return {**row, "flops": None}


# ---- what the program is given ------------------------------------------------------


def _module_options(
    stack: ExitStack, bundle: VerifiedBundle, variant: Variant, folder: Path
) -> Iterator[str]:
    """Yield IREE options for a variant's code and weights, as sealed verified files."""
    for number, (path, scope, suffix) in enumerate(_files(bundle, variant)):
        sealed = stack.enter_context(bundle.sealed_path(path))
        link = folder / f"{number}.{suffix}"  # which tells IREE the format
        link.symlink_to(sealed.replace("/proc/self/", f"/proc/{os.getpid()}/", 1))
        yield f"--parameters={scope}={link}" if scope else f"--module={link}"


def _files(
    bundle: VerifiedBundle, variant: Variant
) -> Iterator[tuple[str, str | None, str]]:
    """Yield path, scope of parameters and format of each file that a variant needs."""
    yield variant.file, None, "vmfb"
    for weights in bundle.manifest.weights:
        if not weights.required_by or variant.id in weights.required_by:
            yield weights.file, weights.scope, weights.format


def _device_options(threads: int) -> Sequence[str]:
    """Return IREE's device options for a number of threads, as `runtime.engine` has
    them.
    """
    if threads == 1:
        return "--device=local-sync", "--device_allocator=caching"
    return "--device=local-task", pool_flag(threads)


def _arguments(
    code: Code,
    point: EntryPoint,
    sizes: Mapping[str, int],
    arrays: Mapping[str, Array],
) -> tuple[Sequence[Leaf], Sequence[Array]]:
    """Return the input leaves of an entry's code and their arrays, padded if needed."""
    given = [np.asarray(arrays[leaf.name]) for leaf in point.inputs]
    if not code.padded:
        return point.inputs, given
    padding = CallPadding(code, point.inputs, point.outputs, sizes)
    return (*point.inputs, SIZES), padding.pad(given)


def _input_options(
    leaves: Sequence[Leaf], arrays: Sequence[Array], folder: Path
) -> Iterator[str]:
    """Write input arrays into a folder; yield IREE's `--input` options for them."""
    for number, (leaf, array) in enumerate(zip(leaves, arrays, strict=True)):
        file = folder / f"{number}.bin"
        file.write_bytes(array.tobytes())
        kind = "i1" if leaf.dtype == "bool" else leaf.dtype.replace("u", "i")
        shape = "".join(f"{size}x" for size in array.shape)
        yield f"--input={shape}{kind}=@{file}"


def run_program(program: str, *arguments: str | Path) -> str:
    """Run a program of IREE's runtime package; return its standard output.

    Raises:
        SetupError: `profile-failed`.
    """
    import iree._runtime_libs as libraries

    path = Path(libraries.__path__[0], program)
    try:
        done = subprocess.run(
            [path, *arguments],
            capture_output=True,
            text=True,
            env=child_environment(),
        )
    except OSError as error:
        raise_system_error(error, str(path))
        raise
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        said = lines[-1] if lines else f"exit code {done.returncode}"
        raise SetupError("profile-failed", f"{program} of IREE's runtime fails: {said}")
    return done.stdout


# ---- what it notes ------------------------------------------------------------------


def dispatches_in(
    told: str, calls: int, kernels: Mapping[str, Mapping[str, object]]
) -> list[Dispatch]:
    """Return the dispatches in the output of `iree-profile`, the longest first.

    Args:
        told: by `iree-profile`, line by line.
        calls: that were made.
        kernels: of aotc's own, by name.
    """
    spans: defaultdict[str, list[int]] = defaultdict(list)
    works: defaultdict[str, list[int]] = defaultdict(list)
    for line in told.splitlines():
        event = json.loads(line)
        if event["type"] == "host_dispatch_event" and event["valid"]:
            spans[event["key"]].append(event["duration_ns"])
            works[event["key"]].append(event["tile_duration_sum_ns"])
    found = [
        Dispatch(
            name,
            len(each) / calls,
            _per_call(each, calls),
            _per_call(works[name], calls),
            kernels.get(name),
        )
        for name, each in spans.items()
    ]
    return sorted(found, key=lambda each: -each.ms)


def _per_call(times: Sequence[int], calls: int) -> float:
    """Return the milliseconds of a function's dispatches in a call, from nanoseconds.

    The median of all calls, or the mean if they do not make equally many dispatches.
    """
    if len(times) % calls:
        return sum(times) / calls / 1e6
    return float(np.median(np.reshape(times, (calls, -1)).sum(1))) / 1e6
