"""The digits training step against PyTorch eager and jax.jit, in turn in one process.

    pip install -e '.[compiler]' torch==2.13.0 jax && python benchmarks/train_step.py

Same model, batch 64, same initial parameters, Adam, f32, all with `--threads` threads
(default 2). One row per framework: median and minimum of the step time over rounds, and
the ratio of each to aotc's (above 1: aotc is faster). The first losses are compared, so
that all rows do the same work. `--json` prints the figures for machines.
"""

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from settling import settled, with_settled

DIGITS = Path(__file__).parent.parent / "examples" / "digits"
RATE = 1e-3
# Idle threads of one framework spin for a while and would slow down the next one.
SETTLE = 0.01


def aotc_step(threads):
    """Return the compiled training step of the digits bundle."""
    import aotc
    from aotc.pipeline import build

    folder = Path(tempfile.mkdtemp())
    source = Path(shutil.copytree(DIGITS, folder, dirs_exist_ok=True)) / "model.py"
    source.write_text(with_settled(source.read_text(), "state"))
    report = build(source, entries=("train_step", "settled"), output=folder)
    model = aotc.load(report.bundle, threads=threads)
    step = settled(model, "train_step", threads)
    return lambda x, y: step(images=x, labels=y)


def torch_step(threads, params):
    """Return the training step in PyTorch, eager and channels-first."""
    import torch
    import torch.nn.functional as F

    torch.set_num_threads(threads)

    def leaf(array, *order):
        moved = np.transpose(array, order) if order else array
        return torch.tensor(np.ascontiguousarray(moved), requires_grad=True)

    c1, c2, d1, d2 = (params[k] for k in ("conv1", "conv2", "dense1", "dense2"))
    # rows of the dense kernel follow the flattened image: height, width, channel
    dense1 = c_first(d1["kernel"])
    p = [
        leaf(c1["kernel"], 3, 2, 0, 1), leaf(c1["bias"]),
        leaf(c2["kernel"], 3, 2, 0, 1), leaf(c2["bias"]),
        leaf(dense1), leaf(d1["bias"]), leaf(d2["kernel"]), leaf(d2["bias"]),
    ]  # fmt: skip
    optimizer = torch.optim.Adam(p, lr=RATE)

    def step(x, y):
        images = torch.from_numpy(x).permute(0, 3, 1, 2) / 16
        h = F.relu(F.conv2d(images, p[0], p[1], padding=1))
        h = F.max_pool2d(F.relu(F.conv2d(h, p[2], p[3], padding=1)), 2)
        h = F.relu(h.flatten(1) @ p[4] + p[5])
        loss = F.cross_entropy(h @ p[6] + p[7], torch.from_numpy(y).long())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return float(loss)

    return step


def c_first(kernel):
    """Reorder a dense kernel's rows from (height, width, channel) to channel-first
    order.
    """
    return kernel.reshape(4, 4, 32, 64).transpose(2, 0, 1, 3).reshape(512, 64)


def jax_step(params):
    """Return the training step under jax.jit, with donated state."""
    import jax
    import jax.numpy as jnp
    from jax import lax

    dims = ("NHWC", "HWIO", "NHWC")

    def network(p, images):
        h = images / 16
        for name in ("conv1", "conv2"):
            h = lax.conv_general_dilated(
                h, p[name]["kernel"], (1, 1), "SAME", dimension_numbers=dims
            )
            h = jax.nn.relu(h + p[name]["bias"])
        h = lax.reduce_window(h, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        h = h.reshape(h.shape[0], -1)
        h = jax.nn.relu(h @ p["dense1"]["kernel"] + p["dense1"]["bias"])
        return h @ p["dense2"]["kernel"] + p["dense2"]["bias"]

    def loss(p, x, y):
        logits = jax.nn.log_softmax(network(p, x))
        return -jnp.take_along_axis(logits, y[:, None], 1).mean()

    def update(p, m, v, t, x, y):
        value, g = jax.value_and_grad(loss)(p, x, y)
        t = t + 1
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
        v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, g)
        a, b = 1 / (1 - 0.9**t), 1 / (1 - 0.999**t)
        p = jax.tree.map(
            lambda p, m, v: p - RATE * (m * a) / (jnp.sqrt(v * b) + 1e-8), p, m, v
        )
        return p, m, v, t, value

    compiled = jax.jit(update, donate_argnums=(0, 1, 2, 3))
    p = jax.tree.map(jnp.asarray, params)
    zeros = jax.tree.map(jnp.zeros_like, p)
    state = [p, zeros, jax.tree.map(jnp.zeros_like, p), jnp.zeros((), "float32")]

    def step(x, y):
        *state[:], value = compiled(*state, x, y)
        return float(value)

    return step


def measure(steps, batches, rounds, warmup=20):
    """Time steps of all frameworks in turns; return the seconds by name."""
    first = {name: step(*batches[0]) for name, step in steps.items()}
    times = {name: [] for name in steps}
    for number in range(rounds + warmup):
        x, y = batches[number % len(batches)]
        for name, step in steps.items():
            time.sleep(SETTLE)
            start = time.perf_counter()
            step(x, y)
            if number >= warmup:
                times[name].append(time.perf_counter() - start)
    return first, times


def main():
    """Time all frameworks and print a row for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.threads == 1:
        os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
    sys.path.insert(0, str(DIGITS))
    import model

    data = np.load(DIGITS / "digits.npz")
    x, y = data["train_x"].astype("f4"), data["train_y"].astype("i4")
    batches = [(x[i : i + 64], y[i : i + 64]) for i in range(0, 1344, 64)]
    steps = {
        "aotc": aotc_step(options.threads),
        "torch eager": torch_step(options.threads, model.init()),
        "jax.jit": jax_step(model.init()),
    }
    first, times = measure(steps, batches, options.rounds)
    rows = {
        name: {
            "first_loss": first[name],
            "median_ms": statistics.median(t) * 1e3,
            "min_ms": min(t) * 1e3,
            "median_ratio": statistics.median(t) / statistics.median(times["aotc"]),
            "min_ratio": min(t) / min(times["aotc"]),
        }
        for name, t in times.items()
    }
    if options.json:
        print(json.dumps(rows, indent=2))
        return
    for name, row in rows.items():
        print(
            f"{name:<12} median {row['median_ms']:.3f} ms  min {row['min_ms']:.3f} ms  "
            f"ratio {row['median_ratio']:.2f} / {row['min_ratio']:.2f}  "
            f"first loss {row['first_loss']:.5f}"
        )


if __name__ == "__main__":
    main()
