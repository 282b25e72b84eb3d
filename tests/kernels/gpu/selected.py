"""The first few of rows in their order, as GPU kernels have them.

A model file, which the tests beside it build.
"""

import aotc
import aotc.numpy as np
from aotc import nn


@aotc.entry(x=aotc.Spec(("n", 700)), t=aotc.Spec(()))
def sampled(x, t):
    """The most likely word, as torch counts it; ops before and after."""
    return np.astype(np.argmax(x / t, axis=-1), "int64") + 3


@aotc.entry(x=aotc.Spec((9, 6, 100), "bf16"))
def between(x):
    """An axis that is not the last, and ties."""
    return np.argmax(np.round(x), axis=1)


@aotc.entry(x=aotc.Spec((5, 4200)))
def long(x):
    """Rows that do not stay in registers, and the least of them."""
    return np.argmin(x, axis=-1)


@aotc.entry(x=aotc.Spec(("n", 300), "f16"))
def chosen(x):
    """The four largest, whose elements are a gather."""
    values, at = np.top_k(nn.relu(x), 4)
    return values, np.astype(at, "int64")


@aotc.entry(x=aotc.Spec((700, 8), "i8"))
def routed(x):
    """The smallest of few bytes, with many ties."""
    return np.top_k(x, 1, largest=False).indices


@aotc.entry(x=aotc.Spec((2, 4200)))
def several(x):
    """Some of rows that do not stay in registers."""
    return np.top_k(x, 5).indices
