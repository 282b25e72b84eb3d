"""Programs as entries of one module: traced, lowered and compiled together.

What makes a whole batch fail is found by compiling parts of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from aotc.backend import compile_targets
from aotc.errors import AotcError
from aotc.frontends.assembly import trace
from aotc.frontends.program import Entry
from aotc.frontends.program import Program as Traced
from aotc.mlir import ir
from aotc.passes import run_passes
from aotc.pipeline import PASS_NAMES
from aotc.target import Target

from .executing import entry_of
from .failures import Failure
from .programs import Program
from .running import Runner

PARTS = 4  # of a batch that fails


@dataclass(frozen=True)
class Built:
    """A program and how it is called.

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
    programs: Sequence[Program], runner: Runner, target: str = "cpu"
) -> Iterator[Outcome]:
    """Each program's number, with its entry or with why it has none."""
    ready = []
    for number, program in enumerate(programs):
        found = _lowered_alone(program, f"program_{number}")
        if isinstance(found, Failure):
            yield number, found
        else:
            ready.append((number, program, found))
    if ready:
        yield from _built_together(ready, runner, target)


def _lowered_alone(program: Program, name: str) -> Any:
    """The program's graph for the reference, or why it does not come to linalg."""
    try:
        traced = trace([entry_of(program, name)], {})
    except AotcError as error:
        return Failure("refused", f"{error.code}: {error.message}")
    except Exception as error:
        return Failure("traces", _said(error))
    try:
        reference = _reference(traced)
        run_passes(traced.module, PASS_NAMES)
    except Exception as error:
        return Failure("passes", _said(error))
    return reference


Ready = tuple[int, Program, Any]


def _built_together(
    programs: Sequence[Ready], runner: Runner, target: str
) -> Iterator[Outcome]:
    entries = [
        entry_of(program, f"program_{number}") for number, program, _ in programs
    ]
    try:
        traced = trace(entries, {})
        run_passes(traced.module, PASS_NAMES)
        (compiled,) = compile_targets(traced, [Target.parse(target)])
    except Exception as error:
        yield from _in_parts(
            programs, runner, target, Failure("compiles", _said(error))
        )
        return
    failure = runner.load(compiled.vmfb)
    if failure is not None:
        yield from _in_parts(programs, runner, target, failure)
        return
    for (number, program, reference), entry in zip(
        programs, traced.entries, strict=True
    ):
        yield number, Built(program, entry, reference, compiled.vmfb)


def _in_parts(
    programs: Sequence[Ready],
    runner: Runner,
    target: str,
    failure: Failure,
) -> Iterator[Outcome]:
    if len(programs) == 1:
        yield programs[0][0], failure
        return
    size = -(-len(programs) // PARTS)
    outcomes = [
        outcome
        for start in range(0, len(programs), size)
        for outcome in _built_together(programs[start : start + size], runner, target)
    ]
    # Programs whose sizes have other contracts are no entries of one module.
    fit = not failure.message.startswith("bad-contract:")
    if fit and not any(isinstance(found, Failure) for _, found in outcomes):
        (number, _), *outcomes = outcomes
        message = f"only with the others of its batch: {failure.message}"
        yield number, Failure(failure.kind, message)
    yield from outcomes


def _said(error: Exception) -> str:
    if isinstance(error, AotcError):
        return f"{error.code}: {error.message}"
    return f"{type(error).__name__}: {error}"


def _reference(traced: Traced) -> Any:
    """A copy of the module, with the derivatives written but nothing simplified."""
    with traced.module.context:
        copy = ir.Module.parse(traced.module.operation.get_asm(binary=False))
    run_passes(copy, ["autodiff"])
    return copy
