"""Transfers between arrays and a GPU: all inputs of a call, and all its results.

An input on the host is written to memory that the GPU reads, and copied from there; a
result is copied to memory that the host reads, and is a view of that. All copies of one
direction are on their way together, and are waited for once. Memory on both sides is
what earlier calls have freed, where a device keeps such (engine.py: Note [memory
between calls on a GPU]); where it does not, IREE copies inputs its own way.

A tensor on the GPU is taken where it lies, if no later call can read it: compiled code
does not write to what it is given (tests/dialects/test_lowering.py holds every op to
that), but may keep it as a state. It is copied, on the GPU, for functions with states,
and where it does not begin at a multiple of 64 bytes.

Results of calls that were given a tensor stay on the GPU, as `DeviceArray`. They are
copied there: IREE takes the memory of results from a pool whose buffers CUDA does not
lend. What they are copied to is used for nothing else (`_LENT`; Note [who waits for
whom on a GPU] in foreign_tensors.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import iree.runtime as iree
import numpy as np

from aotc.artifacts.manifest import Leaf
from aotc.core.dtypes import DTypeLike, to_numpy
from aotc.runtime.buffers import (
    DEVICE_LOCAL,
    ELEMENTS,
    USAGE,
    mapped_array,
    sender,
    shape_checker,
    view_as,
)
from aotc.runtime.foreign_tensors import DlpackGpu, DlpackTensor
from aotc.runtime.host_arrays import Array

if TYPE_CHECKING:
    from typing_extensions import CapsuleType

    from aotc.runtime.iree_types import (
        HalBuffer,
        HalBufferView,
        HalDevice,
        HalSemaphore,
        VmVariantList,
    )

_BufferView = iree.HalBufferView
_HOST = int(iree.MemoryType.HOST_LOCAL) | int(iree.MemoryType.DEVICE_VISIBLE)
# The host writes to memory that it does not cache, and reads from what it does.
_WRITTEN = _HOST | int(iree.MemoryType.HOST_COHERENT)
_READ = _HOST | int(iree.MemoryType.HOST_CACHED)
_TRANSFER = int(iree.BufferUsage.TRANSFER)
# A cache takes a buffer that allows what is asked for, or more: results that are lent
# allow what nothing else asks for, and nothing that all else asks for.
_LENT = _TRANSFER | int(iree.BufferUsage.DISPATCH_UNIFORM_READ)
_STAGING = _TRANSFER | int(iree.BufferUsage.MAPPING_SCOPED)

# Elements whose sign or kind DLPack tells, and code that IREE compiles does not.
_LENT_ELEMENTS = {
    **ELEMENTS,
    **{
        f"{kind}{bits}": getattr(iree.HalElementType, f"{name}_{bits}")
        for kind, name in (("i", "SINT"), ("u", "UINT"))
        for bits in (8, 16, 32, 64)
    },
}


class Copies:
    """A set of asynchronous copies on a device, awaited together."""

    def __init__(self, device: HalDevice) -> None:
        self._device = device
        self._begun: list[tuple[HalSemaphore, HalBuffer, HalBuffer]] = []

    def begin(self, source: HalBuffer, target: HalBuffer) -> None:
        """Enqueue the copy of a buffer to another, which is at least as large."""
        done = self._device.create_semaphore(0)
        self._device.queue_copy(source, target, [], [(done, 1)])
        self._begun.append((done, source, target))

    def wait(self) -> None:
        """Wait until all enqueued copies are done."""
        if self._begun:
            all_done = iree.HalFence(len(self._begun))
            for done, _, _ in self._begun:
                all_done.insert(done, 1)
            all_done.wait()
            self._begun.clear()


class Transfers:
    """The transfers of inputs and results between host and GPU for one function.

    Args:
        device: that computes, which is no processor.
        gpu: the same, if it lends and borrows tensors.
        inputs: of the function.
        outputs: likewise.
        pure: whether no state can hold an input after a call.
        staged: whether inputs go through memory that both sides see.
    """

    def __init__(
        self,
        device: HalDevice,
        gpu: DlpackGpu | None,
        inputs: Sequence[Leaf],
        outputs: Sequence[Leaf],
        pure: bool,
        *,
        staged: bool,
    ) -> None:
        self._device, self._gpu = device, gpu
        self._pure, self._staged = pure, staged
        self._senders = [sender(device, leaf) for leaf in inputs]
        self._elements = [int(ELEMENTS[leaf.dtype]) for leaf in inputs]
        self._fetchers = [Fetcher(device, leaf) for leaf in outputs]

    def send(self, arrays: Sequence[Array | DlpackTensor]) -> VmVariantList:
        """Copy or borrow all inputs to GPU buffers; return the argument list."""
        copies = Copies(self._device)
        arguments: VmVariantList = iree.VmVariantList(len(arrays))
        if self._gpu is not None and has_tensor(arrays):
            self._gpu.synchronize()
        ways = zip(arrays, self._elements, self._senders, strict=False)
        for array, element, send in ways:
            if isinstance(array, DlpackTensor):
                buffer = self._borrow(array, copies)
            elif self._staged:
                buffer = self._upload(array, copies)
            else:
                arguments.push_ref(send(array))
                continue
            arguments.push_ref(_BufferView(buffer, array.shape, element))
        copies.wait()
        return arguments

    def _upload(self, array: Array, copies: Copies) -> HalBuffer:
        """Start copying a host array to a new buffer on the GPU; return the buffer."""
        buffer = self._allocate(DEVICE_LOCAL, USAGE, array.nbytes)
        if array.nbytes:
            staged = self._allocate(_WRITTEN, _STAGING, array.nbytes)
            memory = mapped_array(staged, array.shape, array.dtype)
            np.copyto(memory, array, casting="no")
            copies.begin(staged, buffer)
        return buffer

    def _borrow(self, tensor: DlpackTensor, copies: Copies) -> HalBuffer:
        """Return a tensor's own buffer, or a new one to which a copy is started."""
        if not tensor.size:  # may lie nowhere
            return self._allocate(DEVICE_LOCAL, USAGE, 0)
        lent = self._device.from_dlpack_capsule(tensor.capsule).get_buffer()
        if self._pure and tensor.is_aligned:
            return lent
        buffer = self._allocate(DEVICE_LOCAL, USAGE, lent.byte_length())
        copies.begin(lent, buffer)
        return buffer

    def _allocate(self, memory: int, usage: int, size: int) -> HalBuffer:
        """Allocate a buffer of at least one byte."""
        return self._device.allocator.allocate_buffer(memory, usage, max(size, 1))

    def fetch(self, views: Sequence[HalBufferView]) -> list[Array]:
        """Copy all results to the host; return them as arrays."""
        copies = Copies(self._device)
        pairs = list(zip(self._fetchers, views, strict=True))
        staged = [fetcher.begin(view, copies) for fetcher, view in pairs]
        copies.wait()
        return [
            fetcher.array(view, buffer)
            for (fetcher, view), buffer in zip(pairs, staged, strict=True)
        ]

    def keep(self, views: Sequence[HalBufferView]) -> list[DeviceArray]:
        """Copy all results to new GPU buffers; return them as device arrays."""
        assert self._gpu is not None
        gpu, copies = self._gpu, Copies(self._device)
        pairs = list(zip(self._fetchers, views, strict=True))
        for fetcher, view in pairs:
            fetcher.require_promised(view)
        kept = [self._allocate(DEVICE_LOCAL, _LENT, view.byte_length) for view in views]
        gpu.synchronize()
        for view, buffer in zip(views, kept, strict=True):
            if 0 not in view.shape:
                copies.begin(view.get_buffer(), buffer)
        copies.wait()
        return [
            DeviceArray(gpu, fetcher, tuple(view.shape), buffer)
            for (fetcher, view), buffer in zip(pairs, kept, strict=True)
        ]


