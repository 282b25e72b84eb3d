"""Stochastic rounding: sums of many small numbers are right in the mean."""

from __future__ import annotations

from aotc import numpy as np
from aotc.random.threefry import bits
from aotc.tracing.array import Array
from aotc.tracing.conversion import ArrayLike, lift
from aotc.tracing.source_locations import fail

__all__ = ["stochastic_round"]

_KEPT = 0xFFFF0000  # the bits of an f32 that bf16 has


def stochastic_round(key: ArrayLike, x: ArrayLike) -> Array:
    """Round f32 to one of the two nearest bf16, in the mean to `x` itself.

    The nearer one is the likelier: a number a quarter of the way between two of bf16
    becomes the lower one in three draws of four. What bf16 can hold, infinities and NaN
    stay as they are; numbers beyond its largest may become infinite. Not
    differentiable.

    Gupta, Agrawal, Gopalakrishnan and Narayanan, "Deep learning with limited numerical
    precision", ICML 2015; here 16 random bits are added to those that bf16 lacks, and
    the sum is cut off.

    Args:
        key: the key, u32[2].
        x: an array of f32.

    Returns:
        An array of bf16, of the shape of `x`.

    Raises:
        InputError: `bad-dtype`; `bad-key`.
    """
    x = lift(x)
    if x.dtype != "f32":
        fail("bad-dtype", f"expected an array of f32 to round; got {x.type}")
    noise = bits(key, x.shape) >> 16
    rounded = np.bitcast((np.bitcast(x, "u32") + noise) & _KEPT, "f32")
    return np.astype(np.where(np.isnan(x), x, rounded), "bf16")
