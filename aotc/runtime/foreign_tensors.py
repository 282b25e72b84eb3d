"""Tensors of other frameworks on a GPU → buffers of IREE, in place.

DLPack is the protocol: `__dlpack_device__` says where a tensor lies, `__dlpack__` lends
its memory in a capsule, which keeps the tensor alive until IREE lets go of it.

Note [who waits for whom on a GPU]: PyTorch, JAX and CuPy launch kernels on streams of
theirs and return before these have run; IREE has a stream of its own, which waits for
none of them. All of them use the primary context of a GPU. A call asks each producer
for the tensor on the context's default stream, as the protocol has it, so that work on
its current stream comes first; then it waits for the whole context, once, and IREE
finds finished data. A call returns when IREE has computed its results, so that whoever
takes them needs not wait. But whoever took results of an earlier call may have dropped
them while its kernels, which are still to run, read them. The memory of such results is
used for results alone, and a call waits for the context before it writes to it.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from aotc.artifacts.call_guards import device_guard, kind_guard
from aotc.core.dtypes import to_numpy
from aotc.errors import InputError, SetupError
from aotc.runtime.host_arrays import Described, device_name

if TYPE_CHECKING:
    from typing_extensions import CapsuleType

_ALIGNMENT = 64  # of memory that compiled code reads


class _DLTensor(ctypes.Structure):
    """ctypes structure `DLTensor` of dlpack.h; a capsule `dltensor` points to one."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype = ctypes.c_void_p
_pointer_of.argtypes = (ctypes.py_object, ctypes.c_char_p)

# Codes of types of DLPack (dlpack.h, DLDataTypeCode).
_KINDS = {0: "int", 1: "uint", 2: "float", 5: "complex"}


@cache
def _dtype(code: int, bits: int) -> object:
    """Return the NumPy dtype of a DLPack type; a description if there is none."""
    if (code, bits) == (6, 8):
        return np.dtype(bool)
    if (code, bits) == (4, 16):
        return to_numpy("bf16")
    try:
        return np.dtype(f"{_KINDS[code]}{bits}")
    except (KeyError, TypeError):
        return f"{bits} bits of DLPack's type {code}"


class DlpackTensor:
    """A tensor of another framework, given to a call on the GPU that computes it.

    Args:
        capsule: that lends its memory, and keeps it.
    """

    __slots__ = ("capsule", "dtype", "is_aligned", "shape", "strides")

    def __init__(self, capsule: CapsuleType) -> None:
        told = _DLTensor.from_address(_pointer_of(capsule, b"dltensor"))
        self.capsule = capsule
        self.dtype = _dtype(told.code, told.bits)
        self.shape = (*told.shape[: told.ndim],)
        self.strides = (*told.strides[: told.ndim],) if told.strides else None
        address = (told.data or 0) + told.byte_offset
        self.is_aligned = address % _ALIGNMENT == 0

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def is_row_major(self) -> bool:
        """Return whether the elements are contiguous in row-major order."""
        if self.strides is None or not self.size:
            return True
        step = 1
        for size, stride in zip(self.shape[::-1], self.strides[::-1], strict=True):
            if size != 1:
                if stride != step:
                    return False
                step *= size
        return True


class _Cuda:
    """Bindings to CUDA's driver for synchronizing with other frameworks."""

    LIBRARIES = ("libcuda.so.1", "libcuda.so", "nvcuda.dll")

    def __init__(self, library: ctypes.CDLL, number: int) -> None:
        self._library = library
        device, self._context = ctypes.c_int(), ctypes.c_void_p()
        _require_success("cuInit", library.cuInit(0))
        found = library.cuDeviceGet(ctypes.byref(device), number)
        _require_success("cuDeviceGet", found)
        # IREE holds this context too, so that it is never given back under it.
        held = library.cuDevicePrimaryCtxRetain(ctypes.byref(self._context), device)
        _require_success("cuDevicePrimaryCtxRetain", held)

    def synchronize(self) -> None:
        """Wait until all work in the GPU's primary context is done."""
        library, before = self._library, ctypes.c_void_p()
        pushed = library.cuCtxPushCurrent_v2(self._context)
        _require_success("cuCtxPushCurrent", pushed)
        try:
            _require_success("cuCtxSynchronize", library.cuCtxSynchronize())
        finally:
            library.cuCtxPopCurrent_v2(ctypes.byref(before))


class _Hip:
    """Bindings to AMD's HIP runtime for synchronizing with other frameworks."""

    LIBRARIES = ("libamdhip64.so", "amdhip64.dll")

    def __init__(self, library: ctypes.CDLL, number: int) -> None:
        self._library, self._number = library, number

    def synchronize(self) -> None:
        """Wait until all work on the GPU is done."""
        library, before = self._library, ctypes.c_int()
        _require_success("hipGetDevice", library.hipGetDevice(ctypes.byref(before)))
        _require_success("hipSetDevice", library.hipSetDevice(self._number))
        try:
            _require_success("hipDeviceSynchronize", library.hipDeviceSynchronize())
        finally:
            library.hipSetDevice(before)


