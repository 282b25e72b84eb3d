"""Whole JAX models, imported and built for CPU, against JAX.

    python benchmarks/frontends/jax_models.py [NAME …] [--reference] [--write]

Each model of `jax_zoo.py` has random weights and sizes that vary. A network is
exported with `jax.export` and built from the file; a training step is given to
`aotc.from_jax` in a model.py, with what it updates as a State. Both are called three
times, with two batches. `--reference` evaluates the graph instead of building it.
`--write` puts the table into docs/jax-models.md.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax import export
from jax_zoo import MODELS, Model

import aotc
from aotc import pipeline, reference
from aotc.errors import AotcError
from aotc.importers import load
from aotc.importers.stablehlo.symbolic import SymbolicSizes
from aotc.passes import run_passes

TABLE = Path(__file__).parents[2] / "docs" / "jax-models.md"
TOLERANCE = 1e-4  # of the largest value of each output
SIZES = ((2, 7), (5, 11), (2, 7))  # batch and length of each call

MODEL = """
import aotc
from jax_zoo import MODELS

model = MODELS[{name!r}]
specs = {{"stored": aotc.State(model.stored)}} | model.inputs
main = aotc.from_jax(model.function, specs)
"""


@dataclass
class Row:
    """The times and error of one imported model, or its failure."""

    name: str
    imported: float = 0.0
    build: float = 0.0
    error: float = float("nan")
    said: str = ""

    @property
    def passed(self) -> bool:
        """Return whether the results equal JAX's within the tolerance."""
        return self.error <= TOLERANCE


def measured(name: str, model: Model, evaluate: bool) -> Row:
    """Import a model and run it; return its row of times and error."""
    row = Row(name)
    try:
        with tempfile.TemporaryDirectory() as folder:
            file = saved(name, model, Path(folder))
            start = time.perf_counter()
            program = load(file)
            row.imported = time.perf_counter() - start
            call = evaluated(program) if evaluate else built(row, file)
            row.error = compared(model, call)
    except AotcError as found:
        row.said = str(found)
    except Exception as found:  # JAX's, or a bug
        traceback.print_exc()
        row.said = f"{type(found).__name__}: {found}"
    return row


def saved(name: str, model: Model, folder: Path) -> Path:
    """Export a JAX model to a file; return its path."""
    if model.trains:
        file = folder / "model.py"
        file.write_text(MODEL.format(name=name), encoding="utf-8")
        return file
    sizes = SymbolicSizes(model.inputs.values())
    inputs = {name: sizes.abstract(spec) for name, spec in model.inputs.items()}
    stored = jax.tree.map(jax.numpy.asarray, model.stored)
    call = jax.jit(lambda **inputs: model.function(stored, **inputs))
    file = folder / "model.jax"
    file.write_bytes(export.export(call)(**inputs).serialize())
    return file


def compared(model: Model, call: Callable[..., Any]) -> float:
    """Return the largest error of several calls against JAX."""
    stored, errors = model.stored, []
    function = jax.jit(model.function)
    for sizes in SIZES:
        inputs = model.drawn(*sizes)
        expected = function(stored, **inputs)
        if model.trains:
            stored, *expected = expected
        pairs = zip(call(**inputs), jax.tree.leaves(expected), strict=True)
        errors += [relative(*pair) for pair in pairs]
    return max(errors)


def evaluated(program: Any) -> Callable[..., Any]:
    """Return a function that runs a program by the reference evaluator, with its
    state.
    """
    run_passes(program.module, ["autodiff", "inline"])
    entry = program.entry("main")
    stored = dict(program.parameters)

    def call(**inputs: Any) -> list[Any]:
        given = [(stored | inputs)[port.name] for port in entry.arguments]
        found = reference.evaluate(program.module, "main", given)
        pairs = list(zip(entry.results, found, strict=True))
        stored.update({port.name: x for port, x in pairs if port.kind == "state"})
        return [x for port, x in pairs if port.kind == "output"]

    return call


def built(row: Row, file: Path) -> Callable[..., Any]:
    """Build a bundle and return a function that calls it; record the time in the
    row.
    """
    start = time.perf_counter()
    report = pipeline.build(file, output=file.parent, sign=False)
    row.build = time.perf_counter() - start
    bundle = aotc.load(report.bundle, allow_unsigned=True)
    return lambda **inputs: jax.tree.leaves(bundle.main(**inputs))


def relative(found: Any, expected: Any) -> float:
    """Return the largest difference relative to the largest expected value."""
    found, expected = np.asarray(found, "f8"), np.asarray(expected, "f8")
    if found.shape != expected.shape:
        return float("inf")
    scale = max(np.abs(expected).max(initial=0.0), 1e-30)
    return float(np.abs(found - expected).max(initial=0.0) / scale)


def report(rows: list[Row]) -> str:
    """Return the report's Markdown table."""
    passed = sum(row.passed for row in rows)
    lines = [
        "# Models in JAX",
        "",
        "Generated by `python benchmarks/frontends/jax_models.py --write` with jax "
        f"{jax.__version__}.",
        "",
        "Random weights and a batch that varies; for text, a length that varies. "
        "Networks are built from what `jax.export` wrote, training steps (Adam, with "
        "JAX's gradients) from `aotc.from_jax` with a State. The error is the largest "
        "one over all outputs and three calls, relative to the largest value. "
        f"{passed} of {len(rows)} are within {TOLERANCE:g}.",
        "",
        "| model | import, s | build, s | error | |",
        "|---|--:|--:|--:|---|",
    ]
    for row in rows:
        said = row.said.splitlines()[0][:120] if row.said else ""
        lines.append(
            f"| {row.name} | {row.imported:.1f} | {row.build:.1f} | {row.error:.1e} | "
            f"{said} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--reference", action="store_true")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    rows = []
    for name, model in MODELS.items():
        if not options.names or name in options.names:
            rows.append(measured(name, model, options.reference))
            print(rows[-1], file=sys.stderr, flush=True)
    text = report(rows)
    print(text)
    if options.write:
        TABLE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
