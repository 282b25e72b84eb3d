"""Activation functions of `aotc.nn`.

Their derivatives are finite wherever the function is, for arguments of any size: what a
branch that is not taken computes never overflows.
"""

from __future__ import annotations

from aotc.numpy.axes import one_axis
from aotc.numpy.elementwise import (
    absolute,
    add,
    clip,
    divide,
    greater,
    greater_equal,
    less,
    multiply,
    negative,
    sqrt,
    square,
    subtract,
    where,
)
from aotc.numpy.exponential import expm1, softplus
from aotc.numpy.joining import split
from aotc.numpy.trigonometric import tanh
from aotc.tracing.array import Array
from aotc.tracing.conversion import ArrayLike, as_float, lift
from aotc.tracing.source_locations import fail
from aotc.tracing.tracing import emit

__all__ = [
    "celu", "elu", "geglu", "gelu", "glu", "hard_shrink", "hard_sigmoid", "hard_silu",
    "hard_swish", "hard_tanh", "leaky_relu", "log_sigmoid", "mish", "prelu", "relu",
    "relu6", "selu", "sigmoid", "silu", "soft_shrink", "soft_sign", "softsign",
    "squareplus", "swiglu", "swish", "tanh_shrink", "threshold",
]  # fmt: skip

# ---- with a kink at zero ------------------------------------------------------------


def relu(x: ArrayLike) -> Array:
    """`max(x, 0)`."""
    return emit("relu", lift(x))


def relu6(x: ArrayLike) -> Array:
    """`min(max(x, 0), 6)`; the derivative at both ends is 0."""
    return where(greater_equal(x, 6), 6, relu(x))


def leaky_relu(x: ArrayLike, negative_slope: float = 0.01) -> Array:
    """`x`, or `negative_slope * x` below zero."""
    x = as_float(x)
    return where(less(x, 0), multiply(x, negative_slope), x)


def prelu(x: ArrayLike, alpha: ArrayLike) -> Array:
    """`x`, or `alpha * x` below zero; `alpha` broadcasts, and is usually learned."""
    x = as_float(x)
    return where(less(x, 0), multiply(x, alpha), x)


def elu(x: ArrayLike, alpha: float = 1.0) -> Array:
    """`x`, or `alpha * (e**x - 1)` below zero (Clevert et al., 2016)."""
    x = as_float(x)
    below = multiply(expm1(_no_more_than_zero(x)), alpha)
    return where(greater(x, 0), x, below)


def selu(x: ArrayLike) -> Array:
    """The ELU whose activations normalise themselves (Klambauer et al., 2017)."""
    return multiply(elu(x, 1.6732632423543772), 1.0507009873554805)


def celu(x: ArrayLike, alpha: float = 1.0) -> Array:
    """`max(x, 0) + min(0, alpha * (e**(x / alpha) - 1))` (Barron, 2017)."""
    x = as_float(x)
    below = expm1(divide(_no_more_than_zero(x), alpha))
    return where(greater(x, 0), x, multiply(below, alpha))


def _no_more_than_zero(x: Array) -> Array:
    """Return `min(x, 0)`, with a derivative of 1 at zero."""
    return where(greater(x, 0), 0, x)


def threshold(x: ArrayLike, threshold: float, value: float) -> Array:
    """`x` above the threshold, `value` elsewhere."""
    x = as_float(x)
    return where(greater(x, threshold), x, value)


def hard_shrink(x: ArrayLike, lambd: float = 0.5) -> Array:
    """`x` where it is further than `lambd` from zero, 0 elsewhere."""
    x = as_float(x)
    return where(greater(absolute(x), lambd), x, 0)


def soft_shrink(x: ArrayLike, lambd: float = 0.5) -> Array:
    """`x` moved towards zero by `lambd`, and no further than zero."""
    x = as_float(x)
    return subtract(x, clip(x, -lambd, lambd))


# ---- sigmoids -----------------------------------------------------------------------


def sigmoid(x: ArrayLike) -> Array:
    """`1 / (1 + e**-x)`."""
    return emit("logistic", as_float(x))


def log_sigmoid(x: ArrayLike) -> Array:
    """`log(sigmoid(x))`, without underflow."""
    return negative(softplus(negative(as_float(x))))


def hard_sigmoid(x: ArrayLike) -> Array:
    """`relu6(x + 3) / 6`."""
    return divide(relu6(add(as_float(x), 3)), 6)


def hard_tanh(x: ArrayLike) -> Array:
    """`x` between -1 and 1."""
    return clip(as_float(x), -1, 1)


def soft_sign(x: ArrayLike) -> Array:
    """`x / (1 + |x|)`."""
    x = as_float(x)
    return divide(x, add(absolute(x), 1))


def tanh_shrink(x: ArrayLike) -> Array:
    """`x - tanh(x)`."""
    x = as_float(x)
    return subtract(x, tanh(x))


# ---- smooth ramps -------------------------------------------------------------------


def squareplus(x: ArrayLike, b: float = 4.0) -> Array:
    """`(x + sqrt(x**2 + b)) / 2` (Barron, 2021)."""
    x = as_float(x)
    return multiply(add(x, sqrt(add(square(x), b))), 0.5)


def gelu(x: ArrayLike, approximate: bool = False) -> Array:
    """`x * Phi(x)`; `approximate` takes the tanh form, which is JAX's default."""
    return emit("gelu", as_float(x), form="tanh" if approximate else "exact")


def silu(x: ArrayLike) -> Array:
    """`x * sigmoid(x)`."""
    x = as_float(x)
    return multiply(x, sigmoid(x))


def hard_silu(x: ArrayLike) -> Array:
    """`x * hard_sigmoid(x)` (Howard et al., 2019)."""
    x = as_float(x)
    return multiply(x, hard_sigmoid(x))


def mish(x: ArrayLike) -> Array:
    """`x * tanh(softplus(x))` (Misra, 2019)."""
    x = as_float(x)
    return multiply(x, tanh(softplus(x)))


# ---- gated: half of the features decides about the other half (Shazeer, 2020) -------


def glu(x: ArrayLike, axis: int = -1) -> Array:
    """The first half along `axis` times the sigmoid of the second.

    Raises:
        InputError: `bad-size` unless the axis has an even, fixed size.
    """
    value, gate = _halves(x, axis)
    return multiply(value, sigmoid(gate))


def geglu(x: ArrayLike, axis: int = -1, approximate: bool = False) -> Array:
    """The first half along `axis` times the GELU of the second; raises like `glu`."""
    value, gate = _halves(x, axis)
    return multiply(value, gelu(gate, approximate))


def swiglu(x: ArrayLike, axis: int = -1) -> Array:
    """The first half along `axis` times the SiLU of the second; raises like `glu`."""
    value, gate = _halves(x, axis)
    return multiply(value, silu(gate))


def _halves(x: ArrayLike, axis: int) -> list[Array]:
    """Split an axis into two equal halves; raise if its size is odd."""
    x = as_float(x)
    axis = one_axis(x, axis)
    size = x.shape[axis]
    if not isinstance(size, int) or size % 2:
        fail("bad-size", f"expected an even, fixed size of axis {axis}; got {x.type}")
    return split(x, 2, axis)


# the same functions by their other names
swish, hard_swish, softsign = silu, hard_silu, soft_sign
