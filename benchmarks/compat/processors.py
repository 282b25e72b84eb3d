"""Features of processors: LLVM's own definitions, asked of the compiler.

    python -m benchmarks.compat.processors --write

IREE prints what LLVM knows of the processor that it is told to compile for. Of every
processor that artifacts/tables/devices.json names, the features that `aotc doctor` can
find go into artifacts/tables/processors.json.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

import iree.compiler
from iree.compiler import version

from benchmarks.compat.runtimes import as_lines

TABLES = Path(__file__).parents[2] / "artifacts" / "tables"
_COMPILER = Path(iree.compiler.__path__[0]) / "_mlir_libs" / "iree-compile"
_MODULE = "func.func @f() { return }"


def features(arch: str, processor: str) -> list[str]:
    """Return the features of a CPU model by LLVM's names.

    Raises:
        SystemExit: LLVM does not know it.
    """
    done = subprocess.run(
        [
            _COMPILER,
            "-",
            "--iree-hal-target-device=local",
            "--iree-hal-local-target-device-backends=llvm-cpu",
            f"--iree-llvmcpu-target-triple={arch}-unknown-linux-gnu",
            f"--iree-llvmcpu-target-cpu={processor}",
            "--compile-to=preprocessing",
        ],
        input=_MODULE,
        capture_output=True,
        text=True,
        check=False,
    )
    named = re.search(r'cpu_features = "([^"]+)"', done.stdout)
    if done.returncode or not named:
        raise SystemExit(f"{arch} {processor}: {done.stderr or 'no features'}")
    found = {name[1:] for name in named[1].split(",") if name.startswith("+")}
    found |= set(processor.BASELINE.get(arch, ()))
    if {"sve2", "sve-bitperm"} <= found:
        found.add("sve2-bitperm")  # Linux and older LLVM know the two as one
    return sorted(found & processor.KNOWN_FEATURES[arch])


def main() -> None:
    """Ask for all processors that devices have; print or write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    devices = json.loads((TABLES / "devices.json").read_text(encoding="utf-8"))["rows"]
    named = {(row["arch"], row["processor"]) for row in devices if "processor" in row}
    rows = [
        {
            "processor": processor,
            "arch": arch,
            "features": features(arch, processor),
            "sources": ["llvm"],
        }
        for arch, processor in sorted(named)
    ]
    revision = version.REVISIONS["IREE"]
    source = f"LLVM in iree-base-compiler {version.VERSION} (IREE {revision})"
    header = {
        "schema": "aotc.table.processors/1",
        "command": "python -m benchmarks.compat.processors --write",
        "sources": {"llvm": source},
    }
    text = as_lines(header, rows)
    if options.write:
        (TABLES / "processors.json").write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
