"""Training of two layers, which the tests beside it build."""

import numpy as onp

import aotc
import aotc.numpy as np
from aotc import nn, optim

_rng = onp.random.default_rng(0)
_optimizer = optim.sgd(0.1)
state = aotc.State(
    {
        "first": _rng.normal(size=(24, 48)).astype("f4") / 5,
        "second": _rng.normal(size=(48, 40)).astype("f4") / 7,
        "bias": onp.zeros(48, "f4"),
        "last_bias": onp.zeros(40, "f4"),
    }
)


def _loss(params, x, y):
    h = nn.gelu(x @ params["first"] + params["bias"])
    return np.mean((h @ params["second"] + params["last_bias"] - y) ** 2)


def _step(params, x, y):
    value, grads = aotc.value_and_grad(_loss)(params, x, y)
    updates, _ = _optimizer.update(grads, _optimizer.init(params), params)
    return optim.apply_updates(params, updates), value


@aotc.entry(x=aotc.Spec((32, 24), "f32"), y=aotc.Spec((32, 40), "f32"))
def step(state, x, y):
    """Train a step of as many examples as the build knows."""
    return _step(state, x, y)


_batch = aotc.Dim("batch", min=1, max=512)


@aotc.entry(x=aotc.Spec((_batch, 24), "f32"), y=aotc.Spec((_batch, 40), "f32"))
def any_step(state, x, y):
    """Train a step of as many examples as a call says."""
    return _step(state, x, y)
