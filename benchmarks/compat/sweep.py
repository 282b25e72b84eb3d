"""Bundles of this compiler under every release of the IREE runtime: verdict and truth.

    python -m benchmarks.compat.sweep [MODEL …] [--releases R …] [--targets T …]
                                      [--wheels DIR] [--write]

Builds each model (by default two small ones) and calls all its entries in a process of
its own under each release, without asking `compat`. The truth is `right` if the numbers
are those under the compiler's own release, byte for byte, else `wrong`, `refused` or
`crashed`. A contradiction is a usable verdict where the truth is not `right`, or the
other way round. `--write` puts the truth into artifacts/tables/iree_runs.json, by
backend; for what ran right `compat` then says supported_prefer_recompile.
"""

from __future__ import annotations

import argparse
import os
import pickle
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aotc import device
from aotc.artifacts import compat
from aotc.artifacts.manifest import Manifest, Variant
from aotc.artifacts.pack import read_bundle
from aotc.artifacts.tables import reading
from aotc.checks.samples import calls_of, sizes_of
from aotc.frontends import load as trace
from aotc.passes import run_passes
from aotc.pipeline import build
from aotc.runtime import engine
from aotc.target import Target
from benchmarks.compat.runtimes import as_lines
from benchmarks.compat.wheels import download, releases

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "artifacts" / "tables" / "iree_runs.json"
MODELS = ["examples/digits/model.py", "examples/gru/model.py"]
TARGETS = ["x86_64-v2", "vmvx"]
SECONDS = 600


@dataclass(frozen=True)
class Subject:
    """A bundle, and a file of the calls that are made of it."""

    path: Path
    manifest: Manifest
    calls: Path


@dataclass(frozen=True)
class Outcome:
    """What became of a variant under a release.

    Args:
        variant: of a subject.
        release: of the runtime.
        verdict: of `compat`.
        truth: `right`, `wrong`, `refused` or `crashed`.
        said: the last line of what the process said.
    """

    variant: Variant
    release: str
    verdict: compat.Verdict
    truth: str
    said: str

    @property
    def is_contradiction(self) -> bool:
        """Whether verdict and truth disagree."""
        return (self.verdict in compat.USABLE) != (self.truth == "right")


def subject(model: Path, targets: Sequence[str], folder: Path) -> Subject:
    """Build a model, and choose calls of all its entries."""
    chosen = [Target.parse(name) for name in targets]
    report = build(model, targets=chosen, output=folder, force=True)
    bundle = Path(report.bundle)
    program = trace(model)
    run_passes(program.module, ["autodiff"])
    calls = [
        (entry.name, leaves)
        for entry in program.entries
        for number in range(len(sizes_of(entry)))
        for leaves in calls_of(program, program.module, entry, number, seed=3).inputs
    ]
    file = folder / f"{bundle.name}.calls"
    file.write_bytes(pickle.dumps(calls))
    return Subject(bundle, read_bundle(bundle, None, True).manifest, file)


def run(it: Subject, variant: Variant, wheel: Path) -> tuple[str, Any]:
    """What the process under a wheel says: `results` and they, or what went wrong."""
    path = os.pathsep.join((str(wheel), str(ROOT)))
    command = [sys.executable, "-m", "benchmarks.compat.run_calls"]
    done = subprocess.run(
        [*command, str(it.path), variant.id, str(it.calls)],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        check=False,
        timeout=SECONDS,
    )
    if done.returncode == 0:
        return "results", pickle.loads(done.stdout)
    # The last line that is not a detail of the one before it.
    lines = done.stderr.decode(errors="replace").splitlines()
    said = [line for line in lines if line and not line.startswith(" ")]
    return ("crashed" if done.returncode < 0 else "refused"), (said or [""])[-1]


def outcome(
    it: Subject, variant: Variant, release: str, wheel: Path, expected: Any
) -> Outcome:
    """Run a variant under a release, and compare with what is expected."""
    drivers = ("local-sync", "local-task", "vulkan")
    described = {"arch": device.arch(), "cpu": {"features": device.cpu_features()}}
    vulkan = {"vulkan": device.probe()["vulkan"]}
    host = compat.Host.from_device(described | vulkan, release, drivers)
    verdict = compat.verdict_of(compat.check(it.manifest, variant, host))
    truth, found = run(it, variant, wheel)
    if truth != "results":
        return Outcome(variant, release, verdict, truth, found)
    present, results = found
    if present != release:
        raise SystemExit(f"expected IREE {release} to run, got {present}")
    same = _bytes(results) == _bytes(expected)
    return Outcome(variant, release, verdict, "right" if same else "wrong", "")


def _bytes(results: Any) -> list[list[tuple[Any, ...]]]:
    return [[(a.dtype.str, a.shape, a.tobytes()) for a in call] for call in results]


def outcomes(
    subjects: list[Subject], names: Sequence[str], wheels: Path
) -> Iterator[Outcome]:
    """Every variant of every bundle under every release."""
    own = download(engine.iree_version(), wheels).folder
    for it in subjects:
        for variant in it.manifest.variants.values():
            kind, found = run(it, variant, own)
            if kind != "results":
                raise SystemExit(f"{it.path.name} {variant.id}: {kind}: {found}")
            for release in names:
                wheel = download(release, wheels).folder
                yield outcome(it, variant, release, wheel, found[1])


def written(found: Sequence[Outcome], names: Sequence[str]) -> str:
    """The table, with rows of this compiler for the releases that were tried."""
    compiler = engine.iree_version()
    truths: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for each in found:
        truths[each.release][each.variant.backend].add(each.truth)
    tried = {
        release: {
            backend: min(all_, key=["crashed", "wrong", "refused", "right"].index)
            for backend, all_ in sorted(backends.items())
        }
        for release, backends in truths.items()
    }
    kept = [
        row
        for row in reading.rows(TABLE.name)
        if row["compiler"] != compiler or row["runtime"] not in tried
    ]
    header = {
        "schema": "aotc.table.iree-runs/1",
        "command": "python -m benchmarks.compat.sweep --write",
    }
    rows = kept + [
        {"compiler": compiler, "runtime": r, "outcomes": tried[r], "sources": ["run"]}
        for r in names
    ]
    return as_lines(header, rows)


def main() -> None:
    """Sweep, print a line for each outcome, write the table; 1 for a contradiction."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", default=MODELS, metavar="MODEL")
    parser.add_argument("--releases", nargs="+", default=None, metavar="R")
    parser.add_argument("--targets", nargs="+", default=TARGETS, metavar="T")
    parser.add_argument("--wheels", type=Path, help="keep downloads here")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    names = options.releases or releases()
    found = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        subjects = [subject(ROOT / m, options.targets, folder) for m in options.models]
        for each in outcomes(subjects, names, options.wheels or folder):
            found.append(each)
            mark = "CONTRADICTION " if each.is_contradiction else ""
            print(
                f"{mark}{each.release:8} {each.variant.id:12} {each.verdict:28} "
                f"{each.truth:8} {each.said[:160]}",
                flush=True,
            )
    if options.write:
        TABLE.write_text(written(found, names))
    wrong = sum(each.is_contradiction for each in found)
    print(f"{len(found)} outcomes, {wrong} contradictions")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
