"""The stages of a build, in order, with their actions.

What a stage needs alone is imported when it is run: a build that the cache knows runs
no pass and no check, and imports none.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from aotc import packager
from aotc.backend import CompiledVariant, compile_units
from aotc.checks.reuse import found_or_made, recipe_of
from aotc.dialects.functions.entries import write_intermediates
from aotc.dialects.functions.functions import functions_of
from aotc.dialects.limits import graph_ops, require_supported
from aotc.dialects.types import Tensor
from aotc.errors import InputError
from aotc.machine.target import Target
from aotc.mlir import ir
from aotc.passes import run_passes
from aotc.passes.base import Pass, Unit
from aotc.passes.stages import (
    IR_STAGES,
    PASS_STAGES,
    PassStage,
    parse_graph_passes,
)
from aotc.pipeline.report import image_layouts
from aotc.pipeline.run import Build
from aotc.programs.program import Program

if TYPE_CHECKING:
    from aotc.checks.report import SelfCheck
    from aotc.passes.fuse_regions import FuseRegions


@dataclass(frozen=True)
class Stage:
    """One step of a build, such as a pass stage, compiling or packing."""

    name: str

    def is_wanted(self, build: Build) -> bool:
        """Return whether the build asks for this stage."""
        return True

    def run(self, build: Build) -> None:
        """Run this stage of the build."""
        raise NotImplementedError


class Import(Stage):
    """The stage that imports the source."""

    def run(self, build: Build) -> None:
        """Import the source of the build."""
        build.load()
        build.report.images = image_layouts(build.program.entry_points)
        _note_ops(build, "graph")
        for unit in build.units or [build.unit]:
            build.dump_ir(unit)
        if build.evaluates_ahead:
            build.start_check()


class Certify(Stage):
    """The stage that checks derivatives by compiled code."""

    def is_wanted(self, build: Build) -> bool:
        """Return whether certificates are asked for."""
        return build.request.certify_gradients

    def run(self, build: Build) -> None:
        """Check all derivatives; add the certificates to the report."""
        from aotc.checks.certificate import certify

        build.report.certificates = certify(build.program)
        if not build.report.certificates:
            raise InputError(
                "no-gradients",
                "there are no gradients to certify: no entry takes one by reverse mode",
                hint="leave out --certify-gradients",
            )


@dataclass(frozen=True)
class Lower(Stage):
    """A stage that runs passes on the program, or on that of each target."""

    stage: PassStage

    def is_wanted(self, build: Build) -> bool:
        """Return whether no equal build has run the passes."""
        return build.made is None

    def run(self, build: Build) -> None:
        """Run the stage's passes; fork the program by target first if it needs that."""
        if self.stage.per_target and not build.units:
            _require_specialized(build.program)
            require_supported(build.program.module, build.targets)
            build.units = [build.unit.fork(target) for target in build.targets]
        if not self.stage.per_target:
            build.run_passes(build.unit, self.name, self.passes(build))
            build.report.passes = build.unit.records
            _note_ops(build, self.name)
            return
        for number, unit in enumerate(build.units, 1):
            build.step(f"{unit.target}, target {number} of {len(build.units)}")
            build.run_passes(unit, self.name, self.passes(build))
            build.report.variant_passes[str(unit.target)] = unit.records
            if self.name == "regions":
                build.keep_regions(unit)
        from aotc.checks.budget import Fit
        from aotc.tuning import TuningUse

        notes = [note for unit in build.units for note in unit.notes]
        build.report.fits = [note for note in notes if isinstance(note, Fit)]
        build.report.tuning = [note for note in notes if isinstance(note, TuningUse)]
        if self.name == "regions":
            _warn_of_dequantized(build)
            _warn_of_slow_products(build)
            _warn_without_kernels(build)
        _state_intermediates(build)

    def passes(self, build: Build) -> Sequence[Pass]:
        """Return the passes that this stage runs in a build."""
        from aotc.checks.budget import FitMemory
        from aotc.passes.fuse_regions import FuseRegions
        from aotc.passes.join_products import JoinProducts

        choice = build.program.level, build.program.without
        if self.name == "optimized" and build.request.passes is not None:
            return parse_graph_passes(build.request.passes, *choice)
        passes = self.stage.passes(*choice)
        if build.request.peak_memory is None:
            return passes
        if self.name == "variant":
            return FitMemory(build.request.peak_memory), *passes
        # an op that is computed again is to be computed by itself
        return [
            replace(each, anchors_only=True) if isinstance(each, FuseRegions) else each
            for each in passes
            if not isinstance(each, JoinProducts)
        ]


def _warn_without_kernels(build: Build) -> None:
    """Warn of targets without kernels because a package is not installed."""
    from aotc.kernels.capabilities import NoTargetKernels, capabilities_of

    found: dict[NoTargetKernels, list[str]] = {}
    for target in build.targets:
        capabilities = capabilities_of(target)
        if isinstance(capabilities, NoTargetKernels) and capabilities.cure:
            found.setdefault(capabilities, []).append(str(target))
    for each, names in found.items():
        text = (
            f"code for {', '.join(names)} is IREE's alone, and slower: {each.why} "
            f"[no-kernels]; {each.cure}"
        )
        warnings.warn(text, stacklevel=2)


