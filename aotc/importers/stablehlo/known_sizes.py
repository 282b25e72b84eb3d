"""Arithmetic on sizes: ops whose operands are all `KnownTensor` give a `KnownTensor`
again.

Comparisons hold or fail by the contracts of the sizes. Where these do not decide, or an
op is not in the table, the interpreter computes with arrays instead.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy

from aotc.core import dtypes
from aotc.dialects.types import Size, maximum, minimum
from aotc.errors import InputError
from aotc.importers.common.known_sizes import (
    divide,
    elementwise,
    is_different,
    is_equal,
    remainder,
    select,
    sign,
    wrap,
)
from aotc.importers.stablehlo.operation import Op
from aotc.importers.stablehlo.values import (
    LARGEST_KNOWN,
    SIZE_DTYPES,
    KnownTensor,
    Value,
)


def computed_sizes(op: Op, operands: Sequence[Value]) -> Value | None:
    """The result of `op` where it is about sizes only; None where it is not."""
    try:
        if op.name in _SHORTCUTS:
            shortcut: Value | None = _SHORTCUTS[op.name](*operands)
            if shortcut is not None:
                return shortcut
        known = [x.data for x in operands if isinstance(x, KnownTensor)]
        if op.name not in _ON_SIZES or len(known) < len(operands) or not _is_short(op):
            return None
        data = _ON_SIZES[op.name](op, *known)
    except InputError:
        return None
    return KnownTensor(
        _wrap_to_dtype(data, op.kind.dtype).reshape(op.kind.shape), op.kind.dtype
    )


def _is_short(op: Op) -> bool:
    """Return whether the result may be a Known."""
    kind = op.kinds[0]
    if kind is None or kind.is_complex or kind.dtype not in SIZE_DTYPES:
        return False
    count = math.prod(LARGEST_KNOWN + 1 if n is None else n for n in kind.shape)
    most = 2 if op.name in _OF_MATRICES else 1
    return len(kind.shape) <= most and count <= LARGEST_KNOWN


def _wrap_to_dtype(data: numpy.ndarray, dtype: str) -> Any:
    """Wrap numbers to the range of the dtype; sizes fit by assumption."""
    if dtype == "bool":
        return elementwise(bool, 1)(data)
    return elementwise(partial(wrap, bits=dtypes.bits(dtype)), 1)(data)


def _on(function: Callable[..., numpy.ndarray]) -> Callable[..., numpy.ndarray]:
    """Wrap a function of arrays as one of an op and its operands."""
    return lambda op, *xs: function(*xs)


def _elementwise(
    function: Callable[..., Size], arity: int = 2
) -> Callable[..., numpy.ndarray]:
    return _on(elementwise(function, arity))


# ---- elements -----------------------------------------------------------------------

_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "EQ": is_equal,
    "NE": is_different,
    "LT": operator.lt,
    "LE": operator.le,
    "GT": operator.gt,
    "GE": operator.ge,
}


def _compare(op: Op, a: numpy.ndarray, b: numpy.ndarray) -> numpy.ndarray:
    return elementwise(_COMPARISONS[op.word("comparison_direction")])(a, b)


# ---- shapes -------------------------------------------------------------------------


def _slice(op: Op, x: numpy.ndarray) -> numpy.ndarray:
    (start,), (limit,), (step,) = (
        op.ints(name) for name in ("start_indices", "limit_indices", "strides")
    )
    return x[start:limit:step]


def _broadcast(op: Op, x: numpy.ndarray) -> numpy.ndarray:
    return numpy.broadcast_to(x, [n or 0 for n in op.kind.shape])


def _clamp(
    op: Op, low: numpy.ndarray, x: numpy.ndarray, high: numpy.ndarray
) -> numpy.ndarray:
    return elementwise(minimum)(elementwise(maximum)(x, low), high)


_ON_SIZES: dict[str, Callable[..., Any]] = {
    "stablehlo.add": _elementwise(operator.add),
    "stablehlo.subtract": _elementwise(operator.sub),
    "stablehlo.multiply": _elementwise(operator.mul),
    "stablehlo.divide": _elementwise(divide),
    "stablehlo.remainder": _elementwise(remainder),
    "stablehlo.maximum": _elementwise(maximum),
    "stablehlo.minimum": _elementwise(minimum),
    "stablehlo.negate": _elementwise(operator.neg, 1),
    "stablehlo.sign": _elementwise(sign, 1),
    "stablehlo.compare": _compare,
    "stablehlo.clamp": _clamp,
    "stablehlo.select": _on(select),
    "stablehlo.convert": _on(lambda x: x),
    "stablehlo.reshape": _on(lambda x: x),
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
    if isinstance(value, KnownTensor) and value.dtype == "bool" and not value.ndim:
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


def _select(which: Value, one: Value, other: Value) -> Value | None:
    truth = _truth(which)
    return None if truth is None else one if truth else other


_SHORTCUTS: dict[str, Callable[..., Value | None]] = {
    "stablehlo.and": _and,
    "stablehlo.or": _or,
    "stablehlo.select": _select,
}
