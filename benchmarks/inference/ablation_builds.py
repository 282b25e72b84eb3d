"""Builds of one program, whole and without a part."""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import aotc
from aotc.dialects import context
from aotc.errors import AotcError
from aotc.machine.target import Target
from aotc.pipeline import build
from aotc.programs.files import parse_module
from aotc.programs.program import PASSES, WITHOUT
from aotc.timing.inputs import arrays_for, sizes_for

from .systems import BENCHMARKS

EXAMPLES = BENCHMARKS.parent / "examples"
NOMINAL_GHZ = 3.0  # the clock that expected times are for


@dataclass(frozen=True)
class Lowered:
    """The digest of a program's IR before IREE, and which passes changed it.

    Attributes:
        digest: of its IR.
        changed: which of its passes changed anything, by stage and place.
    """

    digest: str
    changed: dict[str, bool]


@dataclass(frozen=True)
class Built:
    """A bundle with its counts of dispatches and kernels, or the failure.

    Attributes:
        bundle: its folder.
        dispatches: of a call of each entry, all kernels among them.
        kernel_calls: of aotc's own kernels.
        kernel_gflop: what these compute in a call.
        kernel_ms: how long the model of their schedules expects that to take.
        failure: why there is no bundle.
    """

    bundle: Path
    dispatches: int = 0
    kernel_calls: int = 0
    kernel_gflop: float = 0.0
    kernel_ms: float = 0.0
    failure: str | None = None


@dataclass(frozen=True)
class Subject:
    """A program with one entry that is built without various parts.

    Attributes:
        name: in tables.
        target: what it is built for.
        source: its IR of the stage `graph`.
        folder: `inputs.npz` of a call are there, and builds come there.
        expected: outputs of the second call in a process.
    """

    name: str
    target: Target
    source: Path
    folder: Path
    expected: Path

    def lower(self, without: str) -> Lowered:
        """Run the passes except one part; return the digest of the IR."""
        report = build(
            self.source,
            targets=[self.target],
            without=without,
            stop_after="variant",
        )
        assert report.ir is not None
        records = [*report.passes, *report.variant_passes[str(self.target)]]
        changed = {f"{n} {each.name}": each.changed for n, each in enumerate(records)}
        return Lowered(_digest(report.ir), changed)

    def build(self, without: str) -> Built:
        """Build the bundle without one part."""
        folder = self.folder / (without or "whole")
        try:
            report = build(
                self.source,
                output=folder,
                targets=[self.target],
                without=without,
                name="model",
                sign=False,
                self_check="off",
                cache=False,
                force=True,
            )
        except AotcError as error:
            return Built(folder, failure=f"{error.code}: {error.message}"[:200])
        [variant] = report.variants
        assert report.bundle is not None
        rows = variant.kernels["regions"]
        calls = [
            (row, sum(each["calls"] for each in row["entries"].values()))
            for row in rows
        ]
        cycles = sum(n * (row.get("cycles") or 0) for row, n in calls)
        return Built(
            report.bundle,
            variant.statistics["dispatches"],
            sum(n for _, n in calls),
            sum(n * row["flops"] for row, n in calls) / 1e9,
            cycles / NOMINAL_GHZ / 1e6,
        )

    def write_example(self, built: Built) -> None:
        """Write inputs and expected results from a bundle, if there are none."""
        if self.expected.exists():
            return
        model = aotc.load(built.bundle, allow_unsigned=True, threads=1)
        [point] = model.manifest.entry_points.values()
        inputs = arrays_for(point, sizes_for(model.manifest, point, {}, {}), {}, 0)
        np.savez(self.folder / "inputs.npz", **inputs)
        entry = model.entry(point.name)
        entry(**inputs)
        np.savez(self.expected, np.asarray(entry(**inputs)))

    def remove(self, built: Built) -> None:
        """Delete a bundle's files."""
        shutil.rmtree(built.bundle.parent, ignore_errors=True)


def exported(name: str, case: Path, target: Target, folder: Path) -> Subject:
    """Return the subject of a model that `inference.export` has written."""
    source = case / "model.py"
    source = source if source.exists() else case / "program.pt2"
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(case / "inputs.npz", folder)
    return Subject(
        name, target, _graph(source, (), folder), folder, case / "expected.npz"
    )


def training_step(name: str, target: Target, folder: Path) -> Subject:
    """Return the subject of an example's training step."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    source = EXAMPLES / name.removesuffix("-training") / "model.py"
    graph = _graph(source, ("train_step",), folder)
    return Subject(name, target, graph, folder, folder / "expected.npz")


def _graph(source: Path, entries: tuple[str, ...], folder: Path) -> Path:
    """Import a program to graph IR in a folder; return its path."""
    build(source, entries=entries, dump=folder / "ir", stop_after="graph")
    return folder / "ir" / "graph.mlir"


def _digest(text: str) -> str:
    """Return the digest of IR without source lines and pass records."""
    with context():
        module = parse_module(text)
        for name in (PASSES, WITHOUT):
            if name in module.operation.attributes:
                del module.operation.attributes[name]
        return hashlib.sha256(str(module).encode()).hexdigest()
