"""Distributions of `aotc.random` that are functions of one uniform number.

Standard ones are symmetric or nearly so, and are drawn by inverting the distribution
from whichever end is nearer: `tail` keeps 32 random bits (64 in f64) and all digits of
small probabilities, so that tails reach far.
"""

from __future__ import annotations

from collections.abc import Callable

from aotc import numpy as np
from aotc.core import dtypes
from aotc.core.dtypes import DTypeLike
from aotc.dialects.types import Shape
from aotc.numpy.broadcasting import ShapeLike, as_shape, broadcast_to, common_shape
from aotc.random import exact
from aotc.random.threefry import bits, words
from aotc.tracing.array import Array
from aotc.tracing.conversion import ArrayLike, lift
from aotc.tracing.source_locations import fail

__all__ = [
    "bernoulli", "cauchy", "exponential", "gumbel", "laplace", "logistic", "normal",
    "rademacher", "randint", "truncated_normal", "uniform",
]  # fmt: skip


def float_dtypes(dtype: DTypeLike) -> tuple[str, str]:
    """Return the name of a float dtype, and the wider dtype to compute draws in."""
    name = dtypes.canonical_dtype(dtype)
    if not dtypes.is_float(name):
        fail("bad-dtype", f"expected a float dtype; got {name}")
    return name, "f64" if name == "f64" else "f32"


def parameters(
    *values: ArrayLike, shape: ShapeLike | None, dtype: str
) -> tuple[list[Array], Shape]:
    """Broadcast a distribution's parameters to the shape of the draws; return both.

    For None the shape is theirs.
    """
    arrays = [np.asarray(value, dtype) for value in values]
    found = common_shape(*(array.type.shape for array in arrays))
    wanted = found if shape is None else as_shape(shape)
    if common_shape(found, wanted) != wanted:
        fail(
            "shape-mismatch",
            f"parameters of shape {found} do not fit draws of shape {wanted}",
        )
    return [broadcast_to(array, wanted) for array in arrays], wanted


# ---- uniform ------------------------------------------------------------------------


def uniform(
    key: ArrayLike,
    shape: ShapeLike = (),
    dtype: DTypeLike = "f32",
    minval: ArrayLike = 0.0,
    maxval: ArrayLike = 1.0,
) -> Array:
    """Draw uniform numbers in [minval, maxval), in steps of 2**-24 of the range (f64:
    2**-53).

    Has derivatives by both bounds.
    """
    name, wide = float_dtypes(dtype)
    unit = _unit(key, as_shape(shape), name)
    if is_number(minval, 0) and is_number(maxval, 1):
        return np.astype(unit, name)
    (low, high), _ = parameters(minval, maxval, shape=shape, dtype=wide)
    # the minimum is what `exact.product` is for, with a bound for narrow dtypes, too
    drawn = np.astype(np.minimum(unit * (high - low), high - low) + low, name)
    first, end = np.astype(low, name), np.astype(high, name)
    return np.where(drawn < end, drawn, first)  # the sum may round up to the end


def is_number(value: ArrayLike, number: float) -> bool:
    """Return whether `value` is the Python number `number`."""
    return isinstance(value, (int, float)) and value == number


_UNIT_BITS = {"f32": 24, "f16": 11, "bf16": 8}


def _unit(key: ArrayLike, shape: Shape, dtype: str) -> Array:
    """Draw uniform numbers in [0, 1), in f32 or f64, with as many bits as `dtype`
    has.
    """
    first, second = words(key, shape)
    if dtype == "f64":
        high, low = np.astype(first >> 5, "f64"), np.astype(second >> 6, "f64")
        return high * 2.0**-27 + low * 2.0**-53
    count = _UNIT_BITS[dtype]
    return np.astype(first >> (32 - count), "f32") * 2.0**-count


def bernoulli(
    key: ArrayLike, p: ArrayLike = 0.5, shape: ShapeLike | None = None
) -> Array:
    """Draw True with probability `p`. Not differentiable.

    Args:
        key: u32[2].
        p: a float or an array of them, which broadcasts to `shape`.
        shape: of the result; that of `p` if None.

    Returns:
        bool.
    """
    like = lift(p, "f32")
    dtype = "f64" if like.dtype == "f64" else "f32"
    (p,), wanted = parameters(like, shape=shape, dtype=dtype)
    return np.less(uniform(key, wanted, dtype), p)


