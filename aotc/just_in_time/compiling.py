"""A program → a model that is loaded, by way of a bundle of its own.

The code comes from the user's cache where it has it: there it lies under all that it
depends on (the graph, flags, the versions of the compiler and of aotc), is checked
before it is used, and is the user's alone (`aotc.cache`). What compiles is imported
where the cache has not got the bundle of a graph.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aotc.artifacts.leftovers import temporary_folder
from aotc.cache import Cache
from aotc.just_in_time.kept_bundles import KeptBundle
from aotc.runtime import Model, load
from aotc.target import Target

if TYPE_CHECKING:
    from aotc.artifacts import Signer
    from aotc.program import Program


@dataclass(frozen=True)
class Compilation:
    """What it took to make code.

    Args:
        model: that has it.
        seconds: of passes, compiler and loading.
        is_cached: whether the code came from the user's cache.
        kept: where that has its bundle; None for nowhere.
    """

    model: Model
    seconds: float
    is_cached: bool
    kept: KeptBundle | None = None


def compile_program(
    program: Program, target: Target, threads: int | None
) -> Compilation:
    """Compile a program for this machine and load it.

    Args:
        program: at the stage `graph`; its module is used up.
        target: that this machine runs.
        threads: as `aotc.load` takes them.
    """
    begun = time.perf_counter()
    kept = KeptBundle.of(program, target)
    with temporary_folder() as folder:
        bundle = kept.unpack(folder) if kept is not None else None
        reuse = "hit"
        if bundle is None:
            bundle, reuse = write_bundle(program, [target], folder)
            if kept is not None:
                kept.keep(bundle)
        model = load(bundle, allow_unsigned=True, threads=threads, target=target.id)
    return Compilation(model, time.perf_counter() - begun, reuse == "hit", kept)


def load_kept(
    kept: KeptBundle | None, target: Target, threads: int | None
) -> Compilation | None:
    """The code that the cache has; None without."""
    begun = time.perf_counter()
    if kept is None:
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
    findings: dict[str, Any] | None = None,
) -> tuple[Path, str]:
    """Compile a program for some targets and pack it.

    Args:
        program: at the stage `graph`, with source and title; its module is used up.
        targets: to compile for.
        folder: to write into, or the bundle itself, if it ends with `.aotc`.
        signer: None for a bundle that is not signed.
        findings: for the manifest.

    Returns:
        The bundle, and `hit` if the cache had the code.
    """
    from aotc import packager  # with the compiler's side
    from aotc.backend import compile_units
    from aotc.passes import run_passes
    from aotc.passes.base import Unit
    from aotc.passes.stages import PASS_STAGES

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
    bundle = packager.pack(
        program,
        variants,
        packager.weight_files(programs),
        title,
        folder,
        findings=findings,
        signer=signer,
    )
    return bundle, variants[0].reuse.partition(" ")[0]
