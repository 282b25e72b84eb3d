"""Memory, disk and time of builds, by the number of parameters and of targets.

    pip install -e '.[compiler]' && python benchmarks/build_memory.py [SIZE ...]

Builds `decoders/sized.py`, a decoder of LLaMA's kind with a prompt and a step, with
weights of each size, for one target and for two, without self-check. Weights are a
sparse file: each tensor begins with a few random elements, and all others are zeros
that take no room on the disk (the archive that is built of them does). A row says:

- weights: bytes of the weights; largest: of the largest of them;
- anonymous: the most memory of the build and of its compilers that is theirs alone,
  from sampling /proc: pages of mapped files are not in it, for the system takes them
  back when it needs them;
- disk: the most that the build takes, by the bytes of the bundle;
- seconds of the processor and of the clock;
- of a process that loads the bundle for the first target and makes a step, with its
  weights copied (`private`, the default) and mapped: seconds of the processor of
  `load`; and resident memory after the step, by the bytes of the weights. Of three
  loads the one that takes least counts. Beside each a process gives back as much memory
  as the load takes: what a hypervisor has taken back comes several times as slowly
  (docs/measuring.md).

3B and 7B are measured only if they are named: they take 6 and 14 GB of disk.

With `--format pt2` and `onnx`, `decoders/sized_torch.py` writes the prompt's entry as
an exported program, or as an ONNX file with external data (which needs `onnxscript`),
and that is built; its weights are on the disk in whole. With `--format gguf`
`decoders/gguf.py` is built with integers of 4 bits (Q4_0; it needs `gguf`).
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

MODEL = Path(__file__).parent / "decoders" / "sized.py"
PAGE = Path(__file__).parent.parent / "docs" / "growth.md"
MARKS = "<!-- written by benchmarks/build_memory.py -->", "<!-- end of builds -->"


@dataclass(frozen=True)
class Size:
    """The sizes of a decoder model: width, hidden width, layers, words."""

    width: int
    hidden: int
    layers: int
    words: int

    def tensors(self):
        """Yield the shape of each weight by name."""
        w, h = self.width, self.hidden
        yield "words", (self.words, w)
        for n in range(self.layers):
            shapes = {"q": (w, w), "k": (w, w), "v": (w, w), "o": (w, w)}
            shapes |= {"gate": (h, w), "up": (h, w), "down": (w, h)}
            shapes |= {"before": (w,), "after": (w,)}
            yield from ((f"layers.{n}.{k}", shape) for k, shape in shapes.items())
        yield "norm", (w,)
        yield "head", (self.words, w)


SIZES = {
    "26M": Size(512, 1408, 6, 8192),
    "106M": Size(768, 2048, 12, 14336),
    "348M": Size(1024, 2816, 22, 32000),
    "1.1B": Size(2048, 5632, 19, 32000),
    "3B": Size(3072, 8192, 24, 32000),
    "7B": Size(4096, 11008, 32, 32000),
}
DEFAULT = ("26M", "106M", "348M")
ITEM = {"bf16": 2, "f32": 4}
LOADS = 3  # of which the one that takes least counts
LOAD = """
import json, sys, time
import numpy
import aotc

start = time.process_time()
path, target, weights, call = sys.argv[1:]
asked = {"allow_unsigned": True, "target": target, "threads": 2, "weights": weights}
model = aotc.load(path, **asked)
seconds = time.process_time() - start
start = time.process_time()
call = json.loads(call)
model.entries[call["entry"]](**{k: numpy.zeros(*x) for k, x in call["inputs"].items()})
first = time.process_time() - start
rows = open("/proc/self/status").read().splitlines()
facts = dict(row.split(":", 1) for row in rows)
held = sum(int(facts[k].split()[0]) for k in ("RssAnon", "RssShmem", "RssFile"))
print(json.dumps([seconds, held << 10, first]))
"""

# Gives back as much as a process takes, which the system then has at hand for that.
GIVE = """
import mmap, sys, time
from pathlib import Path

PART = 64 << 20

def anonymous(pid):
    try:
        rows = Path(f"/proc/{pid}/status").read_text().splitlines()
        facts = dict(row.split(":", 1) for row in rows)
        return int(facts["RssAnon"].split()[0]) << 10
    except (OSError, KeyError):  # it has ended
        return None