def _require_success(name: str, code: int) -> None:
    """Raise if a function of the driver has returned an error code."""
    if code:
        raise SetupError("run-failed", f"expected {name} to succeed, got error {code}")


class _Kind(NamedTuple):
    """DLPack's constants for the GPUs of one IREE driver.

    Args:
        types: DLPack's, of their memory (dlpack.h, DLDeviceType); results have the
            first.
        stream: what DLPack calls the default stream of a context.
        runtime: what waits for all that was launched.
    """

    types: tuple[int, ...]
    stream: int
    runtime: type[_Cuda | _Hip]


_KINDS_OF_GPUS = {
    "cuda": _Kind((2, 13), 1, _Cuda),
    "hip": _Kind((10,), 0, _Hip),
}


class DlpackGpu:
    """A GPU whose tensors calls use in place, and on which they leave results.

    Args:
        kind: of GPUs.
        number: by which frameworks know it.
        synchronize: waits until all that was launched on it is done.
    """

    def __init__(
        self, kind: _Kind, number: int, synchronize: Callable[[], None]
    ) -> None:
        self.location = kind.types[0], number
        self.synchronize = synchronize
        self._types = kind.types
        self._stream = kind.stream
        self._number = number

    def __str__(self) -> str:
        return device_name(*self.location)

    def tensor(
        self, value: Any, describe: Callable[[], Described]
    ) -> DlpackTensor | None:
        """Return a value as a DLPack tensor on this GPU; None if it lies in other
        memory.

        Args:
            value: an array of any framework.
            describe: tells of which input, if it is refused.

        Raises:
            InputError: `input-device`: it lies on another GPU; `input-strides`: its
                elements do not follow each other; `input-type`: it lends no memory.
        """
        ask = getattr(value, "__dlpack_device__", None)
        if ask is None or type(value).__module__ == "numpy":
            return None
        try:
            kind, number = map(int, ask())
        except Exception:  # such as of torch's device `meta`, which has no memory
            return None
        if kind not in self._types:
            return None
        if number != self._number:
            raise self._number_error(describe(), (kind, number))
        try:
            capsule = value.__dlpack__(stream=self._stream)
        except Exception as error:  # whatever another framework raises
            raise _lending_error(describe(), error) from error
        tensor = DlpackTensor(capsule)
        if not tensor.is_row_major:
            raise _strides_error(describe(), tensor)
        return tensor

    def _number_error(self, spec: Described, location: tuple[int, int]) -> InputError:
        """Return the error for a tensor on another GPU."""
        return InputError(
            "input-device",
            f"{spec.title}: expected {spec.expected} in the memory of the host or on "
            f"{self}, which computes the call, got an array on "
            f"{device_name(*location)}",
            where=spec.where or None,
            hint=f"in PyTorch: {spec.name}.to('cuda:{self._number}') before the call",
            guard=device_guard(spec.name),
        )


def _lending_error(spec: Described, error: Exception) -> InputError:
    """Return the error for a tensor whose framework does not export it."""
    reason = str(error).partition("\n")[0]
    tracked = "grad" in reason
    return InputError(
        "input-type",
        f"{spec.title}: expected {spec.expected}, which `__dlpack__` lends; got "
        f"{type(error).__name__}: {reason}",
        where=spec.where or None,
        hint=f"pass it without its gradient: {spec.name}.detach()" if tracked else None,
        guard=kind_guard(spec.name),
    )


def _strides_error(spec: Described, tensor: DlpackTensor) -> InputError:
    """Return the error for a tensor that is not row-major."""
    assert tensor.strides is not None
    return InputError(
        "input-strides",
        f"{spec.title}: expected {spec.expected} whose elements lie row by row, got "
        f"shape {[*tensor.shape]} with strides {[*tensor.strides]}",
        where=spec.where or None,
        hint=f"copy it on the GPU before the call: {spec.name}.contiguous()",
        guard=device_guard(spec.name),
    )


@cache
def gpu_of(driver: str) -> DlpackGpu | None:
    """Return the GPU that an IREE driver computes on, if it can share tensors; else
    None.

    IREE computes on the first GPU that a process sees, as frameworks count them.
    """
    kind = _KINDS_OF_GPUS.get(driver)
    if kind is None:
        return None
    from aotc.machine import gpus

    library = gpus.library(*kind.runtime.LIBRARIES)
    if library is None:
        return None
    return DlpackGpu(kind, 0, kind.runtime(library, 0).synchronize)
