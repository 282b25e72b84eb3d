"""Loops: scans of 1,000 steps, some with gradients, against jax.jit.

    pip install -e '.[compiler]' jax
    python benchmarks/scan_time.py

The scan carries h [32, 128] and collects it: `h = tanh(h @ w + x[t])`. Backward is the
gradient of the mean square of all h by w, with the forward part. The filters are 64 of
first order, `y = a * y + (1 - a) * x[t]`, all y collected; the equation is Lorenz's, by
the classical method of Runge and Kutta. Training steps of recurrent networks are in
step_time.py. f32; every round runs both once, in turn, after a rest. Ratios are the
time of aotc over that of jax.jit, of medians and of minima (below 1: aotc is faster).
"""

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from train_step import SETTLE

import aotc
from aotc.pipeline import build

LENGTH, BATCH, WIDTH = 1000, 32, 128

MODEL = f"""
import aotc
import aotc.numpy as np
from aotc import control


def collected(w, x):
    def step(h, x):
        h = np.tanh(h @ w + x)
        return h, h

    return control.scan(step, np.zeros(({BATCH}, {WIDTH})), x)[1]


@aotc.entry(a=aotc.Spec((64,)), x=aotc.Spec(({LENGTH}, 64)))
def filters(a, x):
    def step(y, x):
        y = a * y + (1 - a) * x
        return y, y

    return control.scan(step, np.zeros(64), x)[1]


@aotc.entry(y=aotc.Spec((3,)))
def equation(y):
    def slope(y):
        a, b, c = (y[n] for n in range(3))
        return np.stack([10 * (b - a), a * (28 - c) - b, a * b - 8 / 3 * c])

    def step(y, _):
        k1 = slope(y)
        k2 = slope(y + 0.0005 * k1)
        k3 = slope(y + 0.0005 * k2)
        k4 = slope(y + 0.001 * k3)
        return y + 0.001 / 6 * (k1 + 2 * k2 + 2 * k3 + k4), y

    return control.scan(step, y, None, length={LENGTH})[1]


any_w = aotc.Spec(({WIDTH}, {WIDTH}))
any_x = aotc.Spec(({LENGTH}, {BATCH}, {WIDTH}))


@aotc.entry(w=any_w, x=any_x)
def forward(w, x):
    return collected(w, x)


@aotc.entry(w=any_w, x=any_x)
def backward(w, x):
    return aotc.grad(lambda w: np.square(collected(w, x)).mean())(w)
"""


def collected(w, x):
    """Compute the scan in JAX."""

    def step(h, x):
        h = jnp.tanh(h @ w + x)
        return h, h

    return jax.lax.scan(step, jnp.zeros((BATCH, WIDTH)), x)[1]


def filters(a, x):
    """Compute first-order filters in JAX."""

    def step(y, x):
        y = a * y + (1 - a) * x
        return y, y

    return jax.lax.scan(step, jnp.zeros(64), x)[1]


def equation(y):
    """Integrate Lorenz's equation in JAX."""

    def slope(y):
        rows = [
            10 * (y[1] - y[0]),
            y[0] * (28 - y[2]) - y[1],
            y[0] * y[1] - 8 / 3 * y[2],
        ]
        return jnp.stack(rows)

    def step(y, _):
        k1 = slope(y)
        k2 = slope(y + 0.0005 * k1)
        k3 = slope(y + 0.0005 * k2)
        k4 = slope(y + 0.001 * k3)
        return y + 0.001 / 6 * (k1 + 2 * k2 + 2 * k3 + k4), y

    return jax.lax.scan(step, y, None, length=LENGTH)[1]


THEIRS = {
    "filters": jax.jit(filters),
    "equation": jax.jit(equation),
    "forward": jax.jit(collected),
    "backward": jax.jit(jax.grad(lambda w, x: jnp.square(collected(w, x)).mean())),
}


def measure_scan(rounds, threads):
    """Build, compare and time scans; return seconds by direction and framework."""
    rng = np.random.default_rng(0)
    w = (rng.normal(size=(WIDTH, WIDTH)) * 0.05).astype("f4")
    x = rng.normal(size=(LENGTH, BATCH, WIDTH)).astype("f4")
    inputs = {
        "filters": {"a": rng.random(64, "f4"), "x": rng.random((LENGTH, 64), "f4")},
        "equation": {"y": rng.random(3, "f4")},
        "forward": {"w": w, "x": x},
        "backward": {"w": w, "x": x},
    }
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "model.py"
        source.write_text(MODEL)
        report = build(source, output=Path(folder))
        model = aotc.load(report.bundle, threads=threads)
        for name, theirs in THEIRS.items():
            steps = {
                "aotc": model.entry(name),
                "jax.jit": lambda theirs=theirs, **given: theirs(
                    *given.values()
                ).block_until_ready(),
            }
            ours, peer = (np.asarray(step(**inputs[name])) for step in steps.values())
            np.testing.assert_allclose(
                ours, peer, rtol=1e-3, atol=1e-3 * abs(peer).max()
            )
            found[name] = alternate(steps, inputs[name], rounds)
    return found


def alternate(steps, inputs, rounds, warmup=3):
    """Time steps of all frameworks in turns; return the seconds of each."""
    times = {name: [] for name in steps}
    for number in range(rounds + warmup):
        for name, step in steps.items():
            time.sleep(SETTLE)
            start = time.perf_counter()
            step(**inputs)
            if number >= warmup:
                times[name].append(time.perf_counter() - start)
    return times


def figures(times):
    """Return median and minimum by framework in ms."""
    return {
        name: (statistics.median(t) * 1e3, min(t) * 1e3) for name, t in times.items()
    }


def main():
    """Measure scans and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=30)
    options = parser.parse_args()
    if options.threads == 1:
        os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
    scans = measure_scan(options.rounds, options.threads)
    rows = {f"scan {name}": figures(times) for name, times in scans.items()}
    for name, row in rows.items():
        ours, theirs = row["aotc"], row["jax.jit"]
        print(
            f"{name:14} aotc {ours[0]:7.3f} / {ours[1]:7.3f} ms  "
            f"jax.jit {theirs[0]:7.3f} / {theirs[1]:7.3f} ms  "
            f"ratio {ours[0] / theirs[0]:.2f} / {ours[1] / theirs[1]:.2f}"
        )


if __name__ == "__main__":
    main()
