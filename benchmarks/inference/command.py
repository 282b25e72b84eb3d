"""The command line of `benchmarks/models.py`."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from itertools import product
from pathlib import Path

from aotc.core.numerics import LEVELS as NUMERICS_LEVELS

from .case import Case, Settings
from .environments import PACKAGES, python_of
from .results import all_tables, write_json, write_page
from .systems import PEERS, TOLERANCE, Aotc, System, run_module

MODELS = (
    *("resnet50", "mobilenet_v2", "efficientnet_b0", "unet"),
    *("bert", "bert-dynamic", "vit", "gpt2", "llama", "gpt2-decode", "llama-decode"),
    *("lstm", "moe", "dit", "mlp"),
)


def main(arguments: list[str] | None = None) -> None:
    """Measure all systems and models, and print and write the results."""
    options = parse(arguments)
    settings = Settings(
        options.threads,
        options.rounds,
        options.seconds,
        options.clock,
        options.isa == "avx2",
    )
    pythons = peer_interpreters(options)
    systems = chosen_systems(options, pythons)
    rows = []
    for model in options.models:
        for batch in options.batches:
            case = Case(model, batch, options.work)
            if case.export(pythons["torch"], systems):
                rows += case.measure(systems, settings)
            else:
                rows += case.failures(systems, settings, "not exported")
            write_json(rows, facts(options), options.output)
    print(all_tables(rows))
    print(f"\n{options.output}", file=sys.stderr)
    if options.plot:
        words = str(options.output), str(options.plot)
        run_module(pythons["matplotlib"], "inference.plot", *words)
        print(options.plot, file=sys.stderr)
    if options.write:
        write_page(rows, options.plot)


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    parser = argparse.ArgumentParser(
        description="Time whole models in aotc and its peers, each in its own process.",
        epilog="Environments, exported models and builds are kept in the work folder.",
    )
    add = parser.add_argument
    add("--models", nargs="+", default=MODELS, metavar="NAME")
    add("--batches", nargs="+", type=int, default=[1], metavar="N")
    add("--threads", nargs="+", type=int, default=[1, 2], metavar="N")
    add("--levels", nargs="+", default=["x86_64-v4", "x86_64-v3"], metavar="TARGET")
    add("--numerics", nargs="+", default=["strict"], choices=NUMERICS_LEVELS)
    add("--peers", nargs="*", default=list(PEERS), choices=list(PEERS))
    add("--rounds", type=int, default=15)
    add("--seconds", type=float, default=0.5, help="of a system in a round")
    add(
        "--clock",
        choices=["wall", "processor"],
        default="wall",
        help="processor: for one thread on a busy machine",
    )
    add("--isa", choices=["avx2"], help="hold peers to it, where they can be held")
    add(
        "--aotc",
        action="append",
        metavar="NAME=PYTHON",
        help="an interpreter with aotc and torch; several are compared (default: this)",
    )
    add("--reuse", action="store_true", help="take bundles that earlier runs built")
    add(
        "--python",
        action="append",
        default=[],
        metavar="PEER=PYTHON",
        help=f"do not install {', '.join(PACKAGES)}: take this interpreter",
    )
    add("--work", type=Path, default=cache / "aotc-benchmarks", metavar="FOLDER")
    add("--environments", type=Path, metavar="FOLDER", help="default: in --work")
    add("--output", type=Path, metavar="FILE.json", help="default: in --work")
    add("--write", action="store_true", help="put the tables into docs/performance.md")
    add(
        "--plot",
        type=Path,
        metavar="FILE.svg",
        help="draw the times there (default: beside --output)",
    )
    add("--no-plot", action="store_true", help="needs no matplotlib")
    options = parser.parse_args(arguments)
    options.work = options.work.resolve()
    options.work.mkdir(parents=True, exist_ok=True)
    options.environments = options.environments or options.work / "environments"
    options.aotc = options.aotc or [f"aotc={sys.executable}"]
    options.output = options.output or options.work / "models.json"
    options.plot = options.plot or options.output.with_suffix(".svg")
    if options.no_plot:
        options.plot = None
    return options


def peer_interpreters(options: argparse.Namespace) -> dict[str, Path]:
    """Return the Python interpreter of each environment that is needed.

    PyTorch's exports the models; that of aotc tells what has to be installed to run
    bundles, and matplotlib's draws.
    """
    given = dict(pair.split("=", 1) for pair in options.python)
    needed = {"aotc", "torch", *(PEERS[peer].environment for peer in options.peers)}
    if options.plot:
        needed.add("matplotlib")
    return {
        name: Path(given[name])
        if name in given
        else python_of(name, options.environments)
        for name in sorted(needed)
    }


def chosen_systems(
    options: argparse.Namespace, pythons: dict[str, Path]
) -> list[System]:
    """Return aotc at each level and numerics, and the chosen peers."""
    found: list[System] = []
    chosen = product(options.levels, options.aotc, options.numerics)
    for level, pair, numerics in chosen:
        name, python = pair.split("=", 1)
        words = [name, level] if numerics == "strict" else [name, level, numerics]
        found.append(
            Aotc(
                " ".join(words),
                Path(python),
                "bundle",
                "aotc",
                level=level,
                reuse=options.reuse,
                edge=pythons["aotc"],
                numerics=numerics,
            )
        )
    for name in options.peers:
        kind, runner, package = PEERS[name]
        found.append(kind(name, pythons[package], runner, package))
    return found


def facts(options: argparse.Namespace) -> dict[str, object]:
    """Return facts of the machine and the run."""
    return {
        "schema": "aotc.models/1",
        "processor": processor(),
        "cores": os.cpu_count(),
        "tolerance": TOLERANCE,
        "rounds": options.rounds,
        "seconds": options.seconds,
        "clock": options.clock,
        "isa": options.isa,
        "packages": {name: PACKAGES[PEERS[name].environment] for name in options.peers},
    }


def processor() -> str:
    """Return the name of this machine's CPU."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if "model name" in line]
    return names[0] if names else platform.processor()
