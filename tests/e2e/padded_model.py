"""Entries whose sizes have each of the policies, of ops that padding meets."""

import numpy as onp

import aotc
import aotc.numpy as np
from aotc import control, nn

rng = onp.random.default_rng(3)


def draw(*shape):
    """Weights that change when the model does, and only then."""
    return (rng.standard_normal(shape) / 4).astype("f4")


n = aotc.Dim("n", max=40, specialize=(6, 16), policy="bucket")
m = aotc.Dim("m", max=5, policy="pad")
k = aotc.Dim("k", specialize=(2, 3), policy="error")
d = aotc.Dim("d")
even = aotc.Dim("even", max=12, multiple_of=2, policy="bucket", specialize=(4,))
side = aotc.Dim("side", min=4, max=14, specialize=(8,), policy="bucket")

w = aotc.Weights({"q": draw(8, 8), "k": draw(8, 8), "v": draw(8, 8), "g": draw(8)})
filters = aotc.Weights({"a": draw(3, 3, 2, 4), "b": draw(3, 3, 4, 3), "c": draw(3, 5)})
cell = aotc.Weights({"x": draw(8, 8), "h": draw(8, 8)})
start = aotc.State({"w": draw(8, 3), "count": onp.zeros((), "i4")})
cache = aotc.State(onp.zeros((48, 8), "f4"))


@aotc.entry(x=aotc.Spec((n, 8), "f32"))
def score(w, x):
    """An attention over positions, and what is made of all of them."""
    h = nn.layer_norm(x, w["g"], w["g"])
    q, key, v = (np.reshape(h @ w[i], (1, x.shape[0], 2, 4)) for i in ("q", "k", "v"))
    y = np.reshape(nn.attention(q, key, v), x.shape) + x
    return {
        "all": nn.log_softmax(y @ w["v"]),
        "mean": np.mean(y, 0),
        "spread": np.std(y),
        "best": np.argmax(y, 0),
        "largest": np.max(y),
    }


@aotc.entry(x=aotc.Spec((n, m), "f32"), y=aotc.Spec((m, n, 2), "i32"))
def move(x, y):
    """Elements that go elsewhere."""
    return {
        "twice": np.concatenate([x, x], 0),
        "between": np.concatenate([x[:1], x, np.ones_like(x[:1])], 0),
        "turned": x[::-1].T,
        "flat": np.reshape(y, (-1,)),
        "rows": np.reshape(y, (y.shape[0], -1)),
        "sorted": np.sort(x, 0),
        "running": np.cumsum(y[:, ::-1], 1),
        "last": x[-1],
        "padded": np.pad(x, ((1, 2), (0, 1)), constant_values=0.5),
        "outer": np.sum(x, 1)[:, None] * np.sum(x, 1),
        "ratio": np.sum(y // np.maximum(np.sum(y), 1)) + y % 3,
        "odd": x[::2],
        "count": np.asarray(x.shape[0] * x.shape[1]),
    }


@aotc.entry(image=aotc.Spec((m, side, side, 2), "f32"))
def look(filters, image):
    """A network of convolutions, on images of several sizes."""
    h = nn.relu(nn.conv2d(image, filters["a"], padding="SAME", strides=2))
    h = nn.max_pool(h, (2, 2), padding="SAME")
    h = nn.relu(nn.conv2d(h, filters["b"], padding=1))
    return np.mean(h, (1, 2)) @ filters["c"]


@aotc.entry(xs=aotc.Spec((n, m, 8), "f32"))
def recur(cell, xs):
    """Repeat a step as often as there are elements."""

    def step(h, x):
        h = np.tanh(x @ cell["x"] + h @ cell["h"])
        return h, np.sum(h, 1)

    return control.scan(step, np.zeros(xs.shape[1:]), xs)


@aotc.entry(state=start, x=aotc.Spec((n, 8), "f32"), y=aotc.Spec((n,), "i32"))
def train_step(state, x, y):
    """A step of training, whose sums are over what is padded."""

    def loss_of(w):
        return np.mean(nn.cross_entropy(x @ w, y))

    loss, grad = aotc.value_and_grad(loss_of)(state["w"])
    return {"w": state["w"] - 0.1 * grad, "count": state["count"] + 1}, loss


@aotc.entry(cache=cache, x=aotc.Spec((n, 8), "f32"), at=aotc.Spec((), "i32"))
def remember(cache, x, at):
    """A window of a state, as long as the call."""
    cache = np.dynamic_update_slice(cache, x, (at, np.asarray(0, "i32")))
    return cache, np.sum(cache, 0)


@aotc.entry(x=aotc.Spec((even, k, d), "f16"), on=aotc.Spec((even,), "bool"))
def mixed(x, on):
    """One size that is padded, one that is refused, one that is any."""
    kept = np.where(on[:, None, None], x, 0)
    return np.sum(kept, (0, 2)), np.any(on), x * 2, np.sum(on)
