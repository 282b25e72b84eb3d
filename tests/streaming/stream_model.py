"""Entries to stream through: of rows, of states, and such that cannot be batched."""

import aotc
import aotc.debug as debug
import aotc.numpy as np

aotc.bundle(name="streamed", version="1.0.0")
seen = aotc.State({"rows": np.zeros((), "i32"), "sum": np.zeros((), "f32")})
batch = aotc.Dim("batch", min=0, max=8)


@aotc.entry(x=aotc.Spec((batch, 3)))
def double(x):
    """Rows; none may be negative."""
    debug.check(x >= 0, "no number is negative")
    return x * 2


@aotc.entry(
    pair={
        "a": aotc.Spec((batch, "length"), "i8"),
        "keep": [aotc.Spec((batch,), "bool"), aotc.Spec((batch, 2), "bf16")],
    },
    scale=aotc.Spec(("length",), "i8"),
)
def mixed(pair, scale):
    """Rows of several dtypes and lengths, and an input that all rows share."""
    a, (keep, h) = pair["a"], pair["keep"]
    kept = np.where(keep.reshape(-1, 1), a * scale, a)
    return {"kept": kept, "rest": (~keep, [h + h])}


@aotc.entry(x=aotc.Spec((batch, 3)))
def count(seen, x):
    """Rows with what came before them."""
    total = seen["sum"] + np.sum(x)
    rows = seen["rows"] + x.shape[0]
    return {"rows": rows, "sum": total}, x + seen["sum"]


@aotc.entry(x=aotc.Spec((batch, 3)))
def centred(x):
    """Rows that depend on each other."""
    return x - np.mean(x, axis=0)


@aotc.entry(x=aotc.Spec((batch, 3)))
def total(x):
    """One number for all rows."""
    return np.sum(x)


@aotc.entry(x=aotc.Spec((batch, batch)))
def square(x):
    """A size that is the first one, and another one too."""
    return x * 2


@aotc.entry(x=aotc.Spec(("n", 3)))
def unlimited(x):
    """Take as many rows as one likes."""
    return x * 2


@aotc.entry(x=aotc.Spec((3,)))
def fixed(x):
    """No rows."""
    return x * 2
