"""Compare what passes, terms and compiled code make of random quantised entries."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from aotc import reference
from aotc.core import dtypes, options
from aotc.errors import AotcError
from aotc.importers import load
from aotc.kernels.reference import evaluate_region
from aotc.machine import processor
from aotc.machine.target import Target
from aotc.passes import run_passes
from aotc.passes.base import Pass, Unit
from aotc.passes.stages import PASS_STAGES
from aotc.pipeline import build
from aotc.programs.program import Program

from .judging import judge, rounding_of
from .quantized_drawing import QuantizedEntry
from .weighted import PARTS, used_families

RUN_CALLS = Path(__file__).parents[1] / "compat" / "run_calls.py"
SIZES = (1, 0, 5)  # that calls decide
SECONDS = 900  # in which the calls of a model are to return, also under an emulator
HEADER = """\
import numpy
import aotc
import aotc.numpy as np
from aotc import control, nn


def drawn(*seed):
    return numpy.random.default_rng(seed)
"""

Arrays = Sequence[Any]


@dataclass(frozen=True)
class Call:
    """One call of an entry: an array for each input.

    Args:
        name: of the entry.
        given: an array for each input.
        states: how many states it updates.
    """

    name: str
    given: Arrays
    states: int


@dataclass
class Found:
    """The faults found in entries, and counts of what was compared.

    Args:
        wrong: the first thing that is wrong with an entry, by its name.
        families: of kernels, and of what was drawn.
        bytes: how many bytes were compared bit by bit.
    """

    wrong: dict[str, str] = field(default_factory=dict)
    families: Counter[str] = field(default_factory=Counter)
    bytes: int = 0

    def add(self, entry: str, why: str) -> None:
        """Record a fault of an entry, unless one is recorded."""
        if why:
            self.wrong.setdefault(entry, why)


@dataclass(frozen=True)
class Asked:
    """The targets and numerics of a comparison.

    Args:
        targets: compiled for, and called.
        evaluated: whose regions are evaluated by their terms.
        numerics: of the program.
    """

    targets: Sequence[Target] = ()
    evaluated: Sequence[Target] = ()
    numerics: str = "strict"


def source_of(drawn: Sequence[QuantizedEntry]) -> str:
    """Return a model file's text with these entries."""
    rows = [
        f'    "{name}": {_seeded(name, source)},\n'
        for each in drawn
        for name, source in each.weights.items()
    ]
    table = f"w = aotc.Weights({{\n{''.join(rows)}}})\n"
    bounds = [each.source_of_bound() for each in drawn if each.bound]
    return "\n\n".join([HEADER + table, *(each.source() for each in drawn), *bounds])


def _seeded(name: str, source: str) -> str:
    """Return a weight's source with its own random seed, independent of other
    weights.
    """
    numbers = name.removeprefix("f").replace("_", ", ")
    return source.replace("rng.", f"drawn({numbers}).")


def compare(drawn: Sequence[QuantizedEntry], asked: Asked, found: Found) -> None:
    """Evaluate, build and call entries; record in `found` what is wrong."""
    good = _evaluated(drawn, asked, found)
    half = [each for each in good if each.entry.is_half]
    portable = [x for x in asked.targets if x.backend != "vmvx"]  # has no halves
    _compare_built(half, replace(asked, targets=portable), found)
    _compare_built([each for each in good if not each.entry.is_half], asked, found)


# ---- without compiling --------------------------------------------------------------


@dataclass(frozen=True)
class _Wanted:
    """An entry with its calls and their expected results.

    Args:
        entry: as it was drawn.
        calls: of it.
        results: of each call.
        judge: says what is wrong with results of each call.
    """

    entry: QuantizedEntry
    calls: Sequence[Call]
    results: Sequence[Arrays]
    judge: Callable[[int, Arrays], str]

    def note(self, got: Sequence[Arrays | None], where: str, found: Found) -> None:
        """Record in `found` if results differ from the expected ones."""
        for number, results in enumerate(got):
            if results is None:
                continue  # which was noted
            if self.entry.is_exact:
                expected = self.results[number]
                found.bytes += sum(each.nbytes for each in expected)
                why = _difference(results, expected)
            else:
                why = self.judge(number, results)
            shapes = [list(np.shape(x)) for x in self.calls[number].given]
            told = f"on {where}, call {number} of {shapes}: {why}"
            found.add(self.entry.name, why and told)


