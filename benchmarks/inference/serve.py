"""One system with one model, told by its standard input when to run.

    python -m inference.serve inference.runners.NAME ARTIFACT INPUTS.npz THREADS

Answers are lines of JSON. The first comes after the first result. Then each line of
input is a command, its words separated by tabs. `compare EXPECTED.npz` tells the
largest difference of all outputs, each by its largest value; `run N CLOCK` the seconds
of N calls, after one that is not counted, by the clock `wall` or `processor`; `memory`
the peaks of resident bytes: of the whole process, and of all after its first result.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from .clocks import seconds_of_calls

Call = Callable[[], list[np.ndarray]]


def serve(commands: dict[str, Callable[..., object]]) -> None:
    """Load a model and answer commands until the input ends."""
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print is no reply
    runner, artifact, inputs, threads = sys.argv[1:]
    with np.load(inputs) as file:
        arrays = dict(file)
    load = importlib.import_module(runner).load
    call = load(Path(artifact), arrays, int(threads))
    call()
    FIRST.append(forget_peak())
    print(json.dumps("ready"), file=replies)
    for line in sys.stdin:
        command, *arguments = line.rstrip("\n").split("\t")
        print(json.dumps(commands[command](call, *arguments)), file=replies)


def compare(call: Call, file: str) -> float:
    """Call once; return the largest relative error of the outputs against a file."""
    with np.load(file) as expected:
        pairs = list(zip(call(), expected.values(), strict=True))
    return max(relative_error(*pair) for pair in pairs)


def relative_error(found: np.ndarray, expected: np.ndarray) -> float:
    """Return the largest difference over the largest value; infinite for other
    shapes.
    """
    if found.shape != expected.shape or not np.isfinite(found).all():
        return float("inf")
    return float(np.abs(found - expected).max() / np.abs(expected).max())


def run(call: Call, count: str, clock: str) -> list[float]:
    """Return the seconds of each of `count` calls."""
    call()
    return seconds_of_calls(call, int(count), CLOCKS[clock])


def memory(call: Call) -> tuple[int, int]:
    """Return peak resident bytes: of the whole process, and after its first result."""
    warm = peak()
    return max(warm, *FIRST), warm


def peak() -> int:
    """Return this process's peak resident bytes since the last reset."""
    lines = Path("/proc/self/status").read_text().splitlines()
    found = next(line for line in lines if line.startswith("VmHWM"))
    return int(found.split()[1]) * 1024


def forget_peak() -> int:
    """Reset the peak of resident bytes; return the peak before."""
    before = peak()
    Path("/proc/self/clear_refs").write_text("5")
    return before


FIRST: list[int] = []  # the peak of loading and of the first call
CLOCKS = {"wall": time.perf_counter, "processor": time.process_time}
COMMANDS = {"compare": compare, "run": run, "memory": memory}

if __name__ == "__main__":
    serve(COMMANDS)
