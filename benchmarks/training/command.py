"""The command line of `benchmarks/step_time.py`."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from dataclasses import fields
from itertools import product
from pathlib import Path

from inference.case import NOT_BUILT, Settings
from inference.command import processor
from inference.environments import PACKAGES, python_of
from inference.results import Row, replace_between, write_json
from inference.systems import System

from .case import TrainingCase
from .models import MODELS
from .results import all_tables
from .systems import BF16, PEERS, TOLERANCE, AotcStep, Peer

NOT_EXPORTED = "not exported"
BEGIN, END = "<!-- steps -->", "<!-- end of steps -->"


def main(arguments: list[str] | None = None) -> None:
    """Measure what is not measured yet, and print and write the results."""
    options = parse(arguments)
    systems, torch = chosen_systems(options)
    rows = [] if options.again else read_rows(options.output)
    for model in options.models:
        threads = [
            n for n in options.threads if not is_measured(rows, model, n, systems)
        ]
        if not threads:
            print(f"{model}: measured before", file=sys.stderr)
            continue
        start, settings = time.monotonic(), settings_of(options, threads)
        batch = MODELS[model].batch_size
        case = TrainingCase(model, batch, options.work, Path(sys.executable))
        if case.export(torch, systems):
            found = case.measure(systems, settings)
        else:
            found = case.failures(systems, settings, NOT_EXPORTED)
        done = {(row.model, row.threads, row.system) for row in found}
        rows = [r for r in rows if (r.model, r.threads, r.system) not in done] + found
        rows.sort(key=lambda row: (list(MODELS).index(row.model), row.threads))
        write_json(rows, facts(options), options.output)
        print(f"{model}: {time.monotonic() - start:.0f} s", file=sys.stderr)
    print(all_tables(rows))
    print(f"\n{options.output}", file=sys.stderr)
    if options.write:
        said = json.loads(options.output.read_text())
        title = f"{said['processor']}, {said['cores']} cores, {said['date']}:"
        replace_between(BEGIN, END, f"{title}\n\n{all_tables(rows)}")


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    parser = argparse.ArgumentParser(
        description="Time training steps in aotc and its peers, each in a process of "
        "its own.",
        epilog="Environments, builds and results are kept in the work folder; what is "
        "measured there already is not measured again.",
    )
    add = parser.add_argument
    add("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    add("--threads", nargs="+", type=int, default=[1, 2], metavar="N")
    add("--targets", nargs="+", default=["x86_64-v4", "x86_64-v3"], metavar="TARGET")
    add("--peers", nargs="*", default=list(PEERS), choices=list(PEERS))
    add("--precision", choices=[BF16], help="measure mixed precision, too")
    add("--rounds", type=int, default=10)
    add("--seconds", type=float, default=0.5, help="of a system in a round")
    add("--clock", choices=["wall", "processor"], default="wall")
    add("--isa", choices=["avx2"], help="hold peers to it, where they can be held")
    add("--again", action="store_true", help="forget what was measured before")
    add("--reuse", action="store_true", help="take bundles that earlier runs built")
    add(
        "--python",
        action="append",
        default=[],
        metavar="PEER=PYTHON",
        help="do not install torch or jax: take this interpreter",
    )
    add("--work", type=Path, default=cache / "aotc-benchmarks", metavar="FOLDER")
    add("--output", type=Path, metavar="FILE.json", help="default: in --work")
    add("--write", action="store_true", help="put the tables into docs/performance.md")
    options = parser.parse_args(arguments)
    options.work = options.work.resolve()
    options.work.mkdir(parents=True, exist_ok=True)
    options.output = options.output or options.work / "steps.json"
    return options


def chosen_systems(options: argparse.Namespace) -> tuple[list[System], Path]:
    """Return aotc for each target and precision, the peers, and PyTorch's Python."""
    given = dict(pair.split("=", 1) for pair in options.python)
    needed = {"aotc", "torch", *(PEERS[peer].environment for peer in options.peers)}
    pythons = {
        name: Path(given[name])
        if name in given
        else python_of(name, options.work / "environments")
        for name in sorted(needed)
    }
    found: list[System] = []
    precisions = [None, options.precision] if options.precision else [None]
    for precision, target in product(precisions, options.targets):
        found.append(
            AotcStep(
                " ".join(filter(None, ("aotc", target, precision))),
                Path(sys.executable),
                "bundle",
                "aotc",
                level=target,
                reuse=options.reuse,
                edge=pythons["aotc"],
                precision=precision,
            )
        )
    for precision, name in product(precisions, options.peers):
        row = PEERS[name]
        runner = row.mixed_runner if precision else row.runner
        if runner is not None:
            title = " ".join(filter(None, (name, precision)))
            given = title, pythons[row.environment], runner, row.environment
            found.append(Peer(*given, precision=precision))
    return found, pythons["torch"]


def settings_of(options: argparse.Namespace, threads: list[int]) -> Settings:
    """Return the settings of a measurement with these numbers of threads."""
    held = options.isa == "avx2"
    return Settings(threads, options.rounds, options.seconds, options.clock, held)


def read_rows(file: Path) -> list[Row]:
    """Read the rows of earlier runs; a figure that is missing is NaN."""
    if not file.exists():
        return []
    plain = {field.name: field.default for field in fields(Row)}
    return [
        Row(**{k: plain[k] if v is None else v for k, v in row.items()})
        for row in json.loads(file.read_text())["rows"]
    ]


def is_measured(
    rows: list[Row], model: str, threads: int, systems: list[System]
) -> bool:
    """Return whether a model's rows have results or failures of all systems."""
    there = {
        row.system
        for row in rows
        if (row.model, row.threads) == (model, threads)
        and row.failure not in (NOT_EXPORTED, NOT_BUILT)
    }
    return {system.name for system in systems} <= there


def facts(options: argparse.Namespace) -> dict[str, object]:
    """Return facts of the machine and the run."""
    return {
        "schema": "aotc.steps/1",
        "date": time.strftime("%Y-%m-%d"),
        "processor": processor(),
        "cores": os.cpu_count(),
        "tolerance": TOLERANCE,
        "rounds": options.rounds,
        "seconds": options.seconds,
        "clock": options.clock,
        "isa": options.isa,
        "packages": {name: PACKAGES[PEERS[name].environment] for name in options.peers},
    }
