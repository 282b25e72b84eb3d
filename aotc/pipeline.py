"""The pipeline: a model in, a signed bundle out, in stages that are data.

`build` walks `STAGES`, from the one that its source is at: a model is imported, IR that
was dumped at a stage goes on from there. `lower` runs all passes on a program in
memory, `optimize` single passes on IR in text form.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from aotc import importers, options, packager
from aotc.artifacts import Signer
from aotc.artifacts.leftovers import temporary_folder
from aotc.backend import Compiled, compile_units, require_compiler
from aotc.build_report import BuildReport, Reporter, Silent
from aotc.build_request import Request
from aotc.bundle_output import (
    bundle_title,
    channel_of,
    require_free,
    require_writable,
    signer_of,
)
from aotc.cache import Cache
from aotc.checks.budget import FitMemory
from aotc.checks.certificate import certify
from aotc.checks.parity import measure, require
from aotc.checks.reuse import found_or_made, recipe_of
from aotc.checks.self_check import SelfCheck, check_entries, unchecked
from aotc.dialects import context
from aotc.dialects.functions import copied
from aotc.dialects.limits import require_supported
from aotc.dialects.printer import format_module
from aotc.errors import InputError
from aotc.mlir import ir
from aotc.passes import parse, run_passes
from aotc.passes.base import Pass, Unit
from aotc.passes.stages import PASS_STAGES, PassStage, all_passes
from aotc.program import Program, Title
from aotc.program_files import ir_text, parse_module, write_parameters, write_program
from aotc.system_errors import system_errors
from aotc.target import Target
from aotc.writing import make_folder

ARCHIVE = "parameters.irpa"  # in the folder of a dump


@system_errors()
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
        Mismatch: an entry does not compute what its source does.
        CompileError: a valid model cannot be compiled.
        SetupError: the compiler is not installed, or the machine refuses something:
            `cannot-write`, `file-access` or `out-of-memory`.
    """
    run = Build(Request(source, **asked), reporter or Silent())
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
            rest = list(_stages_after(reached, run.request.stop_after))
        if reached == run.request.stop_after:
            run.report.ir = run.ir()
            break
    return run.report


