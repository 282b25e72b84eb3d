"""Schedules by measurement: `aotc build --tune` and `--tuning`.

The kernels of a program are compiled with several schedules each, many in one module,
and timed on this machine. What was the fastest goes into a tuning file (`files`), which
builds read: with the same file they give the same bytes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import inf

from aotc.backend import compile_units
from aotc.checks.compiled import UnbundledCode
from aotc.checks.process import CompiledProcess, code_of, export_at
from aotc.dialects import context
from aotc.errors import InputError, SetupError
from aotc.kernels.capabilities import NoTargetKernels, capabilities_of
from aotc.kernels.gpu.machines import gpu_of
from aotc.kernels.schedules import TuningUse
from aotc.machine import processor
from aotc.machine.target import Target
from aotc.mlir import ir
from aotc.passes import run_passes
from aotc.passes.base import Unit
from aotc.passes.fuse_regions import FuseRegions
from aotc.passes.stages import passes_between
from aotc.tuning import gpu
from aotc.tuning.devices import why_no_timer
from aotc.tuning.files import MeasuredSchedule, TargetTuning, TuningFile
from aotc.tuning.measuring import TimedCode
from aotc.tuning.proposals import Proposal, entry_name, program_of, propose

__all__ = [
    "TuningFile",
    "TuningUse",
    "require_target",
    "require_tunable",
    "tune",
    "why_not_tunable",
]

_FUNCTIONS = 24  # that are compiled at once: more take longer than the budget may be
_GAIN = 0.97  # of the time of the planned schedule: what differs less is noise


@dataclass(frozen=True)
class TuningProgress:
    """The progress of tuning a target's kernels: how many are measured, and gained.

    Args:
        measured: kernels.
        total: kernels that could be measured.
        faster: how many of them have a schedule that is faster than the planned one.
    """

    measured: int
    total: int
    faster: int

    def __str__(self) -> str:
        return f"{self.measured} of {self.total} kernels, {self.faster} faster"


def why_not_tunable(target: Target) -> str:
    """Return why a target's schedules cannot be measured here; "" if they can.

    Those of a GPU are measured where its chip is that of the machine: `--target cuda`
    is several chips, of which a machine has one.
    """
    found = capabilities_of(target)
    if isinstance(found, NoTargetKernels):
        return found.why
    return why_no_timer(target) if found.emitted.on_gpus else ""


def require_tunable(targets: Sequence[Target]) -> None:
    """Raise if schedules of none of the targets can be measured on this machine.

    Raises:
        InputError: `bad-option`: no target has kernels with schedules.
        SetupError: `cannot-tune`.
    """
    tunable = [target for target in targets if not why_not_tunable(target)]
    gpus = [target for target in targets if gpu_of(target) is not None]
    if not tunable and gpus:
        raise SetupError(
            "cannot-tune",
            "; ".join(dict.fromkeys(map(why_not_tunable, gpus))),
            hint="run --tune on a machine with such a GPU, and take its file with "
            "--tuning; without, a model of the chip chooses",
        )
    if not tunable:
        raise InputError(
            "bad-option",
            "expected a target that aotc has kernels for, to tune their schedules; got "
            f"{', '.join(map(str, targets))}",
            hint="leave out --tune",
        )
    for target in tunable:
        if target in gpus:
            continue
        missing = set(target.cpu_features_required) - set(processor.cpu_features())
        if target.arch != processor.arch() or missing:
            raise SetupError(
                "cannot-tune",
                f"schedules for {target} are measured on a machine that runs it; this "
                f"one is {processor.arch()}"
                + (f" without {', '.join(sorted(missing))}" if missing else ""),
                hint="run --tune on such a machine, and take its file with --tuning",
            )


def tune(
    unit: Unit,
    fusing: FuseRegions,
    file: TuningFile,
    seconds: float,
    tell: Callable[[str, float], None],
) -> None:
    """Time schedules of kernels that a tuning file lacks, within a budget; add the
    fastest.

    The largest come first. A part that was begun is ended, so it takes longer than the
    budget by at most one compilation and its calls. The file is written after each.

    Args:
        unit: the program of the stage `optimized`, for its target; it is not changed.
        fusing: what forms the regions of the build.
        file: to add to.
        seconds: after which nothing more is begun.
        tell: is told how far it is, and for how long.
    """
    start = time.perf_counter()
    target = unit.target
    assert target is not None
    capabilities = capabilities_of(target)
    if isinstance(capabilities, NoTargetKernels):
        return
    model = capabilities.machine.to_plain()
    known = file.targets.setdefault(str(target), TargetTuning(model))
    if known.machine != model:
        known = file.targets[str(target)] = TargetTuning(model)
    trial = Unit(unit.program.copy(), target)
    with trial.module.context, ir.Location.unknown():
        proposals = propose(trial, fusing, capabilities, known.schedules.keys())
    progress = TuningProgress(0, len(proposals), 0)
    for part in _compilation_batches(proposals):
        if time.perf_counter() - start >= seconds:
            break
        found = measure(trial, part)
        known.schedules.update(found)
        file.write()
        faster = sum(
            each.microseconds < each.planned_microseconds for each in found.values()
        )
        progress = TuningProgress(
            progress.measured + len(found), progress.total, progress.faster + faster
        )
        tell(f"{target}: {progress}", time.perf_counter() - start)
    file.write()


def measure(unit: Unit, proposals: Sequence[Proposal]) -> dict[str, MeasuredSchedule]:
    """Time the schedules of kernels here; return each kernel's fastest, by its key.

    None of a kernel for which no schedule could be timed.

    Args:
        unit: with the functions of the proposals.
        proposals: the kernels.
    """
    is_gpu = unit.target is not None and gpu_of(unit.target) is not None
    times = (gpu.least_times if is_gpu else _least_times)(unit, proposals)
    return {
        each.key: _fastest(each, seconds)
        for each, seconds in zip(proposals, times, strict=True)
        if min(seconds) < inf
    }


def _least_times(unit: Unit, proposals: Sequence[Proposal]) -> list[list[float]]:
    """Return the least seconds of each kernel's schedules, timed on this processor."""
    with CompiledProcess(TimedCode(_compile(unit, proposals))) as process:
        names = (",".join(map(entry_name, each.functions)) for each in proposals)
        found = [process.call(each, [])[0][0] for each in names]
    return [[float(x) for x in times] for times in found]


