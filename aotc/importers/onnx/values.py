"""Values that flow between the nodes of an ONNX graph.

ONNX computes shapes with tensors of integers. Those whose elements are sizes, such as
the result of `Shape`, are `SizeTensor` here: known while the model is traced, symbols
included. All else are arrays; of an `OnnxArray` more is known than its type.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from aotc import numpy as anp
from aotc.core import dtypes
from aotc.dialects.types import Shape, Size, SymbolicDim
from aotc.importers.common.padded import Padded, has_data_dependent
from aotc.importers.common.padded import sizes as padded_sizes
from aotc.importers.common.padded.values import refuse
from aotc.importers.common.scaling import SymbolicFloat
from aotc.importers.onnx.elements import Element, code_of
from aotc.tracing.array import Array
from aotc.tracing.conversion import lift

# elements that are known when the model is built: numbers, or sizes as objects
Known = np.ndarray


class OnnxArray(Array):
    """An array with its ONNX element type, or with elements known at build time.

    Args:
        array: the array.
        known: its elements, of a weight.
        element: ONNX's number of its element type, where that is no dtype of aotc.
    """

    __slots__ = ("element", "known")

    def __init__(
        self, array: Array, known: Known | None = None, element: int | None = None
    ) -> None:
        super().__init__(
            value=array._value,
            trace=array._trace,
            data=array._data,
            known=array._known,
        )
        self.known, self.element = known, element


@dataclass(frozen=True)
class SizeTensor:
    """A small tensor whose elements are sizes, some of them symbolic, or floats of
    sizes.
    """

    data: Known
    dtype: str

    @property
    def shape(self) -> Shape:
        """Shape of the tensor."""
        return tuple(self.data.shape)

    @property
    def has_floats(self) -> bool:
        """Return whether some elements are floats not yet rounded to sizes."""
        return any(isinstance(x, SymbolicFloat) for x in self.data.reshape(-1))

    def array(self) -> Array:
        """Emit the sizes as an array of the running model."""
        flat = [_as_scalar(size, self.dtype) for size in self.data.reshape(-1)]
        return anp.reshape(anp.stack(flat), self.shape)


Value = Array | SizeTensor | Padded


def _as_scalar(size: Size, dtype: str) -> Array:
    """Return a size as a scalar array of a dtype."""
    if isinstance(size, SymbolicFloat):
        return size.array(dtype)
    if isinstance(size, SymbolicDim):
        return anp.astype(padded_sizes.count_of(size), dtype)
    return lift(np.array(size, dtypes.to_numpy(dtype)))


def size_tensor(data: object, dtype: str = "i64") -> Value:
    """Return a tensor of sizes; a constant array if all of them are numbers."""
    sizes = np.asarray(data, dtype=object)
    if any(isinstance(size, SymbolicDim | SymbolicFloat) for size in sizes.reshape(-1)):
        return SizeTensor(sizes, dtype)
    return Array(data=sizes.astype(dtypes.to_numpy(dtype)))


def is_padded(value: Value | None) -> bool:
    """Return whether a value has, or holds, data-dependent sizes."""
    if isinstance(value, SizeTensor):
        return has_data_dependent(value.data.reshape(-1).tolist())
    return isinstance(value, Padded)


def as_array(value: object) -> Array:
    """Return a value as an array; refuse one of data-dependent size.

    Raises:
        InputError: its size depends on values.
    """
    if isinstance(value, Padded):
        refuse(
            f"a value of {value}, whose size depends on values, leaves a graph",
            "bring it to a known size there, as ReduceSum and ScatterND do",
        )
    return value.array() if isinstance(value, SizeTensor) else lift(value)


def known_of(value: Any) -> Known | None:
    """Return the elements of a value that are known at build time; None otherwise."""
    if isinstance(value, SizeTensor):
        return None if value.has_floats else value.data
    if isinstance(value, Padded):
        return None
    if value._data is not None:
        found: Known = value._data
        return found
    return value.known if isinstance(value, OnnxArray) else None


def element_of(value: Value) -> int:
    """Return the ONNX element type number of a value."""
    narrow = value.element if isinstance(value, OnnxArray) else None
    return code_of(value.dtype) if narrow is None else narrow


def with_element_type(array: Array, kind: Element, code: int) -> Array:
    """Return an array marked with its narrow ONNX element type, if that is narrow."""
    return OnnxArray(array, element=code) if kind.narrow else array


def integers(known: Known) -> tuple[Size, ...]:
    """Return known elements, flattened, as sizes."""
    return tuple(
        size if isinstance(size, SymbolicDim) else int(size)
        for size in known.reshape(-1)
    )


def row_of_numbers(known: Known) -> tuple[int, ...]:
    """Return known elements, flattened, as integers; symbols are refused."""
    return tuple(size.__index__() for size in integers(known))


def only_number(known: Known) -> Any:
    """Return the single element as a Python number, or as a size."""
    return known.reshape(-1).tolist()[0]


def count_of(shape: Sequence[Size]) -> int:
    """Return the number of elements of a static shape."""
    return math.prod(size.__index__() for size in shape)
