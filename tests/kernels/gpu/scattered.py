"""Scatters that add, as GPU kernels have them: gradients of embeddings, and counts.

A model file, which the tests beside it build.
"""

import aotc
import aotc.numpy as np


@aotc.entry(
    table=aotc.Spec((70, 4500)),
    at=aotc.Spec((5, 9), "i32"),
    w=aotc.Spec((5, 9, 4500)),
)
def embedded(table, at, w):
    """The gradient of an embedding, many of whose rows nothing reads."""
    return aotc.grad(lambda table: np.sum(table[at] * w))(table)


@aotc.entry(x=aotc.Spec((40, 3), "bf16"), at=aotc.Spec(("n",), "i64"),
            u=aotc.Spec(("n", 3), "bf16"))  # fmt: skip
def added(x, at, u):
    """Sums in f32 of what is in half precision, rounded once; as many as a call has."""
    return x.at[at].add(u)


@aotc.entry(at=aotc.Spec((600,), "i32"))
def counted(at):
    """More than a block of indices, of one column: a histogram."""
    return np.zeros(300, "f32").at[at].add(1.0)


@aotc.entry(x=aotc.Spec((6, 50, 4)), at=aotc.Spec((20,), "i32"),
            u=aotc.Spec((6, 20, 4)))  # fmt: skip
def added_inside(x, at, u):
    """Rows along an axis that is not the first."""
    return x.at[:, at].add(u) * 2