def rademacher(
    key: ArrayLike, shape: ShapeLike = (), dtype: DTypeLike = "i32"
) -> Array:
    """Draw -1 or 1. Not differentiable."""
    return 1 - 2 * np.astype(bits(key, shape) >> 31, dtype)


def randint(
    key: ArrayLike,
    shape: ShapeLike,
    minval: ArrayLike,
    maxval: ArrayLike,
    dtype: DTypeLike = "i32",
) -> Array:
    """Draw uniform integers in [minval, maxval), a range of at most 2**32.

    No two probabilities differ by more than 2**-64. Not differentiable.
    """
    name = dtypes.canonical_dtype(dtype)
    if name not in dtypes.INTEGERS:
        fail("bad-dtype", f"expected an integer dtype; got {name}")
    first, second = words(key, as_shape(shape))
    if isinstance(minval, int) and isinstance(maxval, int):
        _require_range(minval, maxval, name)
        low, span = lift(minval, name), maxval - minval
        if span == 1 << 32:
            return np.astype(first, name) + low
        reach = np.full_like(first, span)
    else:
        (low, high), _ = parameters(minval, maxval, shape=shape, dtype=name)
        reach = np.astype(high - low, "u32")
    below = _high_word(second, reach)
    carry = (first * reach + below) < below
    return np.astype(_high_word(first, reach) + np.astype(carry, "u32"), name) + low


def _require_range(minval: int, maxval: int, dtype: str) -> None:
    """Raise unless minval < maxval are in a dtype's range, at most 2**32 apart."""
    bounds = np_iinfo(dtype)
    fits = bounds[0] <= minval < maxval <= bounds[1] + 1
    if not fits or maxval - minval > 1 << 32:
        fail(
            "bad-range",
            f"expected minval < maxval in the range of {dtype}, at most 2**32 apart; "
            f"got {minval} and {maxval}",
        )


def np_iinfo(dtype: str) -> tuple[int, int]:
    """Return the least and the largest integer of a dtype."""
    width = dtypes.bits(dtype)
    if dtype in dtypes.UNSIGNED:
        return 0, (1 << width) - 1
    return -(1 << (width - 1)), (1 << (width - 1)) - 1


def _high_word(x: Array, y: Array) -> Array:
    """Return the high 32 bits of the product of two u32 arrays, without u64."""
    x_high, x_low, y_high, y_low = x >> 16, x & 0xFFFF, y >> 16, y & 0xFFFF
    first = x_high * y_low + ((x_low * y_low) >> 16)
    second = x_low * y_high + (first & 0xFFFF)
    return x_high * y_high + (first >> 16) + (second >> 16)


# ---- standard distributions, by inversion -------------------------------------------


def tail(key: ArrayLike, shape: Shape, dtype: str) -> tuple[Array, Array]:
    """Draw a uniform number, as (is below 1/2, distance from the nearer end of [0, 1]).

    The distance is in (0, 1/2], rounded once.
    """
    first, second = words(key, shape)
    width = 32
    if dtype == "f32":
        width = 16
        first, second = first >> 16, first & 0xFFFF
    half = 1 << (width - 1)
    high = np.astype(first & (half - 1), dtype) * 2.0**-width
    low = (np.astype(second, dtype) + 0.5) * 2.0 ** (-2 * width)
    return first < half, high + low


def _standard(
    key: ArrayLike,
    shape: ShapeLike,
    dtype: DTypeLike,
    quantile: Callable[[Array, Array], Array],
) -> Array:
    """Draw by inversion: apply `quantile` to what `tail` draws."""
    name, wide = float_dtypes(dtype)
    return np.astype(quantile(*tail(key, as_shape(shape), wide)), name)


