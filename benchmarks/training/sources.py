"""Model files in aotc: those of the examples with other sizes, and two more.

All learn by Adam, so that a step is the same for every system.
"""

from __future__ import annotations

import re
from pathlib import Path

from settling import with_settled

EXAMPLES = Path(__file__).parents[2] / "examples"
RATE = 1e-3

# The step of examples/dit draws times and noise; here they are inputs.
DIT = """

@aotc.entry(
    images=aotc.Spec((BATCH, *image)),
    labels=aotc.Spec((BATCH,), "i32"),
    times=aotc.Spec((BATCH,)),
    noise=aotc.Spec((BATCH, *image)),
)
def train_given(state, images, labels, times, noise):
    def loss(params):
        angles = np.reshape(times, (-1, 1, 1, 1)) * (np.pi / 2)
        noisy = np.cos(angles) * images + np.sin(angles) * noise
        return nn.mse_loss(network(params, noisy, times, labels), noise).mean()

    params = state["params"]
    value, grads = aotc.value_and_grad(loss)(params)
    updates, moments = optimizer.update(grads, state["moments"], params)
    params = optim.apply_updates(params, updates)
    return {"params": params, "moments": moments, "key": state["key"]}, value
"""

# What follows the network of examples/gpt in place of its training.
LORA = """
weights = aotc.Weights(init())
text = aotc.Spec((BATCH, LENGTH), "i32")
tuned = nn.lora(network, rank=8, alpha=16, layers="*attention*")
start = tuned.init(weights.tree, text)
optimizer = optim.adam(1e-3)
state = aotc.State({"params": start, "moments": optimizer.init(start)})


@aotc.entry(tokens=text, targets=text)
def train_step(state, weights, tokens, targets):
    def loss(adapters):
        return nn.cross_entropy(tuned(adapters, weights, tokens), targets).mean()

    params = state["params"]
    value, grads = aotc.value_and_grad(loss)(params)
    updates, moments = optimizer.update(grads, state["moments"], params)
    params = optim.apply_updates(params, updates)
    return {"params": params, "moments": moments}, value
"""

SCAN_ODE = """
import aotc
import aotc.numpy as np
from aotc import control, nn, optim, random

aotc.bundle(name="scan_ode", version="1.0.0")

STEPS, STEP, WIDTH, BATCH = 100, 0.05, 64, 64


def change(params, y):
    return nn.dense(np.tanh(nn.dense(y, **params["hidden"])), **params["out"])


def loss(params, starts, observed):
    def advance(y, _):
        k1 = change(params, y)
        k2 = change(params, y + STEP / 2 * k1)
        k3 = change(params, y + STEP / 2 * k2)
        k4 = change(params, y + STEP * k3)
        y = y + STEP / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return y, y

    found = control.scan(advance, starts, None, length=STEPS)[1]
    return nn.mse_loss(found, observed).mean()


keys = random.split(random.key(0), 2)
glorot = nn.initializers.glorot_uniform()
start = {
    "hidden": {"kernel": glorot(keys[0], (1, WIDTH)), "bias": np.zeros(WIDTH)},
    "out": {"kernel": glorot(keys[1], (WIDTH, 1)), "bias": np.zeros(1)},
}
optimizer = optim.adam(1e-3)
state = aotc.State({"params": start, "moments": optimizer.init(start)})


@aotc.entry(
    starts=aotc.Spec((BATCH, 1)), observed=aotc.Spec((STEPS, BATCH, 1))
)
def train_step(state, starts, observed):
    params = state["params"]
    value, grads = aotc.value_and_grad(loss)(params, starts, observed)
    updates, moments = optimizer.update(grads, state["moments"], params)
    params = optim.apply_updates(params, updates)
    return {"params": params, "moments": moments}, value
"""


def resized_example(name: str, constants: dict[str, object], state: str) -> str:
    """Return an example's source with other constants and Adam."""
    text = (EXAMPLES / name / "model.py").read_text(encoding="utf-8")
    for constant, value in constants.items():
        text = replace_line(text, constant, f"{constant} = {value!r}")
    text = replace_line(text, "optimizer", f"optimizer = optim.adam({RATE})")
    return with_settled(text, state)


def lora_source(constants: dict[str, object]) -> str:
    """Return the source of a low-rank fine-tuning of examples/gpt."""
    network, _, _ = resized_example("gpt", constants, "state").partition("\nstart = ")
    return with_settled(network + LORA, "state")


def replace_line(text: str, name: str, line: str) -> str:
    """Return source with another assignment to a module-level name.

    Raises:
        ValueError: there is none.
    """
    text, count = re.subn(rf"(?m)^{name} = .*$", line, text)
    if not count:
        raise ValueError(f"no assignment to {name}")
    return text
