"""Products by one weight in each format: a model file, which `weight_only.py` builds.

The seeds of NumPy's generator make the integers and scales.
"""

import numpy as np

import aotc
from aotc import nn

DEPTH, FEATURES = 4096, 16384
ROWS = (1, 128)
# bits, block, whether there is a zero point for each block
FORMATS = {
    "int4_g32": (4, 32, False),
    "int4_g128_zero": (4, 128, True),
    "int8_g32": (8, 32, False),
    "int8_channel": (8, DEPTH, False),
}
# bits, block, blocks that share a scale of their scales (0 for none), whether there is
# a minimum for each block
GGUF = {
    "int5_q5_0": (5, 32, 0, False),
    "int4_q4_k": (4, 32, 8, True),
    "int5_q5_k": (5, 32, 8, True),
    "int6_q6_k": (6, 16, 16, False),
}


def _parts(bits, block, has_zeros):
    """Return random integers, scales and zero points of a weight [features, terms]."""
    rng = np.random.default_rng(0)
    blocks = FEATURES, DEPTH // block
    half = 2 ** (bits - 1)
    low, high = (0, 2 * half) if has_zeros else (-half, half)
    q = rng.integers(low, high, (FEATURES, DEPTH), "u1" if has_zeros else "i1")
    parts = {"q": q, "scale": rng.uniform(1e-3, 1e-2, blocks).astype("f2")}
    if has_zeros:
        parts["zero"] = rng.integers(0, 2 * half, blocks).astype("u1")
    return parts


def _quantized(bits, block, together, has_minima):
    """Return a random weight in the form of a GGUF type."""
    rng = np.random.default_rng(0)
    blocks = FEATURES, DEPTH // block

    def of_blocks(sign):
        if not together:
            return (sign * rng.uniform(1e-3, 1e-2, blocks)).astype("f2")
        few = blocks[0], blocks[1] // together
        scale = (sign * rng.uniform(1e-4, 1e-3, few)).astype("f2")
        data = rng.integers(0, 64, blocks).astype("u1" if has_minima else "i1")
        return nn.QuantizedWeights(data, scale, axis=1, block=together)

    half = 0 if has_minima else 2 ** (bits - 1)
    q = rng.integers(0, 2**bits, (FEATURES, DEPTH), "u1") - half
    q = q.astype("u1" if has_minima else "i1")
    minimum = of_blocks(-1) if has_minima else None
    return nn.QuantizedWeights(
        q, of_blocks(1), minimum=minimum, axis=1, block=block, bits=bits
    )


weights = aotc.Weights(
    {name: _parts(*row) for name, row in FORMATS.items()}
    | {name: _quantized(*row) for name, row in GGUF.items()}
)


def _product(name, rows):
    """Return the function of an entry that multiplies rows by a weight in one
    format.
    """

    def product_of_gguf(weights, x):
        return weights[name].linear(x)

    def product(weights, x):
        bits, block, _ = FORMATS[name]
        weight = weights[name]
        scale = aotc.numpy.astype(weight["scale"], "f32")
        zero = weight.get("zero", 0)
        w = nn.dequantize(weight["q"], scale, zero, axis=1, block=block, bits=bits)
        return x @ w.T

    found = product if name in FORMATS else product_of_gguf
    found.__name__ = f"{name}_{rows}"
    return found


for _name in FORMATS | GGUF:
    for _rows in ROWS:
        _made = _product(_name, _rows)
        globals()[_made.__name__] = aotc.entry(
            weights=weights, x=aotc.Spec((_rows, DEPTH), "f32")
        )(_made)
