"""A build under way: its request, and its results so far."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from aotc import packager
from aotc.artifacts import Signer
from aotc.artifacts.backends import BACKENDS
from aotc.artifacts.pack import TRIAL_SUFFIX, scratch_folder
from aotc.artifacts.signers import signer_of
from aotc.checks.required import require_run, require_runnable
from aotc.checks.reuse import source_parts
from aotc.core import options
from aotc.core.cache import Cache, arrays_digest
from aotc.core.numerics import MIXED
from aotc.core.writing import make_folder
from aotc.dialects.functions.functions import lowered_op
from aotc.errors import InputError
from aotc.machine.target import Target, for_bytes
from aotc.passes import run_passes
from aotc.passes.base import Pass, Unit
from aotc.passes.stages import parse_graph_passes, parse_without
from aotc.pipeline.forms import text_of
from aotc.pipeline.imports import import_file
from aotc.pipeline.output import (
    bundle_title,
    channel_of,
    require_free,
    require_writable,
)
from aotc.pipeline.report import BuildReport, Reporter
from aotc.pipeline.request import Request
from aotc.pipeline.reuse import KeptBuild, Made, is_reusable
from aotc.pipeline.specializations import (
    ask_for_buckets,
    ask_for_optimum,
    ask_for_policies,
    ask_for_specializations,
    complete_specializations,
    leave_out_specializations,
)
from aotc.programs.files import write_parameters, write_program
from aotc.programs.networks import NetworksOnDemand
from aotc.programs.program import Program, Title
from aotc.traffic import Traffic

if TYPE_CHECKING:
    from aotc.checks.self_check import StartedCheck
    from aotc.tuning import TuningFile

_VARIANTS = 8  # that are made for recorded traffic

ARCHIVE = "parameters.irpa"  # in the folder of a dump


@dataclass(frozen=True)
class Source:
    """The imported program that a build starts from, with its stage and title.

    Args:
        unit: the program as it was imported, its images in the layout that was asked
            for; the passes go on with it.
        stage: that it was at.
        title: name and version of the bundle.
        parameters: of the program, before any pass.
        original: a copy of the program to compare with, for passes change both module
            and parameters; None if nothing is compared, or if the source is IR that is
            lowered.
    """

    unit: Unit
    stage: str
    title: tuple[str, str]
    parameters: packager.Arrays
    original: Program | None


class Build:
    """The state of a running build, which its stages read and change.

    Args:
        request: what was asked for.
        reporter: is told of each stage.
    """

    def __init__(self, request: Request, reporter: Reporter) -> None:
        self.request = request
        self.report = BuildReport()
        self.targets = Target.listed(request.targets) or Target.default()
        self.comparable = self._comparable()  # said before any work
        self.dump = _dump_folder(request.dump)
        self.self_check = _self_check_mode(request)
        _require_known(request.require_check, self.targets, self.self_check)
        self.cache = Cache.of_user() if request.cache else None
        parse_graph_passes(request.passes or "")  # refused before any work
        parse_without(request.without or "")
        self.tuning = _tuning_file(request, self.targets)
        self.units: list[Unit] = []  # of the targets, once they go separate ways
        # to evaluate the kernels of, in the place of running them
        self.regions: dict[Target, Program] = {}
        # once they are compiled: the parameters of all of them, and their files
        self.parameters: packager.Arrays = {}
        self.weights: list[packager.WeightFile] = []
        self.kept: KeptBuild | None = None  # where the cache has, or may have, an equal
        self.made: Made | None = None  # by an equal build: no pass is run
        self._reporter = reporter
        self._signer: Signer | None = None
        self._trial: Path | None = None
        self._opened = ExitStack()
        self.started_check: StartedCheck | None = None

    # ---- the program

    @cached_property
    def source(self) -> Source:
        """The imported source, with the request's options applied."""
        path = Path(self.request.source)
        self._imported = import_file(path, tuple(self.request.entries), self.cache)
        program = self._imported.program
        if self.request.level is not None:
            program.level = self.request.level
        if self.request.numerics is not None:
            program.numerics = self.request.numerics
        asked = self.request.without
        without = parse_without(",".join(program.without) if asked is None else asked)
        if without:
            program.without = without
        title = bundle_title(path, program, self.request.name, self.request.version)
        program.title = Title(*title)
        stage = program.stage
        program.stage = stage  # stated, also where it is the first
        if self.request.quantize is not None:
            self.request.require_open(stage)
            _quantize(program, self.request)
        unit = Unit(program)
        if self.request.precision is not None:
            self.request.require_open(stage)
            _mix_precision(unit, MIXED[self.request.precision])
        if self.request.io_layout is not None:
            self.request.require_open(stage)
            _set_io_layout(unit, self.request.io_layout)
        self._state_sizes(program)
        keeps = self.compares and lowered_op(program.module) is None
        original = program.copy() if keeps else None
        return Source(unit, stage, title, dict(program.parameters), original)

    def _state_sizes(self, program: Program) -> None:
        """Write the request's specializations, policies and buckets into the
        program.
        """
        asked = self.request
        if not asked.own_sizes:
            leave_out_specializations(program)
        if asked.optimum:
            asked.require_open(program.stage)
            ask_for_optimum(program, asked.optimum)
        if asked.policies or asked.specialize or asked.buckets_from:
            asked.require_open(program.stage)
            ask_for_policies(program, asked.policies)
            ask_for_specializations(program, asked.specialize)
        if asked.buckets_from is not None:
            traffic = Traffic.read(asked.buckets_from)
            most = asked.max_variants or _VARIANTS
            self.report.buckets = ask_for_buckets(program, traffic, most)
        if program.stage == "graph":
            complete_specializations(program)

    @property
    def unit(self) -> Unit:
        """The program before it is forked into one for each target."""
        return self.source.unit

    @property
    def program(self) -> Program:
        """The program of `unit`."""
        return self.unit.program

    def load(self) -> None:
        """Import the source, look up its results in the cache; raise for invalid
        requests.
        """
        if self.request.packs:
            require_free(self.request.output, self.source.title, self.request.force)
        if self.program.target is not None:
            self._fork_as_it_is(Target.parse(self.program.target))
        elif self.program.has_weights_of_bytes:
            self.targets = for_bytes(self.targets)
            self.comparable = self._comparable()
        self.request.require_open(self.program.stage)
        if self.dump is not None and self.source.parameters:
            write_parameters(self.source.parameters, self.dump / ARCHIVE)
        if self.cache is not None and is_reusable(self.request, self.source.stage):
            self.kept = KeptBuild.of(
                self.cache, self.program, self.targets, self._weights_digest
            )
            self.made = self.kept.find()

    def _comparable(self) -> tuple[Target, ...]:
        """Return the targets whose code runs here; none unless a comparison is asked
        for.
        """
        if not self.request.parity:
            return ()
        from aotc.checks.comparable import comparable_targets

        return comparable_targets(self.targets)

    def _fork_as_it_is(self, target: Target) -> None:
        """Make lowered IR the only unit, for its own target; raise if another is asked
        for.
        """
        if self.request.targets and tuple(self.targets) != (target,):
            raise InputError(
                "bad-target",
                f"expected target '{target}', which the IR is for; got "
                f"{', '.join(map(str, self.targets))}",
                where=str(self.request.source),
                hint="leave out --target, or go on from the stage 'optimized'",
            )
        self.targets = (target,)
        self.comparable = self._comparable()
        self.units = [Unit(self.program, target)]

    @property
    def programs(self) -> dict[str, Program]:
        """The program of each variant by its target's id."""
        return {unit.target.id: unit.program for unit in self.units if unit.target}

    # ---- what compiled code is compared with

    @property
    def compares(self) -> bool:
        """Return whether compiled code is run and compared with its graph or source."""
        return self.request.parity is not None or self.self_check != "off"

    @cached_property
    def reference(self) -> Program | None:
        """The imported program with its derivatives written; None if the source is no
        graph.
        """
        original = self.source.original
        if original is not None:
            run_passes(original.module, ("autodiff",), silently=True)
        return original

    @cached_property
    def reference_parts(self) -> dict[str, str]:
        """The self-check's cache key parts that depend on the imported program."""
        if self.made is not None and self.made.source is not None:
            return self.made.source
        assert self.reference is not None
        return source_parts(self.reference, self.reference.module, self._weights_digest)

    @cached_property
    def _weights_digest(self) -> str:
        """The digest of the weights and states as they were imported."""
        now, before = self.source.parameters, self._imported.parameters
        if now.keys() == before.keys() and all(now[k] is before[k] for k in now):
            return self._imported.weights_digest
        return arrays_digest(now)

    @property
    def evaluates_ahead(self) -> bool:
        """Return whether the self-check may begin before there is code.

        Not where kernels are measured, which evaluations would slow down; nor where an
        equal build, or its imported source, was found, since its check may be, too.
        """
        if self.self_check == "off" or self.source.original is None:
            return False
        is_known = isinstance(self.program.networks, NetworksOnDemand)
        if self.made is not None or is_known or self.request.tune is not None:
            return False
        from aotc.checks.comparable import has_code_for_here

        return has_code_for_here(self.targets)

    def start_check(self) -> None:
        """Begin the self-check: evaluate calls while passes and compilers work."""
        from aotc.checks.self_check import StartedCheck

        assert self.source.original is not None
        self.started_check = self._opened.enter_context(StartedCheck())
        full = self.self_check == "full"
        self.started_check.start(self.source.original, full=full)

    # ---- what is made of the program

    def take_made(self, made: Made) -> None:
        """Take the results of an equal build, from the cache, as those of this one."""
        self.unit.program = Program(made.module, networks=self.program.networks)
        report = self.report
        report.graph_ops.update(made.graph_ops)
        report.passes, report.variant_passes = made.passes, made.variant_passes
        report.variants = made.variants
        self.parameters, self.weights = made.parameters, made.weights

    def keep_made(self) -> None:
        """Write the results to the cache, if they may be reused."""
        if self.kept is None or self.made is not None:
            return
        report = self.report
        made = Made(
            self.program.module,
            report.graph_ops,
            report.passes,
            report.variant_passes,
            report.variants,
            self.parameters,
            self.weights,
            self.reference_parts if self.self_check != "off" else None,
        )
        self.kept.keep(made)

    # ---- progress and IR

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time a stage within the context, and report it."""
        start = time.perf_counter()
        with self._reporter.stage(name):
            yield
        self.report.stages[name] = time.perf_counter() - start

    def step(self, text: str) -> None:
        """Report the stage's current work, or what it waits for."""
        self._reporter.step(text)

    def tell(self, part: str, reuse: str, seconds: float) -> None:
        """Report a finished part, and whether it came from the cache."""
        known = "" if reuse == "off" else f", cache: {reuse}"
        self._reporter.report_part(f"{part}{known}", seconds)

    def tell_part(self, part: str, seconds: float) -> None:
        """Report a finished part of the stage."""
        self._reporter.report_part(part, seconds)

    def run_passes(self, unit: Unit, stage: str, passes: Sequence[Pass]) -> None:
        """Run the passes of a stage on a unit, and dump its IR."""
        folder = self.folder_of(unit)
        run_passes(unit, passes, dump=folder and folder / f"{stage}-passes")
        unit.program.stage = stage
        self.dump_ir(unit)

    def keep_regions(self, unit: Unit) -> None:
        """Keep a copy of a GPU target's program with regions, for the self-check."""
        target = unit.target
        assert target is not None
        if self.self_check != "off" and not BACKENDS[target.backend].on_cpu:
            self.regions[target] = unit.program.copy()

    def folder_of(self, unit: Unit) -> Path | None:
        """Return the folder for dumps of a unit's IR; None if nothing is dumped."""
        if self.dump is None or unit.target is None:
            return self.dump
        return make_folder(self.dump / unit.target.id)

    def dump_ir(self, unit: Unit) -> None:
        """Write the IR of a unit to the dump folder, if there is one."""
        if self.dump is not None and (folder := self.folder_of(unit)) is not None:
            file = folder / f"{unit.program.stage}.mlir"
            write_program(unit.program, file, self._archive_of(unit, self.dump, folder))

    def _archive_of(self, unit: Unit, dump: Path, folder: Path) -> Path:
        """Return the archive for a dump's parameters; write one if passes changed
        them.
        """
        own, shared = unit.program.parameters, self.source.parameters
        if own.keys() == shared.keys() and all(own[k] is shared[k] for k in own):
            return dump / ARCHIVE
        archive = folder / f"{unit.program.stage}-{ARCHIVE}"
        write_parameters(own, archive)
        return archive

    def ir(self) -> str | None:
        """Return the IR that the build has reached, of all targets; None once
        compiled.
        """
        if self.report.variants:
            return None
        units = self.units or [self.unit]
        texts = [text_of(unit.module, self.request.readable) for unit in units]
        if len(units) == 1:
            return texts[0]
        pairs = zip(units, texts, strict=True)
        return "\n".join(f"// {unit.target}\n{text}" for unit, text in pairs)

    # ---- the bundle

    def require_room(self) -> None:
        """Raise, before the work, if required checks cannot run or no bundle be
        written.
        """
        require_runnable(self.targets_to_check)
        if self.request.packs:
            request = self.request
            self._signer = signer_of(request.signing_key) if request.sign else None
            require_writable(self.request.output)

    def pack(self) -> None:
        """Write the requested bundle."""
        report, request = self.report, self.request
        if self._trial is not None:
            packager.take_back(self.contents, self._trial)
            self._trial = None
        report.bundle = self._write(request.output, self._signer, request.force)
        report.signer = self._signer.key_id if self._signer else None
        report.channel = channel_of(self._signer)

    @property
    def targets_to_check(self) -> list[Target]:
        """The targets whose code must be checked before signing."""
        asked = self.request.require_check
        return [each for each in self.targets if {"all", str(each)} & {*asked}]

    def require_checked(self) -> None:
        """Raise if code that must be checked was not run.

        Raises:
            Finding: `not-checked`.
        """
        if targets := self.targets_to_check:
            given = self.program, self.report.variants, (), self.source.title
            require_run(packager.manifest(*given, self.report.findings()), targets)

    @cached_property
    def archives(self) -> packager.Archives:
        """The weight archives, written once for all bundles of this build."""
        return packager.write_archives(self.weights, self._scratch)

    @cached_property
    def contents(self) -> packager.FinishedFiles:
        """The bundle files except manifest and signature, written once for all
        bundles.
        """
        given = self.program, self.archives, self.report.variants, self.source.title
        return packager.write_files(packager.files(*given), self._scratch)

    def write_archives(self) -> None:
        """Write the weight archives, if the build ends in a bundle."""
        if self.request.packs:
            _ = self.archives

    @cached_property
    def _scratch(self) -> Path:
        """A temporary folder on the file system of the bundle."""
        asked = self.request.output, self.source.title
        return self._opened.enter_context(scratch_folder(*asked))

    def trial_bundle(self) -> Path:
        """Return an unsigned bundle for checks, written on the first call.

        Its files become those of the bundle that is asked for.
        """
        if self._trial is None:
            folder = self._scratch / f"bundle{TRIAL_SUFFIX}"
            self._trial = self._write(folder, None, force=True)
        return self._trial

    def _write(self, output: Path, signer: Signer | None, force: bool) -> Path:
        """Write a bundle of the results to `output`, signed if there is a signer."""
        return packager.pack(
            self.program,
            self.report.variants,
            self.weights,
            self.source.title,
            output,
            contents=self.contents,
            findings=self.report.findings(),
            signer=signer,
            force=force,
        )

    def close(self) -> None:
        """Remove the build's temporary files."""
        self._opened.close()


