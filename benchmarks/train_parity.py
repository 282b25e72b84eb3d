"""Loss curves of the example models against the same models in JAX with Optax.

    pip install -e '.[compiler]' jax optax && python benchmarks/train_parity.py

Same parameters, batches and optimizer, in the example's precision. One row per model:
the largest relative difference of the losses over the first 20 steps, and over
`--steps`.
"""

import argparse
import runpy
import sys
import tempfile
from pathlib import Path

import jax
import models_jax
import numpy as np
import optax

import aotc
from aotc import random
from aotc.pipeline import build
from aotc.pytree import flatten

EXAMPLES = Path(__file__).parent.parent / "examples"
LIMIT, COMPARED = 1e-4, 20
jax.config.update("jax_default_matmul_precision", "highest")

CLIPPED = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(5e-3))


def warmed(rate, up, steps):
    """Adam by a schedule."""
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
    """Run the models asked for and print one row each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", default=[*MODELS])
    parser.add_argument("--steps", type=int, default=40)
    options = parser.parse_args()
    worst = 0.0
    for name in options.models:
        ours, theirs = curves(name, options.steps)
        apart = np.abs(ours / theirs - 1)
        worst = max(worst, apart[:COMPARED].max())
        print(
            f"{name:8} first {COMPARED} steps {apart[:COMPARED].max():.1e}  all "
            f"{options.steps} {apart.max():.1e}  loss {ours[0]:.4g} → {ours[-1]:.4g}"
        )
    return int(worst > LIMIT)


def curves(name, steps):
    """The losses of both; JAX computes in f64 where the parameters are so."""
    entry, state, optimizer = MODELS[name]
    batch = runpy.run_path(str(EXAMPLES / name / "train.py"))["batch"]
    with tempfile.TemporaryDirectory() as folder:
        source = EXAMPLES / name / "model.py"
        report = build(source, entries=(entry,), output=Path(folder))
        bundle = aotc.load(report.bundle)
    start = bundle.read_state(state)
    leaves, tree = flatten(start["params"])
    params = tree.unflatten([np.asarray(leaf) for leaf in leaves])
    batches = [batch(seed) for seed in range(steps)]
    drawn = with_draws(batches, DRAWS[name], start["key"]) if name in DRAWS else batches
    with jax.enable_x64(any(leaf.dtype == "f8" for leaf in leaves)):
        theirs = models_jax.stepper(models_jax.LOSSES[name], optimizer, params)
        return tuple(
            np.array([float(step(**batch)) for batch in batches])
            for step, batches in ((bundle.entry(entry), batches), (theirs, drawn))
        )


def with_draws(batches, draws, key):
    """The batches, and with each what the model draws by itself in that step."""
    for batch in batches:
        key, draw = random.split(key)
        yield batch | {name: np.asarray(drawn) for name, drawn in draws(draw).items()}


if __name__ == "__main__":
    sys.exit(main())
