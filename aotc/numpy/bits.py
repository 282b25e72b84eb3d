"""Functions of `aotc.numpy` on the bits of numbers."""

from __future__ import annotations

from typing import NamedTuple

from aotc.core import dtypes
from aotc.core.dtypes import DTypeLike
from aotc.numpy.elementwise import (
    absolute,
    add,
    bitwise_and,
    bitwise_or,
    clip,
    common_floats,
    equal,
    greater,
    isnan,
    left_shift,
    less,
    logical_or,
    multiply,
    negative,
    not_equal,
    right_shift,
    subtract,
    where,
)
from aotc.numpy.predicates import isfinite
from aotc.tracing.array import Array
from aotc.tracing.conversion import ArrayLike, as_float, astype, lift
from aotc.tracing.source_locations import fail
from aotc.tracing.tracing import emit

__all__ = [
    "bitcast", "bitwise_count", "copysign", "count_leading_zeros", "frexp", "ldexp",
    "nextafter", "signbit",
]  # fmt: skip


class _FloatLayout(NamedTuple):
    """The bit layout of a float dtype."""

    bits: str
    fraction: int
    bias: int


_FORMATS = {
    "f16": _FloatLayout("i16", 10, 15),
    "bf16": _FloatLayout("i16", 7, 127),
    "f32": _FloatLayout("i32", 23, 127),
    "f64": _FloatLayout("i64", 52, 1023),
}


def bitcast(x: ArrayLike, dtype: DTypeLike) -> Array:
    """The bits of x as another dtype of equal width (`ndarray.view` of NumPy)."""
    return emit("bitcast", lift(x), dtype=dtypes.canonical_dtype(dtype))


# ---- floats -------------------------------------------------------------------------


def signbit(x: ArrayLike, /) -> Array:
    """Return whether the sign bit is set, of zero and NaN as well."""
    array = lift(x)
    if not dtypes.is_float(array.dtype):
        return less(array, 0)
    return less(bitcast(array, _FORMATS[array.dtype].bits), 0)


def copysign(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """`|x1|` with the sign of x2."""
    x, y = common_floats(x1, x2)
    return where(not_equal(signbit(x), signbit(y)), negative(x), x)


def nextafter(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The float next to x1 towards x2."""
    x, y = common_floats(x1, x2)
    kind = _FORMATS[x.dtype].bits
    rising = less(x, y)
    step = where(equal(rising, greater(x, 0)), lift(1, kind), lift(-1, kind))
    moved = bitcast(add(bitcast(x, kind), step), x.dtype)
    least = bitcast(lift(1, kind), x.dtype)
    moved = where(equal(x, 0), where(rising, least, negative(least)), moved)
    moved = where(logical_or(isnan(x), isnan(y)), add(x, y), moved)
    return where(equal(x, y), y, moved)


def ldexp(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """`x1 * 2**x2` for integers x2."""
    x, exponent = as_float(x1), lift(x2)
    if exponent.dtype not in dtypes.INTEGERS:
        fail("dtype-mismatch", f"expected integer exponents; got {exponent.type}")
    kind, fraction, bias = _FORMATS[x.dtype]
    if dtypes.bits(exponent.dtype) < 32:
        exponent = astype(exponent, "i32")
    most = 2 * bias + fraction + 1  # from the least to the greatest float
    least = 0 if exponent.dtype in dtypes.UNSIGNED else -most
    rest = astype(clip(exponent, least, most), kind)
    for _ in range(3):  # 2**rest itself need not be a float
        step = clip(rest, 1 - bias, bias)
        x, rest = multiply(x, _power_of_two(step, x.dtype)), subtract(rest, step)
    return x


def frexp(x: ArrayLike, /) -> tuple[Array, Array]:
    """Split x into m in [0.5, 1) and i32 n: `x = m * 2**n`; x and 0 if not finite."""
    array = as_float(x)
    if dtypes.bits(array.dtype) == 16:
        m, n = frexp(astype(array, "f32"))
        return astype(m, array.dtype), n
    kind, fraction, bias = _FORMATS[array.dtype]
    small = less(absolute(array), 2.0 ** (8 - bias))  # and perhaps subnormal
    scaled = where(small, multiply(array, 2.0 ** (fraction + 9)), array)
    field = right_shift(bitcast(absolute(scaled), kind), fraction)
    power = subtract(field, bias + 1)
    m = multiply(multiply(scaled, 0.25), _power_of_two(negative(power), array.dtype))
    n = subtract(add(power, 2), where(small, lift(fraction + 9, kind), lift(0, kind)))
    own = logical_or(equal(array, 0), equal(isfinite(array), False))
    return where(own, array, m), where(own, 0, astype(n, "i32"))


def _power_of_two(exponent: Array, dtype: str) -> Array:
    """Return 2**exponent, where that is a normal float."""
    _, fraction, bias = _FORMATS[dtype]
    return bitcast(left_shift(add(exponent, bias), fraction), dtype)


# ---- integers -----------------------------------------------------------------------


def bitwise_count(x: ArrayLike, /) -> Array:
    """Count the bits of `|x|` that are set, as u8."""
    array = _integers(x)
    if array.dtype in dtypes.SIGNED:
        array = bitcast(absolute(array), f"u{dtypes.bits(array.dtype)}")
    return astype(_ones(array), "u8")


def count_leading_zeros(x: ArrayLike) -> Array:
    """Count the bits above the highest one set; the width for 0 (NumPy has none)."""
    array = _integers(x)
    width = dtypes.bits(array.dtype)
    filled = bitcast(array, f"u{width}")
    for power in range(width.bit_length() - 1):  # the highest bit, to all below it
        filled = bitwise_or(filled, right_shift(filled, 1 << power))
    return bitcast(subtract(width, _ones(filled)), array.dtype)


def _integers(x: ArrayLike) -> Array:
    """Return an array of integers; raise for other dtypes."""
    array = lift(x)
    if array.dtype not in dtypes.INTEGERS:
        fail("dtype-mismatch", f"expected integers; got {array.type}")
    return array


def _ones(x: Array) -> Array:
    """Return the number of bits set in each unsigned integer."""
    width = dtypes.bits(x.dtype)
    field = 1
    while field < width:
        mask = ((1 << width) - 1) // ((1 << field) + 1)
        other = bitwise_and(right_shift(x, field), mask)
        x = add(bitwise_and(x, mask), other)
        field *= 2
    return x