def _evaluated(
    drawn: Sequence[QuantizedEntry], asked: Asked, found: Found
) -> list[_Wanted]:
    """Evaluate entries and return those with expected results; record failing ones."""
    try:
        return _evaluate_all(drawn, asked, found)
    except Exception as error:
        if len(drawn) == 1:
            found.add(drawn[0].name, _told(error))
            return []
        half = len(drawn) // 2
        parts = drawn[:half], drawn[half:]
        return [x for part in parts for x in _evaluated(part, asked, found)]


def _told(error: Exception) -> str:
    """Describe an exception, with its source line if it is no refusal."""
    first = (str(error).splitlines() or [""])[0]
    if isinstance(error, AotcError):
        return f"{error.code}: {first}"
    *_, last = traceback.extract_tb(error.__traceback__)
    return f"{type(error).__name__} in {last.name}, line {last.lineno}: {first}"


def _evaluate_all(
    drawn: Sequence[QuantizedEntry], asked: Asked, found: Found
) -> list[_Wanted]:
    """Evaluate all entries of one model before and after passes; return expected
    results.
    """
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model.py"
        model.write_text(source_of(drawn), encoding="utf-8")
        program = load(model)
    unit = Unit(program.copy())
    unit.program.numerics = asked.numerics
    calls = _calls(program, {each.name for each in drawn if each.is_wild})
    optimized, *_ = PASS_STAGES
    _run_passes(unit, optimized.passes())
    by_passes = _results(unit.program, calls)
    got = [(target, _by_terms(unit, calls, target)) for target in asked.evaluated]
    run_passes(program.module, ("autodiff",), silently=True)
    all_wanted = []
    for each in drawn:
        own = [at for at, call in enumerate(calls) if call.name == each.name]
        some = [calls[at] for at in own]
        results = [by_passes[at] for at in own]
        judged = _judge_of(program, each, some)
        wanted = _Wanted(each, some, results, judged)
        for number, result in enumerate(results):
            why = judged(number, result)
            found.add(each.name, why and f"by the passes, call {number}: {why}")
        for target, given in got:
            wanted.note([given[at] for at in own], f"{target} by terms", found)
        all_wanted.append(wanted)
    return all_wanted


def _judge_of(
    program: Program, entry: QuantizedEntry, calls: Sequence[Call]
) -> Callable[[int, Arrays], str]:
    """Return a function (call number, results) that describes results beyond
    rounding.
    """
    arrays = _arguments(program, calls)
    expected = [_evaluate(program, entry.name, given) for given in arrays]

    def by_rounding(number: int, got: Arrays) -> str:
        wanted = expected[number]
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if not judge(got, wanted).wrong:
                return ""
            rounding = rounding_of(program.module, entry.name, arrays[number], wanted)
            return judge(got, wanted, rounding).wrong

    def by_bound(number: int, got: Arrays) -> str:
        (bound,) = _evaluate(program, f"bound_of_{entry.name}", arrays[number])
        (wanted,), (result,) = expected[number], got
        far = ~(np.abs(result - wanted) <= bound)
        if not far.any():
            return ""
        place = tuple(np.argwhere(far)[0])
        return (
            f"{int(far.sum())} of {far.size} are beyond the bound: at {place} it is "
            f"{result[place]}; expected {wanted[place]} ± {bound[place]}"
        )

    return by_bound if entry.bound else by_rounding


