"""Random models of what kernels compute, with what is around it.

    python -m benchmarks.fuzz.weighted --models 10 --target x86_64-v3 --keep failed

The entries of a model read each other's results in any order, several times, moved and
broadcast, so that the regions that kernels compute (`passes/fuse_regions.py`) begin and
end in many ways. They are compared with the reference evaluator, as other random
programs are (`judging.py`). Exits with 1 if any differs; its entry is written to the
folder of `--keep` as a model of its own.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import aotc
from aotc import reference
from aotc.checks.draws import Draw, IntegerRange, StructureLevel
from aotc.checks.uses import Use
from aotc.core.dtypes import to_numpy
from aotc.dialects.functions.entries import Entry
from aotc.errors import AotcError
from aotc.importers import load
from aotc.kernels.gpu.machines import MACHINES
from aotc.kernels.gpu.reference import KernelsOfRegions
from aotc.kernels.reference import evaluate_region
from aotc.machine.target import Target
from aotc.passes import run_passes
from aotc.passes.base import Unit
from aotc.passes.stages import PASS_STAGES
from aotc.pipeline import build
from aotc.programs.program import LEVELS, Program
from benchmarks.frontends.kernel_sizes import write_kernels_of_any_size

from . import weighted_lookups
from .judging import judge, rounding_of
from .weighted_entries import Entry as DrawnEntry
from .weighted_lookups import NIBBLES

HEADER = """\
import numpy
import aotc
import aotc.numpy as np
from aotc import nn, special
from aotc.core.dtypes import to_numpy

FLOATS = "{dtype}"  # of inputs, weights and states
rng = numpy.random.default_rng(0)
"""
CALLS = (0, 1, 5, 8, 19)  # sizes that calls decide
PARTS = 3  # of a model that does not build
# of the inputs: random numbers, and ties, zeros and equal rows; where a state goes on
# from call to call, all calls have some of both
STRUCTURES = (StructureLevel.NONE, StructureLevel.ALL)
OF_STATES = (StructureLevel.SOME,)


@dataclass(frozen=True)
class Settings:
    """The target, level and dtype by which models are built and called.

    Args:
        target: to compile for.
        level: of optimisation.
        dtype: of inputs, weights and states.
        threads: of a call.
        passes_only: evaluate what the passes make of the graph, and compile nothing.
        chip: whose GPU kernels compute regions there; "" for their terms.
    """

    target: Target
    level: int = LEVELS[-1]
    dtype: str = "f32"
    threads: int | None = None
    passes_only: bool = False
    chip: str = ""


Call = Callable[[str, Mapping[str, Any]], Sequence[Any]]


def model_source(seed: int, entries: int) -> str:
    """Return a model file's text with random entries."""
    return source_of(drawn_entries(seed, entries))


def drawn_entries(
    seed: int, count: int, *, has_lookups: bool = False
) -> list[DrawnEntry]:
    """Draw `count` random entries, with lookups if asked for."""
    drawn = [
        DrawnEntry(
            np.random.default_rng([seed, number]), f"f{number}", has_lookups=has_lookups
        )
        for number in range(count)
    ]
    for each in drawn:
        each.draw()
        each.text = each.source()
    return drawn


def source_of(drawn: Sequence[DrawnEntry], dtype: str = "f32") -> str:
    """Return a model file's text with these entries, of floats of a dtype."""
    weights = {name: shape for each in drawn for name, shape in each.weights.items()}
    rows = "".join(f'    "{x}": {_weight(x, shape)},\n' for x, shape in weights.items())
    table = f"w = aotc.Weights({{\n{rows}}})\n"
    header = HEADER.format(dtype=dtype)
    if any(name.endswith(NIBBLES) for name in weights):
        header += weighted_lookups.HEADER
    return "\n\n".join([header + table, *(each.text for each in drawn)])


def _weight(name: str, shape: Sequence[int]) -> str:
    """Return the source of a weight with random numbers."""
    if name.endswith(NIBBLES):
        return f"nibbles(*{shape}, {len(name) % 2 == 0})"
    if not shape:
        return "numpy.array(1.25).astype(to_numpy(FLOATS))"
    return f"rng.normal(size={shape}, scale=0.5).astype(to_numpy(FLOATS))"


def differences(
    model: Path, bundle: Path, threads: int | None = None
) -> Iterator[tuple[str, str]]:
    """Yield the entries of a bundle whose results differ from the model's, and how."""
    built = aotc.load(bundle, allow_unsigned=True, threads=threads)
    return _differences(
        load(model), lambda name, inputs: _leaves(built.entries[name](**inputs))
    )


