"""Derivatives that read what kernels leave of the way forward.

A model file, which the tests beside it build.
"""

import aotc
import aotc.numpy as np
from aotc import nn


@aotc.entry(x=aotc.Spec((2, 40, 3, 16)), scale=aotc.Spec((16,)))
def gradients(x, scale):
    """The logarithms of the sums of an attention, and the statistics of a norm."""

    def loss(x, scale):
        y = nn.attention(x, x, x, causal=True)
        return np.sum(nn.layer_norm(x + y, scale=scale) ** 3)

    return aotc.grad(loss, argnums=(0, 1))(x, scale)
