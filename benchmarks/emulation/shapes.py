"""Models of one op an entry, of random sizes, for each family of kernels."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

_Random = np.random.Generator

HEADER = """\
import numpy
import aotc
import aotc.numpy as np
from aotc import nn

rng = numpy.random.default_rng(0)


def weight(*shape):
    return aotc.Weights({"x": rng.normal(size=shape).astype("f4")})
"""


def model_source(seed: int, rounds: int) -> str:
    """Return a model file's text with `rounds` random entries of each kind."""
    rng = np.random.default_rng(seed)
    entries = [
        _entry(f"{draw.__name__.strip('_')}_{number}", *draw(rng))
        for number in range(rounds)
        for draw in _KINDS
    ]
    return "\n\n".join([HEADER, *entries])


_Entry = tuple[dict[str, tuple[int, ...]], tuple[int, ...] | None, str]


def _entry(
    name: str,
    inputs: dict[str, tuple[int, ...]],
    weight: tuple[int, ...] | None,
    result: str,
) -> str:
    """Return the source text of an entry with these inputs and weight."""
    specs = ", ".join(f"{each}=aotc.Spec({shape})" for each, shape in inputs.items())
    taken = ", ".join([*([f"w_{name}"] if weight else []), *inputs])
    stored = f"w_{name} = weight{weight}\n" if weight else ""
    used = result.replace("WEIGHT", f'w_{name}["x"]')
    return f"{stored}@aotc.entry({specs})\ndef {name}({taken}):\n    return {used}\n"


def _activation(rng: _Random, text: str) -> str:
    """Return source that applies a random activation to a product or the like."""
    what = ["nn.relu({})", "nn.gelu({})", "nn.swish({})", "np.tanh({}) + 1.0"]
    return str(rng.choice(what)).format(text)


def _size(rng: _Random, most: int) -> int:
    """Draw a size from 1 to `most`."""
    return int(rng.integers(1, most + 1))


def _product(rng: _Random) -> _Entry:
    """Draw a product by a weight: inputs, weight shape, and expression."""
    rows, depth, features = _size(rng, 90), 8 + _size(rng, 90), 9 + _size(rng, 120)
    shape = (max(rows, 2 + 9000 // (depth * features)), depth)
    return {"x": shape}, (depth, features), _activation(rng, "x @ WEIGHT")


def _product_of_values(rng: _Random) -> _Entry:
    """Draw a batched product of two inputs."""
    batch, rows, depth, features = _size(rng, 4), 20, 8 + _size(rng, 60), 40
    features += _size(rng, 60)
    inputs = {"x": (batch, rows + _size(rng, 20), depth), "y": (batch, depth, features)}
    return inputs, None, _activation(rng, "x @ y")


def _convolution(rng: _Random) -> _Entry:
    """Draw a 2-D convolution with strides."""
    lines, positions, channels = 4 + _size(rng, 12), 4 + _size(rng, 20), _size(rng, 24)
    window, features = (_size(rng, 3), _size(rng, 5)), 4 + _size(rng, 40)
    strides = (_size(rng, 2), _size(rng, 2))
    text = f'nn.conv2d(x, WEIGHT, strides={strides}, padding="SAME")'
    weight = (*window, channels + 4, features)
    return (
        {"x": (2, lines + 4, positions + 4, channels + 4)},
        weight,
        _activation(rng, text),
    )


def _depthwise(rng: _Random) -> _Entry:
    """Draw a depthwise convolution."""
    channels, size = 12 + _size(rng, 60), (8 + _size(rng, 9), 8 + _size(rng, 9))
    window, step = (2 + _size(rng, 3), 2 + _size(rng, 3)), _size(rng, 2)
    text = f'nn.conv2d(x, WEIGHT, groups={channels}, strides={step}, padding="SAME")'
    return {"x": (2, *size, channels)}, (*window, 1, channels), _activation(rng, text)


def _chain(rng: _Random) -> _Entry:
    """Draw an inverted residual: pointwise, depthwise and pointwise convolutions."""
    channels, middle, features = (
        7 + _size(rng, 9),
        60 + _size(rng, 40),
        8 + _size(rng, 9),
    )
    window, step = (1 + _size(rng, 3), 1 + _size(rng, 3)), _size(rng, 2)
    size = 30 + _size(rng, 6), 30 + _size(rng, 6)
    parts = channels * middle, middle * features
    whole = sum(parts) + window[0] * window[1] * middle
    first = f"np.reshape(WEIGHT[:{parts[0]}], {(1, 1, channels, middle)})"
    last = f"np.reshape(WEIGHT[-{parts[1]}:], {(1, 1, middle, features)})"
    between = f"np.reshape(WEIGHT[{parts[0]}:-{parts[1]}], {(*window, 1, middle)})"
    text = _activation(rng, f"nn.conv2d(x, {first})")
    text = (
        f'nn.conv2d({text}, {between}, groups={middle}, strides={step}, padding="SAME")'
    )
    text = f"nn.conv2d({_activation(rng, text)}, {last})"
    return {"x": (_size(rng, 3), *size, channels)}, (whole,), _activation(rng, text)


def _pooling(rng: _Random) -> _Entry:
    """Draw a max or average pooling."""
    channels, size = 20 + _size(rng, 60), (9 + _size(rng, 9), 9 + _size(rng, 9))
    op = str(rng.choice(["max", "avg"]))
    return {"x": (2, *size, channels)}, None, f"nn.{op}_pool(x, (3, 2), (1, 2))"


def _attention(rng: _Random) -> _Entry:
    """Draw an attention of several queries."""
    batch, heads, depth = _size(rng, 2), _size(rng, 3), 1 + _size(rng, 40)
    lengths = 8 + _size(rng, 60), _size(rng, 150)
    inputs = {name: (batch, lengths[name != "q"], heads, depth) for name in "qkv"}
    return inputs, None, "nn.attention(q, k, v)"


def _decoder(rng: _Random) -> _Entry:
    """Draw an attention of one query, with grouped heads."""
    batch, heads, depth = _size(rng, 2), _size(rng, 4), 1 + _size(rng, 40)
    inputs = {"q": (batch, 1, heads * _size(rng, 4), depth)}
    inputs |= dict.fromkeys("kv", (batch, 5 + _size(rng, 150), heads, depth))
    return inputs, None, "nn.attention(q, k, v)"


def _norm(rng: _Random) -> _Entry:
    """Draw a softmax or layer norm of rows."""
    op = str(rng.choice(["softmax", "log_softmax", "layer_norm"]))
    shape = (30 + _size(rng, 60), 34 + _size(rng, 200))
    return {"x": shape}, None, f"nn.{op}(x)"


def _row_sum(rng: _Random) -> _Entry:
    """Draw a reduction of the last axis."""
    op = str(rng.choice(["sum", "max", "min"]))
    shape = (60 + _size(rng, 60), 20 + _size(rng, 200))
    return {"x": shape}, None, f"np.{op}(x, axis=1)"


def _column_sum(rng: _Random) -> _Entry:
    """Draw a reduction of a middle axis."""
    op = str(rng.choice(["sum", "max", "mean"]))
    shape = (_size(rng, 3), 20 + _size(rng, 100), 52 + _size(rng, 90))
    return {"x": shape}, None, f"np.{op}(x, axis=1)"


_KINDS: tuple[Callable[[_Random], _Entry], ...] = (
    *(_product, _product_of_values, _convolution, _depthwise, _chain, _pooling),
    *(_attention, _decoder, _norm, _row_sum, _column_sum),
)
KINDS = len(_KINDS)
