"""Entries that update states in every way that matters to writing over them."""

import aotc
from aotc import debug, optim
from aotc import numpy as np

pair = aotc.State({"a": np.arange(12.0).reshape(4, 3), "b": np.ones((4, 3))})
square = aotc.State(np.arange(9.0).reshape(3, 3))
odd = aotc.State(
    {
        "key": np.zeros(2, "u32"),
        "flags": np.zeros(3, "bool"),
        "count": 0,
        "half": np.ones(3, "f16"),
    }
)
cache = aotc.State(np.zeros((4, 3)))
windows = aotc.State(
    {
        "rows": np.arange(36.0).reshape(2, 6, 3),
        "bytes": np.zeros(300, "u8"),
        "half": np.ones((3, 4), "f16"),
        "flags": np.zeros((3, 4), "bool"),
    }
)
optimizer = optim.adam(0.1)
model = aotc.State(
    {"params": (start := {"w": np.ones((3, 3)), "b": np.zeros(3)}),
     "moments": optimizer.init(start)}
)  # fmt: skip
x = aotc.Spec(3)


@aotc.entry(x=x)
def together(pair, x):
    """One reads the new value of the other, and both the old ones."""
    a = pair["a"] * 0.5 + x
    b = pair["b"] + a * pair["a"]
    return {"a": a, "b": b}, {"old": pair["a"].sum(), "new": b}


@aotc.entry(x=x)
def exchanged(pair, x):
    """Each becomes what the other was."""
    return {"a": pair["b"], "b": pair["a"] + x}, x


@aotc.entry(x=x)
def scaled(pair, x):
    """One needs a sum over the new value of the other."""
    a = pair["a"] - x
    norm = np.sqrt(np.sum(a * a))
    return {"a": a, "b": pair["b"] - a / norm}, norm


@aotc.entry(x=x)
def crossed(square, x):
    """An element is written that another one still reads."""
    return square.T + x, square @ x


@aotc.entry(x=x)
def kept(pair, x):
    """The old value is a result."""
    return {"a": pair["a"] + x, "b": pair["b"]}, pair["a"]


@aotc.entry(x=x)
def mixed(odd, x):
    """Combine arrays of any dtype."""
    return {
        "key": odd["key"] * 3 + 1,
        "flags": ~odd["flags"],
        "count": odd["count"] + 1,
        "half": odd["half"] * x.astype("f16"),
    }, x.sum()


@aotc.entry(x=x, at=aotc.Spec((), "i32"))
def written(cache, x, at):
    """A row at a time."""
    return cache.at[at].set(x), x


@aotc.entry(x=x, at=aotc.Spec((), "i32"))
def windowed(windows, x, at):
    """Windows at places that are moved to fit, and read at once."""
    blocks = np.broadcast_to(x, (2, 2, 3))
    rows = np.dynamic_update_slice(windows["rows"], blocks, [0, 2 * at - 1, 0])
    rows = np.dynamic_update_slice(rows, x.reshape(1, 1, 3)[..., :2], [1, 0, at])
    first, part = (250 + 20 * at).astype("u8"), x.astype("u8")
    bytes = np.dynamic_update_slice(windows["bytes"], part, np.reshape(first, (1,)))
    half = x.reshape(3, 1).astype("f16")
    flags = np.dynamic_update_slice(windows["flags"], half > 0, [0, at])
    half = np.dynamic_update_slice(windows["half"], half, [9, at])
    return {"rows": rows, "bytes": bytes, "half": half, "flags": flags}, rows.sum(1)


@aotc.entry(x=x, at=aotc.Spec((), "i32"))
def spotted(windows, x, at):
    """One place at a time, some of them out of bounds."""
    rows = windows["rows"].at[:, 3 * at - 1].set(x)
    half = windows["half"].at[at, np.reshape(at + 2, (1,))].set(x[:1].astype("f16"))
    flags = windows["flags"].at[at].set(x[0] > 0)
    return {**windows, "rows": rows, "half": half, "flags": flags}, rows.sum(1)


@aotc.entry(x=x, at=aotc.Spec((), "i32"))
def read_before(windows, x, at):
    """The old value of a window's state is read, too, before or after."""
    old = windows["rows"]
    rows = np.dynamic_update_slice(old, x.reshape(1, 1, 3), [0, at, 0])
    return {**windows, "rows": rows}, (old.sum(1), rows.sum(1) @ old[0].T)


@aotc.entry(x=x)
def checked(pair, x):
    """Fails for large x, when the new value is known."""
    a = pair["a"] + x
    debug.check(np.max(a) < 1e6, "too large")
    return {"a": a, "b": pair["b"] * 2.0}, x


@aotc.entry(x=aotc.Spec(("n", 3)))
def trained(model, x):
    """A step of an optimizer."""

    def loss(params):
        return np.mean((x @ params["w"] + params["b"] - 2 * x) ** 2)

    value, grads = aotc.value_and_grad(loss)(model["params"])
    updates, moments = optimizer.update(grads, model["moments"], model["params"])
    params = optim.apply_updates(model["params"], updates)
    return {"params": params, "moments": moments}, value
