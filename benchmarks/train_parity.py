"""Loss curves of the example models against the same models in JAX with Optax.

    pip install -e '.[compiler]' jax optax
    python benchmarks/train_parity.py [NAME …] [--precision mixed:bf16] [--write]

Same parameters, batches and optimizer. Two curves part in time, however right both are,
as round-off decides what a ReLU or a router does. So means of 20 losses are compared
with those of JAX in f64, and may be as far from them as

- three times the farthest of JAX's curves in f32: of three, two of them from parameters
  that a relative 3e-7 was added to, and with `--precision` of one more whose parameters
  and inputs are bf16;
- or 0.001, and with `--precision` 0.02,

whichever is more. In f32 the first 20 losses are within 1e-4 of those of JAX in f32
besides. One row per model; exits with 1 if one is beyond its bounds. `--write` puts the
table into docs/training.md, beside what is there of other models.
"""

import argparse
import runpy
import sys
import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp
import models_jax
import numpy as np
import optax

import aotc
from aotc import random
from aotc.core.pytree import flatten
from aotc.pipeline import build

EXAMPLES = Path(__file__).parent.parent / "examples"
LIMIT, WINDOW = 1e-4, 20  # of the first losses; how many, and how many have one mean
FLOORS, TIMES = {None: 1e-3, "mixed:bf16": 2e-2}, 3  # of the bounds
NUDGES, NUDGE = 2, 3e-7
PAGE = Path(__file__).parent.parent / "docs" / "training.md"
BEGIN, END = "<!-- curves -->", "<!-- end of curves -->"
HEADS = ("model", "precision", "first 20", "means of 20", "bound", "loss")
jax.config.update("jax_default_matmul_precision", "highest")

CLIPPED = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(5e-3))


def warmed(rate, up, steps):
    """Return Adam with a warm-up and cosine schedule."""
    return optax.adam(optax.warmup_cosine_decay_schedule(0.0, rate, up, steps))


# what to build of the example, its state, and the optimizer
MODELS = {
    "linear": ("train_step", "state", optax.sgd(0.1)),
    "mlp": ("train_mlp", "mlp", optax.adam(5e-3)),
    "lstm": ("train_step", "state", CLIPPED),
    "gru": ("train_step", "state", CLIPPED),
    "bilstm": ("train_step", "state", CLIPPED),
    "cnn": ("train_step", "state", optax.sgd(0.05, 0.9)),
    "resnet": ("train_step", "state", optax.sgd(0.05, 0.9, nesterov=True)),
    "unet": ("train_step", "state", warmed(6e-3, 60, 600)),
    "gpt": ("train_step", "state", optax.adamw(2e-3, weight_decay=1e-4)),
    "bert": ("train_step", "state", optax.adamw(5e-3, weight_decay=1e-4)),
    "moe": ("train_step", "state", optax.adamw(2e-3, weight_decay=1e-4)),
    "vit": ("train_step", "state", optax.adamw(2e-3, weight_decay=1e-4)),
    "dit": ("train_step", "state", warmed(5e-3, 100, 800)),
    "ode": ("train_step", "state", optax.adam(0.1)),
}

# what a model draws with the key of a step; JAX would draw other numbers
DRAWS = {
    "cnn": lambda key: {"keep": random.bernoulli(key, 0.5, (64, 128))},
    "dit": lambda key: {
        "times": random.uniform(random.split(key)[0], (64,)),
        "noise": random.normal(random.split(key)[1], (64, 8, 8, 1)),
    },
}


