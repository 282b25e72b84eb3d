"""Programs as entries of one module: traced, lowered and compiled together.

What makes a whole batch fail is found by compiling parts of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from aotc.backend import compile_targets
from aotc.dialects.functions.entries import Entry
from aotc.machine.target import Target
from aotc.mlir import ir
from aotc.passes import run_passes
from aotc.pipeline import lower
from aotc.programs.program import LEVELS
from aotc.programs.program import Program as Traced
from aotc.tracing.assembly import trace

from .executing import entry_of
from .failures import Failure, failure_of
from .programs import Program
from .running import Runner

PARTS = 4  # of a batch that fails


@dataclass(frozen=True)
class Settings:
    """The target and level by which programs are compiled.

    Args:
        target: to compile for.
        level: of optimisation.
    """

    target: str = "cpu"
    level: int = LEVELS[-1]


@dataclass(frozen=True)
class Built:
    """A compiled program: its entry, its reference graph, and its code.

    Args:
        program: as it was drawn.
        entry: of its module.
        reference: the module with its graph, derivatives written out.
        vmfb: the code that it is in.
    """

    program: Program
    entry: Entry
    reference: Any
    vmfb: bytes


Outcome = tuple[int, Built | Failure]


def built(
    programs: Sequence[Program], runner: Runner, settings: Settings
) -> Iterator[Outcome]:
    """Yield each program's number with its compiled entry, or with the failure."""
    ready = []
    for number, program in enumerate(programs):
        found = _traced_alone(program, f"program_{number}")
        if isinstance(found, Failure):
            yield number, found
        else:
            ready.append((number, program, found))
    if ready:
        yield from _built_together(ready, runner, settings)


def _traced_alone(program: Program, name: str) -> Any:
    """Trace one program; return its graph for the reference, or the failure."""
    try:
        traced = trace([entry_of(program, name)], {})
    except Exception as error:
        return failure_of("traces", error)
    try:
        return _reference(traced)
    except Exception as error:
        return failure_of("passes", error)


Ready = tuple[int, Program, Any]


def _built_together(
    programs: Sequence[Ready], runner: Runner, settings: Settings
) -> Iterator[Outcome]:
    """Compile programs as one module; on an error, compile smaller groups."""
    entries = [
        entry_of(program, f"program_{number}") for number, program, _ in programs
    ]
    stage = "passes"
    try:
        traced, target = trace(entries, {}), Target.parse(settings.target)
        traced.level = settings.level
        lower(traced, target)
        stage = "compiles"
        (compiled,) = compile_targets(traced, [target])
    except Exception as error:
        failure = failure_of(stage, error)
        yield from _in_parts(programs, runner, settings, failure)
        return
    unloaded = runner.load(compiled.vmfb)
    if unloaded is not None:
        yield from _in_parts(programs, runner, settings, unloaded)
        return
    for (number, program, reference), entry in zip(
        programs, traced.entries, strict=True
    ):
        yield number, Built(program, entry, reference, compiled.vmfb)


def _in_parts(
    programs: Sequence[Ready],
    runner: Runner,
    settings: Settings,
    failure: Failure,
) -> Iterator[Outcome]:
    """Compile groups of programs separately, after all together failed."""
    if len(programs) == 1:
        yield programs[0][0], failure
        return
    size = -(-len(programs) // PARTS)
    outcomes = [
        outcome
        for start in range(0, len(programs), size)
        for outcome in _built_together(programs[start : start + size], runner, settings)
    ]
    if not any(isinstance(found, Failure) for _, found in outcomes):
        (number, _), *outcomes = outcomes
        message = f"only with the others of its batch: {failure.message}"
        yield number, Failure(failure.kind, message)
    yield from outcomes


def _reference(traced: Traced) -> Any:
    """Return a copy of the module with its derivatives written, and not simplified."""
    with traced.module.context:
        copy = ir.Module.parse(traced.module.operation.get_asm(binary=False))
    run_passes(copy, ["autodiff"])
    return copy
