"""Conversion between NumPy arrays and buffers on the CPU.

An input is copied once (Note [no Python memory in IREE] in loader.py). A result is a
read-only view of the device's buffer, which lives as long as the view does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import iree.runtime as iree
import numpy as np

from aotc.artifacts.manifest import Leaf
from aotc.core.dtypes import to_numpy
from aotc.errors import VerificationError
from aotc.runtime.host_arrays import Array

if TYPE_CHECKING:
    from typing_extensions import CapsuleType

    from aotc.runtime.iree_types import (
        HalBuffer,
        HalBufferView,
        HalDevice,
        MappedMemory,
    )

ELEMENTS = {
    "bool": iree.HalElementType.BOOL_8,
    "f16": iree.HalElementType.FLOAT_16,
    "bf16": iree.HalElementType.BFLOAT_16,
    "f32": iree.HalElementType.FLOAT_32,
    "f64": iree.HalElementType.FLOAT_64,
    # IREE's integers have no sign; the manifest knows it.
    **{
        f"{kind}{bits}": getattr(iree.HalElementType, f"INT_{bits}")
        for kind in "iu"
        for bits in (8, 16, 32, 64)
    },
}
DEVICE_LOCAL = int(iree.MemoryType.DEVICE_LOCAL)
USAGE = int(iree.BufferUsage.DEFAULT)

ToDevice: TypeAlias = "Callable[[Array], HalBufferView]"
ToHost: TypeAlias = "Callable[[HalBufferView], Array]"


def sender(device: HalDevice, leaf: Leaf) -> ToDevice:
    """Return a function that copies an array to a new buffer view on `device`."""
    allocate = device.allocator.allocate_buffer_copy
    element = ELEMENTS[leaf.dtype]

    def send(array: Array) -> HalBufferView:
        if not array.flags.c_contiguous:
            array = np.ascontiguousarray(array).reshape(array.shape)
        return allocate(DEVICE_LOCAL, USAGE, device, array, element)

    return send


class _Capsule:
    """Adapter that passes a CPU DLPack capsule to `numpy.from_dlpack`."""

    __slots__ = ("_capsule",)

    def __init__(self, capsule: CapsuleType) -> None:
        self._capsule = capsule

    # Named parameters, as `**kwargs` would make a dict at every call.
    def __dlpack__(
        self,
        stream: object = None,
        max_version: object = None,
        dl_device: object = None,
        copy: object = None,
    ) -> CapsuleType:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


def viewer(device: HalDevice, leaf: Leaf) -> ToHost:
    """Return a function that views a CPU buffer view's memory as a read-only array."""
    dtype = to_numpy(leaf.dtype)
    capsule, from_dlpack = device.create_dlpack_capsule, np.from_dlpack
    if dtype.kind == "V":
        return _shape_checked(_bits_viewer(dtype, leaf), leaf)

    def view(buffer_view: HalBufferView) -> Array:
        # This path takes a third of the time of `buffer_view.map().asarray()`.
        array = from_dlpack(_Capsule(capsule(buffer_view, 1, 0)))
        if array.dtype != dtype:
            array = view_as(array, leaf, dtype)
        return array

    return _shape_checked(view, leaf)


def view_as(array: Array, leaf: Leaf, dtype: np.dtype) -> Array:
    """Reinterpret an array from IREE as the manifest's dtype: signed or unsigned,
    bool.
    """
    kinds = array.dtype.kind + dtype.kind
    if array.dtype.itemsize != dtype.itemsize or not set(kinds) <= set("iub"):
        raise _mismatch_error(leaf, f"{array.dtype}")
    return array.view(dtype)


def _mismatch_error(leaf: Leaf, got: str) -> VerificationError:
    """Return the error for a result that is not of the manifest's dtype or shape."""
    return VerificationError(
        "result-mismatch",
        f"the manifest promises {leaf.name!r} as {leaf}, the module returned {got}",
        hint="the bundle was put together wrongly: build it again",
    )


def shape_checker(leaf: Leaf) -> Callable[[tuple[int, ...]], None]:
    """Return a function that raises for a result shape that contradicts the
    manifest's.
    """
    fixed = [(i, size) for i, size in enumerate(leaf.shape) if isinstance(size, int)]

    def check(shape: tuple[int, ...]) -> None:
        is_right = len(shape) == len(leaf.shape)
        if not is_right or any(shape[i] != size for i, size in fixed):
            raise _mismatch_error(leaf, f"the shape {[*shape]}")

    return check


def _shape_checked(read: ToHost, leaf: Leaf) -> ToHost:
    """Wrap a reader of results so that it also checks their rank and static sizes."""
    check = shape_checker(leaf)
    right: tuple[int, ...] | None = None

    def read_and_check(buffer_view: HalBufferView) -> Array:
        nonlocal right
        array = read(buffer_view)
        if array.shape != right:
            check(array.shape)
            right = array.shape
        return array

    return read_and_check


def _bits_viewer(dtype: np.dtype, leaf: Leaf) -> ToHost:
    """Return a viewer for dtypes that NumPy's DLPack does not know, such as
    bfloat16.
    """
    element = int(ELEMENTS[leaf.dtype])

    def view(buffer_view: HalBufferView) -> Array:
        if int(buffer_view.element_type) != element:
            raise _mismatch_error(leaf, f"elements of type {buffer_view.element_type}")
        array = mapped_array(buffer_view, buffer_view.shape, dtype)
        array.flags.writeable = False
        return array

    return view


class _MappedBuffer:
    """Mapped device memory that stays mapped as long as NumPy arrays refer to it.

    Those of `MappedMemory.asarray` in IREE 3.13 do so themselves, but not what views of
    them refer to: NumPy looks through an array of two axes or more to that of one axis
    which it was made from.
    """

    __slots__ = ("__array_interface__", "_memory")

    def __init__(
        self, memory: MappedMemory, shape: Sequence[int], dtype: np.dtype
    ) -> None:
        self._memory = memory
        self.__array_interface__ = memory.asarray(shape, dtype).__array_interface__


def mapped_array(
    buffer: HalBuffer | HalBufferView, shape: Sequence[int], dtype: np.dtype
) -> Array:
    """Map a buffer and return an array of its memory, which keeps it alive."""
    array = np.asarray(_MappedBuffer(buffer.map(), shape, dtype))
    return array.view(dtype)  # dtypes that NumPy itself does not know arrive as bytes