class Build:
    """One build under way: what was asked, and what has been made of it so far."""

    def __init__(self, request: Request, reporter: Reporter) -> None:
        self.request = request
        self.report = BuildReport()
        self.targets = tuple(request.targets) or Target.default()
        self.dump = _dump_folder(request.dump)
        self.self_check = _self_check_mode(request)
        self.cache = Cache.of_user() if request.cache else None
        self.passes = None if request.passes is None else parse(request.passes)
        self.units: list[Unit] = []
        self.parameters: packager.Arrays = {}
        self._reporter = reporter
        self._signer: Signer | None = None
        self._imported: Any = None

    # ---- the program, once it is loaded

    def load(self) -> None:
        """Import the source; at which stage it is, it says itself."""
        path = Path(self.request.source)
        program = importers.load(path, tuple(self.request.entries))
        self.title = bundle_title(
            path, program, self.request.name, self.request.version
        )
        program.title, program.stage = Title(*self.title), program.stage
        if self.request.packs:
            require_free(self.request.output, self.title, self.request.force)
        self.unit = Unit(program)
        if program.target is not None:
            self._fork_as_it_is(Target.parse(program.target))
        self._require_open(program.stage)
        if self.compares:
            self._imported = copied(program.module)
        self._stored = dict(program.parameters)
        if self.dump is not None and program.parameters:
            write_parameters(program.parameters, self.dump / ARCHIVE)

    def _require_open(self, stage: str) -> None:
        """Refuse to be asked for what comes before the stage that the source is at."""
        request = self.request
        asked = {
            "--certify-gradients": ("graph", request.certify_gradients),
            "--passes": ("graph", request.passes is not None),
            "--peak-memory": ("linalg", request.peak_memory is not None),
        }
        for option, (last, is_asked) in asked.items():
            if is_asked and stage in IR_STAGES[IR_STAGES.index(last) + 1 :]:
                raise InputError(
                    "bad-option",
                    f"expected IR of the stage '{last}' or before for {option}; got "
                    f"'{stage}'",
                    where=str(request.source),
                    hint=f"leave out {option}, or go on from an earlier stage",
                )

    @property
    def program(self) -> Program:
        """The program, as far as it is the same for all targets."""
        return self.unit.program

    @cached_property
    def reference(self) -> Any:
        """The imported graph with its derivatives written; None if it was no graph."""
        if self._imported is None or not _is_graph(self._imported):
            return None
        run_passes(self._imported, ("autodiff",), silently=True)
        return self._imported

    @property
    def compares(self) -> bool:
        """Whether compiled code is run and compared, with what its graph says."""
        return self.request.parity is not None or self.self_check != "off"

    def _fork_as_it_is(self, target: Target) -> None:
        if self.request.targets and tuple(self.targets) != (target,):
            raise InputError(
                "bad-target",
                f"expected target '{target}', which the IR is for; got "
                f"{', '.join(map(str, self.targets))}",
                where=str(self.request.source),
                hint="leave out --target, or go on from the stage 'linalg'",
            )
        self.targets = (target,)
        self.units = [Unit(self.program, target)]

    # ---- progress and IR

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Measure a stage and tell of it."""
        start = time.perf_counter()
        with self._reporter.stage(name):
            yield
        self.report.stages[name] = time.perf_counter() - start

    def tell(self, part: str, reuse: str, seconds: float) -> None:
        """Tell that a part is done, and whether the cache had it."""
        known = "" if reuse == "off" else f", cache: {reuse}"
        self._reporter.finished(f"{part}{known}", seconds)

    def run_passes(self, unit: Unit, stage: str, passes: Sequence[Pass]) -> None:
        """Take a unit to a stage, and dump it."""
        folder = self.folder_of(unit)
        run_passes(unit, passes, dump=folder and folder / f"{stage}-passes")
        unit.program.stage = stage
        self.dump_ir(unit)

    def folder_of(self, unit: Unit) -> Path | None:
        """Where IR of a unit is dumped, if it is."""
        if self.dump is None or unit.target is None:
            return self.dump
        return make_folder(self.dump / unit.target.id)

    def dump_ir(self, unit: Unit) -> None:
        """Write the IR of a unit, if that was asked for."""
        if (folder := self.folder_of(unit)) is not None:
            assert self.dump is not None
            file = folder / f"{unit.program.stage}.mlir"
            write_program(unit.program, file, self._archive_of(unit, folder))

    def _archive_of(self, unit: Unit, folder: Path) -> Path:
        """That of the program; one of its own where passes have changed parameters."""
        assert self.dump is not None
        own, shared = unit.program.parameters, self._stored
        if own.keys() == shared.keys() and all(own[k] is shared[k] for k in own):
            return self.dump / ARCHIVE
        archive = folder / f"{unit.program.stage}-{ARCHIVE}"
        write_parameters(own, archive)
        return archive

    def ir(self) -> str | None:
        """The IR that the build has come to; that of all targets, if they differ."""
        if self.report.variants:
            return None
        units = self.units or [self.unit]
        texts = [ir_of(unit.module, self.request.readable) for unit in units]
        if len(units) == 1:
            return texts[0]
        pairs = zip(units, texts, strict=True)
        return "\n".join(f"// {unit.target}\n{text}" for unit, text in pairs)

    # ---- the bundle

    def require_room(self) -> None:
        """Fail before the work and not after it, where no bundle can be written."""
        if self.request.packs:
            self._signer = signer_of(self.request.signing_key, self.request.sign)
            require_writable(self.request.output)

    def write(self, output: Path, signer: Signer | None, force: bool) -> Path:
        """Write what has been made as a bundle."""
        return packager.pack(
            self.program,
            self.report.variants,
            self.parameters,
            self.title,
            output,
            findings=self.report.findings(),
            signer=signer,
            force=force,
        )

    def pack(self) -> None:
        """Write the bundle that was asked for."""
        report, request = self.report, self.request
        output = make_folder(request.output)
        report.bundle = self.write(output, self._signer, request.force)
        report.signer = self._signer.key_id if self._signer else None
        report.channel = channel_of(self._signer)

    @contextmanager
    def trial_bundle(self) -> Iterator[Callable[[], Path]]:
        """A function that writes a bundle on first use, only to run it."""
        with temporary_folder() as work:
            yield functools.cache(lambda: self.write(work, None, force=False))


# ---- the stages ---------------------------------------------------------------------


@dataclass(frozen=True)
class Stage:
    """A step of every build, or of those that ask for it."""

    name: str

    def is_wanted(self, build: Build) -> bool:
        """Whether the build asks for it."""
        return True

    def run(self, build: Build) -> None:
        """Take the build a step on."""
        raise NotImplementedError


class Import(Stage):
    """The source as a program."""

    def run(self, build: Build) -> None:
        """Load it."""
        build.load()
        build.dump_ir(build.unit)


class Certify(Stage):
    """The derivatives, checked on compiled code of their own."""

    def is_wanted(self, build: Build) -> bool:
        """Whether certificates are asked for."""
        return build.request.certify_gradients

    def run(self, build: Build) -> None:
        """Certify them."""
        build.report.certificates = certify(build.program)
        if not build.report.certificates:
            raise InputError(
                "no-gradients",
                "there are no gradients to certify: no entry takes one by reverse mode",
                hint="leave out --certify-gradients",
            )


@dataclass(frozen=True)
class Lower(Stage):
    """Passes on the program, or on that of each target."""

    stage: PassStage

    def run(self, build: Build) -> None:
        """Run them."""
        if self.stage.name == "linalg":
            require_supported(build.program.module, build.targets)
        if not self.stage.per_target:
            build.run_passes(build.unit, self.name, self._passes(build))
            build.report.passes = build.unit.records
            return
        build.units = [build.unit.fork(target) for target in build.targets]
        for unit in build.units:
            build.run_passes(unit, self.name, self._passes(build))
            build.report.variant_passes[str(unit.target)] = unit.records
            build.report.fits += unit.notes

    def _passes(self, build: Build) -> Sequence[Pass]:
        if self.name == "optimized" and build.passes is not None:
            return build.passes
        if self.stage.per_target and build.request.peak_memory is not None:
            return FitMemory(build.request.peak_memory), *self.stage.passes
        return self.stage.passes


class Compile(Stage):
    """The code of each target."""

    def run(self, build: Build) -> None:
        """Compile it, or find it in the cache."""

        def finished(variant: Compiled) -> None:
            build.tell(str(variant.target), variant.reuse, variant.seconds)

        programs = {unit.target.id: unit.program for unit in build.units if unit.target}
        build.parameters = packager.merge_parameters(programs)
        build.report.variants = compile_units(
            build.units, dump=build.dump, finished=finished, cache=build.cache
        )


class CompareWithSource(Stage):
    """The compiled entries beside their source."""

    def is_wanted(self, build: Build) -> bool:
        """Whether that is asked for, and what was compiled is not the end."""
        return build.request.parity is not None and build.request.packs

    def run(self, build: Build) -> None:
        """Compare them, and refuse what differs."""
        assert build.request.parity is not None
        if build.reference is None:
            raise _no_graph(build)
        with build.trial_bundle() as bundle:
            build.report.parities = measure(
                build.program,
                build.reference,
                bundle(),
                build.targets,
                build.request.parity,
            )
        require(build.report.parities)


class CheckItself(Stage):
    """The compiled entries beside the reference evaluator."""

    def is_wanted(self, build: Build) -> bool:
        """Whether that is not switched off."""
        return build.self_check != "off"

    def run(self, build: Build) -> None:
        """Compare them, unless that was done of the same code."""
        report, full = build.report, build.self_check == "full"
        if build.reference is None:
            if build.request.self_check == "full":
                raise _no_graph(build)
            why = f"it is built from IR of the stage '{build.program.stage}'"
            report.self_checks = unchecked(build.program, build.targets, why)
            return
        with build.trial_bundle() as bundle:

            def check() -> list[SelfCheck]:
                given = build.program, build.reference, bundle(), build.targets
                return check_entries(*given, full=full)

            if build.cache is None:
                report.self_checks = check()
                return
            start = time.perf_counter()
            compiled = report.variants, build.parameters
            recipe = recipe_of(build.program, build.reference, *compiled, full=full)
            report.self_checks, report.self_check_reuse = found_or_made(
                build.cache, recipe, check
            )
        seconds = time.perf_counter() - start
        build.tell("compared", report.self_check_reuse, seconds)


class Pack(Stage):
    """The bundle."""

    def is_wanted(self, build: Build) -> bool:
        """Whether it is what the build is for."""
        return build.request.packs

    def run(self, build: Build) -> None:
        """Write it."""
        build.pack()


STAGES: tuple[Stage, ...] = (
    Import("graph"),
    Certify("certificate"),
    *(Lower(stage.name, stage) for stage in PASS_STAGES),
    Compile("vmfb"),
    CompareWithSource("parity"),
    CheckItself("self-check"),
    Pack("bundle"),
)
# the stages whose IR can be looked at, changed and gone on with
IR_STAGES = ("graph", *(stage.name for stage in PASS_STAGES))


def _stages_after(name: str, last: str | None) -> tuple[Stage, ...]:
    """What is left to do with IR of a stage, if the build may end with `last`."""
    if name not in IR_STAGES:
        raise InputError(
            "bad-ir",
            f"expected IR of the stage {', '.join(IR_STAGES)}; got '{name}'",
        )
    if last in IR_STAGES[: IR_STAGES.index(name)]:
        raise InputError(
            "bad-option",
            f"expected IR of the stage '{last}', to stop after, or of one before it; "
            f"got '{name}'",
            hint="leave out --stop-after, or go on from an earlier stage",
        )
    return STAGES[[stage.name for stage in STAGES].index(name) + 1 :]


def _no_graph(build: Build) -> InputError:
    return InputError(
        "no-graph",
        "expected a graph to compare the compiled entries with; got IR of the stage "
        f"'{build.program.stage}'",
        where=str(build.request.source),
        hint="compare what is built from the source, or from IR of the stage 'graph'",
    )


# ---- IR in and out ------------------------------------------------------------------


def ir_of(module: Any, readable: bool = False) -> str:
    """A module as text that can be fed back in, or in the form for people."""
    if not readable:
        return ir_text(module)
    if not _is_graph(module):
        raise InputError(
            "not-graph-ir",
            "only graph IR has a form for people; this is lowered",
            hint="leave out --readable",
        )
    return format_module(module)


def _is_graph(module: Any) -> bool:
    """Whether functions hold ops of the graph dialect and calls alone."""
    names: set[str] = set()

    def visit(op: Any) -> Any:
        names.add(op.name.partition(".")[0])
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return names <= {"graph", "func", "builtin", "ml_program"}


def lower(program: Program) -> Program:
    """Run all passes on a program in memory; returns it."""
    run_passes(Unit(program), all_passes())
    return program


@system_errors()
def optimize(
    text: str, passes: str, *, timing: bool = False, readable: bool = False
) -> str:
    """Run `passes`, with commas between, on IR in text form and return the result.

    Raises:
        InputError: the text is no valid IR, or a pass is unknown.
    """
    with context(), ir.Location.unknown():
        module = parse_module(text)
        records = run_passes(Unit(Program(module)), parse(passes))
        lines = [f"// {r.name}: {r.seconds * 1e3:.1f} ms, " for r in records]
        notes = [
            line + ("changed" if record.changed else "unchanged")
            for line, record in zip(lines, records, strict=True)
        ]
        return "\n".join([*(notes if timing else []), ir_of(module, readable)])


# ---- what is asked for --------------------------------------------------------------


def _self_check_mode(request: Request) -> str:
    mode: str = request.self_check or options.get("AOTC_SELF_CHECK")
    modes = options.SELF_CHECK_MODES
    if mode not in modes:
        raise InputError(
            "bad-option",
            f"expected a self-check of {', '.join(modes)}; got {mode!r}",
            where=None if request.self_check else "AOTC_SELF_CHECK",
            hint="see docs/self-check.md",
        )
    return mode if request.packs else "off"


def _dump_folder(dump: Path | None) -> Path | None:
    folder = dump or options.get("AOTC_DUMP")
    return None if folder is None else make_folder(Path(folder))
