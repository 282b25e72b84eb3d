"""CPU variants on processors with fewer features: verdict and truth, by emulation.

    python -m benchmarks.compat.cpu_levels --qemu qemu-x86_64 [--cpus CPU …] [MODEL]

QEMU's user mode emulates processors of other generations, and raises SIGILL for what
they lack. On each the C probe describes the processor, which gives the verdict on each
variant, and a process calls the variant without asking for the verdict. The truth is
`right` if the numbers are those of portable code on this machine within rounding, else
`wrong`, `refused` or `crashed`. A usable verdict where the truth is not `right` is a
contradiction; the reverse is none, because code that may use a feature need not.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from aotc.artifacts import compat
from aotc.artifacts.host import Host
from aotc.artifacts.manifest import Variant
from aotc.artifacts.verdicts import USABLE, verdict_of
from aotc.runtime import engine
from benchmarks.compat.sweep import subject
from benchmarks.compat.trials import ROOT, Subject

MODEL = "tests/golden/format-1/model.py"
CPUS = ["Nehalem", "SandyBridge", "Haswell", "EPYC", "max"]
TARGETS = ["x86_64-v2", "x86_64-v3", "x86_64-v4", "vmvx"]
SECONDS = 900


def compiled_probe(folder: Path) -> Path:
    """Compile the C probe, which reports the (emulated) CPU's features; return its
    path.
    """
    program = folder / "aotc-probe"
    source = ROOT / "aotc/machine/native/probe.c"
    command = ["cc", "-std=c11", "-O1", str(source), "-o", str(program), "-ldl"]
    subprocess.run(command, check=True)
    return program


def host(probe: Path, emulator: list[str]) -> Host:
    """Return the host that the probe reports on an emulated CPU."""
    said = subprocess.run([*emulator, probe], capture_output=True, check=True).stdout
    drivers = ("local-sync", "local-task")
    return Host.from_device(json.loads(said), engine.iree_version(), drivers)


def truth(it: Subject, variant: Variant, emulator: list[str], expected: Any) -> str:
    """Run a variant's calls on an emulated CPU; return `right`, `wrong`, `refused` or
    `crashed`.
    """
    done = subprocess.run(
        [*emulator, sys.executable, "-m", "benchmarks.compat.run_calls"]
        + [str(it.path), variant.id, str(it.calls)],
        env=os.environ | {"PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        check=False,
        timeout=SECONDS,
    )
    if done.returncode:
        # A program that emulated code kills ends like one that a signal kills.
        return "crashed" if done.returncode < 0 or done.returncode > 128 else "refused"
    _, found = pickle.loads(done.stdout)
    return "right" if is_close(found, expected) else "wrong"


def is_close(found: Any, expected: Any) -> bool:
    """Return whether all results of all calls agree within rounding."""
    pairs = [
        pair
        for call, other in zip(found, expected, strict=True)
        for pair in zip(call, other, strict=True)
    ]
    return all(np.allclose(a, b, rtol=1e-5, atol=1e-6) for a, b in pairs)


def main() -> None:
    """Print a line for each processor and variant; 1 if an approved one fails."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", default=MODEL)
    parser.add_argument("--qemu", default="qemu-x86_64", help="the emulator's program")
    parser.add_argument(
        "--cpus", nargs="+", default=CPUS, help="see `--qemu -cpu help`"
    )
    options = parser.parse_args()
    wrong = 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        it = subject(ROOT / options.model, TARGETS, folder)
        probe = compiled_probe(folder)
        expected = results_here(it)
        for cpu in options.cpus:
            emulator = [options.qemu, "-cpu", cpu]
            where = host(probe, emulator)
            for variant in it.manifest.variants.values():
                verdict = verdict_of(compat.check(it.manifest, variant, where))
                said = truth(it, variant, emulator, expected)
                contradiction = verdict in USABLE and said != "right"
                wrong += contradiction
                mark = "  CONTRADICTION" if contradiction else ""
                print(f"{cpu:12} {variant.id:10} {verdict:12} {said}{mark}", flush=True)
    print(f"{wrong} contradictions")
    sys.exit(1 if wrong else 0)


def results_here(it: Subject) -> Any:
    """Return the results of portable code on this machine's CPU."""
    command = [sys.executable, "-m", "benchmarks.compat.run_calls", str(it.path)]
    done = subprocess.run(
        [*command, "vmvx", str(it.calls)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=True,
    )
    return pickle.loads(done.stdout)[1]


if __name__ == "__main__":
    main()
