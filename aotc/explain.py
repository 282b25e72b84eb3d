"""`aotc explain`: everything that is to be said of a model before it is built.

One run imports the model and takes it through the passes for every target. It goes on
after what cannot be imported, so that it finds all of it: what a build would end with
(`unsupported`), what becomes several simpler ops (`decomposed`), and what is computed
in another way than the source says (`approximated`), and which products are left to
IREE's code generation (`without-kernel`). Of entries whose calls are padded, it says
what is computed in the sizes of a call (`not-padded`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aotc import importers
from aotc.backend import require_compiler
from aotc.dialects.calls.padded_entries import CUT
from aotc.dialects.functions.functions import functions_of
from aotc.dialects.functions.fusion import is_region
from aotc.dialects.graph import where_of
from aotc.dialects.limits import graph_ops, refusals
from aotc.dialects.plain import plain_of
from aotc.errors import AotcError, SetupError
from aotc.kernels.capabilities import capabilities_of
from aotc.kernels.refusal import refusals_in
from aotc.machine.target import Target, for_bytes
from aotc.mlir import Module
from aotc.passes import printed_pass, run_passes
from aotc.passes.base import Unit
from aotc.passes.fold_parameters import folds_parameters
from aotc.passes.fuse_regions import FuseRegions
from aotc.passes.stages import PASS_STAGES, all_passes
from aotc.pipeline.specializations import complete_specializations
from aotc.programs.program import Program
from aotc.tracing.findings import OpFinding
from aotc.tracing.survey import Survey, survey_imports

__all__ = ["Explanation", "OpFinding", "explain"]

KINDS = (
    "unsupported",
    "decomposed",
    "approximated",
    "without-kernel",
    "not-padded",
)


@dataclass(frozen=True)
class Explanation:
    """The expected outcome of building a model: findings and counts of ops.

    Args:
        source: the file.
        targets: what it was looked at for.
        findings: all of them, as `KINDS` are ordered.
        coverage: counts of the ops of the source; see `Survey.coverage`.
    """

    source: str
    targets: tuple[Target, ...]
    findings: tuple[OpFinding, ...]
    coverage: dict[str, int]

    @property
    def builds(self) -> bool:
        """Return whether nothing prevents a build."""
        return not any(each.kind == "unsupported" for each in self.findings)

    def to_json(self) -> dict[str, Any]:
        """Return the explanation as a document of the schema `aotc.explain/1`."""
        return {
            "source": self.source,
            "targets": [str(target) for target in self.targets],
            "builds": self.builds,
            "coverage": self.coverage,
            "findings": [each.to_json() for each in self.findings],
        }


def explain(
    source: str | Path,
    entries: Sequence[str] = (),
    targets: str | Sequence[Target | str] = (),
) -> Explanation:
    """Import a model and run its passes; return findings on what a build would do.

    The code that IREE makes of it is not looked at: that takes the build itself.

    Args:
        source: the model, as for `pipeline.build`.
        entries: names of the entries to look at; all of them by default.
        targets: what to look at it for, as for `pipeline.build`; by default
            `Target.default()`.

    Raises:
        InputError: there is no such file, or nothing imports its kind; or a setting
            of the environment is wrong.
        SetupError: a package that this kind of file needs is not installed; or a folder
            that a setting names cannot be written.
    """
    path, chosen = Path(source), Target.listed(targets) or Target.default()
    importers.require_known(path)
    require_compiler()
    printed_pass()  # a wrong setting is no fault of the model
    with survey_imports(tolerant=True) as survey:
        program = _import_program(path, tuple(entries), survey)
        count = _op_count(program) if program is not None else 0
        if program is not None and program.has_weights_of_bytes:
            chosen = for_bytes(chosen)  # as a build does
        if program is not None and program.entries:
            _state_sizes(program, survey)
            _run_passes(program, chosen, survey)
    findings = sorted(survey.findings, key=lambda each: KINDS.index(each.kind))
    return Explanation(path.name, chosen, tuple(findings), survey.coverage(count))


def _import_program(
    path: Path, entries: tuple[str, ...], survey: Survey
) -> Program | None:
    """Import the program, with placeholders for unsupported ops; None if that fails."""
    try:
        return importers.load(path, entries)
    except SetupError:
        raise
    except AotcError as error:
        survey.refuse(path.name, error)
        return None


def _op_count(program: Program) -> int:
    """Return the number of imported graph ops."""
    coverage = program.source.get("coverage", {})
    count: int = coverage.get("graph_ops", len(graph_ops(program.module)))
    return count


def _state_sizes(program: Program, survey: Survey) -> None:
    """Complete the sizes to specialize for; record an error as a finding."""
    if program.stage == "graph":
        try:
            complete_specializations(program)
        except AotcError as error:
            survey.refuse("the sizes of calls", error)


def _run_passes(program: Program, targets: Sequence[Target], survey: Survey) -> None:
    """Run the program through the passes of a build; record findings in the survey."""
    module = program.module
    names = [stage.name for stage in PASS_STAGES]
    done = names.index(program.stage) + 1 if program.stage in names else 0
    for stage in PASS_STAGES[done:]:
        if stage.name == "regions":
            _note_targets(module, targets, survey)
            fused = _fused_modules(program, targets)
            _note_decomposed([*fused.values()] or [module], survey)
            _note_approximated(module, survey)
            _note_cut_ops(module, survey)
            _note_kernels(program, fused, survey)
        try:
            run_passes(module, stage.passes(program.level, program.without))
        except SetupError:  # such as a folder of AOTC_DUMP that cannot be written
            raise
        except AotcError as error:
            survey.refuse(f"the stage '{stage.name}'", error)
            return


def _note_targets(module: Module, targets: Sequence[Target], survey: Survey) -> None:
    """Record the ops that a target cannot compile."""
    for op, error in refusals(module, targets):
        survey.refuse(op, error)


def _fused_modules(program: Program, targets: Sequence[Target]) -> dict[Target, Module]:
    """Return a copy of the module for each target, with regions for kernels; {} if the
    build makes none.
    """
    passes = all_passes(program.level, program.without)
    fusing = [each for each in passes if isinstance(each, FuseRegions)]
    found: dict[Target, Module] = {}
    for target in targets if fusing else ():
        unit = Unit(program).fork(target)
        run_passes(unit, fusing, silently=True)
        found[target] = unit.module
    return found


def _note_kernels(
    program: Program, fused: Mapping[Target, Module], survey: Survey
) -> None:
    """Record the products that are left to IREE's code generation, each once."""
    counts: dict[tuple[str, str, str], dict[str, int]] = {}
    for target, module in fused.items():
        capabilities = capabilities_of(target)
        refused = refusals_in(
            module, capabilities, folds_weights=folds_parameters(program)
        )
        for found in refused.values():
            for each in found:
                name = f"graph.{each.op}"
                by_target = counts.setdefault((name, each.why, each.where or name), {})
                by_target[str(target)] = by_target.get(str(target), 0) + 1
    for (name, why, where), by_target in counts.items():
        verb = "has" if len(by_target) == 1 else "have"
        reason = f"{', '.join(by_target)} {verb} no kernel for it: {why}"
        for _ in range(max(by_target.values())):
            survey.note("without-kernel", name, reason, where)


