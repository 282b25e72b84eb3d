"""Arithmetic on sizes: ops whose operands are all `Known` give a `Known` again.

Comparisons hold or fail by the contracts of the sizes. Where these do not decide, or an
op is not in the table, the interpreter computes with arrays instead.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy

from aotc import dtypes
from aotc.dialects import types
from aotc.dialects.types import Dim, Size
from aotc.errors import InputError
from aotc.importers.stablehlo.operation import Op
from aotc.importers.stablehlo.values import LARGEST_KNOWN, SIZE_DTYPES, Known, Value


class Undecided(Exception):
    """No contract says what the result is."""


def fold(op: Op, operands: Sequence[Value]) -> Value | None:
    """The result of `op` where it is about sizes only; None where it is not."""
    try:
        if op.name in _SHORTCUTS:
            shortcut: Value | None = _SHORTCUTS[op.name](*operands)
            if shortcut is not None:
                return shortcut
        known = [x.data for x in operands if isinstance(x, Known)]
        if op.name not in _FOLDS or len(known) < len(operands) or not _is_short(op):
            return None
        data = _FOLDS[op.name](op, *known)
    except (Undecided, InputError):
        return None
    return Known(_wrapped(data, op.kind.dtype).reshape(op.kind.shape), op.kind.dtype)


def _is_short(op: Op) -> bool:
    """Whether the result may be a Known."""
    kind = op.kinds[0]
    if kind is None or kind.is_complex or kind.dtype not in SIZE_DTYPES:
        return False
    count = math.prod(LARGEST_KNOWN + 1 if n is None else n for n in kind.shape)
    most = 2 if op.name in _OF_MATRICES else 1
    return len(kind.shape) <= most and count <= LARGEST_KNOWN


def _wrapped(data: Any, dtype: str) -> Any:
    """Numbers as the dtype holds them; sizes fit by assumption."""
    if dtype == "bool":
        return _each(bool, 1)(data)
    width = dtypes.bits(dtype)
    half = 1 << (width - 1)

    def wrap(item: Any) -> Any:
        return item if isinstance(item, Dim) else (int(item) + half) % (2 * half) - half

    return _each(wrap, 1)(data)


def _each(function: Callable[..., Any], arity: int = 2) -> Callable[..., Any]:
    """`function` of the elements; the result holds objects."""
    many = numpy.frompyfunc(function, arity, 1)
    return lambda *xs: numpy.asarray(many(*xs), object)


# ---- elements -----------------------------------------------------------------------


def _divide(a: Size, b: Size) -> Size:
    """Towards zero, as StableHLO does."""
    if isinstance(a, int) and isinstance(b, int):
        if b == 0:
            raise Undecided
        return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    if types.bounds(a)[0] < 0 or types.bounds(b)[0] < 1:
        raise Undecided
    return a // b


def _remainder(a: Size, b: Size) -> Size:
    quotient = _divide(a, b)
    numbers = isinstance(a, int) and isinstance(b, int)
    return a - quotient * b if numbers else a % b


def _sign(a: Size) -> int:
    low, high = types.bounds(a)
    if low > 0 or high < 0 or low == high == 0:
        return (low > 0) - (high < 0)
    raise Undecided


def _equal(a: Any, b: Any) -> bool:
    low, high = types.bounds(a - b)
    if low == high == 0:
        return True
    if low > 0 or high < 0:
        return False
    raise Undecided


_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "EQ": _equal,
    "NE": lambda a, b: not _equal(a, b),
    "LT": operator.lt,
    "LE": operator.le,
    "GT": operator.gt,
    "GE": operator.ge,
}


def _elementwise(function: Callable[..., Any], arity: int = 2) -> Callable[..., Any]:
    many = _each(function, arity)
    return lambda op, *xs: many(*xs)


def _compare(op: Op, a: Any, b: Any) -> Any:
    return _each(_COMPARISONS[op.word("comparison_direction")])(a, b)


# ---- shapes -------------------------------------------------------------------------


def _slice(op: Op, x: Any) -> Any:
    (start,), (limit,), (step,) = (
        op.ints(name) for name in ("start_indices", "limit_indices", "strides")
    )
    return x[start:limit:step]


def _broadcast(op: Op, x: Any) -> Any:
    return numpy.broadcast_to(x, [n or 0 for n in op.kind.shape])


def _select(op: Op, which: Any, one: Any, other: Any) -> Any:
    return numpy.where(which.astype(bool), one, other)


def _clamp(op: Op, low: Any, x: Any, high: Any) -> Any:
    return _each(types.minimum)(_each(types.maximum)(x, low), high)


_FOLDS: dict[str, Callable[..., Any]] = {
    "stablehlo.add": _elementwise(operator.add),
    "stablehlo.subtract": _elementwise(operator.sub),
    "stablehlo.multiply": _elementwise(operator.mul),
    "stablehlo.divide": _elementwise(_divide),
    "stablehlo.remainder": _elementwise(_remainder),
    "stablehlo.maximum": _elementwise(types.maximum),
    "stablehlo.minimum": _elementwise(types.minimum),
    "stablehlo.negate": _elementwise(operator.neg, 1),
    "stablehlo.sign": _elementwise(_sign, 1),
    "stablehlo.compare": _compare,
    "stablehlo.clamp": _clamp,
    "stablehlo.select": _select,
    "stablehlo.convert": lambda op, x: x,
    "stablehlo.reshape": lambda op, x: x,
    "stablehlo.slice": _slice,
    "stablehlo.broadcast_in_dim": _broadcast,
    "stablehlo.concatenate": lambda op, *xs: numpy.concatenate(
        xs, op.integer("dimension")
    ),
}
_OF_MATRICES = ("stablehlo.concatenate", "stablehlo.reshape")  # padding is one


# ---- where one operand decides ------------------------------------------------------


def _truth(value: Value) -> bool | None:
    """The bool of a scalar that is known."""
    if isinstance(value, Known) and value.dtype == "bool" and not value.ndim:
        return bool(value.data.item())
    return None


def _and(one: Value, other: Value) -> Value | None:
    truths = _truth(one), _truth(other)
    if False in truths:
        return one if truths[0] is False else other
    return other if truths[0] else one if truths[1] else None


def _or(one: Value, other: Value) -> Value | None:
    truths = _truth(one), _truth(other)
    if True in truths:
        return one if truths[0] else other
    return other if truths[0] is False else one if truths[1] is False else None


def _chosen(which: Value, one: Value, other: Value) -> Value | None:
    truth = _truth(which)
    return None if truth is None else one if truth else other


_SHORTCUTS: dict[str, Callable[..., Value | None]] = {
    "stablehlo.and": _and,
    "stablehlo.or": _or,
    "stablehlo.select": _chosen,
}