def has_tensor(arrays: Sequence[Array | DlpackTensor]) -> bool:
    """Return whether one of the arrays is a tensor on the GPU."""
    return any(isinstance(array, DlpackTensor) for array in arrays)


class Fetcher:
    """Reader of one result from device memory that the host cannot access.

    The device writes into memory of its own that the host sees: `DeviceArray.to_host`
    of IREE lends it memory of NumPy's, which Vulkan takes in whole pages only, and
    which may be given back under it (Note [no Python memory in IREE] in `loader`).
    """

    def __init__(self, device: HalDevice, leaf: Leaf) -> None:
        self.device = device
        self.leaf = leaf
        self.dtype = to_numpy(leaf.dtype)
        self._check = shape_checker(leaf)

    def __call__(self, view: HalBufferView) -> Array:
        """Copy a buffer view to the host; return it as an array."""
        copies = Copies(self.device)
        staged = self.begin(view, copies)
        copies.wait()
        return self.array(view, staged)

    def begin(self, view: HalBufferView, copies: Copies) -> HalBuffer | None:
        """Start copying a buffer view to memory that the host sees; return that buffer,
        None if there are no elements.
        """
        if 0 in view.shape:
            return None
        source = view.get_buffer()
        staged = self.device.allocator.allocate_buffer(
            _READ, _STAGING, source.byte_length()
        )
        copies.begin(source, staged)
        return staged

    def array(self, view: HalBufferView, staged: HalBuffer | None) -> Array:
        """Return the copied contents as an array, after checking shape and dtype."""
        raw = iree.HalElementType.map_to_dtype(view.element_type)
        array: Array = (
            np.empty(view.shape, raw)
            if staged is None
            else mapped_array(staged, view.shape, raw)
        )
        self._check(array.shape)
        return (
            array
            if array.dtype == self.dtype
            else view_as(array, self.leaf, self.dtype)
        )

    def require_promised(self, view: HalBufferView) -> None:
        """Raise if a result is not of the manifest's dtype and shape.

        Raises:
            VerificationError: `result-mismatch`.
        """
        raw = iree.HalElementType.map_to_dtype(view.element_type)
        self._check(tuple(view.shape))
        if raw != self.dtype:
            view_as(np.empty(0, raw), self.leaf, self.dtype)


