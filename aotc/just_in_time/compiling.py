"""A program → a model that is loaded, by way of a bundle of its own.

The code comes from the user's cache where it has it: there it lies under all that it
depends on (the graph, flags, the versions of the compiler and of aotc), is checked
before it is used, and is the user's alone (`aotc.core.cache`). What compiles is
imported where the cache has not got the bundle of a graph.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from aotc.artifacts.leftovers import temporary_folder
from aotc.core import options
from aotc.core.cache import Cache
from aotc.just_in_time.first_calls import FirstCall, Unchecked, require_right
from aotc.just_in_time.kept_bundles import KeptBundle
from aotc.machine.target import Target
from aotc.runtime import Model, load

if TYPE_CHECKING:
    from aotc.artifacts import Signer
    from aotc.backend import CompiledVariant
    from aotc.packager import PackedWeights
    from aotc.programs.program import Program


@dataclass(frozen=True)
class Compilation:
    """A loaded model of compiled or cached code, and what making it cost.

    Args:
        model: that has it.
        seconds: of passes, compiler and loading.
        is_cached: whether the code came from the user's cache.
        kept: where that has its bundle; None for nowhere.
        unchecked: what calls are compared by; None where that was done, or is off.
    """

    model: Model
    seconds: float
    is_cached: bool
    kept: KeptBundle | None = None
    unchecked: Unchecked | None = None

    def caller(
        self, entry: str, done: Callable[[], None] = lambda: None
    ) -> Callable[[Sequence[object]], Sequence[object]]:
        """Return a function that calls an entry: from the leaves of inputs to those of
        the result.

        Where nothing was compared yet, its first call is: `FirstCall`.

        Args:
            entry: its name.
            done: is called when no further call is to be compared.
        """
        if self.unchecked is None:
            return self.model.entry(entry).call_flat
        return FirstCall(self.model, entry, self.unchecked, done)


def compile_program(
    program: Program, target: Target, threads: int | None
) -> Compilation:
    """Compile a program for this machine, or find it in the cache, and load it.

    Args:
        program: at the stage `graph`; its module is used up.
        target: that this machine runs.
        threads: as `aotc.load` takes them.

    Raises:
        CompileError: the compiler fails; `self-check`: the cache has the code, of which
            a call was wrong.
    """
    begun = time.perf_counter()
    kept = KeptBundle.of(program, target)
    original = None if _needs_no_check(kept) else program.copy()
    compiled = None
    with temporary_folder() as folder:
        bundle = kept.unpack(folder) if kept is not None else None
        if bundle is None:
            bundle, compiled = _make_bundle(program, target, kept, folder)
        model = load(bundle, allow_unsigned=True, threads=threads, target=target.id)
    seconds = time.perf_counter() - begun
    is_cached = compiled is None or compiled.reuse == "hit"
    unchecked = None
    if original is not None:
        always = options.get("AOTC_CHECK") == "always"
        unchecked = Unchecked(original, seconds, compiled, kept, always)
    return Compilation(model, seconds, is_cached, kept, unchecked)


def _make_bundle(
    program: Program, target: Target, kept: KeptBundle | None, folder: Path
) -> tuple[Path, CompiledVariant | None]:
    """Write the bundle of a program, or find one that another process has written
    meanwhile.

    Returns:
        The bundle, and the code in it if it was written here.
    """
    if kept is None:
        bundle, (compiled,) = write_bundle(program, [target], folder)
        return bundle, compiled
    with kept.cache.lock(kept.recipe) as is_there:
        found = kept.unpack(folder) if is_there else None
        if found is not None:
            return found, None
        bundle, (compiled,) = write_bundle(program, [target], folder)
        kept.keep(bundle)
        return bundle, compiled


def _needs_no_check(kept: KeptBundle | None) -> bool:
    """Return whether calls need no comparison: one of the code is on record, or
    AOTC_CHECK is off; raise if it has failed.
    """
    mode = options.get("AOTC_CHECK")
    if mode == "first":
        return kept is not None and require_right(kept)
    return bool(mode == "off")


def load_kept(
    kept: KeptBundle | None, target: Target, threads: int | None
) -> Compilation | None:
    """Load cached code; None if there is none, or its calls must be compared first."""
    begun = time.perf_counter()
    if kept is None or not _needs_no_check(kept):
        return None
    with temporary_folder() as folder:
        bundle = kept.unpack(folder)
        if bundle is None:
            return None
        model = load(bundle, allow_unsigned=True, threads=threads, target=target.id)
    return Compilation(model, time.perf_counter() - begun, True, kept)


def write_bundle(
    program: Program,
    targets: Sequence[Target],
    folder: Path,
    signer: Signer | None = None,
    findings: Mapping[str, object] | None = None,
) -> tuple[Path, list[CompiledVariant]]:
    """Compile a program for some targets and write it as a bundle, signed if there is a
    signer.

    What is signed is compared with the reference evaluator first, as by a build.

    Args:
        program: at the stage `graph`, with source and title; its module is used up.
        targets: to compile for.
        folder: to write into, or the bundle itself, if it ends with `.aotc`.
        signer: None for a bundle that is not signed.
        findings: for the manifest.

    Returns:
        The bundle, and the code for each target.

    Raises:
        CompileError: the compiler fails; `self-check`: it is wrong.
    """
    from aotc import packager  # with the compiler's side
    from aotc.artifacts.pack import TRIAL_SUFFIX, scratch_folder
    from aotc.backend import compile_units
    from aotc.passes import run_passes
    from aotc.passes.base import Unit
    from aotc.passes.stages import PASS_STAGES

    is_checked = signer is not None and options.get("AOTC_SELF_CHECK") != "off"
    original = program.copy() if is_checked else None
    first, *rest = PASS_STAGES
    unit = Unit(program)
    run_passes(unit, first.passes(), silently=True)
    program.stage = first.name
    units = [unit.fork(target) for target in targets]
    for each in units:
        run_passes(each, [p for stage in rest for p in stage.passes()], silently=True)
    programs = {target.id: x.program for target, x in zip(targets, units, strict=True)}
    packager.merge_parameters(programs)
    variants = compile_units(units, cache=Cache.of_user())
    title = program.title.name or "function", program.title.version or "1.0.0"
    weights = packager.weight_files(programs)
    with scratch_folder(folder, title) as work:
        archives = packager.write_archives(weights, work)
        given = program, variants, weights, title
        files = packager.files(program, archives, variants, title)
        contents = packager.write_files(files, work)
        pack = partial(packager.pack, *given, contents=contents)
        if original is not None:
            trial = pack(work / f"bundle{TRIAL_SUFFIX}")
            packed = packager.PackedWeights(trial, weights, archives)
            checked = _self_check(original, variants, packed)
            packager.take_back(contents, trial)
            findings = {**(findings or {}), "self_check": checked}
        return pack(folder, findings=findings, signer=signer), variants


def _self_check(
    original: Program,
    variants: Sequence[CompiledVariant],
    packed: PackedWeights,
) -> list[dict[str, object]]:
    """Compare compiled code with the reference evaluator; return findings for the
    manifest.

    Args:
        original: a copy of what was compiled, which is used up.
        variants: the code.
        packed: the bundle of it.

    Raises:
        CompileError: `self-check`, and others of `check_entries`.
    """
    from aotc.checks.self_check import check_entries
    from aotc.passes import run_passes

    run_passes(original.module, ("autodiff",), silently=True)
    full = options.get("AOTC_SELF_CHECK") == "full"
    found = check_entries(original, original.module, packed, variants, full=full)
    return [each.to_manifest() for each in found]
