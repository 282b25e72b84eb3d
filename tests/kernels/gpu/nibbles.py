"""Weights of four bits, two in a byte, as GPU kernels have them.

A model file, which the tests beside it build.
"""

import numpy

import aotc
from aotc import nn

_rng = numpy.random.default_rng(0)


def _weights(rows, columns, dtype="i1", **more):
    low, high = (-8, 8) if dtype == "i1" else (0, 16)
    data = _rng.integers(low, high, (rows, columns)).astype(dtype)
    scale = _rng.uniform(0.5, 1, (rows, columns // 32)).astype("f2")
    if dtype == "u1":
        more["minimum"] = _rng.uniform(-9, 0, scale.shape).astype("f2")
    return nn.QuantizedWeights(data, scale, axis=1, block=32, bits=4, **more)


weights = aotc.Weights({
    "signed": _weights(96, 128), "unsigned": _weights(96, 128, "u1"),
    "half": _weights(64, 96, "u1"), "odd": _weights(48, 160),
})  # fmt: skip


@aotc.entry(x=aotc.Spec(("n", 128)))
def signed(weights, x):
    """Multiply as many rows as a call has, with elementwise ops after it."""
    return nn.relu(weights["signed"].linear(x))


@aotc.entry(x=aotc.Spec((1, 128)))
def thin(weights, x):
    """One row by integers from 0 to 15 and what 0 stands for."""
    return weights["unsigned"].linear(x)


@aotc.entry(x=aotc.Spec((20, 96), "bf16"))
def half(weights, x):
    """Rows of bf16."""
    return weights["half"].linear(x)


@aotc.entry(x=aotc.Spec((33, 48)))
def turned(weights, x):
    """A sum over what has no blocks."""
    return x @ weights["odd"].dequantize()