def differences_by_passes(
    model: Path, settings: Settings, kernels: Counter[str] | None = None
) -> Iterator[tuple[str, str]]:
    """Yield the entries whose results the passes have changed, and how.

    Args:
        model: that has them.
        settings: how they are evaluated.
        kernels: counts the regions that GPU kernels computed, and why others not.
    """
    unit = Unit(load(model), settings.target)
    unit.program.level = settings.level
    graph, regions, *_ = PASS_STAGES
    passes = [*graph.passes(settings.level), *regions.passes(settings.level)]
    run_passes(unit, passes)
    entries = {entry.name: entry for entry in unit.program.entries}
    stored = dict(unit.program.parameters)
    by_kernels = KernelsOfRegions(MACHINES[settings.chip or "sm_80"])
    compute = by_kernels if settings.chip else evaluate_region

    def call(name: str, inputs: Mapping[str, Any]) -> list[Any]:
        given, entry = {**stored, **inputs}, entries[name]
        arrays = [given[port.name] for port in entry.arguments]
        found = reference.evaluate(unit.module, name, arrays, with_region=compute)
        states = [port.name for port in entry.results if port.kind == "state"]
        stored.update(zip(states, found, strict=False))
        return found[len(states) :]

    yield from _differences(load(model), call)
    if kernels is not None and settings.chip:
        kernels["computed"] += len(by_kernels.computed)
        kernels.update(by_kernels.refused.values())


def _differences(program: Program, call: Call) -> Iterator[tuple[str, str]]:
    """Yield the entries for which `call` differs from the reference, and how."""
    run_passes(program.module, ("autodiff",), silently=True)
    for entry in program.entries:
        ports = entry.ports("input")
        structures = OF_STATES if entry.updates else STRUCTURES
        for size, structure in product(_sizes(entry), structures):
            draw = Draw(np.random.default_rng(1), False, IntegerRange.BITS, structure)
            inputs = {
                port.name: draw.floats(_sized(port.type.shape, size), Use()).astype(
                    to_numpy(port.type.dtype)
                )
                for port in ports
            }
            wrong = _wrong_in_calls(program, entry, inputs, call)
            if wrong:
                called = "" if size is None else f" with n = {size}"
                told = "" if structure is StructureLevel.NONE else ", rounded inputs"
                yield entry.name, f"{wrong}{called}{told}"
                break


def _wrong_in_calls(
    program: Program, entry: Entry, inputs: Mapping[str, Any], call: Call
) -> str:
    """Describe what is wrong in one call, or several of a state; "" if nothing is."""
    named = {**program.parameters, **inputs}
    states = [port.name for port in entry.results if port.kind == "state"]
    for _ in range(3 if states else 1):
        given = [named[port.name] for port in entry.arguments]
        wanted = _wanted(program.module, entry.name, given)
        if wanted is None:
            return ""
        found = [*wanted[: len(states)], *call(entry.name, inputs)]
        wrong = _judged(program.module, entry.name, given, found, wanted)
        if wrong:
            return wrong
        named.update(zip(states, wanted, strict=False))
    return ""


def _wanted(module: Any, name: str, given: Sequence[Any]) -> Sequence[Any] | None:
    """Return the reference's results; None if undefined (a maximum of no elements)."""
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return reference.evaluate(module, name, given)
    except ValueError as error:
        if "zero-size array to reduction" in str(error):
            return None
        raise


def _judged(
    module: Any,
    name: str,
    given: Sequence[Any],
    found: Sequence[Any],
    wanted: Sequence[Any],
) -> str:
    """Describe what is wrong with the results of a call; "" if nothing is."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if not judge(found, wanted).wrong:
            return ""  # without asking how far rounding may move it, which takes time
        rounding = rounding_of(module, name, given, wanted)
        return judge(found, wanted, rounding).wrong


def _leaves(found: Any) -> list[Any]:
    """Return the arrays of a result, in order."""
    if isinstance(found, dict):
        return [leaf for each in found.values() for leaf in _leaves(each)]
    if isinstance(found, (tuple, list)):
        return [leaf for each in found for leaf in _leaves(each)]
    return [found]


def _sizes(entry: Any) -> list[int | None]:
    """Draw the symbolic sizes of an entry's calls; None if it has none."""
    if not entry.symbols:
        return [None]
    (contract,) = entry.symbols
    return [size for size in CALLS if size >= contract.min]


