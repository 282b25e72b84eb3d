"""Random quantised programs, compiled for several processors and compared bit by bit.

    python -m benchmarks.fuzz.quantized --models 20 --seed 0 --keep failed

Each model has many entries (`quantized_entries`), and is compiled for all targets at
once. Where an entry is integers and ops that round alike everywhere, its results are
to be the same bytes on each target, by the passes alone, and by the terms of the
regions of `--evaluated` targets; what the passes make is compared with the reference
evaluator on the graph as it was traced, within what rounding moves, and so are the
results of other entries. Code for other machines runs under an emulator:

    python -m benchmarks.emulation.python FOLDER
    AOTC_PYTHONS=aarch64=FOLDER/python python -m benchmarks.fuzz.quantized \
        --targets x86_64-v4-dot aarch64

Exits with 1 if anything is wrong; its entries are written to the folder of `--keep` as
models of their own.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from aotc import dtypes, options, processor, reference
from aotc.errors import AotcError
from aotc.importers import load
from aotc.kernels.reference import evaluate_region
from aotc.passes import run_passes
from aotc.passes.base import Unit
from aotc.passes.stages import PASS_STAGES
from aotc.pipeline import build
from aotc.program import Program
from aotc.target import Target
from benchmarks.frontends.kernel_sizes import write_kernels_of_any_size

from .judging import judge, rounding_of
from .quantized_entries import QuantizedEntry
from .weighted import HEADER, PARTS, used_families

ROOT = Path(__file__).parents[2]
TARGETS = ("x86_64-v3", "x86_64-v4", "x86_64-v4-dot", "vmvx")
EVALUATED = ("x86_64-v4-dot", "riscv64-v")
CALLS = (0, 1, 5)  # sizes that calls decide
SECONDS = 900  # in which the calls of a model are to return, also under an emulator

Arrays = Sequence[Any]
Calls = Sequence[tuple[str, Arrays]]


@dataclass
class Found:
    """What is wrong with entries, and what was drawn and computed.

    Args:
        wrong: the first thing that is wrong with an entry, by its name.
        families: of kernels, and of what was drawn.
        bytes: how many bytes were compared bit by bit.
    """

    wrong: dict[str, str] = field(default_factory=dict)
    families: Counter[str] = field(default_factory=Counter)
    bytes: int = 0

    def add(self, entry: str, why: str) -> None:
        """Note what is wrong with an entry, if nothing was before."""
        if why:
            self.wrong.setdefault(entry, why)


def drawn_entries(seed: int, count: int) -> list[QuantizedEntry]:
    """Return so many random entries."""
    drawn = [
        QuantizedEntry(np.random.default_rng([seed, number]), f"f{number}")
        for number in range(count)
    ]
    for each in drawn:
        each.draw()
    return drawn


def source_of(drawn: Sequence[QuantizedEntry]) -> str:
    """Return a model file with these entries."""
    rows = [
        f'    "{name}": {source},\n'
        for each in drawn
        for name, source in each.weights.items()
    ]
    table = f"w = aotc.Weights({{\n{''.join(rows)}}})\n"
    return "\n\n".join([HEADER + table, *(each.source() for each in drawn)])


def compare(
    drawn: Sequence[QuantizedEntry],
    targets: Sequence[Target],
    evaluated: Sequence[Target],
    found: Found,
) -> None:
    """Build, evaluate and call a model of some entries, and note what is wrong."""
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model.py"
        model.write_text(source_of(drawn), encoding="utf-8")
        calls = _calls(load(model))
        exact = {each.name for each in drawn if each.is_exact}
        wanted = _by_passes(model, calls, None)
        _compare_with_source(load(model), calls, wanted, found)
        for target in evaluated:
            got = _by_passes(model, calls, target)
            _compare_each(load(model), calls, wanted, got, exact, f"{target}", found)
    for some in ([x for x in drawn if x.is_half], [x for x in drawn if not x.is_half]):
        portable = [x for x in targets if x.backend != "vmvx"]  # has no half precision
        named = portable if some and some[0].is_half else targets
        if some and named:
            _compare_built(some, named, found)


def _compare_built(
    drawn: Sequence[QuantizedEntry], targets: Sequence[Target], found: Found
) -> None:
    """Compile some entries for all targets, and note what is wrong on any."""
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model.py"
        model.write_text(source_of(drawn), encoding="utf-8")
        bundle = _built(drawn, model, targets, found)
        if bundle is not None:
            _compare_bundle(drawn, model, bundle, found)


def _built(
    drawn: Sequence[QuantizedEntry],
    model: Path,
    targets: Sequence[Target],
    found: Found,
) -> Path | None:
    """Return the bundle of some entries; if there is none, take them apart."""
    asked: dict[str, Any] = {"targets": targets, "self_check": "off", "sign": False}
    try:
        return build(model, output=model.parent, **asked).bundle
    except AotcError as error:
        if len(drawn) == 1:
            found.add(drawn[0].name, f"{error.code}: {str(error).splitlines()[0]}")
            return None
        size = -(-len(drawn) // PARTS)
        for begin in range(0, len(drawn), size):
            _compare_built(drawn[begin : begin + size], targets, found)
        return None


def _compare_bundle(
    drawn: Sequence[QuantizedEntry], model: Path, bundle: Path, found: Found
) -> None:
    """Call each variant of a bundle, and note what is wrong."""
    calls = _calls(load(model))
    wanted = _by_passes(model, calls, None)
    found.families.update(f"kernel {family}" for family in used_families(bundle))
    manifest = json.loads((bundle / "manifest.json").read_bytes())
    exact = {each.name for each in drawn if each.is_exact}
    for variant in manifest["variants"]:
        got = _called(bundle, variant, calls, found)
        name = f"{variant['id']}, compiled"
        _compare_each(load(model), calls, wanted, got, exact, name, found)


def _called(
    bundle: Path, variant: Mapping[str, Any], calls: Calls, found: Found
) -> list[Arrays | None]:
    """Return what processes of their own make of the calls; None of those that die."""
    python = _python(variant["target"].get("arch") or processor.arch())
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "calls"
        file.write_bytes(pickle.dumps([(name, list(given)) for name, given in calls]))
        command = [python, "-m", "benchmarks.compat.run_calls", bundle]
        command += [variant["id"], file]
        done = subprocess.run(
            list(map(str, command)), cwd=ROOT, capture_output=True, timeout=SECONDS
        )
    if not done.returncode:
        return [*pickle.loads(done.stdout)[1]]
    if len(calls) > 1:
        half = len(calls) // 2
        parts = calls[:half], calls[half:]
        return [x for part in parts for x in _called(bundle, variant, part, found)]
    told = done.stderr.decode(errors="replace").strip().splitlines()[-4:]
    found.add(calls[0][0], f"{variant['id']}: call exits {done.returncode}: {told}")
    return [None]


def _python(arch: str) -> str:
    """Return the Python that runs code for an architecture, emulated if need be."""
    pythons: Mapping[str, str] = options.get("AOTC_PYTHONS")
    return pythons[arch] if arch != processor.arch() else sys.executable


def _calls(program: Program) -> list[tuple[str, Arrays]]:
    """Return the calls of each entry: its name, and an array for each input."""
    found: list[tuple[str, Arrays]] = []
    for entry in program.entries:
        for size in CALLS if entry.symbols else (0,):
            rng = np.random.default_rng(1)
            given = []
            for port in entry.ports("input"):
                shape = [n if isinstance(n, int) else size for n in port.type.shape]
                given.append(_drawn(rng, port.type.dtype, shape))
            found.append((entry.name, given))
    return found


def _drawn(rng: np.random.Generator, dtype: str, shape: Sequence[int]) -> Any:
    """Return bytes, or numbers of which some lie between two levels or far beyond."""
    kind = dtypes.to_numpy(dtype)
    if dtype in ("u8", "i8"):
        return rng.integers(0, 256, shape).astype("u1").view(kind)
    numbers = rng.normal(size=shape)
    if dtype == "f32":
        middles = (np.round(numbers * 32) + 0.5) / 32
        numbers = np.where(rng.random(shape) < 0.2, middles, numbers)
        numbers = np.where(rng.random(shape) < 0.02, numbers * 1e30, numbers)
    return numbers.astype(kind)


def _by_passes(model: Path, calls: Calls, target: Target | None) -> list[Arrays]:
    """Return what the graph gives after the passes; with a target, by its terms."""
    unit = Unit(load(model), target)
    optimized, regions, *_ = PASS_STAGES
    passes = [*optimized.passes(), *(regions.passes() if target else ())]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run_passes(unit, passes, silently=True)
    compute = evaluate_region if target else None
    return [
        _evaluate(unit.program, name, given, with_region=compute)
        for name, given in calls
    ]


def _evaluate(program: Program, name: str, given: Arrays, **how: Any) -> Arrays:
    """Return what the reference evaluator makes of a call."""
    arrays = _arguments(program, name, given)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return list(reference.evaluate(program.module, name, arrays, **how))


def _arguments(program: Program, name: str, given: Arrays) -> list[Any]:
    """Return the arrays of all arguments of an entry, weights among them."""
    (entry,) = (each for each in program.entries if each.name == name)
    rest = iter(given)
    return [
        next(rest) if port.kind == "input" else program.parameters[port.name]
        for port in entry.arguments
    ]


def _compare_with_source(
    program: Program, calls: Calls, got: Sequence[Arrays], found: Found
) -> None:
    """Note where the passes have changed what a graph computes."""
    run_passes(program.module, ("autodiff",), silently=True)
    for (name, given), results in zip(calls, got, strict=True):
        expected = _evaluate(program, name, given)
        why = _judged(program, name, given, results, expected)
        found.add(name, why and f"by the passes, {why}")


def _compare_each(
    program: Program,
    calls: Calls,
    wanted: Sequence[Arrays],
    got: Sequence[Arrays | None],
    exact: set[str],
    where: str,
    found: Found,
) -> None:
    """Note where results on a target differ from those of the passes."""
    run_passes(program.module, ("autodiff",), silently=True)
    for (name, given), expected, results in zip(calls, wanted, got, strict=True):
        if results is None:
            continue  # which was noted
        if name in exact:
            found.bytes += sum(each.nbytes for each in expected)
            why = _difference(results, expected)
        else:
            why = _judged(program, name, given, results, expected)
        found.add(name, why and f"on {where}, {why}")


def _difference(got: Arrays, wanted: Arrays) -> str:
    """Return where results are not the same bit by bit; "" if they are."""
    for number, (x, y) in enumerate(zip(got, wanted, strict=True)):
        if x.dtype != y.dtype or x.shape != y.shape:
            return f"result {number} is {x.dtype}{x.shape}; expected {y.dtype}{y.shape}"
        if not np.array_equal(x, y):
            (place, *_) = np.argwhere(x != y)
            told = f"{x[tuple(place)]}; expected {y[tuple(place)]}"
            count = int((x != y).sum())
            at = place.tolist()
            return f"result {number}: {count} of {x.size}, at {at} it is {told}"
    return ""


def _judged(
    program: Program, name: str, given: Arrays, got: Arrays, wanted: Arrays
) -> str:
    """Return what is wrong beyond what rounding moves; "" if nothing is."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if not judge(got, wanted).wrong:
            return ""
        arrays = _arguments(program, name, given)
        exact = reference.evaluate(program.module, name, arrays)
        rounding = rounding_of(program.module, name, arrays, exact)
        return judge(got, exact, rounding).wrong


