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
import pickle
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from aotc.artifacts.pack import read_bundle
from aotc.artifacts.tables import reading
from aotc.checks.inputs import InputOptions, samples_of
from aotc.importers import load as trace
from aotc.machine.target import Target
from aotc.passes import run_passes
from aotc.pipeline import build
from aotc.runtime import engine
from benchmarks.compat.runtimes import as_lines
from benchmarks.compat.trials import ROOT, Outcome, Subject, outcomes
from benchmarks.compat.wheels import release_number, releases

TABLE = ROOT / "artifacts" / "tables" / "iree_runs.json"
MODELS = ["examples/digits/model.py", "examples/gru/model.py"]
TARGETS = ["x86_64-v2", "vmvx"]
CHOICE = InputOptions(seed=3, samples=4)


def subject(model: Path, targets: Sequence[str], folder: Path) -> Subject:
    """Build a model and draw calls of all its entries."""
    chosen = [Target.parse(name) for name in targets]
    report = build(model, targets=chosen, output=folder, force=True)
    bundle = Path(report.bundle)
    program = trace(model)
    run_passes(program.module, ["autodiff"])
    calls = [
        (entry.name, sample.arrays)
        for entry in program.entries
        for sample in samples_of(program.module, entry, CHOICE, None)
    ]
    file = folder / f"{bundle.name}.calls"
    file.write_bytes(pickle.dumps(calls))
    return Subject(bundle, read_bundle(bundle, None, True).manifest, file)


def written(found: Sequence[Outcome]) -> str:
    """Return the table's text, with the worst outcome of each release and backend."""
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
    """Run the sweep, print and write the outcomes; return 1 if one contradicts its
    verdict.
    """
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
