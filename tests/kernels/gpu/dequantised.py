"""A product by a weight of bytes, which each call makes floats of on a GPU."""

import numpy

import aotc
from aotc import nn

_rng = numpy.random.default_rng(0)
_data = _rng.integers(-127, 128, (256, 256), "i1")
_scale = _rng.uniform(0.5, 1, (256, 8)).astype("f2")
weights = aotc.Weights({"up": nn.QuantizedWeights(_data, _scale, axis=1, block=32)})


@aotc.entry(x=aotc.Spec((8, 256)))
def up(weights, x):
    """A linear layer."""
    return weights["up"].linear(x)
