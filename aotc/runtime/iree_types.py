"""Types of IREE's runtime objects, with the methods that the loader uses.

The package `iree.runtime` ships no types of its own. Names are those of its classes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np

if TYPE_CHECKING:
    from typing_extensions import CapsuleType

_T = TypeVar("_T")


class MappedMemory(Protocol):
    """Memory of a buffer, mapped into the process."""

    def asarray(self, shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
        """Return an array of the mapped memory, without a copy."""


class HalBuffer(Protocol):
    """A buffer in the memory of a device."""

    def byte_length(self) -> int:
        """Return the size in bytes."""

    def map(self) -> MappedMemory:
        """Map the buffer into the process, for reading."""


class VmRef(Protocol):
    """A reference to an object of IREE's VM."""

    def deref(self, kind: type[_T]) -> _T:
        """Return the referenced object, of class `kind`."""


class HalBufferView(Protocol):
    """A buffer with a shape and an element type."""

    @property
    def shape(self) -> Sequence[int]:
        """The sizes of the axes."""

    @property
    def element_type(self) -> int:
        """IREE's number of the element type."""

    @property
    def byte_length(self) -> int:
        """The size of the elements in bytes."""

    @property
    def ref(self) -> VmRef:
        """A reference to the view, to be pushed to a list of arguments."""

    def get_buffer(self) -> HalBuffer:
        """Return the buffer of the elements."""

    def map(self) -> MappedMemory:
        """Map the elements into the process, for reading."""


class HalAllocator(Protocol):
    """The allocator of a device's memory."""

    def allocate_buffer(
        self, memory_type: int, allowed_usage: int, allocation_size: int
    ) -> HalBuffer:
        """Return a new buffer of uninitialized memory."""

    def allocate_buffer_copy(
        self,
        memory_type: int,
        allowed_usage: int,
        device: HalDevice,
        buffer: np.ndarray,
        element_type: object,
    ) -> HalBufferView:
        """Copy an array to a new buffer; return a view of it."""

    def trim(self) -> None:
        """Free cached memory that no buffer uses."""


class HalSemaphore(Protocol):
    """A timeline semaphore of work on a device."""


class HalDevice(Protocol):
    """A device of IREE's HAL, which runs modules."""

    @property
    def allocator(self) -> HalAllocator:
        """The allocator of the device's memory."""

    def create_semaphore(self, initial_value: int) -> HalSemaphore:
        """Return a new timeline semaphore."""

    def queue_copy(
        self,
        source_buffer: HalBuffer,
        target_buffer: HalBuffer,
        wait_semaphores: Sequence[tuple[HalSemaphore, int]],
        signal_semaphores: Sequence[tuple[HalSemaphore, int]],
    ) -> None:
        """Enqueue a copy between buffers, which signals the given semaphores at its
        end.
        """

    def create_dlpack_capsule(
        self, buffer_view: HalBufferView, device_type_code: int, device_id: int
    ) -> CapsuleType:
        """Return a DLPack capsule that shares the memory of a buffer view."""

    def from_dlpack_capsule(self, input_capsule: CapsuleType) -> HalBufferView:
        """Return a buffer view of the memory that a DLPack capsule shares."""


class HalDriver(Protocol):
    """A driver of IREE's HAL, which opens devices of one kind."""

    def create_default_device(self, allocators: Sequence[str] | None) -> HalDevice:
        """Open and return the first device."""

    def query_available_devices(self) -> Sequence[object]:
        """Return the devices of this kind on the machine."""


class ParameterIndex(Protocol):
    """An index of parameters (weights) by name."""

    def load(self, file_path: str, format: str | None = None) -> None:
        """Add the parameters in a file to the index."""

    def create_provider(self, scope: str) -> object:
        """Return a provider of the parameters, for modules that read this scope."""


class VmInstance(Protocol):
    """An instance of IREE's virtual machine; one per process."""


class VmFunction(Protocol):
    """An exported function of a module."""

    @property
    def reflection(self) -> Mapping[str, str]:
        """Attributes that the compiler has attached to the function."""


class VmModule(Protocol):
    """A module of IREE's VM; its state lives in a context."""

    @property
    def name(self) -> str:
        """The name of the module."""

    def lookup_function(self, name: str) -> VmFunction | None:
        """Return an exported function by name; None if there is none."""


class VmVariantList(Protocol):
    """A list of the arguments or results of a call."""

    def push_ref(self, ref: object) -> None:
        """Append a reference to an object."""

    def get_as_object(self, index: int, kind: type[_T]) -> _T:
        """Return the object at an index, of class `kind`."""


class VmContext(Protocol):
    """A VM context: modules with their state."""

    def invoke(
        self, function: VmFunction, inputs: VmVariantList, outputs: VmVariantList
    ) -> None:
        """Run a function; append its results to `outputs`."""
