"""Random quantised programs, compiled for several processors and compared bit by bit.

    python -m benchmarks.fuzz.quantized --models 40 --seed 0 --log found.jsonl

Each model has many entries (`quantized_entries`), and is compiled for all targets at
once. Where an entry is integers and ops that round alike everywhere, its results are
to be the same bytes on each target, by the passes alone, and by the terms of the
regions of `--evaluated` targets; what the passes make is compared with the reference
evaluator on the graph as it was traced, within what rounding moves, and so are the
results of other entries. With `--numerics relaxed`, rows are drawn that kernels round
to bytes; results are within the bound of docs/numerics.md. Code for other machines runs
under an emulator:

    python -m benchmarks.emulation.python FOLDER
    AOTC_PYTHONS=aarch64=FOLDER/python python -m benchmarks.fuzz.quantized \
        --targets x86_64-v4-dot aarch64

`--log` gets a line of JSON for each model when it is done, with the entries that are
wrong as models of their own; models that it has, of the same settings, are not
compared again. Exits with 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from aotc.machine.target import Target
from benchmarks.frontends.kernel_sizes import write_kernels_of_any_size

from .quantized_comparing import Asked, Found, compare, source_of
from .quantized_drawing import QuantizedEntry
from .quantized_entries import draw

TARGETS = ("x86_64-v2", "x86_64-v3", "x86_64-v4", "x86_64-v4-dot", "vmvx")
EVALUATED = ("x86_64-v4-dot", "riscv64-v")


def drawn_entries(
    seed: int, count: int, numerics: str = "strict"
) -> list[QuantizedEntry]:
    """Draw `count` random quantised entries."""
    drawn = [
        QuantizedEntry(np.random.default_rng([seed, number]), f"f{number}")
        for number in range(count)
    ]
    for each in drawn:
        draw(each, relaxed=numerics == "relaxed")
    return drawn


def main() -> int:
    """Draw, build and compare quantised models; return 1 if anything is wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.fuzz.quantized", description=__doc__.split("\n")[0]
    )
    add = parser.add_argument
    add("--models", type=int, default=10)
    add("--entries", type=int, default=50, help="of a model (50)")
    add("--seed", type=int, default=0, help="of the first one")
    add("--targets", nargs="*", type=Target.parse, default=map(Target.parse, TARGETS))
    known = map(Target.parse, EVALUATED)
    add("--evaluated", nargs="*", type=Target.parse, default=known, help="by terms")
    add("--numerics", choices=("strict", "relaxed"), default="strict")
    add("--in-turns", action="store_true", help="one of the targets for each model")
    add("--any-size", action="store_true", help="kernels for small operators, too")
    add("--log", type=Path, help="a file that gets a line for each model")
    given = parser.parse_args()
    asked = Asked([*given.targets], [*given.evaluated], given.numerics)
    os.environ.setdefault("QEMU_CPU", "max")
    warnings.filterwarnings("ignore")
    if given.any_size:
        write_kernels_of_any_size()
    settings = _settings(asked, given)
    rows = {row["seed"]: row for row in _rows(given.log) if row["of"] == settings}
    for seed in range(given.seed, given.seed + given.models):
        if seed not in rows:
            some = asked
            if given.in_turns:
                turn = asked.targets[seed % len(asked.targets)]
                some = replace(asked, targets=[turn])
            rows[seed] = _compared(seed, given.entries, some) | {"of": settings}
            _append(given.log, rows[seed])
            told = "; ".join(f"{x}: {why}" for x, why in rows[seed]["wrong"].items())
            seconds = rows[seed]["seconds"]
            print(f"model {seed}, {seconds} s: {told or 'agrees'}", flush=True)
    return _summed([*rows.values()], given.entries)


def _settings(asked: Asked, given: argparse.Namespace) -> dict[str, Any]:
    """Return the settings that a row of the log belongs to."""
    return {
        "entries": given.entries,
        "targets": [*map(str, asked.targets)],
        "in_turns": given.in_turns,
        "evaluated": [*map(str, asked.evaluated)],
        "numerics": asked.numerics,
        "any_size": given.any_size,
    }


def _compared(seed: int, entries: int, asked: Asked) -> dict[str, Any]:
    """Draw and compare one model; return its row of the log."""
    begin, found = time.monotonic(), Found()
    drawn = drawn_entries(seed, entries, asked.numerics)
    compare(drawn, asked, found)
    found.families.update(name for each in drawn for name in each.families)
    sources = {x.name: source_of([x]) for x in drawn if x.name in found.wrong}
    return {
        "seed": seed,
        "targets": [*map(str, asked.targets)],
        "wrong": found.wrong,
        "exact": sum(each.is_exact for each in drawn),
        "bytes": found.bytes,
        "families": found.families,
        "seconds": round(time.monotonic() - begin),
        "sources": sources,
    }


def _rows(log: Path | None) -> list[dict[str, Any]]:
    """Read the rows of a log; none if there is no such file."""
    if log is None or not log.exists():
        return []
    return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]


def _append(log: Path | None, row: dict[str, Any]) -> None:
    """Append a row to a log file, if there is one."""
    if log is not None:
        with log.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


def _summed(rows: Sequence[dict[str, Any]], entries: int) -> int:
    """Print the totals of all models; return whether anything is wrong."""
    failed = sum(len(row["wrong"]) for row in rows)
    exact, size = (sum(row[name] for row in rows) for name in ("exact", "bytes"))
    print(
        f"{failed} of {len(rows) * entries} entries failed; {exact} are of integers, "
        f"of which {size} bytes are the same"
    )
    families = Counter[str]()
    for row in rows:
        families.update(row["families"])
    print(dict(families.most_common()))
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