def _quantize(program: Program, request: Request) -> None:
    """Apply the request's quantization recipe to the program."""
    from aotc.quantization.models import apply_file

    assert request.quantize is not None
    apply_file(program, request.quantize, request.quantize_data)


def _mix_precision(unit: Unit, compute: str) -> None:
    """Rewrite products of a unit to compute in a cheaper float dtype."""
    from aotc.passes.mix_precision import MixPrecision

    run_passes(unit, (MixPrecision(compute),), silently=True)
    unit.program.mixed_precision = compute


def _set_io_layout(unit: Unit, layout: str) -> None:
    """Change the layout of image inputs and outputs, of entries and their
    frameworks.
    """
    from aotc.importers.common.io_layout import with_io_layout
    from aotc.passes.set_io_layout import SetIoLayout

    run_passes(unit, (SetIoLayout(layout),), silently=True)
    program = unit.program
    program.networks = {
        name: with_io_layout(network, program.entry(name))
        for name, network in program.networks.items()
    }


# ---- what is asked for --------------------------------------------------------------


def _self_check_mode(request: Request) -> str:
    """Return the self-check's mode; `off` if the build ends before a bundle."""
    mode: str = request.self_check or options.get("AOTC_SELF_CHECK")
    return mode if request.packs else "off"


def _require_known(
    asked: Sequence[str], targets: Sequence[Target], self_check: str
) -> None:
    """Raise if `--require-check` names a target that is not built or not checked."""
    if asked and self_check == "off":
        raise InputError(
            "bad-option",
            "expected a self-check, which --require-check is about; it is off",
            hint="leave out --self-check=off and AOTC_SELF_CHECK, or --require-check",
        )
    known = {"all", *map(str, targets)}
    if other := [name for name in asked if name not in known]:
        raise InputError(
            "bad-option",
            f"expected --require-check to name a target of the build, or all; got "
            f"'{other[0]}'",
            hint=f"targets of this build: {', '.join(map(str, targets))}",
        )


def _tuning_file(request: Request, targets: Sequence[Target]) -> TuningFile | None:
    """Read or create the tuning file; raise if it does not fit the targets."""
    path = request.tuning
    if path is None:
        return None
    from aotc.tuning import TuningFile, require_target, require_tunable

    if request.tune is None:
        file = TuningFile.read(path)
        require_target(file, targets)
        return file
    require_tunable(targets)
    return TuningFile.read(path) if path.exists() else TuningFile(path)


def _dump_folder(dump: Path | None) -> Path | None:
    """Create and return the folder for IR dumps; None without one."""
    folder = dump or options.get("AOTC_DUMP")
    return None if folder is None else make_folder(Path(folder))
