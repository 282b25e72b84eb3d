"""Facts on a value: the op that computes it, and the number that all elements are."""

from functools import lru_cache
from typing import Any, TypeVar

import numpy as np

from aotc.dialects.attributes import DenseElements
from aotc.dialects.builder import Builder
from aotc.dialects.graph import GraphOp
from aotc.mlir import Value, ir

Op = TypeVar("Op", bound=GraphOp)


def made_by(value: Value, cls: type[Op]) -> Op | None:
    """Return the op that computes `value` if it is of class `cls`, else None."""
    found: Op | None = _computed_by(value, cls.OPERATION_NAME)
    return found


def _computed_by(value: Value, operation: str) -> Any:
    """Return the op that computes `value` if it has that name, else None."""
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name != operation:
        return None
    return owner.opview


def splat_of(value: Value) -> float | None:
    """Return the number that every element of `value` is known to be, or None."""
    owner = value.owner
    name = "" if isinstance(owner, ir.Block) else owner.name
    if name == "graph.broadcast":
        return splat_of(owner.operands[0])
    if name != "graph.constant":
        return None
    return _splat_number(owner.attributes["value"])


@lru_cache(maxsize=2**14)  # few constants, which every pass asks about
def _splat_number(elements: ir.Attribute) -> float | None:
    """Return the number that every element of a constant is, or None."""
    array = DenseElements.decode(elements)
    if array.dtype == bool:
        return None
    number = number_in(array)
    return None if number is None else float(number)


def number_in(array: np.ndarray) -> Any | None:
    """Return the number that all elements of an array are, or None.

    Zeros of both signs are two numbers, and NaN is none.
    """
    if array.size == 0:
        return None
    first = array.flat[0]
    is_one = (array == first).all() and array.tobytes() == first.tobytes() * array.size
    return first if is_one else None


def repeated_scalar(b: Builder, value: Value) -> Value | None:
    """Return or emit a scalar that every element of `value` is known to be; or None."""
    while (inner := _computed_by(value, "graph.broadcast")) is not None:
        value = inner.x
    if not ir.RankedTensorType(value.type).shape:
        return value
    constant = _computed_by(value, "graph.constant")
    if constant is None or splat_of(value) is None:
        return None
    return b.constant(value=constant.value.reshape(-1)[0])


def truth_of(value: Value) -> bool | None:
    """Return the truth value that every element of a bool `value` is, or None."""
    while (inner := _computed_by(value, "graph.broadcast")) is not None:
        value = inner.x
    constant = _computed_by(value, "graph.constant")
    return None if constant is None else _truth(constant.attributes["value"])


@lru_cache(maxsize=2**12)
def _truth(elements: ir.Attribute) -> bool | None:
    """Return the truth value that every element of a constant is, or None."""
    array = DenseElements.decode(elements)
    if array.dtype != bool or array.size == 0:
        return None
    return bool(array.flat[0]) if array.all() or not array.any() else None
