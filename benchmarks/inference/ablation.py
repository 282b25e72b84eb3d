"""The command line of `benchmarks/ablation.py`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from aotc.machine.target import Target
from aotc.passes.stages import optional_parts

from .ablation_builds import Built, Subject, exported, training_step
from .ablation_results import Change, change_table, idle_passes, write_page, write_rows
from .case import Case
from .command import MODELS
from .measuring import Times, alternate
from .systems import TOLERANCE, Aotc, Artifact
from .worker import Worker

TRAINED = ("digits", "gpt", "lstm", "resnet", "moe")
CASES = (
    *("mobilenet_v2", "efficientnet_b0", "gpt2", "lstm", "llama-decode"),
    *(f"{name}-training" for name in TRAINED[:2]),
)


def main(arguments: list[str] | None = None) -> None:
    """Build programs without each part, time them, and print and write the results."""
    options = parse(arguments)
    changes: list[Change] = []
    ran: dict[str, dict[str, bool]] = {}
    for name in options.cases:
        subject = prepare(name, options)
        found, ran[name] = ablate(subject, options)
        changes += found
        write_rows(changes, ran, facts(options), options.output)
    print(change_table(changes), idle_passes(ran), sep="\n\n")
    print(f"\n{options.output}", file=sys.stderr)
    if options.write:
        write_page(changes, ran)


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    known = [*MODELS, *(f"{name}-training" for name in TRAINED)]
    parser = argparse.ArgumentParser(
        description="Build whole models without each pass and each family of kernels."
    )
    add = parser.add_argument
    add("--cases", nargs="+", default=CASES, choices=known, metavar="NAME")
    add("--without", nargs="+", default=optional_parts(), metavar="PART")
    add("--level", default="x86_64-v4", metavar="TARGET")
    add("--threads", type=int, default=1)
    add("--ir-only", action="store_true", help="tell what changes the IR; no builds")
    add("--rounds", type=int, default=9)
    add("--seconds", type=float, default=0.3, help="of a build in a round")
    add("--clock", choices=["wall", "processor"], default="wall")
    add("--python", type=Path, default=Path(sys.executable), help="that has PyTorch")
    add("--work", type=Path, default=cache / "aotc-benchmarks", metavar="FOLDER")
    add("--output", type=Path, metavar="FILE.json", help="default: in --work")
    add("--write", action="store_true", help="put the table into docs/performance.md")
    options = parser.parse_args(arguments)
    options.work = options.work.resolve()
    options.output = options.output or options.work / "ablation.json"
    return options


def prepare(name: str, options: argparse.Namespace) -> Subject:
    """Return the subject of a case that the command line names."""
    folder = options.work / "ablation" / name
    target = Target.parse(options.level)
    if name.endswith("-training"):
        return training_step(name, target, folder)
    case = Case(name, 1, options.work)
    if not case.export(options.python, []):
        sys.exit(f"{name} cannot be exported")
    return exported(name, case.exported, target, folder)


def ablate(
    subject: Subject, options: argparse.Namespace
) -> tuple[list[Change], dict[str, bool]]:
    """Measure the effect of leaving out each part; also return which passes changed
    IR.
    """
    print(f"{subject.name}: whole", file=sys.stderr)
    whole = subject.lower("")
    changes = [
        Change(subject.name, part, subject.lower(part).digest != whole.digest)
        for part in options.without
    ]
    if not options.ir_only:
        full = subject.build("")
        subject.write_example(full)
        for change in changes:
            if change.has_effect:
                measure(subject, full, change, options)
        subject.remove(full)
    return changes, whole.changed


def measure(
    subject: Subject, full: Built, change: Change, options: argparse.Namespace
) -> None:
    """Build a subject without a part and compare it with the full build."""
    print(f"{subject.name}: without {change.part}", file=sys.stderr)
    less = subject.build(change.part)
    change.note_builds(full, less)
    if less.failure is None:
        compare(subject, full.bundle, less.bundle, change, options)
    subject.remove(less)


def compare(
    subject: Subject,
    full: Path,
    less: Path,
    change: Change,
    options: argparse.Namespace,
) -> None:
    """Time both bundles in turns, if their results agree; record it in `change`."""
    with serving(subject, full, options) as a, serving(subject, less, options) as b:
        change.error = b.compare(subject.expected)
        if change.error > TOLERANCE:
            return
        workers = {"full": a, "less": b}
        times: dict[str, Times] = alternate(
            workers, options.rounds, options.seconds, options.clock
        )
    change.note_times(times["full"], times["less"])


@contextmanager
def serving(
    subject: Subject, bundle: Path, options: argparse.Namespace
) -> Iterator[Worker]:
    """Start a worker process that runs a bundle, for this context."""
    python = Path(sys.executable)
    system = Aotc(
        "ablation",
        python,
        "bundle",
        "aotc",
        level=options.level,
        reuse=False,
        edge=python,
    )
    log = bundle.parent / "worker.log"
    artifact = Artifact(bundle, 0)
    worker = Worker(system, artifact, subject.folder, options.threads, False, log)
    try:
        yield worker
    finally:
        worker.stop()


def facts(options: argparse.Namespace) -> dict[str, object]:
    """Return facts of the machine and the run."""
    names = ("level", "threads", "rounds", "seconds", "clock")
    chosen = {name: getattr(options, name) for name in names}
    return {"schema": "aotc.ablation/1", "tolerance": TOLERANCE, **chosen}
