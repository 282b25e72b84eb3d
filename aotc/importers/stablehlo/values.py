"""Values that the interpreter computes with: arrays, pairs of them, and known sizes.

StableHLO computes shapes with integer tensors: `get_dimension_size`, arithmetic on it,
`concatenate`, and then `dynamic_reshape` by the result. A `KnownTensor` is such a
tensor whose elements are sizes of the model, so that shapes stay symbolic; it becomes
an array where it meets one. Complex tensors are pairs of real arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy

from aotc import numpy as np
from aotc.complexes import Complex
from aotc.core import dtypes
from aotc.dialects.types import Shape, Size, SymbolicDim
from aotc.errors import InputError
from aotc.mlir import ir
from aotc.tracing.array import Array
from aotc.tracing.conversion import lift
from aotc.tracing.source_locations import fail
from aotc.tracing.tracing import emit

COMPLEX = {"complex<f32>": "f32", "complex<f64>": "f64"}  # element type → of its parts

# dtypes that sizes are computed in; the others wrap around on purpose
SIZE_DTYPES = ("i32", "i64", "bool")
LARGEST_KNOWN = 64  # elements; shapes are short


@dataclass(frozen=True)
class KnownTensor:
    """A small integer or bool tensor whose elements are numbers, symbolic sizes or
    bools.
    """

    data: numpy.ndarray  # a NumPy array of objects, of rank 0 to 2
    dtype: str

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the tensor."""
        return tuple(self.data.shape)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return int(self.data.ndim)

    def array(self) -> Array:
        """Emit the tensor as an array of the running model."""
        items = self.data.ravel().tolist()
        if not any(isinstance(item, SymbolicDim) for item in items):
            return lift(
                numpy.array(items, dtypes.to_numpy(self.dtype)).reshape(self.shape)
            )
        scalars = [emit("dimension", size=(n,), dtype=self.dtype) for n in items]
        return np.reshape(np.stack(scalars), self.shape)


class Token:
    """A StableHLO token; it carries nothing, as graph functions keep their order."""


class StableHloType(NamedTuple):
    """The type of a StableHLO tensor; None stands for a dynamic size."""

    shape: tuple[int | None, ...]
    dtype: str
    is_complex: bool = False


Value = Array | Complex | KnownTensor | Token


def zeros_of(mlir_type: ir.Type) -> Value:
    """Return zeros of a tensor type with static sizes."""
    kind = kind_of(mlir_type)
    shape = [size for size in kind.shape if size is not None] if kind else []
    if kind is None or len(shape) < len(kind.shape):
        fail("unsupported", f"zeros of {mlir_type} need fixed sizes")
    zeros = np.zeros(tuple(shape), kind.dtype)
    return Complex(zeros, zeros) if kind.is_complex else zeros


def as_known(items: object, dtype: str) -> KnownTensor:
    """Return a KnownTensor of (nested lists of) sizes."""
    return KnownTensor(numpy.array(items, object), dtype)


def kind_of(mlir_type: ir.Type) -> StableHloType | None:
    """Return the shape and dtype of a tensor type; None for other types.

    Raises:
        InputError: the graph has no such tensors.
    """
    if not isinstance(mlir_type, ir.RankedTensorType):
        return None
    open_size = ir.ShapedType.get_dynamic_size()
    sizes = tuple(None if n == open_size else n for n in mlir_type.shape)
    text = str(mlir_type.element_type)
    if text in COMPLEX:
        return StableHloType(sizes, COMPLEX[text], True)
    return StableHloType(sizes, element_dtype(text))


def element_dtype(text: str) -> str:
    """Return aotc's dtype for MLIR's name of an element type."""
    name = "bool" if text == "i1" else text.replace("ui", "u")
    if name not in dtypes.NAMES:
        raise InputError(
            "unknown-dtype",
            f"the graph has no elements of type {text}",
            hint=f"convert to one of {', '.join(dtypes.NAMES)} before the export",
        )
    return name


def constant(data: numpy.ndarray) -> Value:
    """Return a NumPy array as a value; short integer vectors as known tensors."""
    dtype = dtypes.canonical_dtype(data.dtype)
    if dtype in SIZE_DTYPES and data.ndim < 2 and data.size <= LARGEST_KNOWN:
        return as_known(data.tolist(), dtype)
    return lift(data)


def array(value: Value) -> Array:
    """Return a value as a real array; refuse complex ones and tokens."""
    if isinstance(value, Complex | Token):
        fail("unsupported-ops", f"expected a real tensor; got {type(value).__name__}")
    return value.array() if isinstance(value, KnownTensor) else value


def materialize(value: Value) -> Value:
    """Return a value as an array if it is a KnownTensor; others as they are."""
    return value.array() if isinstance(value, KnownTensor) else value


def shape_of(value: Value) -> Shape:
    """Return a value's shape."""
    return () if isinstance(value, Token) else tuple(value.shape)


def sizes(value: Value) -> tuple[Size, ...]:
    """Return the elements of a vector or scalar that is known, as sizes.

    Raises:
        InputError: they depend on the data that the model is given.
    """
    if isinstance(value, KnownTensor):
        return tuple(value.data.ravel().tolist())
    data = value._data if isinstance(value, Array) else None
    if data is None:
        fail(
            "data-dependent-shape",
            "a shape depends on values that are only known when the model runs",
            "shapes must follow from the sizes of the inputs; promise more about them "
            "(a constraint of jax.export, a Dim with min) if a comparison decides",
        )
    return tuple(int(n) for n in data.ravel())


def number(value: Value) -> Any:
    """Return the number that a scalar is known to be; None otherwise."""
    if isinstance(value, KnownTensor) and not value.ndim:
        return value.data.item()
    if isinstance(value, Array) and value._data is not None and not value.ndim:
        return value._data.item()
    return None


def each_part(function: Callable[..., Array], *values: Value) -> Value:
    """Apply a function to arrays, or separately to their real and imaginary parts."""
    if not any(isinstance(value, Complex) for value in values):
        return function(*(array(value) for value in values))
    pairs = [as_pair(value) for value in values]
    return Complex(
        function(*(pair.real for pair in pairs)),
        function(*(pair.imag for pair in pairs)),
    )


def as_pair(value: Value) -> Complex:
    """Return a value as a complex pair."""
    if isinstance(value, Complex):
        return value
    real = array(value)
    return Complex(real, np.zeros_like(real))


def stack_scalars(values: Sequence[Value], dtype: str | None = None) -> Array:
    """Return integer scalars stacked as a vector."""
    if not values:
        return lift(numpy.zeros(0, numpy.int32))
    scalars = [array(value) for value in values]
    dtype = dtype or scalars[0].dtype
    return np.stack([np.astype(scalar, dtype) for scalar in scalars])
