"""Contents of the folder: models, and programs of the fuzzer as entries of models."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, groupby, islice
from pathlib import Path

from aotc.dialects.limits import refusals
from aotc.errors import AotcError
from aotc.machine.target import Target
from aotc.passes import run_passes
from aotc.tracing.assembly import trace
from benchmarks.fuzz.executing import entry_of
from benchmarks.fuzz.generation import random_program, variants
from benchmarks.fuzz.programs import Program, to_json
from benchmarks.fuzz.scope import Refused

ROOT = Path(__file__).parents[2]
MODELS = Path(__file__).with_name("models")

BATCH = 10  # programs of the fuzzer in a bundle

# A model file whose entries are the programs in a JSON file of the same name.
_FUZZ_MODEL = '''\
"""Programs of the fuzzer as entries."""

import json
from pathlib import Path

import aotc
from benchmarks.fuzz.executing import entry_of
from benchmarks.fuzz.programs import from_json

aotc.bundle(name="{name}", version="1.0.0")

for name, data in json.loads(Path(__file__).with_suffix(".json").read_text()).items():
    globals()[name] = entry_of(from_json(data), name)
'''


@dataclass(frozen=True)
class Call:
    """A call of an entry, by its symbol values.

    Args:
        entry: that is called.
        sizes: of the symbols.
    """

    entry: str
    sizes: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Subject:
    """A model whose entries are compared, and perhaps timed, on each target.

    Args:
        name: of its folder.
        model: its file.
        targets: that it is compiled for.
        timed: calls to time.
        compared: calls to compare beside those that a self-check makes.
    """

    name: str
    model: Path
    targets: tuple[Target, ...]
    timed: tuple[Call, ...] = ()
    compared: tuple[Call, ...] = ()


_MODELS = {
    "digits": (
        ROOT / "examples/digits/model.py",
        (Call("train_step"), Call("predict", {"batch": 64})),
    ),
    "encoder": (MODELS / "encoder.py", (Call("encode", {"batch": 8}),)),
    "cnn": (
        ROOT / "examples/cnn/model.py",
        (Call("train_step"), Call("predict", {"batch": 64})),
    ),
    "attention": (
        MODELS / "attention.py",
        (
            Call("attend", {"batch": 8, "length": 512}),
            Call("attend_before", {"batch": 8, "length": 512}),
        ),
    ),
    "reduction": (
        MODELS / "reduction.py",
        (
            Call("sums", {"rows": 4096, "columns": 1024}),
            Call("normalised", {"n": 4096, "m": 1024}),
        ),
    ),
    "scan": (
        MODELS / "scan.py",
        (
            Call("recur", {"steps": 64, "batch": 64}),
            Call("running", {"steps": 256, "batch": 64}),
        ),
    ),
}
MODEL_NAMES = tuple(_MODELS)
# beyond the width of tiles, where the self-check's own sizes are too large to keep
_COMPARED = {
    "attention": (
        Call("attend", {"batch": 2, "length": 131}),
        Call("attend_before", {"batch": 2, "length": 131}),
    ),
    "reduction": (
        Call("sums", {"rows": 33, "columns": 1025}),
        Call("ordered", {"rows": 67, "columns": 130}),
    ),
    "scan": (
        Call("recur", {"steps": 33, "batch": 17}),
        Call("running", {"steps": 33, "batch": 17}),
    ),
}


def model_subjects(names: Sequence[str], targets: Sequence[Target]) -> list[Subject]:
    """Return the subjects of these models for these targets."""
    return [
        Subject(name, model, tuple(targets), timed, _COMPARED.get(name, ()))
        for name, (model, timed) in _MODELS.items()
        if name in names
    ]


def fuzz_subjects(
    programs: int, seed: int, targets: Sequence[Target], folder: Path
) -> tuple[list[Subject], dict[str, dict[str, str]]]:
    """Return subjects of random programs, and why targets lack some programs.

    A program is compiled for the targets that have all its ops. Those with the same
    targets share models, which are written into `folder`.
    """
    refused: dict[str, dict[str, str]] = {}
    ready = []
    for number, program in enumerate(islice(_drawn(seed), programs)):
        name = f"program_{number}"
        found = _refused_targets(program, name, targets)
        if found:
            refused[name] = found
        fitting = tuple(target for target in targets if str(target) not in found)
        if fitting:
            ready.append((fitting, name, program))
    ready.sort(key=lambda row: list(map(str, row[0])))
    numbers, subjects = count(), []
    for fitting, rows in groupby(ready, key=lambda row: row[0]):
        named = {name: program for _, name, program in rows}
        for start in range(0, len(named), BATCH):
            some = dict(islice(named.items(), start, start + BATCH))
            subject = f"fuzz-{next(numbers)}"
            model = write_fuzz_model(folder, subject, some)
            subjects.append(Subject(subject, model, fitting))
    return subjects, refused


def write_fuzz_model(folder: Path, name: str, programs: Mapping[str, Program]) -> Path:
    """Write a model file with random programs as its entries; return its path."""
    model = folder / f"{name.replace('-', '_')}.py"
    model.write_text(_FUZZ_MODEL.format(name=name), encoding="utf-8")
    rows = {name: to_json(program) for name, program in programs.items()}
    model.with_suffix(".json").write_text(json.dumps(rows), encoding="utf-8")
    return model


def _drawn(seed: int) -> Iterator[Program]:
    """Yield random programs, each forward and under one transformation in turn."""
    for number in count(seed):
        try:
            plain, *others = variants(random_program(number)[0])
        except Refused:
            continue
        yield plain
        yield from others[number % len(others) :][:1] if others else ()


def _refused_targets(
    program: Program, name: str, targets: Sequence[Target]
) -> dict[str, str]:
    """Return the targets that cannot compile a program, with the reasons."""
    try:
        traced = trace([entry_of(program, name)], {})
        run_passes(traced.module, ("autodiff",), silently=True)
    except AotcError as error:
        return {str(target): str(error.message) for target in targets}
    found = {}
    for target in targets:
        with traced.module.context:
            first = next(refusals(traced.module, [target]), None)
        if first is not None:
            found[str(target)] = str(first[1].message)
    return found
