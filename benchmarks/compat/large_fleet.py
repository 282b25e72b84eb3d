"""Time `aotc compat` on a fleet of many inline profiles and on several bundles.

    python -m benchmarks.compat.large_fleet [--rows N] [--bundles N] [--keep FOLDER]

Each row holds the whole profile that `aotc doctor --format json` prints here, with a
name, a site and a development key of its own, and with one of 300 combinations of CPU
level, memory, runtime and driver. The bundles have variants for six targets and no
code, which is not looked at. Prints seconds of processor time, which other processes
disturb less than the clock, and the peak of memory.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

from aotc.artifacts import write_bundle
from aotc.cli.doctor import profile
from aotc.machine.target import TARGETS

_LEVELS = ("x86_64-v2", "x86_64-v3", "x86_64-v4", "aarch64", "aarch64-v8.2")
_GIB = (2, 4, 8, 16, 64)
_RUNTIMES = ("3.13.0", "3.12.0", "3.10.0")
_CUDA = (None, 11060, 12040, 13000)
_TARGETS = ("x86_64-v2", "x86_64-v3", "x86_64-v4", "aarch64", "cuda:sm_89", "vulkan")


def main() -> None:
    """Write a large fleet and bundles, and time both output forms of `aotc compat`."""
    arguments = _arguments()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(arguments.keep or made)
        folder.mkdir(parents=True, exist_ok=True)
        fleet = folder / "fleet.jsonl"
        with fleet.open("w") as file:
            file.writelines(_rows(arguments.rows))
        bundles = [_write_bundle(folder, n) for n in range(arguments.bundles)]
        print(f"{arguments.rows} rows, {fleet.stat().st_size >> 20} MiB")
        for form in ("text", "json"):
            options = ["--devices", str(fleet), "--allow-unsigned", "--format", form]
            _time(form, ["compat", *map(str, bundles), *options])


def _arguments() -> argparse.Namespace:
    """Return the parsed command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--bundles", type=int, default=20)
    parser.add_argument("--keep", help="write into this folder and leave it")
    return parser.parse_args()


def _rows(count: int) -> Iterator[str]:
    """Yield the JSON lines of the fleet's device profiles."""
    here = profile()
    kinds = list(product(_LEVELS, _GIB, _RUNTIMES, _CUDA))
    for number in range(count):
        stated = _profile(here, *kinds[number % len(kinds)])
        stated["development_key"] = f"{number:064x}"
        labels = {"site": f"s{number % 50}"}
        row = {"name": f"dev-{number}", "labels": labels, "profile": stated}
        yield json.dumps(row) + "\n"


def _profile(
    here: dict[str, Any], level: str, gib: int, runtime: str, cuda: int | None
) -> dict[str, Any]:
    """Return this machine's profile with another level, memory, runtime and driver."""
    stated = copy.deepcopy(here)
    stated["packages"]["iree-base-runtime"] = runtime
    stated["drivers"] = ["local-sync", "local-task", *(["cuda"] if cuda else [])]
    device = stated["device"]
    device["arch"] = TARGETS[level].arch
    device["cpu"]["features"] = list(TARGETS[level].cpu_features_required)
    device["cpu"]["level"] = level
    device["memory"]["total_bytes"] = gib << 30
    gpu = {"name": "NVIDIA L4", "sm": "sm_89", "memory_bytes": 24 << 30}
    device["cuda"] = cuda and {"driver_api": cuda, "devices": [gpu]}
    return stated


def _write_bundle(folder: Path, number: int) -> Path:
    """Write an unsigned bundle with a realistic manifest and no code."""
    leaf = {"name": "x", "dtype": "f32", "shape": [4]}
    abi = {"iree_vm_bytecode": [17, 0], "vm_feature_bits": 12, "module_deps": {}}
    plan = {"sizes": {}, "resident_bytes": 1 << 28, "peak_bytes": 3 << 30}
    entry = {
        "name": "predict",
        "kind": "infer",
        "inputs": [leaf],
        "arguments": {"dict": {"x": 0}},
        "outputs": [leaf],
        "result": 0,
        "reads": [],
        "updates": [],
    }
    variants = [
        {
            "id": target.id,
            "file": "none.vmfb",
            "backend": target.backend,
            "priority": 0,
            "target": target.to_json(),
            "flags": [],
            "runtime_abi": abi,
            "memory": {"predict": plan},
        }
        for target in map(TARGETS.__getitem__, _TARGETS)
    ]
    manifest = {
        "schema": "aotc.manifest/1",
        "requires_features": [],
        "name": f"model-{number}",
        "version": "1.0.0",
        "toolchain": {"iree_compiler": {"version": "3.13.0"}},
        "symbols": {},
        "entry_points": [entry],
        "states": [],
        "weights": [],
        "variants": variants,
    }
    return write_bundle(folder, manifest, {"none.vmfb": b""}, None, force=True)


def _time(form: str, arguments: list[str]) -> None:
    """Run `aotc` with these arguments; print its time and memory."""
    command = [sys.executable, "-m", "aotc.cli.main", *arguments]
    start = time.perf_counter()
    process = os.posix_spawn(
        sys.executable,
        command,
        os.environ,
        file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)],
    )
    _, status, used = os.wait4(process, 0)
    seconds = time.perf_counter() - start
    print(
        f"{form}: exit code {os.waitstatus_to_exitcode(status)}, user "
        f"{used.ru_utime:.1f} s, system {used.ru_stime:.1f} s, clock {seconds:.1f} s, "
        f"{used.ru_maxrss >> 10} MiB"
    )


if __name__ == "__main__":
    main()
