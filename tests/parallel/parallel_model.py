"""Entries of four devices: collectives, their adjoints, a step, and a split network."""

import numpy

import aotc
import aotc.numpy as np
from aotc import collectives, nn, optim

aotc.bundle(name="parallel", version="1.0.0")
D = collectives.Axis("data", 4)
rng = numpy.random.default_rng(0)


def _drawn(*shape):
    return (rng.standard_normal(shape) * 0.3).astype("f4")


weights = aotc.Weights(
    {
        **{"up": _drawn(8, 32), "down": _drawn(32, 8)},
        **{name: _drawn(8, 8) for name in "qkvo"},
    }
)
params = {"a": _drawn(3, 4), "b": _drawn(4, 2), "c": _drawn(2)}
optimizer = optim.adam(1e-2)
state = aotc.State({"params": params, "moments": optimizer.init(params)})


@aotc.entry(x=aotc.Spec(("n", 3), "f32"), y=aotc.Spec(("n", 2), "f32"))
def step(state, x, y):
    def loss(p):
        return np.mean((np.tanh(x @ p["a"]) @ p["b"] + p["c"] - y) ** 2.0)

    value, grads = aotc.value_and_grad(loss)(state["params"])
    grads = collectives.all_reduce(grads, D, "mean")
    updates, moments = optimizer.update(grads, state["moments"], state["params"])
    new = optim.apply_updates(state["params"], updates)
    value = collectives.all_reduce(value, D, "mean")  # when states could be new
    return {"params": new, "moments": moments}, value


@aotc.entry(x=aotc.Spec(("n", 2), "f32"))
def forgets_to_reduce(state, x):
    part = np.astype(collectives.axis_index(D), "f32")
    new = state["params"] | {"c": state["params"]["c"] + np.mean(x) + part}
    return {"params": new, "moments": state["moments"]}, np.sum(new["c"])


@aotc.entry(x=aotc.Spec((aotc.Dim("rows", min=0), 8), "f32"), k=aotc.Spec((5,), "u8"))
def exchange(x, k):
    return {
        "sum": collectives.all_reduce(x, D),
        "min": collectives.all_reduce({"k": k, "x": x}, D, "min"),
        "narrow": collectives.all_reduce(np.astype(x, "bf16"), D),
        "gather": collectives.all_gather(x > 0, D, axis=0),
        "scatter": collectives.reduce_scatter(x, D, axis=1),
        "swap": collectives.all_to_all(x, D, split_axis=1, concat_axis=0),
        "shift": collectives.permute(x, D, [(0, 1), (1, 3)]),
        "number": collectives.axis_index(D),
        "empty": collectives.all_gather(x[:, :0], D, axis=0),
    }


@aotc.entry(x=aotc.Spec((2, 8), "f32"), w=aotc.Spec((2, 8), "f32"))
def adjoints(x, w):
    many = [
        lambda x: collectives.all_reduce(x, D) * w,
        lambda x: collectives.all_reduce(x, D, "max") * w,
        lambda x: collectives.all_gather(x, D) * np.tile(w, (4, 1)),
        lambda x: collectives.reduce_scatter(x, D, axis=1) * w[:, :2],
        lambda x: (
            collectives.all_to_all(x, D, split_axis=1) * np.tile(w, (4, 1))[:, :2]
        ),
        lambda x: collectives.permute(x, D, [(0, 1), (3, 0)]) * w,
    ]
    return [aotc.grad(lambda x, f=f: np.sum(f(x) ** 2.0))(x) for f in many]


# ---- a network that is split between devices ---------------------------------------


def _mlp(x, w, share):
    return share(nn.relu(x @ w["up"]) @ w["down"])


def _attention(x, w, heads, share):
    def split(y):
        return np.transpose(np.reshape(y, (2, 5, heads, 2)), (0, 2, 1, 3))

    q, k, v = (split(x @ w[name]) for name in "qkv")
    seen = nn.softmax(q @ np.transpose(k, (0, 1, 3, 2)) / 2.0) @ v
    joined = np.reshape(np.transpose(seen, (0, 2, 1, 3)), (2, 5, heads * 2))
    return share(joined @ w["o"])


def _part(w, axis):
    """The columns or rows of a weight that a device has."""
    size = w.shape[axis] // D.size
    blocks = (*w.shape[:axis], D.size, size, *w.shape[axis + 1 :])
    return np.take(np.reshape(w, blocks), collectives.axis_index(D), axis=axis)


def _network(w, x, heads, share):
    x = x + _attention(x, w, heads, share)
    return x + _mlp(x, w, share)


CUT = {"up": 1, "down": 0, "q": 1, "k": 1, "v": 1, "o": 0}


@aotc.entry(x=aotc.Spec((2, 5, 8), "f32"))
def whole(weights, x):
    w = {name: weights[name] for name in CUT}
    y = _network(w, x, 4, lambda part: part)
    return y, aotc.grad(lambda w: np.mean(_network(w, x, 4, lambda part: part)))(w)


@aotc.entry(x=aotc.Spec((2, 5, 8), "f32"))
def split(weights, x):
    def share(part):
        return collectives.all_reduce(part, D)

    w = {name: _part(weights[name], axis) for name, axis in CUT.items()}
    y = _network(w, x, 1, share)
    # the cotangent of a device is that of all their losses together
    return y, aotc.grad(lambda w: np.mean(_network(w, x, 1, share)) / D.size)(w)
