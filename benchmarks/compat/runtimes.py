"""Formats that each release of the IREE runtime loads, asked of its wheel.

    python -m benchmarks.compat.runtimes [RELEASE …] [--wheels DIR] [--iree CLONE]
                                         [--write]

Downloads the wheels of all releases (or of those named), starts each in a process of
its own and asks it (`runtime_facts.py`) for its bytecode version, its VM features and
the versions of its modules; what it wants of Vulkan is read from its binary. With a
clone of IREE's repository the same numbers are read from the sources at the wheel's own
revision; a difference ends the command. `--write` puts the rows into
artifacts/tables/iree_runtimes.json, beside those of other releases.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.compat.wheels import (
    Wheel,
    download,
    python_tags,
    release_number,
    releases,
)

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "artifacts" / "tables" / "iree_runtimes.json"
MODULE = ROOT / "tests/golden/format-1/bundle/variants/x86_64-v2.vmfb"
PYTHONS = ["3.9", "3.10", "3.11", "3.12", "3.13", "3.14"]

# Where a number stands in IREE's sources: files of which one exists, and a pattern.
_BYTECODE = [f"runtime/src/iree/vm/bytecode/{at}/isa.h" for at in ("isa", "utils")]
_MODULES = "runtime/src/iree/modules"
_CONSTANTS = {
    "bytecode major": (_BYTECODE, r"IREE_VM_BYTECODE_VERSION_MAJOR (\w+?)u?"),
    "bytecode minor": (_BYTECODE, r"IREE_VM_BYTECODE_VERSION_MINOR (\w+?)u?"),
    "hal": ([f"{_MODULES}/hal/module.c"], r"IREE_HAL_MODULE_VERSION_\d_\d (\w+?)u?"),
    "io_parameters": (
        [f"{_MODULES}/io/parameters/module.c"],
        r"IREE_IO_PARAMETERS_MODULE_VERSION_\d_\d (\w+?)u?",
    ),
}


def asked(wheel: Wheel) -> dict[str, Any]:
    """Run a wheel's runtime in a child process; return the facts that it reports.

    Raises:
        SystemExit: it died, or its answers contradict each other.
    """
    path = os.pathsep.join((str(wheel.folder), str(ROOT)))
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.compat.runtime_facts", str(MODULE)],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{wheel.file}: {done.stderr or done.returncode}")
    facts: dict[str, Any] = json.loads(done.stdout)
    if facts["build"].partition("rc")[0] != wheel.release:
        raise SystemExit(f"{wheel.file} answered as {facts['build']}")
    return facts


def sources(clone: Path, revision: str) -> dict[str, int] | None:
    """Return the version numbers in IREE's sources at a revision; None if unknown."""
    if _git(clone, "cat-file", "-e", revision) is None:
        return None
    found = {}
    for name, (files, pattern) in _CONSTANTS.items():
        texts = [_git(clone, "show", f"{revision}:{file}") for file in files]
        (text,) = (text for text in texts if text is not None)
        found[name] = int(re.findall(f"#define {pattern}$", text, re.MULTILINE)[-1], 0)
    return found


def vulkan_baseline(wheel: Wheel) -> dict[str, Any] | None:
    """Return a runtime's requirements on Vulkan devices, found in its binary.

    From 3.12 on it reports what a device lacks; None for those before.
    """
    libraries = wheel.folder / "iree" / "_runtime_libs"
    (binary,) = libraries.glob("_runtime*.so")
    text = binary.read_bytes()
    api = re.search(rb"feature_tier\[vulkan-(\d+\.\d+)\]", text)
    if not api:
        return None
    features = {match.decode() for match in re.findall(rb"  missing: (\w+)\n", text)}
    return {"api": api[1].decode(), "features": sorted(features)}


def row(release: str, folder: Path, clone: Path | None) -> dict[str, Any]:
    """Return one release's row of the table of runtimes."""
    wheel = download(release, folder)
    facts = asked(wheel)
    known = sources(clone, facts["revision"]) if clone else None
    cited = [f"{wheel.file} sha256:{wheel.sha256}"]
    if known is not None:
        major, minor = facts["bytecode"]
        said = {"bytecode major": major, "bytecode minor": minor, **facts["modules"]}
        if said != known:
            raise SystemExit(f"{release}: the wheel says {said}, the sources {known}")
        cited.append(f"iree-org/iree {facts['revision']}: isa.h, module.c")
    return {
        "release": release,
        **facts,
        "vulkan": vulkan_baseline(wheel),
        "python_tags": python_tags(release, PYTHONS),
        "sources": cited,
    }


def _git(clone: Path, *arguments: str) -> str | None:
    """Run git in a clone; return its output, or None if it fails."""
    done = subprocess.run(
        ["git", "-C", str(clone), *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    return None if done.returncode else done.stdout


def written(rows: list[dict[str, Any]]) -> str:
    """Return the table's text with rows replaced for these releases."""
    document = json.loads(TABLE.read_text()) if TABLE.exists() else {"rows": []}
    merged = {each["release"]: each for each in document["rows"] + rows}
    ordered = sorted(merged, key=release_number)
    header = {
        "schema": "aotc.table.iree-runtimes/1",
        "command": "python -m benchmarks.compat.runtimes --write",
    }
    return as_lines(header, [merged[name] for name in ordered])


def as_lines(header: dict[str, Any], rows: list[dict[str, Any]]) -> str:
    """Return a JSON document with one row per line."""
    head = json.dumps(header, indent=1)[:-2]
    body = ",\n".join(f"  {json.dumps(each)}" for each in rows)
    return f'{head},\n "rows": [\n{body}\n ]\n}}\n'


def main() -> None:
    """Ask all releases, print the rows, write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("releases", nargs="*", metavar="RELEASE")
    parser.add_argument("--wheels", type=Path, help="keep downloads here")
    parser.add_argument("--iree", type=Path, help="a clone of IREE's repository")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.wheels or Path(scratch)
        rows = []
        for release in options.releases or releases():
            rows.append(row(release, folder, options.iree))
            print(json.dumps(rows[-1]), flush=True)
    if options.write:
        TABLE.write_text(written(rows))


if __name__ == "__main__":
    main()