def main():
    """Compare training curves with JAX's, print the rows and write them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", default=[*MODELS])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--precision", choices=[each for each in FLOORS if each])
    parser.add_argument("--write", action="store_true", help="into docs/training.md")
    options = parser.parse_args()
    worst = True
    for name in options.models:
        found = row(name, options.steps, options.precision)
        worst &= found.pop("within")
        print("| " + " | ".join(found.values()) + " |", flush=True)
        if options.write:
            write(found)
    return int(not worst)


def row(name, steps, precision):
    """Return the distance of a model's loss curve from JAX's, and its bound."""
    ours, exact, plain, others = curves(name, steps, precision)
    first = np.abs(ours / plain - 1)[:WINDOW].max()
    apart = distance(ours, exact)
    own = max(distance(other, exact) for other in (plain, *others))
    bound = max(FLOORS[precision], TIMES * own)
    is_near = precision is not None or first <= LIMIT
    return {
        "model": name,
        "precision": precision or "as written",
        "first": f"{first:.1e}",
        "apart": f"{apart:.1e}",
        "bound": f"{bound:.1e}",
        "loss": f"{ours[0]:.3g} → {ours[-WINDOW:].mean():.3g}",
        "within": bool(apart <= bound and is_near),
    }


def distance(one, other):
    """Return the largest relative difference of the windowed means of two curves."""

    def means(curve):
        parts = np.array_split(curve, max(1, len(curve) // WINDOW))
        return np.array([part.mean() for part in parts])

    return np.abs(means(one) / means(other) - 1).max()


def curves(name, steps, precision):
    """Train by aotc and by JAX in several dtypes; return the loss curves.

    JAX computes in f64 throughout where the parameters are so.
    """
    entry, state, optimizer = MODELS[name]
    batch = runpy.run_path(str(EXAMPLES / name / "train.py"))["batch"]
    with tempfile.TemporaryDirectory() as folder:
        source, asked = EXAMPLES / name / "model.py", {"precision": precision}
        report = build(source, entries=(entry,), output=Path(folder), **asked)
        bundle = aotc.load(report.bundle)
    start = bundle.read_state(state)
    leaves, tree = flatten(start["params"])
    params = tree.unflatten([np.asarray(leaf) for leaf in leaves])
    batches = [batch(seed) for seed in range(steps)]
    if name in DRAWS:
        drawn = [*with_draws(batches, DRAWS[name], start["key"])]
    else:
        drawn = batches
    loss = models_jax.LOSSES[name]

    def train(params, batches=drawn, loss=loss):
        step = models_jax.stepper(loss, optimizer, params)
        return np.array([float(step(**batch)) for batch in batches])

    ours = np.array([float(bundle.entry(entry)(**batch)) for batch in batches])
    with jax.enable_x64(True):
        exact = train(in_f64(params), [in_f64(batch) for batch in drawn])
    with jax.enable_x64(any(leaf.dtype == "f8" for leaf in leaves)):
        others = [train(nudged(params, seed)) for seed in range(NUDGES)]
        if precision is not None:
            others.append(train(params, loss=in_bf16(loss)))
        return ours, exact, train(params), others


def in_f64(tree):
    """Return a pytree with floats in f64."""
    return jax.tree.map(
        lambda x: x.astype("f8") if np.issubdtype(x.dtype, np.floating) else x, tree
    )


def nudged(params, seed):
    """Return parameters with a little random noise."""
    rng = np.random.default_rng(seed)

    def nudge(x):
        return (x * (1 + NUDGE * rng.standard_normal(x.shape))).astype(x.dtype)

    return jax.tree.map(nudge, params)


def in_bf16(loss):
    """Return a loss function with parameters, inputs and results rounded to bf16."""

    def cast(x):
        return x.astype(jnp.bfloat16) if jnp.issubdtype(x.dtype, jnp.floating) else x

    def rounded(params, **batch):
        return loss(*jax.tree.map(cast, (params,)), **jax.tree.map(cast, batch)).astype(
            jnp.float32
        )

    return rounded


def write(found):
    """Write a row into the table, replacing that of the same model and precision."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    table, _, after = rest.partition(END)
    rows = {}
    for line in table.strip().splitlines()[2:]:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        rows[tuple(cells[:2])] = cells
    cells = list(found.values())
    rows[tuple(cells[:2])] = cells
    lines = [HEADS, ["---"] * 2 + ["--:"] * 3 + ["---"], *rows.values()]
    table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    PAGE.write_text(f"{before}{BEGIN}\n\n{table}\n\n{END}{after}", encoding="utf-8")


def with_draws(batches, draws, key):
    """Yield the batches, each with what the model draws in that step."""
    for batch in batches:
        key, draw = random.split(key)
        yield batch | {name: np.asarray(drawn) for name, drawn in draws(draw).items()}


if __name__ == "__main__":
    sys.exit(main())