def _fastest(proposal: Proposal, seconds: Sequence[float]) -> MeasuredSchedule:
    """Return the planned schedule, or the fastest if its gain exceeds the noise.

    One that cannot be had is no slower than the fastest.
    """
    best = min(range(len(seconds)), key=seconds.__getitem__)
    planned = seconds[0]
    if planned == inf:
        planned = seconds[best]
        return MeasuredSchedule(proposal.schedules[best], 1e6 * planned, 1e6 * planned)
    chosen = best if seconds[best] < _GAIN * planned else 0
    return MeasuredSchedule(
        proposal.schedules[chosen], 1e6 * seconds[chosen], 1e6 * planned
    )


def _compile(unit: Unit, proposals: Sequence[Proposal]) -> UnbundledCode:
    """Return compiled code that has each schedule of the kernels as an entry."""
    with context(), ir.Location.unknown():
        program = program_of(unit, proposals)
        entries = program.entries
        assert unit.target is not None
        trial = Unit(program).fork(unit.target)
        run_passes(trial, passes_between("fuse-regions", None), silently=True)
        (variant,) = compile_units([trial])
    exports = [
        export_at(
            each.name,
            [port.type for port in each.arguments],
            [port.type for port in each.results],
            (),
        )
        for each in entries
    ]
    return code_of(variant, exports)


def _compilation_batches(proposals: Sequence[Proposal]) -> Iterator[list[Proposal]]:
    """Yield consecutive batches of proposals that are compiled into one module each."""
    part: list[Proposal] = []
    for each in proposals:
        if part and sum(len(x.functions) for x in (*part, each)) > _FUNCTIONS:
            yield part
            part = []
        part.append(each)
    if part:
        yield part


def require_target(file: TuningFile, targets: Sequence[Target]) -> None:
    """Refuse a tuning file that has no schedules for any target of a build.

    Raises:
        InputError: `bad-tuning`.
    """
    if not any(str(target) in file.targets for target in targets):
        raise InputError(
            "bad-tuning",
            f"expected schedules for {', '.join(map(str, targets))}; got those for "
            f"{', '.join(file.targets) or 'no target'}",
            where=str(file.path),
            hint="--tune measures schedules for the targets of a build and adds them",
        )
