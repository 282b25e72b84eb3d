"""Ops of random entries, as source, and the sizes of what they compute."""

from __future__ import annotations

import math
from collections.abc import Sequence

Size = int | str  # `n`, or `6*n`: a multiple of the size that a call decides
Shape = tuple[Size, ...]

UNARY = (
    "np.tanh({0})", "nn.relu({0})", "nn.gelu({0})", "np.exp(np.minimum({0}, 2.0))",
    "np.sin({0})", "nn.sigmoid({0})", "-{0}", "np.sqrt(np.abs({0}) + 0.1)",
    "np.clip({0}, -1.0, 1.0)", "{0} * 0.5", "1.0 - {0}", "special.erf({0})",
    "np.where({0} > 0, {0}, 0.1 * {0})", "np.log(np.abs({0}) + 0.5)", "np.cos({0})",
    "{0} * nn.sigmoid({0})", "0.5 * {0} * (1.0 + special.erf({0} * 0.70710678))",
    "{0} / (1.0 + np.exp(-{0}))", "np.floor({0} * 2.0)", "nn.hard_swish({0})",
    "np.astype(np.astype({0}, 'float16'), FLOATS)",
)  # fmt: skip
BINARY = (
    "{0} + {1}", "{0} * {1}", "{0} - {1}", "{1} - {0}", "np.maximum({0}, {1})",
    "{0} / (1.5 + np.abs({1}))", "np.where({0} > {1}, {0}, {1})",
)  # fmt: skip
# of rows, with numbers along them; the last ones as exporters write them
NORMS = (
    "nn.layer_norm({0}, {1}, {2})", "nn.rms_norm({0}, {1})", "nn.softmax({0})",
    "nn.log_softmax({0})", "nn.l2_normalize({0})", "nn.softmax({0}, axis=-2)",
    "nn.softmax({0} * 0.3 + {1})", "np.cumsum({0}, axis=-1)",
    "({0} - {0}.mean(-1, keepdims=True)) / np.sqrt({0}.var(-1, keepdims=True) + 1e-5)",
    "{0} * (1.0 / np.sqrt((({0} * {0}).mean(-1, keepdims=True) + 1e-6))) * {1}",
    "np.exp({0} - {0}.max(-1, keepdims=True))"
    " / np.exp({0} - {0}.max(-1, keepdims=True)).sum(-1, keepdims=True)",
    "nn.layer_norm({0}, axes=[*range({0}.ndim - 1)])"  # which is read twice
    " - 0.1 * np.sum(np.tanh(nn.layer_norm({0}, axes=[*range({0}.ndim - 1)])), 0)",
)  # fmt: skip
SOFTMAXES = ("nn.softmax({0})", "nn.log_softmax({0})", "nn.softmax({0}, axis=-2)")
REDUCTIONS = (
    "np.sum({0}, axis={1})", "np.mean({0}, axis={1})", "np.max({0}, axis={1})",
    "np.min({0}, axis={1})", "np.var({0}, axis={1})", "np.std({0}, axis={1})",
    "special.logsumexp({0}, axis={1})", "np.sum({0} * {0}, axis={1})",
)  # fmt: skip
SIZES = (1, 8, 9, 12, 16, 17, 24, 31, 32, 33, 48, 65, 100)
ROWS = (1, 2, 3, 7, 8, 13, 14, 15, 33, 64)
LARGEST = 60_000  # elements of a value, in a call of the typical size
TYPICAL = 8  # what a call decides


def times(size: Size, count: int) -> Size:
    """Return a size times a number."""
    if isinstance(size, int):
        return size * count
    return f"{count * factor_of(size)}*n"


def factor_of(size: str) -> int:
    """Return the factor of `n` in a size."""
    return 1 if size == "n" else int(size.removesuffix("*n"))


def element_count(shape: Shape) -> int:
    """Return the number of elements in a typical call."""
    sizes = [n if isinstance(n, int) else factor_of(n) * TYPICAL for n in shape]
    return math.prod(sizes)


def rows_of(shape: Sequence[Size]) -> Size | None:
    """Return the product of the sizes of axes; None if it is no multiple of `n`."""
    named = [each for each in shape if isinstance(each, str)]
    static = math.prod(each for each in shape if isinstance(each, int))
    if len(named) > 1:
        return None
    return times(named[0], static) if named else static
