"""Bundles of this compiler under every release of the IREE runtime: verdict and truth.

    python -m benchmarks.compat.sweep [MODEL …] [--releases R …] [--targets T …]
                                      [--wheels DIR] [--write]

Builds each model (by default two small ones) and calls all its entries in a process of
its own under each release, without asking `compat`. The truth is `right` if the numbers
are those under the compiler's own release, byte for byte, else `wrong`, `refused` or
`crashed`. A contradiction is a usable verdict where the truth is not `right`, or an
unusable one where nothing is known to fail. `--write` puts the worst truth of a release
and backend into artifacts/tables/iree_runs.json; where all models ran right `compat`
then says supported_prefer_recompile.
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
from aotc.artifacts.tables import reading, run_outcome
from aotc.checks.samples import calls_of, sizes_of
from aotc.frontends import load as trace
from aotc.passes import run_passes
from aotc.pipeline import build
from aotc.runtime import engine
from aotc.target import Target
from benchmarks.compat.runtimes import as_lines
from benchmarks.compat.wheels import download, release_number, releases

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "artifacts" / "tables" / "iree_runs.json"
MODELS = ["examples/digits/model.py", "examples/gru/model.py"]
TARGETS = ["x86_64-v2", "vmvx"]
SECONDS = 600


@dataclass(frozen=True)
class Subject:
    """A bundle, a file of the calls that are made of it, and whom to trust with it."""

    path: Path
    manifest: Manifest
    calls: Path
    trust: Path | None = None


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
        """Whether verdict and truth disagree.

        A release under which another model failed is refused for all.
        """
        if self.verdict in compat.USABLE:
            return self.truth != "right"
        known = run_outcome(engine.iree_version(), self.release, self.variant.backend)
        return self.truth == "right" and known in (None, "right")


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
    trust = [str(it.trust)] if it.trust else []
    done = subprocess.run(
        [*command, str(it.path), variant.id, str(it.calls), *trust],
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


def written(found: Sequence[Outcome]) -> str:
    """The table, with the worst truth of each release and backend that was tried."""
    worst = ["crashed", "wrong", "refused", "right"]
    compiler = engine.iree_version()
    tried: dict[str, dict[str, str]] = defaultdict(dict)
    for each in found:
        truths, backend = tried[each.release], each.variant.backend
        truths[backend] = min(each.truth, truths.get(backend, "right"), key=worst.index)
    merged = {
        (row["compiler"], row["runtime"]): row for row in reading.rows(TABLE.name)
    }
    for release, truths in tried.items():
        known = merged.get((compiler, release), {"outcomes": {}})["outcomes"]
        merged[compiler, release] = {
            "compiler": compiler,
            "runtime": release,
            "outcomes": dict(sorted({**known, **truths}.items())),
            "sources": ["run"],
        }
    header = {
        "schema": "aotc.table.iree-runs/1",
        "command": "python -m benchmarks.compat.sweep --write",
        "sources": {"run": "the run of the command, on Linux, x86-64"},
    }
    ordered = sorted(merged, key=lambda pair: [release_number(each) for each in pair])
    return as_lines(header, [merged[pair] for pair in ordered])


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
        TABLE.write_text(written(found))
    wrong = sum(each.is_contradiction for each in found)
    print(f"{len(found)} outcomes, {wrong} contradictions")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
