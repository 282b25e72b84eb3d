"""Conversions between ONNX's types, those that are no dtypes of aotc included.

A float of 8 or 4 bits is an f32 that is rounded to what the type has. Micikevicius et
al., "FP8 formats for deep learning", 2022; OCP, "Microscaling formats", 2023.
"""

from __future__ import annotations

import math

import numpy

from aotc import numpy as np
from aotc.core import dtypes
from aotc.importers.onnx.calling import Imports
from aotc.importers.onnx.elements import Element, element, value_table
from aotc.importers.onnx.values import Known, element_of, with_element_type
from aotc.tracing.array import Array


def cast(x: Array, *, to: int, saturate: int = 1, round_mode: str = "up") -> Array:
    """Return x cast to ONNX's element type number `to`, narrow types included."""
    kind = element(to)
    if kind.is_narrow_float:
        found = round_to_narrow(np.astype(x, "f32"), kind, bool(saturate), round_mode)
    elif kind.narrow is not None:
        found = _wrap_to_bits(x, kind)
    elif kind.dtype == "bool" or not dtypes.is_float(x.dtype):
        found = np.astype(x, kind.dtype)
    else:
        found = _from_float(x, kind.dtype)
    return with_element_type(found, kind, to)


def cast_like(
    x: Array, like: Array, *, saturate: int = 1, round_mode: str = "up"
) -> Array:
    """Return x cast to the element type of `like`."""
    return cast(x, to=element_of(like), saturate=saturate, round_mode=round_mode)


def _from_float(x: Array, dtype: str) -> Array:
    """Return a float array cast to a dtype."""
    return np.astype(x, dtype)


def _wrap_to_bits(x: Array, kind: Element) -> Array:
    """Return numbers as integers, wrapped to the bits of a narrow integer type."""
    wide = np.astype(np.rint(x), "i32") if dtypes.is_float(x.dtype) else x
    wide = np.astype(wide, "i32")
    kept = np.bitwise_and(wide, 2**kind.bits - 1)
    if kind.dtype == "i8":
        half = 2 ** (kind.bits - 1)
        kept = np.subtract(np.bitwise_xor(kept, half), half)
    return np.astype(kept, kind.dtype)


def round_to_narrow(x: Array, kind: Element, saturate: bool, mode: str = "up") -> Array:
    """Return f32 rounded to the nearest value of a narrow float type, ties to even."""
    if kind.name == "FLOAT8E8M0":
        return _power_of_two(x, saturate, mode)
    values = value_table(kind)
    finite = numpy.sort(values[numpy.isfinite(values) & (values > 0)])
    smallest, largest = float(finite[0]), float(finite[-1])
    # the finest step of the type is its smallest number; each octave has as many steps
    steps = int(numpy.sum((finite >= 1) & (finite < 2)))
    size = np.minimum(np.absolute(x), 2 * largest)
    exponent = _log2(np.maximum(size, 2.0**-30))
    step = np.maximum(np.divide(_exp2(exponent), float(steps)), smallest)
    near = np.multiply(np.rint(np.divide(size, step)), step)
    return _apply_sign_and_range(x, near, values, largest, saturate)


def _apply_sign_and_range(
    x: Array, near: Array, values: Known, largest: float, saturate: bool
) -> Array:
    """Return the magnitudes `near` with the signs of x; those above `largest` saturate
    or overflow.
    """
    holds_nan = bool(numpy.isnan(values).any())
    beyond = math.inf if numpy.isinf(values).any() else math.nan
    beyond = largest if saturate or not holds_nan else beyond
    found = np.copysign(np.where(np.greater(near, largest), beyond, near), x)
    if (numpy.signbit(values) & (values == 0)).sum() == 0:
        found = np.add(found, 0.0)  # there is no -0
    return np.where(np.isnan(x), math.nan if holds_nan else 0.0, found)


def _power_of_two(x: Array, saturate: bool, mode: str) -> Array:
    """Return x rounded to powers of two, as the 8-bit exponent type (E8M0) has them."""
    size = np.absolute(x)
    low = np.floor(_log2(np.maximum(size, 2.0**-127)))
    below = _exp2(low)
    share = np.divide(size, below)
    limit = {"up": 1.0, "nearest": 1.5, "down": 2.0}[mode]
    reached = np.greater_equal(share, limit)
    up = np.greater(share, 1.0) if mode == "up" else reached
    found = np.multiply(below, np.where(up, 2.0, 1.0))
    top = 2.0**127 if saturate else math.nan
    found = np.where(np.greater(found, 2.0**127), top, found)
    return np.where(np.isnan(x), math.nan, np.maximum(found, 2.0**-127))


def _log2(x: Array) -> Array:
    """Return the exponent of positive f32 numbers, exactly."""
    bits = np.bitcast(x, "i32")
    return np.astype(np.subtract(np.right_shift(bits, 23), 127), "f32")


def _exp2(exponent: Array) -> Array:
    """Return 2**exponent in f32, exactly."""
    bits = np.left_shift(np.add(np.astype(exponent, "i32"), 127), 23)
    return np.bitcast(bits, "f32")


TABLE: dict[str, Imports] = {"Cast": cast, "CastLike": cast_like}
