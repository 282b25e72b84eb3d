"""Ops without operands: constants and counters."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from aotc.core import dtypes as dt
from aotc.dialects.attributes import DenseElements, Int, Sizes, Str
from aotc.dialects.builder import Builder
from aotc.dialects.graph import WIDE, GraphOp, Pure, Result
from aotc.dialects.lowering import Lowering
from aotc.dialects.lowering.conversion import conversion
from aotc.dialects.rules.batching import NO_OPERANDS
from aotc.dialects.rules.checks import require_dtype
from aotc.dialects.rules.counters import AxisCounter, counter_of_elements
from aotc.dialects.rules.padding import HARMLESS
from aotc.dialects.rules.samples import OpSample
from aotc.dialects.rules.signs import has_no_negative, never_wraps
from aotc.dialects.types import Shape, Tensor
from aotc.errors import InputError
from aotc.mlir import Value, arith, ir


def _no_tangent(b: Builder, op: GraphOp) -> None:
    """Return no tangent, as a constant does not change."""
    return


def _no_cotangents(b: Builder, op: GraphOp, dy: Value) -> list[Value]:
    """Return no cotangents, as there are no operands."""
    return []


class Constant(GraphOp, name="constant", traits=[Pure]):
    """y = the elements of `value`."""

    why = "values known before the model runs; passes fold into it"

    value: DenseElements
    y: Result[Any]
    is_free = True
    on_scalars = True
    dtypes = dt.NAMES

    @staticmethod
    def infer(*, value: np.ndarray) -> Tensor:
        """Return the result type: the array's shape and dtype."""
        return Tensor(np.shape(value), dt.canonical_dtype(value.dtype))

    @staticmethod
    def ref(*, value: np.ndarray) -> np.ndarray:
        """Return the array unchanged."""
        return value

    jvp = staticmethod(_no_tangent)
    vjp = staticmethod(_no_cotangents)

    batch = NO_OPERANDS

    @staticmethod
    def lower(low: Lowering, op: "Constant") -> Value:
        """Emit an arith.constant."""
        return low.constant(op.value, Tensor.of(op.y).dtype)

    @classmethod
    def is_nonnegative(cls, op: Self, is_known: Callable[[Value], bool]) -> bool:
        """Return whether no element of the constant is negative."""
        return has_no_negative(op.attributes["value"])

    @staticmethod
    def counter(op: "Constant") -> AxisCounter | None:
        """Return the AxisCounter of elements 0, 1, 2, … along an axis, else None."""
        return counter_of_elements(op.attributes["value"])

    samples = [
        OpSample((), {"value": np.array([[1.5, -0.0], [np.inf, np.nan]], "f")}),
        OpSample((), {"value": np.array(7, "i4")}),
        OpSample((), {"value": np.array([True, False])}),
        OpSample((), {"value": np.array([0, 255], "u1")}),
        OpSample((), {"value": np.zeros((0, 3), "f")}),
    ]


class Iota(GraphOp, name="iota", traits=[Pure]):
    """y = the position along `axis`, as `dtype`."""

    why = "positions; every mask and counter is made of it"
    precision = WIDE

    shape: Sizes
    axis: Int
    dtype: Str
    y: Result[Any]
    dtypes = dt.NUMBERS

    @staticmethod
    def infer(*, shape: Shape, axis: int, dtype: str) -> Tensor:
        """Return the result type: the given shape and dtype."""
        result = Tensor(tuple(shape), dtype)
        require_dtype(result, dt.NUMBERS)
        if not 0 <= axis < result.rank:
            raise InputError("bad-axis", f"expected an axis of {result}; got {axis}")
        return result

    @staticmethod
    def ref(*, shape: tuple[int, ...], axis: int, dtype: str) -> np.ndarray:
        """Return np.arange, broadcast."""
        line = np.arange(shape[axis]).reshape(
            [-1 if a == axis else 1 for a in range(len(shape))]
        )
        return np.broadcast_to(line, shape).astype(dt.to_numpy(dtype))

    jvp = staticmethod(_no_tangent)
    vjp = staticmethod(_no_cotangents)

    batch = NO_OPERANDS

    pad = HARMLESS

    @staticmethod
    def lower(low: Lowering, op: "Iota") -> Value:
        """Emit the loop index, converted to the dtype."""
        axis, dtype = op.axis, op.dtype
        return low.generate(
            Tensor.of(op.y), lambda indices: _from_index(indices[axis], dtype)
        )

    @classmethod
    def is_nonnegative(cls, op: Self, is_known: Callable[[Value], bool]) -> bool:
        """Return whether all positions fit the dtype, and so are not negative."""
        return never_wraps(op.shape[op.axis], op.dtype)

    @staticmethod
    def counter(op: "Iota") -> AxisCounter | None:
        """Return the AxisCounter of the elements; None if they may wrap around."""
        size = op.shape[op.axis]
        return AxisCounter(op.axis, size) if never_wraps(size, op.dtype) else None

    samples = [
        OpSample((), {"shape": (2, 3), "axis": 1, "dtype": "i32"}),
        OpSample((), {"shape": ("n", 3), "axis": 0, "dtype": "f32"}),
        OpSample((), {"shape": (300,), "axis": 0, "dtype": "u8"}),
    ]


def _from_index(index: Value, dtype: str) -> Value:
    """Emit an index value cast to an element of `dtype`."""
    i64 = ir.IntegerType.get_signless(64)
    return conversion("i64", dtype)(arith.index_cast(i64, index))


class Dimension(GraphOp, name="dimension", traits=[Pure]):
    """y = a size of the model's inputs, as a scalar: what a mean divides by."""

    why = "the only way from a symbolic size to a number"
    precision = WIDE

    size: Sizes
    dtype: Str
    y: Result[Any]
    on_scalars = True
    dtypes = dt.NUMBERS

    @staticmethod
    def infer(*, size: Shape, dtype: str) -> Tensor:
        """Return the result type: a scalar of `dtype`."""
        if len(size) != 1:
            raise InputError("bad-attribute", f"expected one size; got {tuple(size)}")
        result = Tensor((), dtype)
        require_dtype(result, dt.NUMBERS)
        return result

    @staticmethod
    def ref(*, size: tuple[int, ...], dtype: str) -> np.ndarray:
        """Return the size as a NumPy scalar."""
        return np.array(size[0]).astype(dt.to_numpy(dtype))

    jvp = staticmethod(_no_tangent)
    vjp = staticmethod(_no_cotangents)

    batch = NO_OPERANDS

    @staticmethod
    def lower(low: Lowering, op: "Dimension") -> Value:
        """Emit a tensor.from_elements of the size."""
        element = _from_index(low.size(op.size[0]), op.dtype)
        return low.from_number(element)

    @classmethod
    def is_nonnegative(cls, op: Self, is_known: Callable[[Value], bool]) -> bool:
        """Return whether the size fits its dtype, and so is not negative."""
        return never_wraps(op.size[0], op.dtype)

    samples = [
        OpSample((), {"size": ("n",), "dtype": "f32"}),
        OpSample((), {"size": (7,), "dtype": "i32"}),
    ]
