"""Functions of `aotc.numpy` on the divisors of integers."""

from __future__ import annotations

import math

from aotc.core import dtypes
from aotc.numpy.broadcasting import common
from aotc.numpy.elementwise import (
    absolute,
    equal,
    floor_divide,
    maximum,
    multiply,
    remainder,
    where,
)
from aotc.tracing.array import Array
from aotc.tracing.conversion import ArrayLike, astype
from aotc.tracing.source_locations import fail

__all__ = ["gcd", "lcm"]


def gcd(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The greatest common divisor of integers; that of 0 and x is |x|."""
    x, y = _integers(x1, x2)
    size = _unsigned_dtype(x.dtype)
    divisor = _euclid(*(astype(absolute(z), size) for z in (x, y)))
    return astype(divisor, x.dtype)


def lcm(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The least common multiple of integers; that of 0 and x is 0."""
    x, y = _integers(x1, x2)
    dtype, size = x.dtype, _unsigned_dtype(x.dtype)
    x, y = (astype(absolute(z), size) for z in (x, y))
    share = floor_divide(x, maximum(_euclid(x, y), 1))
    return astype(multiply(share, y), dtype)


def _integers(x1: ArrayLike, x2: ArrayLike) -> list[Array]:
    """Return both operands as integers of one dtype and shape; raise for others."""
    x, y = common(x1, x2)
    if x.dtype not in dtypes.INTEGERS:
        fail("bad-dtype", f"expected integers; got {x.type} and {y.type}")
    return [x, y]


def _unsigned_dtype(dtype: str) -> str:
    """Return the unsigned dtype of the same width, which holds all magnitudes."""
    return "u" + dtype.lstrip("iu")


def _euclid(x: Array, y: Array) -> Array:
    """Compute the greatest common divisor by Euclid's algorithm, unrolled for the
    dtype.

    Neighbours in Fibonacci's sequence need the most (Lamé 1844): one step for each
    factor of the golden ratio.
    """
    golden = (1 + math.sqrt(5)) / 2
    for _ in range(math.ceil(dtypes.bits(x.dtype) / math.log2(golden)) + 1):
        done = equal(y, 0)
        rest = remainder(x, where(done, 1, y))
        x, y = where(done, x, y), where(done, 0, rest)
    return x
