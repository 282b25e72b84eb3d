"""NVIDIA's driver by ctypes: memory, machine code, launches and events.

A call that fails raises a RuntimeError with the driver's own name of the error.
`benchmarks.gpu` takes the file along: it needs the standard library alone.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import byref, c_float, c_int, c_size_t, c_void_p
from typing import Any

import numpy as np

_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_STATIC_SHARED = 48 << 10  # bytes that a program can share without asking


class Driver:
    """NVIDIA's driver API, with a context on the first GPU."""

    def __init__(self) -> None:
        self._cuda = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        device, context = c_int(), c_void_p()
        self.call("cuDeviceGet", byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", byref(context), device)
        self.call("cuCtxSetCurrent", context)

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function of the driver API; raise if it returns an error."""
        code = getattr(self._cuda, name)(*arguments)
        if code != 0:
            text = ctypes.c_char_p()
            self._cuda.cuGetErrorName(code, byref(text))
            raise RuntimeError(f"{name}: {(text.value or b'?').decode()}")

    def allocate(self, size: int) -> c_void_p:
        """Allocate bytes of GPU memory; return their address."""
        found = c_void_p()
        self.call("cuMemAlloc_v2", byref(found), c_size_t(size))
        return found

    def free(self, memory: c_void_p) -> None:
        """Free GPU memory."""
        self.call("cuMemFree_v2", memory)

    def upload(self, memory: c_void_p, array: np.ndarray) -> None:
        """Copy a host array to GPU memory."""
        pointer = c_void_p(array.ctypes.data)
        self.call("cuMemcpyHtoD_v2", memory, pointer, c_size_t(array.nbytes))

    def download(self, array: np.ndarray, memory: c_void_p) -> None:
        """Copy from GPU memory into a host array."""
        pointer = c_void_p(array.ctypes.data)
        self.call("cuMemcpyDtoH_v2", pointer, memory, c_size_t(array.nbytes))

    def fill(self, memory: c_void_p, size: int, byte: int) -> None:
        """Set all bytes of GPU memory to one value."""
        self.call("cuMemsetD8_v2", memory, ctypes.c_ubyte(byte), c_size_t(size))

    def settle(self) -> None:
        """Wait until the GPU has finished all work."""
        self.call("cuCtxSynchronize")

    def event(self) -> c_void_p:
        """Create a CUDA event."""
        found = c_void_p()
        self.call("cuEventCreate", byref(found), 0)
        return found

    def milliseconds(self, first: c_void_p, last: c_void_p) -> float:
        """Return the milliseconds between two recorded events."""
        found = c_float()
        self.call("cuEventSynchronize", last)
        self.call("cuEventElapsedTime", byref(found), first, last)
        return found.value


class CudaLaunch:
    """A loaded kernel with its launch configuration and arguments.

    Args:
        driver: NVIDIA's.
        code: machine code, or PTX.
        function: name of the kernel.
        threads: of a program.
        shared: bytes of memory that they share.
        programs: how many there are.
        memories: of the arguments and results.
    """

    def __init__(
        self,
        driver: Driver,
        code: bytes,
        function: str,
        threads: int,
        shared: int,
        programs: int,
        memories: Sequence[c_void_p],
    ) -> None:
        self._driver, self._module, entry = driver, c_void_p(), c_void_p()
        driver.call("cuModuleLoadData", byref(self._module), code)
        name = function.encode()
        driver.call("cuModuleGetFunction", byref(entry), self._module, name)
        if shared > _STATIC_SHARED:
            driver.call("cuFuncSetAttribute", entry, _DYNAMIC_SHARED, shared)
        self._memories = memories  # whose addresses the arguments are
        pointers = [ctypes.cast(ctypes.pointer(m), c_void_p) for m in memories]
        self._given = (c_void_p * len(pointers))(*pointers)
        grid = programs, 1, 1, threads, 1, 1, shared
        self._arguments = entry, *grid, None, self._given, None

    def __call__(self) -> None:
        """Launch the kernel asynchronously."""
        self._driver.call("cuLaunchKernel", *self._arguments)

    def unload(self) -> None:
        """Unload the kernel's module from the GPU."""
        self._driver.call("cuModuleUnload", self._module)


_WARM_UP, _LEAST, _MOST = 3, 5, 400
_MICROSECONDS = 4000  # of launches that are timed together
_REPEATS = 5


def microseconds(driver: Driver, launch: CudaLaunch) -> list[float]:
    """Return the mean microseconds of a launch in several runs, ascending.

    It finds in the cache what the one before has left there.
    """
    for _ in range(_WARM_UP):
        launch()
    driver.settle()
    first, last = driver.event(), driver.event()

    def timed(count: int) -> float:
        driver.call("cuEventRecord", first, None)
        for _ in range(count):
            launch()
        driver.call("cuEventRecord", last, None)
        return driver.milliseconds(first, last) * 1e3 / count

    once = timed(_LEAST)
    count = int(min(_MOST, max(_LEAST, _MICROSECONDS / max(once, 1))))
    return sorted(timed(count) for _ in range(_REPEATS))
