"""Elementwise rules of ops on numbers, by name: on arrays of one shape.

Integers wrap around. What is undefined for some element (an integer that a float does
not fit into, a shift by too many bits) is some number: code selects another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from aotc.dialects.lowering.error_functions import erf_numpy
from aotc.kernels.ttir.reading import TritonOp

Array = np.ndarray[Any, Any]


def _unsigned(x: Array) -> Array:
    """Return a view of signless integers as unsigned ones."""
    return x.view(f"u{x.dtype.itemsize}")


def _of_unsigned(function: Callable[..., Array]) -> Callable[..., Array]:
    """Return an elementwise function that takes its integers for unsigned."""
    return lambda *given: function(*map(_unsigned, given)).view(given[0].dtype)


def _quotient(x: Array, y: Array) -> Array:
    """Divide integers, rounding towards zero."""
    floor, rest = np.divmod(x, y)
    return np.asarray(floor + ((rest != 0) & ((rest < 0) != (x < 0))).astype(x.dtype))


def _remainder(x: Array, y: Array) -> Array:
    """Return the remainder of `_quotient`, which has the sign of x."""
    return np.asarray(x - _quotient(x, y) * y)


def _wide(function: Callable[..., Array]) -> Callable[..., Array]:
    """Return an elementwise function that computes in f64 and rounds once."""
    return lambda *given: function(*(x.astype("f8") for x in given)).astype(
        given[0].dtype
    )


def _shift_right_unsigned(x: Array, count: Array) -> Array:
    """Shift integers right, filling with zeros (`arith.shrui`)."""
    return np.right_shift(_unsigned(x), _unsigned(count)).view(x.dtype)


PLAIN: Mapping[str, Callable[..., Array]] = {
    "arith.addf": np.add,
    "arith.addi": np.add,
    "arith.subf": np.subtract,
    "arith.subi": np.subtract,
    "arith.mulf": np.multiply,
    "arith.muli": np.multiply,
    "arith.divf": np.divide,
    "tt.precise_divf": np.divide,
    "arith.remf": np.fmod,
    "arith.negf": np.negative,
    "arith.divsi": _quotient,
    "arith.divui": _of_unsigned(np.floor_divide),
    "arith.remsi": _remainder,
    "arith.remui": _of_unsigned(np.remainder),
    "arith.andi": np.bitwise_and,
    "arith.ori": np.bitwise_or,
    "arith.xori": np.bitwise_xor,
    "arith.shli": np.left_shift,
    "arith.shrsi": np.right_shift,
    "arith.shrui": _shift_right_unsigned,
    "arith.maximumf": np.maximum,
    "arith.minimumf": np.minimum,
    "arith.maxnumf": np.fmax,
    "arith.minnumf": np.fmin,
    "arith.maxsi": np.maximum,
    "arith.minsi": np.minimum,
    "arith.maxui": _of_unsigned(np.maximum),
    "arith.minui": _of_unsigned(np.minimum),
    "arith.select": np.where,
    "math.absf": np.abs,
    "math.absi": np.abs,
    "math.ceil": np.ceil,
    "math.cos": _wide(np.cos),
    "math.erf": _wide(erf_numpy),
    "math.exp": _wide(np.exp),
    "math.exp2": _wide(np.exp2),
    "math.floor": np.floor,
    "math.fma": _wide(lambda x, y, z: x * y + z),
    "math.log": _wide(np.log),
    "math.log2": _wide(np.log2),
    "math.rsqrt": _wide(lambda x: 1 / np.sqrt(x)),
    "math.sin": _wide(np.sin),
    "math.sqrt": _wide(np.sqrt),
    "tt.precise_sqrt": _wide(np.sqrt),
}

_OF_UNSIGNED = {"arith.extui", "arith.uitofp"}
_CONVERSIONS = {"arith.extf", "arith.extsi", "arith.fptosi", "arith.fptoui"}
_CONVERSIONS |= {"arith.sitofp", "arith.truncf", "arith.trunci", *_OF_UNSIGNED}

_INTEGER_ORDER = [np.equal, np.not_equal, np.less, np.less_equal, np.greater]
_INTEGER_ORDER += [np.greater_equal]
# of `arith.cmpf`, by number: those that are false where one is NaN, behind "false"
_FLOAT_ORDER = [np.equal, np.greater, np.greater_equal, np.less, np.less_equal]
_ORDERED = 7  # the number of the predicate that only asks for NaN


def _compare_integers(step: TritonOp, x: Array, y: Array) -> Array:
    """Compare integers in NumPy by the predicate number of an `arith.cmpi`."""
    number = step.attributes["predicate"]
    if number >= len(_INTEGER_ORDER):
        number, x, y = number - 4, _unsigned(x), _unsigned(y)
    return np.asarray(_INTEGER_ORDER[number](x, y))


def _compare_floats(step: TritonOp, x: Array, y: Array) -> Array:
    """Evaluate `arith.cmpf` by the number of its predicate."""
    number = step.attributes["predicate"]
    has_nan = np.isnan(x) | np.isnan(y)
    if number in (0, 15):
        return np.full(has_nan.shape, number == 15)
    if number >= _ORDERED:
        if number == _ORDERED:
            return ~has_nan
        inverse = number - _ORDERED
        if inverse == _ORDERED:
            return has_nan
        return has_nan | _ordered(inverse, x, y)
    return ~has_nan & _ordered(number, x, y)


def _ordered(number: int, x: Array, y: Array) -> Array:
    """Compare floats by the number of an ordered predicate, NaN not considered."""
    compare = [*_FLOAT_ORDER, np.not_equal][number - 1]
    return np.asarray(compare(x, y))


def _convert(step: TritonOp, x: Array) -> Array:
    """Evaluate a conversion op between dtypes, such as `arith.extsi`."""
    (kind,) = step.kinds
    if x.dtype == bool and step.name in ("arith.extsi", "arith.sitofp"):
        return -x.astype(kind.dtype)  # the bit of an i1 is its sign
    x = _unsigned(x) if step.name in _OF_UNSIGNED and x.dtype != bool else x
    if step.name == "arith.trunci" and kind.dtype == bool:
        return (x & 1).astype(bool)
    if step.name == "arith.fptoui":
        return x.astype(f"u{kind.dtype.itemsize}").view(kind.dtype)
    return x.astype(kind.dtype)


def evaluate_elementwise(step: TritonOp, operands: list[Array]) -> Array | None:
    """Evaluate an elementwise op on arrays; return None for other ops."""
    if step.name in PLAIN:
        return np.asarray(PLAIN[step.name](*operands))
    if step.name in _CONVERSIONS:
        return _convert(step, *operands)
    if step.name == "arith.cmpi":
        return _compare_integers(step, *operands)
    if step.name == "arith.cmpf":
        return _compare_floats(step, *operands)
    if step.name == "tt.bitcast":
        (x,) = operands
        return x.view(step.kinds[0].dtype)
    return None
