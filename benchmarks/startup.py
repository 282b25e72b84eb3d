"""Start-up costs in fresh processes: command line, import, load and first call.

    pip install -e '.[compiler]' && python benchmarks/startup.py

Median and minimum over `--runs` processes of: `aotc --help` (wall time of the whole
process), import of `aotc.runtime`, load of the digits bundle with verification, and the
first call after it. The first process of each kind is not counted, so that compiled
Python files and the bundle are in the page cache.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

DIGITS = Path(__file__).parent.parent / "examples" / "digits"

LOAD = """
import json, sys, time
start = time.perf_counter()
import aotc.runtime
imported = time.perf_counter()
import numpy as np
x = np.load(sys.argv[2])[:1].copy()
before = time.perf_counter()
model = aotc.runtime.load(sys.argv[1])
loaded = time.perf_counter()
model.predict(x=x)
called = time.perf_counter()
print(json.dumps({
    "import_ms": (imported - start) * 1e3,
    "load_ms": (loaded - before) * 1e3,
    "first_call_ms": (called - loaded) * 1e3,
}))
"""


def main():
    """Time starting processes, loading and first calls; print a line per figure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=10)
    runs = parser.parse_args().runs
    from aotc.pipeline import build

    bundle = build(
        DIGITS / "model.py", entries=("predict",), output=Path(tempfile.mkdtemp())
    ).bundle
    aotc = Path(sys.executable).parent / "aotc"
    figures = {"help_ms": [], "import_ms": [], "load_ms": [], "first_call_ms": []}
    for _ in range(runs + 1):
        start = time.perf_counter()
        subprocess.run([aotc, "--help"], check=True, stdout=subprocess.DEVNULL)
        figures["help_ms"].append((time.perf_counter() - start) * 1e3)
        command = [sys.executable, "-c", LOAD, bundle, DIGITS / "test_x.npy"]
        answer = subprocess.run(command, check=True, capture_output=True, text=True)
        for name, value in json.loads(answer.stdout).items():
            figures[name].append(value)
    for name, values in figures.items():
        counted = values[1:]
        median = statistics.median(counted)
        print(f"{name:<14} median {median:7.1f}  min {min(counted):7.1f}")


if __name__ == "__main__":
    main()
