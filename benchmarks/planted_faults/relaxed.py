"""An entry whose kernel `--numerics=relaxed` alone allows: Winograd's convolution.

A model file, in whose code faults are planted.
"""

import numpy as onp

import aotc
from aotc import nn

_rng = onp.random.default_rng(0)
_kernel = _rng.normal(size=(3, 3, 20, 24)).astype("f4")

w = aotc.Weights({"kernel": _kernel})


@aotc.entry(x=aotc.Spec((2, 14, 15, 20), "f32"))
def winograd(w, x):
    """Entry: a convolution that relaxed numerics compute by Winograd's algorithm."""
    return nn.relu(nn.conv2d(x, w["kernel"], padding=((1, 1), (1, 1))))