def main() -> int:
    """Draw, build and compare models."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.fuzz.quantized", description=__doc__.split("\n")[0]
    )
    add = parser.add_argument
    add("--models", type=int, default=10)
    add("--entries", type=int, default=50, help="of a model (50)")
    add("--seed", type=int, default=0, help="of the first one")
    add("--targets", nargs="*", type=Target.parse, default=map(Target.parse, TARGETS))
    known = map(Target.parse, EVALUATED)
    add("--evaluated", nargs="*", type=Target.parse, default=known, help="by terms")
    add("--any-size", action="store_true", help="kernels for small operators, too")
    add("--keep", type=Path, help="a folder for entries that failed")
    asked, found, failed = parser.parse_args(), Found(), 0
    targets, evaluated = [*asked.targets], [*asked.evaluated]
    os.environ.setdefault("QEMU_CPU", "max")
    warnings.filterwarnings("ignore")
    if asked.any_size:
        write_kernels_of_any_size()
    for seed in range(asked.seed, asked.seed + asked.models):
        drawn = drawn_entries(seed, asked.entries)
        found.wrong = {}
        compare(drawn, targets, evaluated, found)
        found.families.update(name for each in drawn for name in each.families)
        failed += len(found.wrong)
        told = "; ".join(f"{name}: {why}" for name, why in found.wrong.items())
        print(f"model {seed}: {told or 'agrees'}", flush=True)
        for each in _kept(drawn, found, asked.keep):
            file = asked.keep / f"model_{seed}_{each.name}.py"
            file.write_text(source_of([each]), encoding="utf-8")
    total = asked.models * asked.entries
    print(f"{failed} of {total} entries failed; {found.bytes} bytes are the same")
    print(dict(found.families))
    return min(failed, 1)


def _kept(
    drawn: Sequence[QuantizedEntry], found: Found, folder: Path | None
) -> Iterator[QuantizedEntry]:
    """Yield the entries that failed, if they are to be kept."""
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
        yield from (each for each in drawn if each.name in found.wrong)


if __name__ == "__main__":
    sys.exit(main())
