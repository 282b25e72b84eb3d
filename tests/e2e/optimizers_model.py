"""A step of every optimizer, as an entry each."""

import aotc
from aotc import numpy as np
from aotc import optim, random

START = {"w": np.reshape(np.linspace(-1.0, 1.0, 30), (6, 5)), "b": np.ones(5)}
HALF = {name: x.astype("f16") for name, x in START.items()}
ROUNDED = {name: x.astype("bf16") for name, x in START.items()}
RATE = optim.warmup_cosine_decay_schedule(0.0, 0.1, 2, 5)
JOINED = optim.join_schedules(
    [
        optim.piecewise_constant_schedule(0.1, {1: 0.5}),
        optim.exponential_decay(0.1, 2, 0.5, staircase=True, end_value=0.03),
    ],
    [2],
)

OPTIMIZERS = {
    "sgd": optim.sgd(JOINED, momentum=0.9, nesterov=True),
    "adagrad": optim.adagrad(0.1),
    "rmsprop": optim.rmsprop(0.1, centered=True, momentum=0.9),
    "adamw": optim.adamw(RATE, weight_decay=0.1, mask={"w": True, "b": False}),
    "nadam": optim.nadam(0.1),
    "adamax": optim.adamax(0.1),
    "adadelta": optim.adadelta(1.0),
    "lion": optim.lion(0.1, mu_dtype="bf16"),
    "lamb": optim.lamb(RATE, weight_decay=0.01),
    "adafactor": optim.adafactor(RATE, min_dim_size_to_factor=4, momentum=0.9),
    "clipped": optim.chain(optim.clip(1.5), optim.clip_by_global_norm(1.0)),
    "averaged": optim.ema(0.9),
    "finite": optim.apply_if_finite(optim.adam(0.1), 5),
    "accumulated": optim.MultiSteps(optim.adam(0.1), 2),
    "half": optim.adam(0.1, eps=1e-4),
    "rounded": optim.sgd(0.125),  # a power of two: sums are rounded once, by chance
}
PARAMS = {name: START for name in OPTIMIZERS} | {"half": HALF, "rounded": ROUNDED}


def stepped(optimizer, state, grads):
    """The state after a step."""
    updates, moments = optimizer.update(grads, state["moments"], state["params"])
    chance = random.key(1) if state["params"]["w"].dtype == "bf16" else None
    return {
        "params": optim.apply_updates(state["params"], updates, chance),
        "moments": moments,
    }


def declare(name, optimizer):
    """An entry that takes a step, and its state."""
    params = PARAMS[name]
    state = aotc.State({"params": params, "moments": optimizer.init(params)})

    def step(state, grads):
        state = stepped(optimizer, state, grads)
        return state, state["params"]

    step.__name__ = name
    grads = {key: aotc.Spec(x.shape, x.dtype) for key, x in params.items()}
    return state, aotc.entry(state=state, grads=grads)(step)


for name, optimizer in OPTIMIZERS.items():
    globals()[f"{name}_state"], globals()[name] = declare(name, optimizer)