def _note_cut_ops(module: Module, survey: Survey) -> None:
    """Record ops of padded entries that are computed in unpadded sizes."""
    for function in functions_of(module).values():
        if CUT in function.attributes:
            for each in plain_of(function.attributes[CUT]):
                why = "it is computed in the sizes of a call where others are padded"
                survey.note("not-padded", each["op"], why, each["where"] or each["op"])


def _note_decomposed(modules: Sequence[Module], survey: Survey) -> None:
    """Record ops that are decomposed in some of the modules, as they have no kernel."""
    counts = Counter[tuple[str, str]]()
    for module in modules:
        functions = functions_of(module).values()
        outside = [each for each in functions if not is_region(each)]
        counts |= Counter(
            (name := f"graph.{type(op)._op_name}", where_of(op) or name)
            for function in outside
            for op in graph_ops(function)
            if hasattr(type(op), "decompose") and not type(op).expands
        )
    for name, where in counts.elements():
        survey.note("decomposed", name, "it is compiled as simpler ops", where)


def _note_approximated(module: Module, survey: Survey) -> None:
    """Record ops whose results are approximations."""
    for op in graph_ops(module):
        caveat = type(op).caveat(op)
        if caveat is not None:
            name = f"graph.{type(op)._op_name}"
            survey.note("approximated", name, caveat, where_of(op) or name)
