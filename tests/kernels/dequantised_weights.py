"""Products by weights of 8 and 4 bits, in blocks: what kernels read as integers.

A model file, which the tests beside it build.
"""

from dataclasses import dataclass

import numpy as onp

import aotc
import aotc.numpy as np
from aotc import control, nn


@dataclass(frozen=True)
class Format:
    """A weight, and the rows that it is multiplied by.

    `together` is of how many blocks the scales and minima, which are bytes, have one
    scale; 0 where they are floats.
    """

    bits: int
    block: int
    dtype: str = "i1"
    zero: str = ""  # "" for none, or "number", "blocks", "minima"
    is_turned: bool = False
    rows: int | str = 1
    depth: int = 256
    features: int = 80
    together: int = 0


FORMATS = {
    "bytes_32": Format(8, 32, rows="n"),
    "bytes_64_zeros": Format(8, 64, "u1", "blocks", is_turned=True, rows=3),
    "bytes_128_minima": Format(8, 128, "u1", "minima", rows=64),
    "bytes_channel": Format(8, 256, is_turned=True),
    "bytes_channel_zero": Format(8, 256, "u1", "number"),
    "bytes_odd": Format(8, 37, zero="blocks", depth=370, features=50, rows=5),
    "halves_32": Format(4, 32),
    "halves_64_zeros": Format(4, 64, "u1", "blocks", is_turned=True, rows="n"),
    "halves_128_minima": Format(4, 128, "u1", "minima", rows=64),
    "halves_channel": Format(4, 256, is_turned=True, rows=3),
    "halves_32_zero": Format(4, 32, "u1", "number", is_turned=True),
    "halves_odd": Format(4, 20, zero="minima", depth=360, features=50, rows=5),
    "fives_32": Format(5, 32, is_turned=True),
    "fives_32_minima": Format(5, 32, "u1", "minima", rows=5),
    "sixes_16": Format(6, 16, "u1", "blocks", rows="n"),
    "scaled_halves": Format(4, 32, "u1", "minima", is_turned=True, together=8),
    "scaled_fives": Format(5, 32, "u1", "minima", True, rows=7, depth=512, together=8),
    "scaled_sixes": Format(6, 16, is_turned=True, depth=512, together=16),
    "scaled_bytes": Format(8, 32, is_turned=True, rows="n", together=2),
    "halves_32_minima": Format(4, 32, "u1", "minima", rows=3, depth=384),  # 12 blocks
}
# of one left operand: query, key and value, of halves, and a gate and its values
JOINED = {
    "q": Format(4, 32, "u1", "minima", is_turned=True, features=96),
    "k": Format(4, 32, "u1", "minima", is_turned=True, features=40),
    "v": Format(4, 32, "u1", "minima", is_turned=True, features=40),
    "gate": Format(8, 64, features=72),
    "up": Format(8, 64, features=72),
    "high": Format(6, 16, is_turned=True, features=48, together=16),
    "higher": Format(6, 16, is_turned=True, features=40, together=16),
}
_rng = onp.random.default_rng(0)


def _parts(of):
    blocks = of.depth // of.block, of.features
    half = 2 ** (of.bits - 1)
    low, high = (0, 2 * half) if of.dtype == "u1" else (-half, half)
    parts = {"scale": _rng.uniform(0.01, 0.1, blocks).astype("f2")}
    parts["q"] = _rng.integers(low, high, (of.depth, of.features), of.dtype)
    if of.zero == "blocks":
        parts["zero"] = _rng.integers(low, high, blocks, of.dtype)
    if of.zero == "minima":
        parts["less"] = _rng.normal(size=blocks).astype("f4")
    if of.together:
        few = of.depth // of.block // of.together, of.features
        for name in {"scale", "less"} & parts.keys():
            parts[f"{name}_scale"] = _rng.uniform(1e-4, 1e-3, few).astype("f2")
            parts[name] = _rng.integers(-128, 128, blocks, "i1")
        if of.dtype == "u1":
            parts["scale"] = parts["scale"].view("u1")
    turn = onp.transpose if of.is_turned else onp.asarray
    return {name: turn(part) for name, part in parts.items()}


def _of_blocks(of, parts, name):
    """Scales or minima as floats."""
    found, axis = parts.get(name), int(of.is_turned)
    if not of.together or found is None:
        return found
    scale = np.astype(parts[f"{name}_scale"], "f32")
    return nn.dequantize(found, scale, axis=axis, block=of.together)


def _dequantized(of, parts):
    zero, less = parts.get("zero", 0), _of_blocks(of, parts, "less")
    if of.zero == "number":
        zero = onp.uint8(2 ** (of.bits - 1))
    w = nn.dequantize(
        parts["q"],
        np.astype(_of_blocks(of, parts, "scale"), "f32"),
        zero,
        axis=int(of.is_turned),
        block=of.block,
        bits=of.bits,
        less=less,
    )
    return w.T if of.is_turned else w