class DeviceArray:
    """A result of a call in the memory of the GPU that computed it.

    Frameworks take it where it lies: `torch.from_dlpack(y)`, and likewise those of
    `cupy` and `jax.numpy`. It is of no framework, since the runtime needs none.
    `numpy()` and `numpy.asarray(y)` copy it to the host.

    Args:
        gpu: whose memory it is.
        fetcher: reads it.
        shape: its shape.
        buffer: its memory, which nothing else refers to.
    """

    __slots__ = ("_buffer", "_fetcher", "_gpu", "dtype", "shape")

    def __init__(
        self,
        gpu: DlpackGpu,
        fetcher: Fetcher,
        shape: tuple[int, ...],
        buffer: HalBuffer,
    ) -> None:
        self._gpu, self._fetcher, self._buffer = gpu, fetcher, buffer
        self.shape = shape
        self.dtype: np.dtype = fetcher.dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The bytes of its elements."""
        return self.size * self.dtype.itemsize

    def numpy(self) -> Array:
        """Return a copy on the host, after waiting for other frameworks' work on the
        array.
        """
        self._gpu.synchronize()
        element = int(ELEMENTS[self._fetcher.leaf.dtype])
        return self._fetcher(_BufferView(self._buffer, self.shape, element))

    def __array__(
        self, dtype: DTypeLike | None = None, copy: bool | None = None
    ) -> Array:
        if copy is False:
            raise ValueError("an array on a GPU has to be copied for NumPy")
        array = self.numpy()
        return array if dtype is None else array.astype(dtype, copy=False)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._gpu.location

    def __dlpack__(
        self,
        *,
        stream: object = None,
        max_version: object = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> CapsuleType:
        # Its elements are there since the call has returned: no stream waits for them.
        if copy or (dl_device is not None and (*dl_device,) != self._gpu.location):
            raise BufferError(f"it is lent where it lies, on {self._gpu}, uncopied")
        element = int(_LENT_ELEMENTS[self._fetcher.leaf.dtype])
        view = _BufferView(self._buffer, self.shape, element)
        return self._fetcher.device.create_dlpack_capsule(view, *self._gpu.location)

    def __repr__(self) -> str:
        return f"<{self.dtype} array of shape {[*self.shape]} on {self._gpu}>"
