"""ATen ops that work element by element."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from aotc import nn, special
from aotc import numpy as np
from aotc.core import dtypes
from aotc.importers.torch.promotion import (
    Operand,
    as_dtype,
    promote,
    promote_floats,
    promoting,
    promoting_floats,
    result_dtype,
)
from aotc.tracing.array import Array
from aotc.tracing.conversion import as_float, lift


def add(x: Operand, y: Operand, alpha: Operand = 1) -> Array:
    """Return `x + alpha * y`."""
    x, y = promote(x, y)
    return np.add(x, y if alpha == 1 else np.multiply(y, alpha))


def subtract(x: Operand, y: Operand, alpha: Operand = 1) -> Array:
    """Return `x - alpha * y`."""
    x, y = promote(x, y)
    return np.subtract(x, y if alpha == 1 else np.multiply(y, alpha))


def divide(x: Operand, y: Operand, rounding_mode: str | None = None) -> Array:
    """Return `x / y`, rounded by a mode; a float if it is not rounded."""
    if rounding_mode == "floor":
        return np.floor_divide(*promote(x, y))
    if rounding_mode == "trunc":
        return _truncated_quotient(*promote(x, y))
    return np.divide(*promote_floats(x, y))


def _truncated_quotient(x: Array, y: Array) -> Array:
    """Return the quotient rounded towards 0."""
    if dtypes.is_float(x.dtype):
        return np.trunc(np.divide(x, y))
    down, rest = np.divmod(x, y)
    is_below = np.not_equal(np.less(x, 0), np.less(y, 0))
    return np.add(down, np.astype(np.logical_and(is_below, rest != 0), down.dtype))


def power(x: Operand, y: Operand) -> Array:
    """Return `x ** y`; an exponent that is a number stays one."""
    dtype = result_dtype(x, y)
    return np.power(as_dtype(x, dtype), as_dtype(y, dtype) if _is_array(y) else y)


def _is_array(x: object) -> bool:
    """Return whether a value is an array, not a number or size."""
    return isinstance(x, Array)


def float_power(x: Operand, y: Operand) -> Array:
    """Return `x ** y` in f64."""
    return np.power(as_dtype(x, "f64"), as_dtype(y, "f64"))


def clamp(x: Operand, low: Operand | None = None, high: Operand | None = None) -> Array:
    """Return x clipped to bounds, of which one may be missing."""
    bounds = [bound for bound in (low, high) if bound is not None]
    dtype = result_dtype(x, *bounds)
    y = as_dtype(x, dtype)
    if low is not None:
        y = np.maximum(y, as_dtype(low, dtype))
    return y if high is None else np.minimum(y, as_dtype(high, dtype))


def where(condition: Array, x: Any = None, y: Any = None) -> Array:
    """Return x where the condition holds, else y."""
    return np.where(np.astype(condition, "bool"), *promote(x, y))


def cast(x: Array, dtype: str | None = None, *_: object, **__: object) -> Array:
    """Return x in another dtype."""
    return x if dtype is None else np.astype(x, dtype)


def copy(into: Array, x: Array, *_: object) -> Array:
    """Return x broadcast to the shape, and in the dtype, of `into`."""
    return np.broadcast_to(np.astype(x, into.dtype), into.shape)


def same(x: Array, *_: object, **__: object) -> Array:
    """Return x, for ops that only move memory."""
    return x


def round_decimals(x: Array, decimals: int = 0) -> Array:
    """Return x rounded to a number of decimals, ties to even."""
    return np.round(x, decimals)


def nan_to_num(
    x: Array,
    nan: float | None = None,
    posinf: float | None = None,
    neginf: float | None = None,
) -> Array:
    """Return x with NaN and infinities replaced by numbers."""
    return np.nan_to_num(x, nan=nan or 0.0, posinf=posinf, neginf=neginf)


def angle(x: Array) -> Array:
    """Return pi for negative numbers, 0 for others; NaN for NaN."""
    y = as_float(x)
    turned = np.where(np.less(y, 0), math.pi, np.zeros_like(y))
    return np.where(np.isnan(y), y, turned)


def digamma(x: Array) -> Array:
    """Return the digamma function of x; -infinity at 0, +infinity at -0."""
    y = as_float(x)
    pole = np.copysign(np.full_like(y, math.inf), np.negative(y))
    return np.where(np.equal(y, 0), pole, special.digamma(y))


def heaviside(x: Array, at_zero: Array) -> Array:
    """Return 0 for negative x and NaN, 1 for positive x, `at_zero` at 0."""
    return np.astype(np.heaviside(_without_nan(x, -1), at_zero), x.dtype)


def sign(x: Array) -> Array:
    """Return -1, 0 or 1; 0 for NaN."""
    return np.sign(_without_nan(x, 0))


def _without_nan(x: Array, number: int) -> Array:
    """Return x with NaN replaced by a number."""
    return np.where(np.isnan(x), number, x) if dtypes.is_float(x.dtype) else x


def on_truth_values(function: Callable[..., Array]) -> Callable[..., Array]:
    """Wrap a function of bools to take arrays of any dtype."""

    def call(*operands: Operand) -> Array:
        return function(*(np.astype(lift(x), "bool") for x in operands))

    return call


OPS: dict[str, Callable[..., Any]] = {
    # arithmetic
    "aten.add": add,
    "aten.sub": subtract,
    "aten.rsub": lambda x, y, alpha=1: subtract(y, x, alpha),
    "aten.mul": promoting(np.multiply),
    "aten.div": divide,
    "aten.floor_divide": promoting(np.floor_divide),
    "aten.true_divide": divide,
    "aten.remainder": promoting(np.remainder),
    "aten.fmod": promoting(np.fmod),
    "aten.pow": power,
    "aten.float_power": float_power,
    "aten.neg": np.negative,
    "aten.abs": np.absolute,
    "aten.sign": sign,
    "aten.sgn": sign,
    "aten.angle": angle,
    "aten.square": lambda x: power(x, 2),
    "aten.reciprocal": np.reciprocal,
    "aten.maximum": promoting(np.maximum),
    "aten.minimum": promoting(np.minimum),
    "aten.fmax": promoting(np.fmax),
    "aten.fmin": promoting(np.fmin),
    "aten.clamp": clamp,
    "aten.clamp_min": clamp,
    "aten.clamp_max": lambda x, high: clamp(x, None, high),
    "aten.gcd": promoting(np.gcd),
    "aten.lcm": promoting(np.lcm),
    # rounding
    "aten.ceil": np.ceil,
    "aten.floor": np.floor,
    "aten.round": round_decimals,
    "aten.trunc": np.trunc,
    "aten.fix": np.trunc,
    # exponentials and logarithms
    "aten.exp": np.exp,
    "aten.exp2": np.exp2,
    "aten.expm1": np.expm1,
    "aten.log": np.log,
    "aten.log10": np.log10,
    "aten.log1p": np.log1p,
    "aten.log2": np.log2,
    "aten.logaddexp": promoting_floats(np.logaddexp),
    "aten.logaddexp2": promoting_floats(np.logaddexp2),
    "aten.sqrt": np.sqrt,
    "aten.rsqrt": np.rsqrt,
    "aten.xlogy": promoting_floats(special.xlogy),
    "aten.special_xlog1py": promoting_floats(special.xlog1py),
    # trigonometry
    "aten.sin": np.sin,
    "aten.cos": np.cos,
    "aten.tan": np.tan,
    "aten.asin": np.arcsin,
    "aten.acos": np.arccos,
    "aten.atan": np.arctan,
    "aten.atan2": promoting_floats(np.arctan2),
    "aten.sinh": np.sinh,
    "aten.cosh": np.cosh,
    "aten.tanh": np.tanh,
    "aten.asinh": np.arcsinh,
    "aten.acosh": np.arccosh,
    "aten.atanh": np.arctanh,
    "aten.hypot": promoting(np.hypot),
    "aten.sinc": np.sinc,
    # special functions
    "aten.erf": special.erf,
    "aten.erfc": special.erfc,
    "aten.erfinv": special.erfinv,
    "aten.lgamma": special.gammaln,
    "aten.digamma": digamma,
    "aten.polygamma": special.polygamma,
    "aten.i0": promoting_floats(special.i0),
    "aten.special_i0e": promoting_floats(special.i0e),
    "aten.special_i1": promoting_floats(special.i1),
    "aten.special_i1e": promoting_floats(special.i1e),
    "aten.special_modified_bessel_i0": promoting_floats(special.i0),
    "aten.special_modified_bessel_i1": promoting_floats(special.i1),
    "aten.special_entr": special.entr,
    "aten.special_ndtri": special.ndtri,
    "aten.special_log_ndtr": special.log_ndtr,
    # bits of numbers
    "aten.copysign": promoting_floats(np.copysign),
    "aten.nextafter": promoting_floats(np.nextafter),
    "aten.heaviside": promoting(heaviside),
    "aten.signbit": np.signbit,
    "aten.frexp": np.frexp,
    "aten.ldexp": promoting_floats(lambda x, e: np.multiply(x, np.exp2(e))),
    # comparison and truth
    "aten.eq": promoting(np.equal),
    "aten.ne": promoting(np.not_equal),
    "aten.lt": promoting(np.less),
    "aten.le": promoting(np.less_equal),
    "aten.gt": promoting(np.greater),
    "aten.ge": promoting(np.greater_equal),
    "aten.logical_and": on_truth_values(np.logical_and),
    "aten.logical_or": on_truth_values(np.logical_or),
    "aten.logical_xor": on_truth_values(np.logical_xor),
    "aten.logical_not": on_truth_values(np.logical_not),
    "aten.isnan": np.isnan,
    "aten.isinf": np.isinf,
    "aten.isfinite": np.isfinite,
    "aten.isposinf": np.isposinf,
    "aten.isneginf": np.isneginf,
    "aten.nan_to_num": nan_to_num,
    "aten.where.self": where,
    "aten.where.ScalarSelf": where,
    "aten.where.ScalarOther": where,
    "aten.where.Scalar": where,
    # bits
    "aten.bitwise_and": promoting(np.bitwise_and),
    "aten.bitwise_or": promoting(np.bitwise_or),
    "aten.bitwise_xor": promoting(np.bitwise_xor),
    "aten.bitwise_not": np.invert,
    "aten.bitwise_left_shift": promoting(np.left_shift),
    "aten.bitwise_right_shift": promoting(np.right_shift),
    # dtypes and memory
    "aten._to_copy": cast,
    "aten.to.dtype": cast,
    "prims.convert_element_type": cast,
    "aten.copy": copy,
    "aten.clone": same,
    "aten.alias": same,
    "aten.contiguous": same,
    "aten.lift_fresh_copy": same,
    "aten.lift_fresh": same,
    "aten.positive": same,
    "aten.real": same,
    "aten.conj_physical": same,
    "aten.resolve_conj": same,
    "aten.resolve_neg": same,
    "aten.detach": nn.stop_gradient,
    "aten.detach_copy": nn.stop_gradient,
}