held = []
for _ in range(-(-int(sys.argv[1]) // PART)):
    held.append(mmap.mmap(-1, PART, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
    held[-1].madvise(mmap.MADV_HUGEPAGE)
    for place in range(0, PART, mmap.PAGESIZE):
        held[-1][place] = 1
print(flush=True)
pid, given = input(), 0
while held and (taken := anonymous(pid)) is not None:
    while held and given < taken + 4 * PART:
        held.pop().close()
        given += PART
    time.sleep(0.002)
"""
STEP = {
    "entry": "step",
    "inputs": {"tokens": [[1, 1], "i4"], "position": [[], "i4"]},
}
FORMATS = {"py": "", "pt2": ", `.pt2`", "onnx": ", `.onnx`", "gguf": ", `.gguf`"}
PROMPT = {"entry": "main", "inputs": {"tokens": [[1, 128], "i8"]}}


def main():
    """Build models of several sizes, load them, and print a row of memory and time for
    each.
    """
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sizes", nargs="*", help=", ".join(SIZES))
    parser.add_argument("--format", choices=FORMATS, default="py")
    parser.add_argument("--dtype", choices=ITEM, help="f32 by default; of gguf Q4_0")
    parser.add_argument(
        "--targets", nargs="*", default=["x86_64-v4", "x86_64-v4,x86_64-v3"]
    )
    parser.add_argument("--folder", type=Path, help="where to work, instead of /tmp")
    parser.add_argument("--no-load", action="store_true", help="build only")
    parser.add_argument("--rows", type=Path, help="rows that were printed before")
    parser.add_argument("--write", action="store_true", help="put it into docs/")
    options = parser.parse_args()
    options.dtype = options.dtype or ("Q4_0" if options.format == "gguf" else "f32")
    before = options.rows.read_text().splitlines() if options.rows else []
    rows = [json.loads(line) for line in before if line.startswith("{")]
    for name in options.sizes or ([] if rows else DEFAULT):
        for targets in options.targets:
            rows.append(measure(name, options, targets))
            print(json.dumps(rows[-1]), flush=True)
    if options.write:
        write_page(rows)


def measure(name, options, targets):
    """Build and load one model; return its row of memory, disk and time."""
    work = Path(tempfile.mkdtemp(dir=options.folder))
    try:
        source, out = work / "source", work / "out"
        source.mkdir()
        suffix = {"gguf": "py"}.get(options.format, options.format)
        model = source / f"model.{suffix}"
        sizes = write_model(SIZES[name], options.dtype, model)
        row = {"size": name, "dtype": options.dtype, "targets": targets}
        row |= {"format": options.format}
        row |= {"weights": sum(sizes), "largest": max(sizes)}
        row |= build(model, out, targets)
        bundle = next(out.iterdir())
        row["bundle"] = used(bundle)
        if not options.no_load:
            first = next((bundle / "variants").glob(f"{targets.split(',')[0]}*")).stem
            call = json.dumps(STEP if suffix == "py" else PROMPT)
            for mode in ("private", "mapped"):
                given = [sys.executable, "-c", LOAD, str(bundle), first, mode, call]
                figures = min(load(given, sum(sizes)) for _ in range(LOADS))
                names = (f"{mode}_load", f"{mode}_resident", f"{mode}_first")
                row |= zip(names, figures, strict=True)
        return row
    finally:
        shutil.rmtree(work)


def load(given, size):
    """Run a process that loads a model of `size` bytes; return the figures that it
    prints.
    """
    giving = [sys.executable, "-c", GIVE, str(size)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(giving, **pipes) as giver:
        giver.stdout.readline()
        with subprocess.Popen(given, stdout=subprocess.PIPE) as process:
            giver.stdin.write(f"{process.pid}\n")
            giver.stdin.close()
            printed = process.stdout.read()
    if process.returncode:
        raise SystemExit(f"a load failed with {process.returncode}")
    return json.loads(printed)


def write_model(size, dtype, file):
    """Write a model with random weights in one of the formats; return each weight's
    bytes.
    """
    if dtype == "Q4_0":
        return write_gguf(size, dtype, file)
    if file.suffix == ".py":
        shutil.copy(MODEL, file)
        return write_weights(size, dtype, file.with_name("weights.safetensors"))
    if dtype != "f32":
        raise SystemExit(f"expected f32 for {file.suffix}; got {dtype}")
    shapes = dict(size.tensors())
    writer = [sys.executable, str(MODEL.with_name("sized_torch.py"))]
    given = [*writer, str(file), json.dumps(shapes)]
    subprocess.run(given, check=True, stdout=sys.stderr)  # exporters talk
    return [int(np.prod(shape)) * ITEM[dtype] for shape in shapes.values()]


def write_gguf(size, dtype, file):
    """Write a GGUF model with random weights of a type; return each weight's bytes."""
    import decoder_table

    shutil.copy(decoder_table.MODEL, file)
    decoder_table.write_gguf(size, dtype, file.with_name("model.gguf"))
    held, elements = decoder_table.BYTES[dtype]
    shapes = dict(size.tensors()).values()
    return [
        int(np.prod(x)) * held // elements if len(x) > 1 else 4 * x[0] for x in shapes
    ]


def write_weights(size, dtype, path):
    """Write a sparse file of random weights; return the bytes of each."""
    header, sizes, rng = {}, [], np.random.default_rng(0)
    for name, shape in size.tensors():
        start = sum(sizes)
        sizes.append(int(np.prod(shape)) * ITEM[dtype])
        facts = {"dtype": dtype.upper(), "shape": shape}
        header[name] = {**facts, "data_offsets": [start, start + sizes[-1]]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 64 + 56)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for facts in header.values():
            file.seek(8 + len(text) + facts["data_offsets"][0])
            values = 0.1 * rng.standard_normal(256).astype("f4")
            raw = values.view("u2")[1::2] if dtype == "bf16" else values
            file.write(raw.tobytes())
        file.truncate(8 + len(text) + sum(sizes))
    return sizes


def build(source, out, targets):
    """Build a model in a child process; return its peak memory, disk use and time."""
    command = ["aotc", "build", str(source), "-o", str(out)]
    for each in targets.split(","):
        command += ["--target", each]
    command += ["--self-check=off", "--no-sign"]
    temporary = out.with_name("tmp")
    temporary.mkdir()
    settings = {**os.environ, "AOTC_CACHE": "off", "TMPDIR": str(temporary)}
    start, before = time.perf_counter(), os.times()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=settings)
    watch = Watch(process.pid, out.parent)
    code = process.wait()
    watch.stop()
    if code:
        raise SystemExit(f"the build failed with {code}")
    after = os.times()
    return {
        "anonymous": watch.memory,
        "disk": watch.disk,
        "cpu": after.children_user
        + after.children_system
        - before.children_user
        - before.children_system,
        "wall": time.perf_counter() - start,
    }


class Watch:
    """Samples the peak memory of a process tree and a folder's disk use every 50 ms."""

    def __init__(self, pid, folder):
        self.memory = self.disk = 0
        self._pid, self._folder, self._done = pid, folder, threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._at_first = used(folder)
        self._thread.start()

    def _run(self):
        """Update the peaks until `stop` is called (loop of the thread)."""
        while not self._done.wait(0.05):
            self.memory = max(self.memory, anonymous(self._pid))
            self.disk = max(self.disk, used(self._folder) - self._at_first)

    def stop(self):
        """End the sampling thread."""
        self._done.set()
        self._thread.join()


def anonymous(pid):
    """Return the bytes of anonymous memory of a process and its descendants."""
    total = 0
    with suppress(OSError, KeyError):  # it has ended
        rows = Path(f"/proc/{pid}/status").read_text().splitlines()
        facts = dict(row.split(":", 1) for row in rows if ":" in row)
        total = sum(int(facts[k].split()[0]) << 10 for k in ("RssAnon", "RssShmem"))
        below = Path(f"/proc/{pid}/task").glob("*/children")
        for each in [child for file in below for child in file.read_text().split()]:
            total += anonymous(int(each))
    return total


def used(folder):
    """Return the bytes of disk that the files below a folder use."""
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):  # it is gone
                total += os.lstat(os.path.join(root, name)).st_blocks * 512
    return total


def write_page(rows):
    """Put the table into docs/growth.md."""
    head = (
        "| parameters | targets | weights, MB | largest, MB | anonymous, MB | disk | "
        "CPU, s | load, s | resident | mapped: load, s | resident |"
    )
    lines = [head, "|---" * 11 + "|"]
    for row in rows:
        cells = [
            f"{row['size']} {row['dtype']}{FORMATS[row.get('format', 'py')]}",
            str(len(row["targets"].split(","))),
            *(f"{row[k] / 1e6:,.0f}" for k in ("weights", "largest", "anonymous")),
            f"{row['disk'] / row['bundle']:.2f}",
            f"{row['cpu']:.0f}",
        ]
        for mode in ("private", "mapped"):
            seconds, held = (row.get(f"{mode}_{x}") for x in ("load", "resident"))
            cells.append("–" if seconds is None else f"{seconds:.1f}")
            cells.append("–" if held is None else f"{held / row['weights']:.2f}")
        lines.append("| " + " | ".join(cells) + " |")
    text = PAGE.read_text()
    before, _, rest = text.partition(MARKS[0])
    after = rest.partition(MARKS[1])[2]
    PAGE.write_text(
        "\n\n".join([before + MARKS[0], "\n".join(lines), MARKS[1] + after])
    )


if __name__ == "__main__":
    main()
