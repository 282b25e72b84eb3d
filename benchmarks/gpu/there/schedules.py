"""Time kernels in many schedules, and compare what they compute.

    python schedules.py [--archive FILE] [--out FILE] [--seconds 60]

Kernels are launched by NVIDIA's driver alone, with random numbers. What a kernel
computes in the schedule that the model of the chip has chosen, which is the first, is
compared with what it computes in the others. Times are those of a launch among many,
which finds in the cache what the one before has left there. FILE has a row for each
kernel and schedule.
"""

from __future__ import annotations

import argparse
import json
import os
import tarfile
import tempfile
import time
from pathlib import Path

import cuda_driver
import numpy as np
from measuring import write

HERE = Path(__file__).resolve().parent


def random_array(dtype, count, generator):
    """Return random numbers of a dtype as bit patterns."""
    numbers = generator.standard_normal(count, dtype=np.float32)
    if dtype == "f32":
        return numbers
    if dtype == "bf16":
        return (numbers.view(np.uint32) >> 16).astype(np.uint16)
    if dtype == "f16":
        return numbers.astype(np.float16)
    raise ValueError(f"no random numbers of {dtype}")


def as_floats(array, dtype):
    """Convert bit patterns of a dtype to f32 numbers."""
    if dtype == "bf16":
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array.astype(np.float32)


class Kernel:
    """The GPU memory of a kernel, shared by all its schedules."""

    def __init__(self, cuda, row):
        self._cuda, self.buffers, count = cuda, row["buffers"], row["inputs"]
        generator = np.random.default_rng(1)
        self.arrays = [random_array(*each, generator) for each in self.buffers]
        self.inputs = self.arrays[:count]
        self.memories = [cuda.allocate(max(x.nbytes, 16)) for x in self.arrays]
        for memory, array in zip(self.memories, self.inputs, strict=False):
            cuda.upload(memory, array)
        self.first = None

    def result(self, launch):
        """Launch a kernel on poisoned memory; return its result."""
        last, memory = self.arrays[-1], self.memories[-1]
        self._cuda.fill(memory, last.nbytes, 0xFF)
        launch()
        self._cuda.settle()
        found = np.empty_like(last)
        self._cuda.download(found, memory)
        return as_floats(found, self.buffers[-1][0])

    def free(self):
        """Free the GPU memory."""
        for memory in self.memories:
            self._cuda.free(memory)


def largest_error(found, expected):
    """Return the largest difference over the root of the mean square."""
    if not np.isfinite(found).all():
        return float("inf")
    scale = np.sqrt(np.mean(np.square(expected, dtype=np.float64)))
    return float(np.abs(found - expected).max() / max(scale, 1e-30))


def measure(cuda, launch):
    """Return the least and median microseconds of a launch."""
    times = cuda_driver.microseconds(cuda, launch)
    return {"min_us": times[0], "p50_us": times[len(times) // 2]}


def run(archive, out, seconds):
    """Time all kernels of an archive for as long as there is time."""
    end, found = time.monotonic() + seconds, []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        with tarfile.open(archive) as packed:
            packed.extractall(folder, filter="data")
        document = json.loads((folder / "schedules.json").read_text(encoding="utf-8"))
        cuda, name, kernel = cuda_driver.Driver(), None, None
        for row in document["rows"]:
            if time.monotonic() > end:
                break
            if row["file"] is None:
                continue
            if row["kernel"] != name:
                if kernel is not None:
                    kernel.free()
                name, kernel = row["kernel"], Kernel(cuda, row)
            found.append({**row, **one(cuda, kernel, row, folder)})
            write(out, {"arch": document["arch"], "rows": found})
    return found


def one(cuda, kernel, row, folder):
    """Time one schedule of a kernel; return its row with the error."""
    code = (folder / row["file"]).read_bytes()
    launch = cuda_driver.Launch(
        cuda,
        code,
        row["function"],
        row["threads"],
        row["shared"],
        row["programs"],
        kernel.memories,
    )
    made = kernel.result(launch)
    if kernel.first is None:
        kernel.first = made
    facts = {"error": largest_error(made, kernel.first), **measure(cuda, launch)}
    launch.unload()
    return facts


def summary(rows):
    """Return lines with the chosen and the fastest schedule of each kernel."""
    lines = []
    for name in dict.fromkeys(row["kernel"] for row in rows):
        own = [row for row in rows if row["kernel"] == name]
        best = min(own, key=lambda row: row["p50_us"])
        chosen = next(row for row in own if row["chosen"])
        worst = max(row["error"] for row in own)
        expected = chosen["expected"] and f"{chosen['expected'] / 1e3:.1f}"
        lines.append(
            f"{name}: floor {chosen['floor'] / 1e3:.1f}, model {expected}, chosen "
            f"{chosen['p50_us']:.1f}, best {best['p50_us']:.1f} us {best['schedule']}, "
            f"{len(own)} schedules, largest difference {worst:.1e}"
        )
    return lines


def main():
    """Time as the command line says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--archive", type=Path, default=HERE / "schedules.tar.xz")
    default = Path(os.environ.get("OUT", HERE)) / "schedules.json"
    parser.add_argument("--out", type=Path, default=default)
    parser.add_argument("--seconds", type=float, default=60)
    asked = parser.parse_args()
    for line in summary(run(asked.archive, asked.out, asked.seconds)):
        print(line)


if __name__ == "__main__":
    main()
