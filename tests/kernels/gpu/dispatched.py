"""Entries whose results are those of one kernel each.

A model file, which the tests beside it build.
"""

import aotc
import aotc.numpy as np
from aotc import nn


@aotc.entry(x=aotc.Spec(("n", 64)), y=aotc.Spec((64, 32)), b=aotc.Spec((32,)))
def dense(x, y, b):
    """A product of a symbolic count of rows, and what follows it."""
    return nn.relu(x @ y + b)


@aotc.entry(x=aotc.Spec(("rows", "columns")))
def softmax(x):
    """Two numbers, of sizes that are not known."""
    return nn.softmax(x)


@aotc.entry(x=aotc.Spec((aotc.Dim("few", max=900), 24)), y=aotc.Spec((24, 40)))
def bounded(x, y):
    """A number of 32 bits."""
    return x @ y


@aotc.entry(q=aotc.Spec((2, 40, 2, 16)), k=aotc.Spec((2, 50, 2, 16)))
def attend(q, k):
    """No numbers, and one tensor for two operands."""
    return nn.attention(q, k, k)


@aotc.entry(x=aotc.Spec(("n", 40)))
def later(x):
    """A kernel that may have no rows."""
    return nn.softmax(x[1:])


@aotc.entry(x=aotc.Spec((65, 63)), y=aotc.Spec((63, 65)))
def joined(x, y):
    """A kernel that writes behind a row of 65 elements."""
    return np.concatenate([y[:1], nn.softmax(x) @ y], axis=0)
