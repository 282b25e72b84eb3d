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
        """An array of the memory."""


class HalBuffer(Protocol):
    """Memory of a device."""

    def byte_length(self) -> int:
        """The number of bytes."""

    def map(self) -> MappedMemory:
        """Map it, for reading."""


class VmRef(Protocol):
    """A reference to an object of the VM."""

    def deref(self, kind: type[_T]) -> _T:
        """The object, which is of this class."""


class HalBufferView(Protocol):
    """A buffer with a shape and a type of elements."""

    @property
    def shape(self) -> Sequence[int]:
        """The sizes of the axes."""

    @property
    def element_type(self) -> int:
        """The number of the type of its elements."""

    @property
    def byte_length(self) -> int:
        """The bytes of its elements."""

    @property
    def ref(self) -> VmRef:
        """A reference to it."""

    def get_buffer(self) -> HalBuffer:
        """The memory of the elements."""

    def map(self) -> MappedMemory:
        """Map it, for reading."""


class HalAllocator(Protocol):
    """Gives memory of a device."""

    def allocate_buffer(
        self, memory_type: int, allowed_usage: int, allocation_size: int
    ) -> HalBuffer:
        """A new buffer."""

    def allocate_buffer_copy(
        self,
        memory_type: int,
        allowed_usage: int,
        device: HalDevice,
        buffer: np.ndarray,
        element_type: object,
    ) -> HalBufferView:
        """A view of a new buffer with the elements of an array."""

    def trim(self) -> None:
        """Give back the memory that it keeps for later buffers."""


class HalSemaphore(Protocol):
    """A timeline of work on a device."""


class HalDevice(Protocol):
    """A device that runs modules."""

    @property
    def allocator(self) -> HalAllocator:
        """Gives its memory."""

    def create_semaphore(self, initial_value: int) -> HalSemaphore:
        """A new timeline."""

    def queue_copy(
        self,
        source_buffer: HalBuffer,
        target_buffer: HalBuffer,
        wait_semaphores: Sequence[tuple[HalSemaphore, int]],
        signal_semaphores: Sequence[tuple[HalSemaphore, int]],
    ) -> None:
        """Begin a copy, which signals its end."""

    def create_dlpack_capsule(
        self, buffer_view: HalBufferView, device_type_code: int, device_id: int
    ) -> CapsuleType:
        """A capsule of DLPack that lends the memory of a buffer view."""

    def from_dlpack_capsule(self, input_capsule: CapsuleType) -> HalBufferView:
        """A buffer view of the memory that a capsule lends."""


class HalDriver(Protocol):
    """Opens devices of one kind."""

    def create_default_device(self, allocators: Sequence[str] | None) -> HalDevice:
        """Open the first device."""

    def query_available_devices(self) -> Sequence[object]:
        """The devices of this machine."""


class ParameterIndex(Protocol):
    """Parameters of modules by name."""

    def load(self, file_path: str, format: str | None = None) -> None:
        """Add those of a file."""

    def create_provider(self, scope: str) -> object:
        """Give them to modules that ask for parameters of this scope."""


class VmInstance(Protocol):
    """The VM of a process."""


class VmFunction(Protocol):
    """An exported function of a module."""

    @property
    def reflection(self) -> Mapping[str, str]:
        """Facts that the compiler has attached to it."""


class VmModule(Protocol):
    """A module, whose state is in a context."""

    @property
    def name(self) -> str:
        """The name of the module."""

    def lookup_function(self, name: str) -> VmFunction | None:
        """An exported function by its name."""


class VmVariantList(Protocol):
    """The arguments or the results of a call."""

    def push_ref(self, ref: object) -> None:
        """Append an object."""

    def get_as_object(self, index: int, kind: type[_T]) -> _T:
        """The object at an index, which is of this class."""


class VmContext(Protocol):
    """Modules with their states."""

    def invoke(
        self, function: VmFunction, inputs: VmVariantList, outputs: VmVariantList
    ) -> None:
        """Run a function, which appends its results to a list."""
