"""Weights of bytes, of which a product makes floats, or each call by itself."""

import numpy

import aotc
from aotc import nn

_rng = numpy.random.default_rng(0)
_data = _rng.integers(-127, 128, (256, 256), "i1")
_scale = _rng.uniform(0.5, 1, (256, 8)).astype("f2")
_bytes = nn.QuantizedWeights(_data, _scale, axis=1, block=32)
weights = aotc.Weights({"up": _bytes, "added": _bytes})


@aotc.entry(x=aotc.Spec((8, 256)))
def up(weights, x):
    """A linear layer."""
    return weights["up"].linear(x)


@aotc.entry(x=aotc.Spec((256, 256)))
def added(weights, x):
    """A product, and what is none."""
    return weights["added"].linear(x) + weights["added"].dequantize()
