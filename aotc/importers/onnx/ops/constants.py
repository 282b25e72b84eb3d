"""Operators without computation: constants, and the shape of an array."""

from __future__ import annotations

import numpy

from aotc import numpy as np
from aotc.dialects.types import element_count
from aotc.importers.onnx.calling import Imports
from aotc.importers.onnx.values import Known, Value, integers, size_tensor
from aotc.tracing.array import Array
from aotc.tracing.conversion import lift
from aotc.tracing.source_locations import fail


def constant(
    *,
    value: Array | None = None,
    sparse_value: Array | None = None,
    value_float: float | None = None,
    value_floats: tuple[float, ...] | None = None,
    value_int: int | None = None,
    value_ints: tuple[int, ...] | None = None,
) -> Array:
    """Return the tensor that one of the attributes holds."""
    tensor = sparse_value if value is None else value
    if tensor is not None:
        return tensor
    floats = value_floats if value_float is None else value_float
    integers = value_ints if value_int is None else value_int
    if floats is None and integers is None:
        fail("bad-node", "the constant has no value")
    if floats is None:
        return lift(numpy.array(integers, "i8"))
    return lift(numpy.array(floats, "f4"))


def identity(x: Array) -> Array:
    """Return x unchanged."""
    return x


def shape(x: Array, *, start: int = 0, end: int | None = None) -> Value:
    """Return the sizes of x from axis `start` to `end`."""
    return size_tensor(list(x.shape[start:end]))


def size(x: Array) -> Value:
    """Return the number of elements of x."""
    return size_tensor(element_count(x.shape))


def constant_of_shape(shape: Known, *, value: Array | None = None) -> Array:
    """Return an array of a shape, filled with one number."""
    if value is None:
        return np.zeros(integers(shape), "f32")
    return np.broadcast_to(np.reshape(value, ()), integers(shape))


TABLE: dict[str, Imports] = {
    "Constant": constant,
    "ConstantOfShape": constant_of_shape,
    "Identity": identity,
    "Shape": shape,
    "Size": size,
}
