"""The pipeline: a model in, a signed bundle out, in stages that are data.

`build` walks `STAGES`, from the one that its source is at: a model is imported, IR that
was dumped at a stage goes on from there. `lower` runs all passes on a program in
memory, `optimize` single passes on IR in text form.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from aotc.backend import require_compiler
from aotc.dialects import context
from aotc.dialects.functions.functions import lowered_op
from aotc.errors.system import translate_system_errors
from aotc.machine.target import Target
from aotc.mlir import ir
from aotc.passes import run_passes
from aotc.passes.base import PassRecord, Unit
from aotc.passes.stages import IR_STAGES, all_passes, last_stage, parse
from aotc.pipeline.forms import text_of
from aotc.pipeline.report import BuildReport, Reporter, Silent
from aotc.pipeline.request import Request
from aotc.pipeline.run import Build
from aotc.pipeline.stages import STAGES, stages_after
from aotc.programs.files import parse_module, rename_archive
from aotc.programs.program import GRAPH_STAGES, Program

__all__ = ["IR_STAGES", "STAGES", "BuildReport", "build", "lower", "optimize"]


@translate_system_errors()
def build(
    source: str | Path, *, reporter: Reporter | None = None, **asked: Any
) -> BuildReport:
    """Compile a model and write its bundle.

    Args:
        source: the model, such as a model.py, or IR that a build has dumped.
        reporter: is told of each stage.
        asked: what else to do, as `Request` names it.

    Raises:
        InputError: the model or an argument is wrong.
        ParityMismatch: an entry does not compute what its source does.
        CompileError: a valid model cannot be compiled.
        SetupError: the compiler is not installed, or the machine refuses something:
            `cannot-write`, `file-access` or `out-of-memory`.
    """
    with closing(Build(Request(source, **asked), reporter or Silent())) as run:
        return _build(run)


def _build(run: Build) -> BuildReport:
    """Run all wanted stages of a build; return its report."""
    require_compiler()
    run.require_room()
    rest = list(STAGES)
    while rest:
        stage = rest.pop(0)
        if stage.is_wanted(run):
            with run.stage(stage.name):
                stage.run(run)
        reached = stage.name
        if reached == "graph":  # IR of a later stage goes on from there
            reached = run.program.stage
            rest = list(stages_after(reached, run.request.stop_after))
        if reached == run.request.stop_after:
            run.report.ir = run.ir()
            break
    return run.report


def lower(program: Program, target: Target | None = None) -> Program:
    """Run all passes on a program in memory, in place; return it.

    Its parameters stay as they are, so its code can be run without an archive of them.

    Args:
        program: to lower, in place.
        target: that it is for; without one it has nothing that is a target's own, such
            as kernels.
    """
    if target is not None:
        program.target = str(target)
    unit = Unit(Program(program.module), target)
    run_passes(unit, all_passes(program.level, program.without))
    return program


@translate_system_errors()
def optimize(
    text: str,
    passes: str,
    *,
    finished: Callable[[PassRecord], None] | None = None,
    readable: bool = False,
    folders: tuple[Path, Path] | None = None,
) -> str:
    """Run passes on IR in text form; return the resulting IR as text.

    Args:
        text: the IR.
        passes: with commas between; the name of a stage stands for its passes.
        finished: is told what each pass did, once all are done.
        readable: give graph IR in the form for people.
        folders: where the IR comes from and where the result is to be written, if that
            is another one: the archive of the parameters is named from there.

    Raises:
        InputError: the text is no valid IR, or a pass is unknown.
    """
    with context(), ir.Location.unknown():
        program = Program(parse_module(text))
        records = run_passes(
            Unit(program), parse(passes, program.level, program.without)
        )
        stage, lowered = last_stage(passes), lowered_op(program.module)
        if stage is not None and (stage in GRAPH_STAGES) == (lowered is None):
            program.stage = stage
        if folders is not None:
            rename_archive(program.module, *folders)
        if finished is not None:
            for record in records:
                finished(record)
        return text_of(program.module, readable)
