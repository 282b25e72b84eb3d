"""Step times of the example models, larger, against jax.jit and PyTorch.

    pip install -e '.[compiler]' jax optax torch
    python benchmarks/step_time.py

Same parameters, batch, optimizer and threads, f32; with `--precision mixed:bf16` also
aotc's step that is built so, and PyTorch's under `torch.autocast`. Every round runs
each framework once, in turn, after a rest. One row per framework: median and minimum of
the step time, the ratio of each to that of aotc in f32 (above 1: aotc is faster), the
time to build and take the first step, and its loss. `--json` prints the figures for
machines.
"""

import argparse
import json
import os
import re
import runpy
import statistics
import tempfile
import time
from functools import partial
from pathlib import Path

import models_jax
import models_torch
import numpy as np
import optax
import torch
from settling import settled, with_settled
from train_step import SETTLE

import aotc
from aotc.pipeline import build
from aotc.target import Target

EXAMPLES = Path(__file__).parent.parent / "examples"
RATE = 1e-3


# PyTorch 2.13 compiles its LSTM to a call that then fails
LEFT_OUT = {"lstm": ["torch.compile"]}


def adam():
    """In Optax and in PyTorch."""
    return optax.adam(RATE), lambda p: torch.optim.Adam(p, lr=RATE)


# constants of the model that differ from the example's, its training entry and state
MODELS = {
    "mlp": (
        {"INPUTS": 784, "HIDDEN": (512, 512), "BATCH": 128}, "train_mlp", "mlp",
    ),
    "resnet": (
        {"SIZE": 32, "CHANNELS": 3, "BLOCKS": 3, "BATCH": 32}, "train_step", "state",
    ),
    "lstm": ({"LAYERS": 2, "WIDTH": 128, "LENGTH": 64}, "train_step", "state"),
    "gpt": (
        {"LAYERS": 4, "WIDTH": 256, "HEADS": 8, "LENGTH": 128, "BATCH": 8},
        "train_step", "state",
    ),
}  # fmt: skip


def batch(name):
    """Random numbers of the shapes that a model takes."""
    rng = np.random.default_rng(0)

    def classes(count, *shape):
        return rng.integers(0, count, shape, "i4")

    if name == "mlp":
        return {"x": rng.random((128, 784), "f4"), "labels": classes(10, 128)}
    if name == "resnet":
        images = rng.random((32, 32, 32, 3), "f4")
        return {"images": images, "labels": classes(10, 32)}
    if name == "lstm":
        sequences = rng.random((32, 64, 2), "f4")
        return {"sequences": sequences, "sums": rng.random(32, "f4")}
    return {"tokens": classes(128, 8, 128), "targets": classes(128, 8, 128)}


def resized(name, folder):
    """The example's model.py with other constants and Adam, in a folder."""
    constants, _, state = MODELS[name]
    text = (EXAMPLES / name / "model.py").read_text()
    for constant, value in constants.items():
        text = re.sub(rf"(?m)^{constant} = .*$", f"{constant} = {value}", text)
    text = re.sub(r"(?m)^optimizer = .*$", f"optimizer = optim.adam({RATE})", text)
    (folder / "model.py").write_text(with_settled(text, state))
    return folder / "model.py"


def steppers(name, folder, threads, precisions, target):
    """Functions that prepare a step of each framework, by name."""
    _, entry, state = MODELS[name]
    source = resized(name, folder)
    params = runpy.run_path(str(source))[state].tree["params"]
    theirs, torchs = adam()

    def ours(precision=None):
        out = folder / (precision or "f32")
        targets = [Target.parse(target)] if target else []
        asked = {"entries": (entry, "settled"), "targets": targets, "output": out}
        report = build(source, precision=precision, **asked)
        model = aotc.load(report.bundle, threads=threads)
        return settled(model, entry, threads)

    loss = models_torch.LOSSES[name]

    def eager(dtype, compiled=False):
        return models_torch.stepper(loss, torchs, params, compiled, dtype)

    mixed = {}
    for each in precisions:
        dtype = {"mixed:bf16": torch.bfloat16, "mixed:f16": torch.float16}[each]
        mixed |= {
            f"aotc {each}": partial(ours, each),
            f"torch {each}": partial(eager, dtype),
            f"compile {each}": partial(eager, dtype, True),
        }
    return {
        "aotc": ours,
        "jax.jit": lambda: models_jax.stepper(models_jax.LOSSES[name], theirs, params),
        "torch eager": lambda: models_torch.stepper(loss, torchs, params),
        "torch.compile": lambda: models_torch.stepper(loss, torchs, params, True),
        **mixed,
    }


def measure(name, options):
    """One row per framework."""
    inputs, steps, rows = batch(name), {}, {}
    with tempfile.TemporaryDirectory() as folder:
        made = steppers(
            name, Path(folder), options.threads, options.precision, options.target
        )
        for framework, prepare in made.items():
            if framework in (*options.without, *LEFT_OUT.get(name, ())):
                continue
            start = time.perf_counter()
            step = prepare()
            first = step(**inputs)
            rows[framework] = {
                "first_s": time.perf_counter() - start, "first_loss": first
            }  # fmt: skip
            steps[framework] = step
        times = alternate(steps, inputs, options.rounds)
    ours = times["aotc"]
    for framework, t in times.items():
        rows[framework] |= {
            "median_ms": statistics.median(t) * 1e3,
            "min_ms": min(t) * 1e3,
            "median_ratio": statistics.median(t) / statistics.median(ours),
            "min_ratio": min(t) / min(ours),
        }
    return rows


def alternate(steps, inputs, rounds, warmup=3):
    """Step times in seconds by framework."""
    times = {name: [] for name in steps}
    for number in range(rounds + warmup):
        for name, step in steps.items():
            time.sleep(SETTLE)
            start = time.perf_counter()
            step(**inputs)
            if number >= warmup:
                times[name].append(time.perf_counter() - start)
    return times


def main():
    """Run the models asked for and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", default=[*MODELS])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--without", nargs="*", default=[], help="frameworks")
    parser.add_argument("--precision", nargs="*", default=[], help="mixed:bf16 …")
    parser.add_argument(
        "--target", help="that aotc builds for, instead of this machine"
    )
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.threads == 1:
        os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
    found = {}
    for name in options.models:
        rows = measure(name, options)
        found[name] = rows
        for framework, row in () if options.json else rows.items():
            print(
                f"{name:7}{framework:19} median {row['median_ms']:8.2f} ms  min "
                f"{row['min_ms']:8.2f} ms  ratio {row['median_ratio']:.2f} / "
                f"{row['min_ratio']:.2f}  first step after {row['first_s']:5.1f} s  "
                f"loss {row['first_loss']:.5f}",
                flush=True,
            )
    if options.json:
        print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
