"""Rows of tables by indices, as GPU kernels have them.

A model file, which the tests beside it build.
"""

import aotc
import aotc.numpy as np
from aotc import nn


@aotc.entry(words=aotc.Spec((90, 96)), places=aotc.Spec(("n", 96)),
            at=aotc.Spec((4, "n"), "i64"))  # fmt: skip
def embedded(words, places, at):
    """A word and its place, as transformers begin; ops before and after."""
    return np.tanh(words[at] * 2.0 + places)


@aotc.entry(table=aotc.Spec((50, 70), "f16"), at=aotc.Spec(("n",), "u8"))
def filled(table, at):
    """Zeros for what is not in the table."""
    return np.take(table, at * 2, axis=0, mode="fill", fill_value=0.0)


@aotc.entry(x=aotc.Spec((3, "n", 8, 32)), at=aotc.Spec((3, 64), "i32"))
def of_sequences(x, at):
    """Rows of the sequence of the same number, of none where n is 0."""
    return np.take_along_axis(x, at[:, :, None, None], axis=1)


@aotc.entry(x=aotc.Spec((40, 6, 30), "bf16"), i=aotc.Spec((900,), "i32"),
            j=aotc.Spec((900,), "i32"))  # fmt: skip
def by_two(x, i, j):
    """Two arrays of indices, around an axis between them; then a transpose."""
    return np.transpose(nn.relu(x[i, :, j]))


@aotc.entry(x=aotc.Spec((3000,), "bool"), at=aotc.Spec((70, 80), "i64"))
def flags(x, at):
    """Bytes that are true or not."""
    return x[at]