def _sized(shape: Sequence[Any], size: int | None) -> tuple[int, ...]:
    """Return a shape with `size` for symbols."""
    return tuple(n if isinstance(n, int) else int(size or 0) for n in shape)


# ---- the command --------------------------------------------------------------------


@dataclass(frozen=True)
class Failure:
    """An entry and a description of what is wrong with it."""

    entry: DrawnEntry
    why: str


def failures(
    drawn: Sequence[DrawnEntry], settings: Settings, kernels: Counter[str]
) -> Iterator[Failure]:
    """Build a model and yield the failures of its entries."""
    named = {each.name: each for each in drawn}
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model.py"
        model.write_text(source_of(drawn, settings.dtype), encoding="utf-8")
        if settings.passes_only:
            for name, why in differences_by_passes(model, settings, kernels):
                yield Failure(named[name], why)
            return
        try:
            bundle = build(
                model,
                output=Path(folder),
                targets=[settings.target],
                level=settings.level,
                self_check="off",
                sign=False,
            ).bundle
        except AotcError as error:
            yield from _failures_in_parts(drawn, settings, kernels, error)
            return
        assert bundle is not None
        kernels.update(used_families(bundle))
        for name, why in differences(model, bundle, settings.threads):
            yield Failure(named[name], why)


def _failures_in_parts(
    drawn: Sequence[DrawnEntry],
    settings: Settings,
    kernels: Counter[str],
    error: AotcError,
) -> Iterator[Failure]:
    """Build halves of a model that does not build; yield the failures."""
    if len(drawn) == 1:
        yield Failure(drawn[0], f"{error.code}: {str(error).splitlines()[0]}")
        return
    size = -(-len(drawn) // PARTS)
    for begin in range(0, len(drawn), size):
        yield from failures(drawn[begin : begin + size], settings, kernels)


def used_families(bundle: Path) -> Iterator[str]:
    """Yield the kernel family of each kernel in a bundle."""
    manifest = json.loads((bundle / "manifest.json").read_bytes())
    for variant in manifest["variants"]:
        for row in variant.get("kernels", {}).get("regions", ()):
            yield row["family"]


def main() -> int:
    """Draw, build and compare models; return 1 if anything is wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.fuzz.weighted", description=__doc__
    )
    add = parser.add_argument
    add("--models", type=int, default=10)
    add("--entries", type=int, default=40, help="of a model (40)")
    add("--seed", type=int, default=0, help="of the first one")
    add("--target", type=Target.parse, default=Target.parse("cpu"))
    add("-O", dest="level", type=int, choices=LEVELS, default=LEVELS[-1], help="level")
    add("--dtype", default="f32", choices=["f32", "bf16", "f16"], help="of floats")
    add("--threads", type=int, help="of a call")
    add("--passes-only", action="store_true", help="compile nothing")
    add("--chip", default="", choices=["", *MACHINES], help="of GPU kernels, evaluated")
    add("--kernels", action="store_true", help="kernels for small operators, too")
    add("--lookups", action="store_true", help="by indices, and in weights of 4 bits")
    add("--keep", type=Path, help="a folder for entries that failed")
    asked, failed = parser.parse_args(), 0
    # A random entry need not use all its inputs and weights.
    warnings.filterwarnings("ignore", message=".*is not used")
    if asked.kernels:
        write_kernels_of_any_size()
    settings = Settings(
        asked.target,
        asked.level,
        asked.dtype,
        asked.threads,
        asked.passes_only,
        asked.chip,
    )
    kernels: Counter[str] = Counter()
    for seed in range(asked.seed, asked.seed + asked.models):
        drawn = drawn_entries(seed, asked.entries, has_lookups=asked.lookups)
        found = list(failures(drawn, settings, kernels))
        failed += len(found)
        told = "; ".join(f"{each.entry.name}: {each.why}" for each in found)
        print(f"model {seed}: {told or 'agrees'}", flush=True)
        if asked.keep:
            asked.keep.mkdir(parents=True, exist_ok=True)
            for each in found:
                file = asked.keep / f"model_{seed}_{each.entry.name}.py"
                text = source_of([each.entry], asked.dtype)
                file.write_text(text, encoding="utf-8")
    print(f"{failed} of {asked.models * asked.entries} entries failed; {dict(kernels)}")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