weights = aotc.Weights(
    {
        **{name: _parts(of) for name, of in (FORMATS | JOINED).items()},
        "bytes": _rng.integers(0, 256, (96, 8, 16), "u1"),
        "scales": _rng.uniform(0.01, 0.1, (96, 8)).astype("f4"),
        "order": _rng.permutation(256).astype("i4"),
        "bias": _rng.normal(size=80).astype("f4"),
        "table": _rng.integers(-8, 8, (120, 128), "i1"),
        "row_scales": _rng.uniform(0.01, 0.1, (120, 4)).astype("f4"),
    }
)


def _product(name, of):
    def product(weights, x):
        y = x @ _dequantized(of, weights[name])
        return nn.relu(y + weights["bias"]) if of.features == 80 else y

    product.__name__ = name
    return product


for _name, _of in FORMATS.items():
    _x = aotc.Spec((_of.rows, _of.depth), "f32")
    globals()[_name] = aotc.entry(weights=weights, x=_x)(_product(_name, _of))


# of formats above, by which gradients go back: their blocks are then of columns
BACKWARDS = (
    "bytes_32",
    "bytes_64_zeros",
    "bytes_channel",
    "bytes_channel_zero",
    "halves_32",
    "halves_64_zeros",
    "halves_128_minima",
    "halves_channel",
    "fives_32_minima",
    "sixes_16",
    "scaled_halves",
    "scaled_sixes",
)


def _backwards(weights, x):
    return [x @ _dequantized(FORMATS[name], weights[name]).T for name in BACKWARDS]


@aotc.entry(weights=weights, x=aotc.Spec(("n", 80), "f32"))
def backwards(weights, x):
    return _backwards(weights, x)


@aotc.entry(weights=weights, x=aotc.Spec((37, 80), "f32"))
def backwards_of_many(weights, x):
    return [y * 2 + 1 for y in _backwards(weights, x)]


@aotc.entry(weights=weights, x=aotc.Spec((1, 256), "f32"))
def packed_bytes(weights, x):
    """Pack 4 bits as files do: two neighbours a byte, the first in its lower half."""
    b = weights["bytes"]
    q = np.reshape(np.stack([b & 15, b >> 4], -1), (96, 256))
    return x @ nn.dequantize(q, weights["scales"], onp.uint8(8), axis=1, block=32).T


@aotc.entry(weights=weights, x=aotc.Spec((1, 256), "f32"), y=aotc.Spec((9, 256), "f32"))
def read_twice(weights, x, y):
    w = _dequantized(FORMATS["halves_channel"], weights["halves_channel"])
    return x @ w, y @ w


@aotc.entry(weights=weights, x=aotc.Spec((3, 256), "f32"))
def reordered(weights, x):
    w = _dequantized(FORMATS["halves_128_minima"], weights["halves_128_minima"])
    return x @ np.take(w, weights["order"], 0)


@aotc.entry(weights=weights, x=aotc.Spec((1, 256), "f32"))
def in_a_loop(weights, x):
    def step(x, _):
        w = _dequantized(FORMATS["halves_32"], weights["halves_32"])
        y = np.tanh(0.05 * (x @ w))
        return np.tile(y, (1, 4))[:, :256], y

    return control.scan(step, x, None, length=3)[1]


def _joined(weights, x):
    products = (x @ _dequantized(of, weights[n]) for n, of in JOINED.items())
    q, k, v, gate, up, *high = products
    return q, nn.relu(k), v, nn.silu(gate) * up, *high


@aotc.entry(weights=weights, x=aotc.Spec((1, 256), "f32"))
def joined_one(weights, x):
    return _joined(weights, x)


@aotc.entry(weights=weights, x=aotc.Spec((19, 256), "f32"))
def joined_many(weights, x):
    return _joined(weights, x)


@aotc.entry(weights=weights, x=aotc.Spec((1, 256), "bf16"))
def narrow_one(weights, x):
    return _joined(weights, np.astype(x, "f32"))


@aotc.entry(weights=weights, x=aotc.Spec(("n", 256), "bf16"))
def narrow_many(weights, x):
    w = _dequantized(FORMATS["halves_128_minima"], weights["halves_128_minima"])
    return np.astype(x, "f32") @ w


@aotc.entry(weights=weights, at=aotc.Spec((5,), "i32"))
def tied(weights, at):
    table = nn.dequantize(
        weights["table"], weights["row_scales"], axis=1, block=32, bits=4
    )
    return np.tanh(table[at]) @ table.T


@aotc.entry(weights=weights, at=aotc.Spec((5,), "i32"))
def looked_up(weights, at):
    """Rows of tables with other blocks than the weight has, multiplied as they are."""
    q, scale = np.reshape(weights["bytes"], (48, 256)), weights["scales"]
    rows = nn.dequantize(
        q, np.reshape(scale, (192, 4))[:48], onp.uint8(7), axis=1, block=64
    )
    less = scale[48:] * 3.0
    minima = nn.dequantize(q, scale[:48], axis=1, block=32, less=less)
    w = _dequantized(FORMATS["bytes_128_minima"], weights["bytes_128_minima"])
    return rows[at % 48] @ w, minima[at % 48] @ w
