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


def _parts(bits, block, has_zeros):
    """Integers, scales and zero points, as a weight of features by terms has them."""
    rng = np.random.default_rng(0)
    blocks = FEATURES, DEPTH // block
    half = 2 ** (bits - 1)
    low, high = (0, 2 * half) if has_zeros else (-half, half)
    q = rng.integers(low, high, (FEATURES, DEPTH), "u1" if has_zeros else "i1")
    parts = {"q": q, "scale": rng.uniform(1e-3, 1e-2, blocks).astype("f2")}
    if has_zeros:
        parts["zero"] = rng.integers(0, 2 * half, blocks).astype("u1")
    return parts


weights = aotc.Weights({name: _parts(*row) for name, row in FORMATS.items()})


def _product(name, rows):
    bits, block, _ = FORMATS[name]

    def product(weights, x):
        weight = weights[name]
        scale = aotc.numpy.astype(weight["scale"], "f32")
        zero = weight.get("zero", 0)
        w = nn.dequantize(weight["q"], scale, zero, axis=1, block=block, bits=bits)
        return x @ w.T

    product.__name__ = f"{name}_{rows}"
    return product


for _name in FORMATS:
    for _rows in ROWS:
        _made = _product(_name, _rows)
        globals()[_made.__name__] = aotc.entry(
            weights=weights, x=aotc.Spec((_rows, DEPTH), "f32")
        )(_made)