def _calls(program: Program, wild: set[str]) -> list[Call]:
    """Return calls of each entry, with random and with extreme numbers."""
    found: list[Call] = []
    for entry in program.entries:
        if entry.name.startswith("bound_of_"):
            continue
        sizes = SIZES if entry.symbols else (0, 0, 0)[: 3 if entry.updates else 2]
        for number, size in enumerate(sizes):
            rng = np.random.default_rng(number)
            given = []
            for port in entry.ports("input"):
                shape = [n if isinstance(n, int) else size for n in port.type.shape]
                is_extreme = number == len(sizes) - 1
                drawn = _extreme if is_extreme else _random
                array = drawn(rng, port.type.dtype, shape, entry.name in wild)
                given.append(np.asarray(array, dtypes.to_numpy(port.type.dtype)))
            found.append(Call(entry.name, given, len(entry.updates)))
    return found


def _random(
    rng: np.random.Generator, dtype: str, shape: Sequence[int], is_wild: bool
) -> Any:
    """Draw integers, or numbers with some ties and outliers."""
    if dtypes.to_numpy(dtype).kind in "iu" and dtypes.bits(dtype) <= 16:
        info = np.iinfo(dtypes.to_numpy(dtype))
        return rng.integers(info.min, info.max, shape, endpoint=True)
    numbers = rng.normal(size=shape) * (3 if dtype == "i32" else 1)
    if dtype == "f32":
        middles = (np.round(numbers * 32) + 0.5) / 32
        numbers = np.where(rng.random(shape) < 0.2, middles, numbers)
        if is_wild:
            numbers = np.where(rng.random(shape) < 0.02, numbers * 1e30, numbers)
    return numbers


def _extreme(
    rng: np.random.Generator, dtype: str, shape: Sequence[int], is_wild: bool
) -> Any:
    """Return extreme numbers, zeros and ties of a dtype."""
    if dtypes.to_numpy(dtype).kind in "iu":
        info = np.iinfo(dtypes.to_numpy(dtype))
        return rng.choice([info.min, info.max, info.max], shape)
    some = [0.0, -0.0, 1.0, -1.0, 0.015625, -0.046875, 100.0]
    if is_wild:
        some += [1e38, -1e38, np.inf, -np.inf, np.nan, 1e-40]
    return rng.choice(some, shape)


def _by_terms(unit: Unit, calls: Sequence[Call], target: Target) -> list[Arrays]:
    """Return results of calls by evaluating the regions' terms for a target."""
    _, regions, *_ = PASS_STAGES
    forked = unit.fork(target)
    _run_passes(forked, regions.passes())
    return _results(forked.program, calls, with_region=evaluate_region)


def _run_passes(unit: Unit, passes: Sequence[Pass]) -> None:
    """Run passes without warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run_passes(unit, passes, silently=True)


def _results(program: Program, calls: Sequence[Call], **how: Any) -> list[Arrays]:
    """Return the results of calls by the reference evaluator."""
    arguments = _arguments(program, calls)
    return [
        _evaluate(program, call.name, given, **how)
        for call, given in zip(calls, arguments, strict=True)
    ]


def _evaluate(program: Program, name: str, arrays: Arrays, **how: Any) -> list[Any]:
    """Return an entry's results, then states, by the reference evaluator."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return list(reference.evaluate(program.module, name, arrays, **how))


def _arguments(program: Program, calls: Sequence[Call]) -> list[list[Any]]:
    """Return all arguments of each call, weights included.

    A state is what the calls before it have left.
    """
    found, kept = [], dict[str, Any]()
    entries = {each.name: each for each in program.entries}
    for call in calls:
        entry, rest = entries[call.name], iter(call.given)
        arrays = [
            next(rest)
            if port.kind == "input"
            else kept.get(port.name, program.parameters[port.name])
            for port in entry.arguments
        ]
        found.append(arrays)
        states = [port.name for port in entry.results if port.kind == "state"]
        if states:
            results = _evaluate(program, call.name, arrays)
            kept.update(zip(states, results, strict=False))
    return found


