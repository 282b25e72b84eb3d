"""Whole PyTorch models, imported and built for CPU, against PyTorch.

    python benchmarks/frontends/torch_models.py [NAME …] [--reference] [--write]

Each model of `torch_zoo.py` has random weights, is exported with sizes that vary, saved
as a .pt2 file, built, and called with the sizes it was exported for and with others.
`--reference` evaluates the graph instead of building it. `--write` puts the table into
docs/torch-models.md.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import transformers
from torch.export import Dim
from torch_zoo import MODELS

import aotc
from aotc import pipeline, reference
from aotc.errors import AotcError
from aotc.importers import load
from aotc.importers.torch.exporting import export_program

TABLE = Path(__file__).parents[2] / "docs" / "torch-models.md"
TOLERANCE = 1e-4  # of the largest value of each output
SIZES = ((2, 7), (3, 11))  # batch and length: of the export, and of another call


@dataclass
class Row:
    """The times and error of one imported model, or its failure."""

    name: str
    ops: int = 0
    export: float = 0.0
    imported: float = 0.0
    build: float = 0.0
    error: float = float("nan")
    said: str = ""

    @property
    def passed(self) -> bool:
        """Return whether the results equal PyTorch's within the tolerance."""
        return self.error <= TOLERANCE


def measured(model, evaluate: bool) -> Row:
    """Export and import a model and run it; return its row of times and error."""
    row = Row(model.__name__)
    torch.manual_seed(0)
    module, inputs, axes = model()
    module.eval()
    try:
        with tempfile.TemporaryDirectory() as folder, torch.no_grad():
            file = Path(folder) / f"{row.name}.pt2"
            save(row, module, inputs(*SIZES[0]), axes, file)
            run = evaluated if evaluate else built
            call = run(row, file)
            calls = [inputs(*sizes) for sizes in SIZES]
            row.error = max(error(call(each), module(**each)) for each in calls)
    except AotcError as found:
        row.said = str(found)
    except Exception as found:  # torch's, or a bug
        traceback.print_exc()
        row.said = f"{type(found).__name__}: {found}"
    return row


def save(row: Row, module, example, axes, file: Path) -> None:
    """Export a module with symbolic sizes and save it."""
    dims = {"batch": Dim("batch", max=64), "length": Dim("length", min=4, max=64)}
    dims["images"] = Dim("images", max=64)
    shapes = {
        name: {axis: dims[dim] for axis, dim in varying.items()}
        for name, varying in axes.items()
    }
    start = time.perf_counter()
    program = export_program(module, (), example, shapes)
    row.export = time.perf_counter() - start
    row.ops = sum(node.op == "call_function" for node in program.graph.nodes)
    torch.export.save(program, file)


def evaluated(row: Row, file: Path):
    """Return a function that runs the imported file by the reference evaluator."""
    start = time.perf_counter()
    program = load(file)
    row.imported = time.perf_counter() - start
    ports = program.entry("main").arguments

    def call(inputs):
        given = {name: each.numpy() for name, each in inputs.items()}
        arrays = {**program.parameters, **given}
        found = reference.evaluate(
            program.module, "main", [arrays[port.name] for port in ports]
        )
        return program.entry("main").output_tree.unflatten(found)

    return call


def built(row: Row, file: Path):
    """Build a bundle and return a function that calls it; record the time in the
    row.
    """
    start = time.perf_counter()
    load(file)
    row.imported = time.perf_counter() - start
    start = time.perf_counter()
    pipeline.build(file, output=file.parent, sign=False)
    row.build = time.perf_counter() - start
    bundle = aotc.load(file.parent / f"{file.stem}-1.0.0.aotc", allow_unsigned=True)
    return lambda inputs: bundle.main(
        **{name: each.numpy() for name, each in inputs.items()}
    )


def error(found, expected) -> float:
    """Return the largest error of all outputs, relative to their largest values."""
    if isinstance(expected, Mapping):
        expected = {key: each for key, each in expected.items() if each is not None}
        if set(found) != set(expected):
            return float("inf")
        return max(error(found[key], each) for key, each in expected.items())
    if isinstance(expected, (list, tuple)):
        return max(error(*pair) for pair in zip(found, expected, strict=True))
    return relative(np.asarray(found), np.asarray(expected))


def relative(found, expected) -> float:
    """Return the largest difference relative to the largest expected value."""
    if found.shape != expected.shape:
        return float("inf")
    scale = max(np.abs(expected).max(initial=0.0), 1e-30)
    return float(np.abs(found - expected).max(initial=0.0) / scale)


# ---- report -------------------------------------------------------------------------


def report(rows: list[Row]) -> str:
    """Return the report's Markdown table."""
    passed = sum(row.passed for row in rows)
    lines = [
        "# Models in PyTorch",
        "",
        "Generated by `python benchmarks/frontends/torch_models.py --write` with torch "
        f"{torch.__version__} and transformers {transformers.__version__}.",
        "",
        "Random weights, reduced sizes, a batch that varies, and a length that varies "
        "where the model takes text. The error is the largest one over all outputs and "
        f"two calls of different sizes, relative to the largest value. {passed} of "
        f"{len(rows)} are within {TOLERANCE:g}.",
        "",
        "| model | ATen ops | error | |",
        "|---|--:|--:|---|",
    ]
    for row in rows:
        said = row.said.splitlines()[0][:120] if row.said else ""
        lines.append(f"| {row.name} | {row.ops} | {row.error:.1e} | {said} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--reference", action="store_true")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    rows = []
    for model in MODELS:
        if options.names and model.__name__ not in options.names:
            continue
        rows.append(measured(model, options.reference))
        print(rows[-1], file=sys.stderr, flush=True)
    text = report(rows)
    print(text)
    if options.write:
        TABLE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
