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
    """Return an op's result computed on known sizes; None where that is not
    possible.
    """
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
    """Return whether an op's result is small enough to hold sizes as a KnownTensor."""
    kind = op.kinds[0]
    if kind is None or kind.is_complex or kind.dtype not in SIZE_DTYPES:
        return False
    count = math.prod(LARGEST_KNOWN + 1 if n is None else n for n in kind.shape)
    most = 2 if op.name in _OF_MATRICES else 1
    return len(kind.shape) <= most and count <= LARGEST_KNOWN


def _wrap_to_dtype(data: numpy.ndarray, dtype: str) -> Any:
    """Return numbers wrapped to an integer dtype's range; symbolic sizes as
    they are.
    """
    if dtype == "bool":
        return elementwise(bool, 1)(data)
    return elementwise(partial(wrap, bits=dtypes.bits(dtype)), 1)(data)


def _of_operands(
    function: Callable[..., numpy.ndarray],
) -> Callable[..., numpy.ndarray]:
    """Return a rule (op, operands) that calls a function of the operands."""
    return lambda op, *xs: function(*xs)


def _elementwise(
    function: Callable[..., Size], arity: int = 2
) -> Callable[..., numpy.ndarray]:
    """Return a rule that applies a function of sizes elementwise."""
    return _of_operands(elementwise(function, arity))


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
    """Return the bools of a compare op on known sizes."""
    return elementwise(_COMPARISONS[op.word("comparison_direction")])(a, b)


# ---- shapes -------------------------------------------------------------------------


def _slice(op: Op, x: numpy.ndarray) -> numpy.ndarray:
    """Return the result of a slice op on a known vector."""
    (start,), (limit,), (step,) = (
        op.ints(name) for name in ("start_indices", "limit_indices", "strides")
    )
    return x[start:limit:step]


def _broadcast(op: Op, x: numpy.ndarray) -> numpy.ndarray:
    """Return the result of a broadcast op on known sizes."""
    return numpy.broadcast_to(x, [n or 0 for n in op.kind.shape])


def _clamp(
    op: Op, low: numpy.ndarray, x: numpy.ndarray, high: numpy.ndarray
) -> numpy.ndarray:
    """Return sizes clamped between two bounds."""
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
    "stablehlo.select": _of_operands(select),
    "stablehlo.convert": _of_operands(lambda x: x),
    "stablehlo.reshape": _of_operands(lambda x: x),
    "stablehlo.slice": _slice,
    "stablehlo.broadcast_in_dim": _broadcast,
    "stablehlo.concatenate": lambda op, *xs: numpy.concatenate(
        xs, op.integer("dimension")
    ),
}
_OF_MATRICES = ("stablehlo.concatenate", "stablehlo.reshape")  # padding is one


# ---- where one operand decides ------------------------------------------------------


def _known_bool(value: Value) -> bool | None:
    """Return the value of a known bool scalar; None otherwise."""
    if isinstance(value, KnownTensor) and value.dtype == "bool" and not value.ndim:
        return bool(value.data.item())
    return None


def _and(one: Value, other: Value) -> Value | None:
    """Return `one and other` if the known one decides it; None otherwise."""
    truths = _known_bool(one), _known_bool(other)
    if False in truths:
        return one if truths[0] is False else other
    return other if truths[0] else one if truths[1] else None


def _or(one: Value, other: Value) -> Value | None:
    """Return `one or other` if the known one decides it; None otherwise."""
    truths = _known_bool(one), _known_bool(other)
    if True in truths:
        return one if truths[0] else other
    return other if truths[0] is False else one if truths[1] is False else None


def _select(which: Value, one: Value, other: Value) -> Value | None:
    """Return the operand that a known condition selects; None otherwise."""
    truth = _known_bool(which)
    return None if truth is None else one if truth else other


_SHORTCUTS: dict[str, Callable[..., Value | None]] = {
    "stablehlo.and": _and,
    "stablehlo.or": _or,
    "stablehlo.select": _select,
}