def _difference(got: Arrays, wanted: Arrays) -> str:
    """Describe where results differ bitwise; "" if they do not."""
    if len(got) != len(wanted):
        return f"{len(got)} results; expected {len(wanted)}"
    for number, (x, y) in enumerate(zip(got, wanted, strict=True)):
        if x.dtype != y.dtype or x.shape != y.shape:
            return f"result {number} is {x.dtype}{x.shape}; expected {y.dtype}{y.shape}"
        differs = (x != y) & ~((x != x) & (y != y))
        if differs.any():
            (place, *_) = np.argwhere(differs)
            at = tuple(place)
            told = f"{x[at]}; expected {y[at]}"
            count = f"{int(differs.sum())} of {x.size}"
            return f"result {number}: {count}, at {place.tolist()} it is {told}"
    return ""


# ---- compiled -----------------------------------------------------------------------


def _compare_built(some: Sequence[_Wanted], asked: Asked, found: Found) -> None:
    """Compile entries for all targets; record in `found` what is wrong on any.

    A model that does not build is taken apart.
    """
    if not some or not asked.targets:
        return
    request: dict[str, Any] = {
        "targets": asked.targets,
        "numerics": asked.numerics,
        "self_check": "off",
        "sign": False,
    }
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model.py"
        drawn = [replace(each.entry, bound="") for each in some]
        model.write_text(source_of(drawn), encoding="utf-8")
        try:
            bundle = build(model, output=model.parent, **request).bundle
        except AotcError as error:
            if len(some) == 1:
                found.add(some[0].entry.name, f"when it is built, {_told(error)}")
                return
            bundle = None
        if bundle is not None:
            _compare_bundle(some, bundle, found)
            return
    size = -(-len(some) // PARTS)
    for begin in range(0, len(some), size):
        _compare_built(some[begin : begin + size], asked, found)


def _compare_bundle(some: Sequence[_Wanted], bundle: Path, found: Found) -> None:
    """Call each variant of a bundle; record in `found` what is wrong."""
    found.families.update(f"kernel {family}" for family in used_families(bundle))
    manifest = json.loads((bundle / "manifest.json").read_bytes())
    for variant in manifest["variants"]:
        got = iter(_called(bundle, variant, some, found))
        for each in some:
            results = [next(got) for _ in each.calls]
            each.note(results, f"{variant['id']}, compiled", found)


def _called(
    bundle: Path, variant: Mapping[str, Any], some: Sequence[_Wanted], found: Found
) -> list[Arrays | None]:
    """Make all calls in a child process; return their results, None for those that
    die.
    """
    python = _python(variant["target"].get("arch") or processor.arch())
    calls = [call for each in some for call in each.calls]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "calls"
        given = [(call.name, list(call.given)) for call in calls]
        file.write_bytes(pickle.dumps(given))
        # as a file: `-m` would look for `aotc` in the folder that it is run in
        command = [python, RUN_CALLS, bundle, variant["id"], file]
        done = subprocess.run(
            list(map(str, command)), capture_output=True, timeout=SECONDS
        )
    if not done.returncode:
        _, results = pickle.loads(done.stdout)
        return [_states_first(x, y) for x, y in zip(calls, results, strict=True)]
    if len(some) > 1:
        half = len(some) // 2
        parts = some[:half], some[half:]
        return [x for part in parts for x in _called(bundle, variant, part, found)]
    told = done.stderr.decode(errors="replace").strip().splitlines()[-4:]
    found.add(calls[0].name, f"{variant['id']}: exits {done.returncode}: {told}")
    return [None] * len(calls)


def _states_first(call: Call, results: Sequence[Any]) -> list[Any]:
    """Return the results of a call with states before outputs."""
    begin = len(results) - call.states
    return [*results[begin:], *results[:begin]]


def _python(arch: str) -> str:
    """Return the Python that runs code for an architecture, emulated if needed."""
    pythons: Mapping[str, str] = options.get("AOTC_PYTHONS")
    return pythons[arch] if arch != processor.arch() else sys.executable