def _warn_of_dequantized(build: Build) -> None:
    """Warn of weights that each call dequantises, which is slower than floats."""
    from aotc.kernels.refusal import KernelRefusal

    found: dict[KernelRefusal, list[str]] = {}
    for unit in build.units:
        for note in unit.notes:
            if isinstance(note, KernelRefusal):
                found.setdefault(note, []).append(str(unit.target))
    for note, targets in found.items():
        place = f" ({note.where})" if note.where else ""
        text = (
            f"each call for {', '.join(dict.fromkeys(targets))} dequantises a weight"
            f"{place}: {note.why}"
        )
        warnings.warn(text, stacklevel=2)


def _warn_of_slow_products(build: Build) -> None:
    """Warn of targets on which products in f32 would be faster than in narrow
    dtypes.
    """
    from aotc.kernels.narrow_gains import SlowProducts

    for unit in build.units:
        for note in unit.notes:
            if isinstance(note, SlowProducts):
                warnings.warn(f"{unit.target}: {note}", stacklevel=2)


def _warn_of_uncompiled(build: Build) -> None:
    """Warn of GPU kernels that did not compile, so that IREE's code is used."""
    found: dict[tuple[str, str], list[str]] = {}
    for variant in build.report.variants:
        for row in variant.kernels.get("without", ()):
            if "text" in row:
                key = f"{row['op']} of '{row['entry']}'", row["why"]
                found.setdefault(key, []).append(str(variant.target))
    for (what, why), targets in found.items():
        text = (
            f"code of {what} for {', '.join(targets)} is IREE's, and slower: {why} "
            "[kernel-not-compiled]"
        )
        warnings.warn(text, stacklevel=2)


def _note_ops(build: Build, stage: str) -> None:
    """Record the number of graph ops after a stage in the report."""
    module = build.program.module
    if stage != "graph" and not all(x.has_general_code for x in build.program.entries):
        copy = build.program.copy()
        run_passes(copy.module, ("drop-general",), silently=True)
        module = copy.module
    build.report.graph_ops[stage] = len(graph_ops(module))


def _require_specialized(program: Program) -> None:
    """Raise if entries ask for specializations and no pass has made them.

    Raises:
        InputError: `bad-option`.
    """
    for entry in program.entries:
        if entry.specializations:
            raise InputError(
                "bad-option",
                f"entry '{entry.name}' is to be specialized for some sizes, and no "
                "pass has made code for them",
                hint="add 'specialize' to --passes, after 'inline', and 'pad-entries', "
                "if sizes are padded",
            )


class Tune(Stage):
    """The stage that reads a tuning file, or measures kernel schedules."""

    def is_wanted(self, build: Build) -> bool:
        """Return whether there is a tuning file."""
        return build.tuning is not None

    def run(self, build: Build) -> None:
        """Measure schedules that the tuning file lacks; give its schedules to the
        program.
        """
        from aotc.tuning import tune, why_not_tunable

        assert build.tuning is not None
        if build.request.tune is not None:
            fusing = _fusing(build)
            end = time.perf_counter() + build.request.tune
            left = {each: why_not_tunable(each) for each in build.targets}
            tunable = [each for each, why in left.items() if not why]
            for target in build.targets:
                if left[target]:
                    said = f"{target}: left to the model of the machine: {left[target]}"
                    build.tell_part(said, 0.0)
            for number, target in enumerate(tunable):
                rest = max(0.0, end - time.perf_counter())
                share = rest / (len(tunable) - number)
                unit = Unit(build.program).fork(target)
                tune(unit, fusing, build.tuning, share, build.tell_part)
        build.program.tuning = build.tuning.facts()


def _fusing(build: Build) -> FuseRegions:
    """Return the `fuse-regions` pass that the build would run; raise if it is left
    out.
    """
    from aotc.passes.fuse_regions import FuseRegions

    passes = Lower("regions", PASS_STAGES[1]).passes(build)
    found = [each for each in passes if isinstance(each, FuseRegions)]
    if not found:
        raise InputError(
            "bad-option",
            "expected a build with regions for --tune, whose schedules it measures; "
            "fuse-regions is left out (-O2 has it)",
        )
    return found[0]


def _state_intermediates(build: Build) -> None:
    """Write the intermediate tensors of all targets into the program, for the manifest.

    The manifest lists them, so that a call whose sizes are too large is refused.
    """
    found: dict[str, dict[Tensor, None]] = {}
    for unit in build.units:
        for entry in unit.program.entries:
            found.setdefault(entry.name, {}).update(dict.fromkeys(entry.intermediates))
    module = build.program.module
    with module.context, ir.Location.unknown():  # of IR that is lowered, too
        for name, tensors in found.items():
            if tensors:
                write_intermediates(functions_of(module)[name], [*tensors])


