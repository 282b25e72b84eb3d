"""Products by weights of integers whose rows relaxed numerics round.

A model file, which the tests beside it build.
"""

from dataclasses import dataclass

import numpy as onp

import aotc
import aotc.numpy as np
from aotc import control, nn


@dataclass(frozen=True)
class Format:
    """A weight, and the rows that it is multiplied by."""

    bits: int
    block: int
    dtype: str = "i1"
    has_minima: bool = False
    rows: int | str = 7
    depth: int = 320
    features: int = 80


FORMATS = {
    "bytes": Format(8, 32, rows="n"),
    "bytes_minima": Format(8, 64, "u1", has_minima=True),
    "bytes_signed_minima": Format(8, 64, has_minima=True, rows=4),
    "bytes_channel": Format(8, 320, features=50, rows=33),
    "halves": Format(4, 32, rows="n"),
    "halves_minima": Format(4, 160, "u1", has_minima=True, rows=33),
    "halves_signed_minima": Format(4, 32, has_minima=True, rows=4),
    "fives_minima": Format(5, 32, "u1", has_minima=True),
    "sixes": Format(6, 16, rows=33),
    "few_rows": Format(4, 32, rows=3),
    "odd_blocks": Format(8, 20),
}
JOINED = {
    **{name: Format(4, 32, features=48, depth=256) for name in ("q", "k", "v")},
    **{name: Format(8, 32, features=72, depth=256) for name in ("gate", "up")},
}
REPEATED = Format(8, 32, features=256, depth=256)
FEW = {
    "one_row": Format(4, 32, rows=1),
    "one_row_of_sixes": Format(6, 16, has_minima=True, rows=1),
    "few_rows_of_bytes": Format(8, 32, rows=3),
}
SINGLE = {**FORMATS, **FEW}
ROUNDED = [x for x in SINGLE if x not in ("odd_blocks", "few_rows_of_bytes")]
_rng = onp.random.default_rng(0)


def _parts(of):
    blocks = of.features, of.depth // of.block
    half = 2 ** (of.bits - 1)
    low, high = (0, 2 * half) if of.dtype == "u1" else (-half, half)
    parts = {"scale": _rng.uniform(0.01, 0.1, blocks).astype("f2")}
    parts["q"] = _rng.integers(low, high, (of.features, of.depth), of.dtype)
    if of.has_minima:
        parts["less"] = _rng.normal(size=blocks).astype("f4")
    return parts


def dequantized(of, parts):
    """The weight [features, terms]."""
    scale, less = np.astype(parts["scale"], "f32"), parts.get("less")
    given = {"axis": 1, "block": of.block, "bits": of.bits, "less": less}
    return nn.dequantize(parts["q"], scale, 0, **given)


_formats = {**FORMATS, **JOINED, "repeated": REPEATED, **FEW}
weights = aotc.Weights({name: _parts(of) for name, of in _formats.items()})


def _product(name, of):
    def product(weights, x):
        return x @ dequantized(of, weights[name]).T

    product.__name__ = name
    return product


for _name, _of in SINGLE.items():
    _x = aotc.Spec((_of.rows, _of.depth), "f32")
    globals()[_name] = aotc.entry(weights=weights, x=_x)(_product(_name, _of))


@aotc.entry(weights=weights, x=aotc.Spec((2, 9, 256), "f32"))
def joined(weights, x):
    q, k, v, gate, up = (x @ dequantized(of, weights[n]).T for n, of in JOINED.items())
    return q, k, v, nn.relu(gate) * up


@aotc.entry(weights=weights, x=aotc.Spec((5, 256), "f32"))
def repeated(weights, x):
    """Multiply in the body of a loop."""

    def step(x, _):
        y = np.tanh(0.02 * (x @ dequantized(REPEATED, weights["repeated"]).T))
        return y, y

    return control.scan(step, x, None, length=2)[0]