def _symmetric(size: Callable[[Array], Array]) -> Callable[[Array, Array], Array]:
    """Return the quantile function ±`size(distance)` of a symmetric distribution."""

    def quantile(lower: Array, distance: Array) -> Array:
        value = size(distance)
        return np.where(lower, -value, value)

    return quantile


def normal(key: ArrayLike, shape: ShapeLike = (), dtype: DTypeLike = "f32") -> Array:
    """Draw standard normal numbers, up to 6.3 deviations from zero (f64: 9.1).

    Args:
        key: u32[2].
        shape: of the result; sizes may be symbolic.
        dtype: a float.
    """
    return _standard(key, shape, dtype, _symmetric(exact.normal_quantile))


def exponential(
    key: ArrayLike, shape: ShapeLike = (), dtype: DTypeLike = "f32"
) -> Array:
    """Draw exponential numbers of mean 1."""
    return _standard(key, shape, dtype, _minus_log)


def _minus_log(lower: Array, distance: Array) -> Array:
    """Return -ln u of a number drawn by `tail`, accurate for u near 1, too."""
    pairs = zip(
        exact.logarithmic(distance),
        exact.logarithmic_complement(distance),
        strict=True,
    )
    f, e = (np.where(lower, below, above) for below, above in pairs)
    return -exact.log_of((f, e))


def gumbel(key: ArrayLike, shape: ShapeLike = (), dtype: DTypeLike = "f32") -> Array:
    """Draw standard Gumbel numbers: the limit of maxima, `-ln(-ln u)`."""
    return _standard(key, shape, dtype, lambda *tail: -exact.log(_minus_log(*tail)))


def laplace(key: ArrayLike, shape: ShapeLike = (), dtype: DTypeLike = "f32") -> Array:
    """Draw standard Laplace numbers: exponential to both sides."""

    def size(distance: Array) -> Array:
        return -exact.log(2.0 * distance)

    return _standard(key, shape, dtype, _symmetric(size))


def logistic(key: ArrayLike, shape: ShapeLike = (), dtype: DTypeLike = "f32") -> Array:
    """Draw standard logistic numbers, `ln(u / (1 - u))`."""

    def size(distance: Array) -> Array:
        complement = exact.log_of(exact.logarithmic_complement(distance))
        return complement - exact.log(distance)

    return _standard(key, shape, dtype, _symmetric(size))


def cauchy(key: ArrayLike, shape: ShapeLike = (), dtype: DTypeLike = "f32") -> Array:
    """Draw standard Cauchy numbers, `tan(pi (u - 1/2))`."""
    return _standard(key, shape, dtype, _symmetric(exact.cotangent))


# ---- truncated normal ---------------------------------------------------------------

_FARTHEST = 11.0  # beyond, probabilities come near the smallest numbers of f32


def truncated_normal(
    key: ArrayLike,
    lower: ArrayLike,
    upper: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike = "f32",
) -> Array:
    """Draw standard normal numbers between two bounds, with derivatives by both.

    A bound farther out than 11 counts as infinite.
    """
    name, wide = float_dtypes(dtype)
    (low, high), wanted = parameters(lower, upper, shape=shape, dtype=wide)
    # from above zero to below it, where probabilities keep their digits
    mirrored = low > 0.0
    first, last = np.where(mirrored, -high, low), np.where(mirrored, -low, high)
    start, end = _cumulative(first), _cumulative(last)
    place = start + exact.product(_unit(key, wanted, wide), end - start)
    value = _quantile(place)
    drawn = np.where(mirrored, -value, value)
    return np.astype(np.minimum(np.maximum(drawn, low), high), name)


def _cumulative(x: Array) -> Array:
    """Return the cumulative distribution function of the standard normal."""
    tail = exact.normal_tail(-np.minimum(np.abs(x), _FARTHEST))
    return np.where(x > 0.0, 1.0 - tail, tail)


def _quantile(p: Array) -> Array:
    """Return the quantile of the standard normal, for p from 0 to below 1."""
    lower = p < 0.5
    least = 2.0**-25 if p.dtype == "f32" else 2.0**-54
    size = exact.normal_quantile(np.where(lower, p, np.maximum(1.0 - p, least)))
    return np.where(lower, -size, size)