class Compile(Stage):
    """The stage that compiles the program for each target."""

    def run(self, build: Build) -> None:
        """Compile each target's program, or take its module from the cache."""
        if build.made is not None:
            build.take_made(build.made)
            for each in build.report.variants:
                build.tell(str(each.target), each.reuse, each.seconds)
            _warn_of_uncompiled(build)
            return
        waiting = [str(unit.target) for unit in build.units]
        count = len(waiting)

        def tell_waiting() -> None:
            done = count - len(waiting)
            build.step(f"{done} of {count} done, waits for {', '.join(waiting)}")

        def tell_variant(variant: CompiledVariant) -> None:
            waiting.remove(str(variant.target))
            build.tell(str(variant.target), variant.reuse, variant.seconds)
            if waiting:
                tell_waiting()

        tell_waiting()
        build.parameters = packager.merge_parameters(build.programs)
        build.weights = packager.weight_files(build.programs)
        build.report.variants = compile_units(
            build.units,
            dump=build.dump,
            finished=tell_variant,
            cache=build.cache,
            meanwhile=build.write_archives,
        )
        _warn_of_uncompiled(build)


def _with_regions(build: Build, original: Program, target: Target) -> Program:
    """Return a target's program with kernel regions; run the passes if it is not kept.

    Args:
        build: that has made it, or has taken what an equal one had made.
        original: the program as it was imported, with its derivatives written.
        target: that this machine does not run.
    """
    if target in build.regions:
        return build.regions[target]
    unit = Unit(original.copy(), target)
    for stage in PASS_STAGES:
        if stage.name in ("optimized", "regions"):
            run_passes(unit, Lower(stage.name, stage).passes(build), silently=True)
    return unit.program


class CompareWithSource(Stage):
    """The stage that compares compiled entries with their source framework."""

    def is_wanted(self, build: Build) -> bool:
        """Return whether a comparison is asked for, in a build that packs a bundle."""
        return build.request.parity is not None and build.request.packs

    def run(self, build: Build) -> None:
        """Compare the bundle with the source; raise for differences."""
        from aotc.checks.parity import measure, require

        assert build.request.parity is not None
        original = build.reference
        assert original is not None
        build.report.parities = measure(
            original,
            original.module,
            build.trial_bundle(),
            [v for v in build.report.variants if v.target in build.comparable],
            build.request.parity,
        )
        require(build.report.parities)


class CheckItself(Stage):
    """The stage that compares compiled entries with the reference evaluator."""

    def is_wanted(self, build: Build) -> bool:
        """Return whether the self-check is not switched off."""
        return build.self_check != "off"

    def run(self, build: Build) -> None:
        """Compare compiled code with the graph; raise if it is wrong or left
        unchecked.
        """
        self._compare(build)
        build.require_checked()

    def _compare(self, build: Build) -> None:
        """Run the self-check, or read its findings from the cache."""
        report, full = build.report, build.self_check == "full"
        original = build.source.original
        if original is None:
            from aotc.checks.self_check import skipped_checks

            why = f"it is built from IR of the stage '{build.source.stage}'"
            report.self_checks = skipped_checks(build.program, build.targets, why)
            return

        def check() -> list[SelfCheck]:
            from aotc.checks.self_check import check_entries

            graph = build.reference
            assert graph is not None
            written = build.weights, build.archives
            packed = packager.PackedWeights(build.trial_bundle(), *written)
            given = graph, graph.module, packed, report.variants
            return check_entries(
                *given,
                full=full,
                begin=build.step,
                regions=lambda target: _with_regions(build, graph, target),
                started=build.started_check,
            )

        if build.cache is None:
            report.self_checks = check()
            return
        start = time.perf_counter()
        archives = [each.sha256 for each in build.archives.values()]
        compiled = report.variants, archives
        recipe = recipe_of(original, build.reference_parts, *compiled, full=full)
        report.self_checks, report.self_check_reuse = found_or_made(
            build.cache, recipe, check
        )
        seconds = time.perf_counter() - start
        build.tell("compared", report.self_check_reuse, seconds)


class Pack(Stage):
    """The stage that writes the bundle."""

    def is_wanted(self, build: Build) -> bool:
        """Return whether the build is to end in a bundle."""
        return build.request.packs

    def run(self, build: Build) -> None:
        """Write the requested bundle."""
        build.pack()
        build.keep_made()


STAGES: tuple[Stage, ...] = (
    Import("graph"),
    Certify("certificate"),
    Lower(PASS_STAGES[0].name, PASS_STAGES[0]),
    Tune("tuning"),
    *(Lower(stage.name, stage) for stage in PASS_STAGES[1:]),
    Compile("vmfb"),
    CompareWithSource("parity"),
    CheckItself("self-check"),
    Pack("bundle"),
)


def stages_after(name: str, last: str | None) -> tuple[Stage, ...]:
    """Return the stages after an IR stage; raise if `last` comes before it."""
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
