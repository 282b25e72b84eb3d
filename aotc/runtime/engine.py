"""State that all models of a process share: one VM instance, one device per driver.

Devices are never given back, because results of a call are views of device memory.
IREE's thread pool takes its size from a flag when it is first made, so the number of
threads is one per process; `threads=1` needs no pool and is always available.

Note [memory between calls]: local-sync takes all memory from malloc, filled with zeros,
and gives large buffers back to the system; the next call then pays for every page again
(a third of a training step of ResNet-20). Behind IREE's caching allocator a call finds
the buffers that the one before it freed. The cache matches exact sizes only and has no
limit, so it is emptied before a call of another function or of other sizes. The thread
pool's device has pools of its own, which IREE 3.13 does not let us choose; a module
holds itself what these would not keep (aotc/worker/workspaces.py).

Note [memory between calls on a GPU]: memory that the host sees is locked in place when
it is allocated, which takes longer than most calls, and to free memory waits for the
whole device. So the cache keeps what several kinds of calls have freed: an entry of a
few sizes, or entries and models that take turns, allocate nothing. It holds at most 64
buffers of each kind of memory, none that a result or a state still refers to. It is
emptied before a call of another kind if there are too many or they move too much, when
a model is loaded and when memory runs out. Only CUDA has it: drivers of HIP and Vulkan
take any allocator that they are given for their own (IREE 3.13, `free_async` and
`select_default_pool`).

Note [threads on one core]: where other programs keep the cores busy, Linux wakes a
thread of the pool on the core of the one that wakes it, and may leave both there for
seconds: calls then take as long as with one thread. A pool with a thread for each core
is therefore bound to them, one each. A smaller pool is not: several programs would
choose the same cores.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import iree.runtime as iree

from aotc.artifacts.backends import BACKENDS, CPU_DRIVERS
from aotc.artifacts.compat import release_of
from aotc.artifacts.host import Host
from aotc.core import options
from aotc.core.json_values import JsonObject
from aotc.core.options import MAX_THREADS
from aotc.errors import InputError, SetupError
from aotc.errors.system import raise_system_error
from aotc.runtime import lifetime

if TYPE_CHECKING:
    from aotc.runtime.iree_types import HalDevice, HalDriver, VmInstance

# Notes [memory between calls] and [memory between calls on a GPU]
# driver → for how many kinds of calls memory is kept that one has freed
_KEPT_CALLS = {"local-sync": 1, "cuda": 8}
_KEPT_BYTES = 1 << 30  # that these may move before it is emptied for another

_DRIVER_FLAGS = {
    driver: backend.driver_flags
    for backend in BACKENDS.values()
    for driver in backend.drivers
}

_SYSTEM_CPUS = Path("/sys/devices/system/cpu")

# By these IREE sees that mpirun has started a process, and then opens no device without
# the library of Open MPI, which only collectives of its own need.
_MPI_VARIABLES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE")

_lock = threading.Lock()
_pool_size: int | None = None
_memories: dict[HalDevice, CallMemory] = {}


@cache
def instance() -> VmInstance:
    """Return the process's only IREE VM instance: several are not safe."""
    made: VmInstance = iree.VmInstance()
    return made


def device(backend: str, threads: int | None, *, is_small: bool = False) -> HalDevice:
    """Return the device that runs modules of `backend`, opened on first use.

    Args:
        backend: that modules are for.
        threads: how many are wanted.
        is_small: whether one is faster than several (`aotc.runtime.small`).

    Raises:
        SetupError: `no-driver`.
        InputError: `bad-threads`, or `threads-fixed` if the process already has a pool
            of another size.
    """
    with _lock:
        row = BACKENDS[backend]
        return _cpu_device(threads, is_small) if row.on_cpu else _open(row.drivers[0])


class CallMemory:
    """Policy that keeps a device's freed memory for similar calls, or frees it.

    Args:
        device: whose memory it is.
        kinds: for how many kinds of calls it is kept; 0 if the device keeps none.
    """

    def __init__(self, device: HalDevice, kinds: int) -> None:
        self._trim = device.allocator.trim
        self._kinds = max(kinds, 1)
        self.is_kept = kinds > 0
        self._last_call: Hashable = None
        self._calls: dict[Hashable, int] = {}

    def expect(self, call: Hashable, size: int = 0) -> None:
        """Announce a call: keep freed memory if it is like a recent one, else free it.

        Args:
            call: the function and the sizes of its inputs.
            size: bytes that it moves, as far as these are bounded.
        """
        if call != self._last_call:
            is_known = call in self._calls or 0 < len(self._calls) < self._kinds
            if not is_known or sum(self._calls.values()) > _KEPT_BYTES:
                self.give_back()
            self._calls[call] = size
            self._last_call = call

    def give_back(self) -> None:
        """Free all cached memory that no buffer refers to."""
        if self.is_kept:
            self._trim()
        self._calls.clear()
        self._last_call = None


def call_memory(device: HalDevice) -> CallMemory:
    """Return the memory policy of a device, which all models on it share."""
    return _memories[device]


def host(backends: set[str]) -> Host:
    """Return the facts of this machine that decide whether modules of these backends
    run.
    """
    from aotc.machine import device, processor

    described: JsonObject = {
        "arch": processor.arch(),
        "cpu": {"features": processor.cpu_features()},
    }
    drivers = set(CPU_DRIVERS)
    known = [BACKENDS[name] for name in backends if name in BACKENDS]
    gpus = sorted(backend.drivers[0] for backend in known if not backend.on_cpu)
    if gpus:
        # Loading GPU drivers takes long, so only what the bundle could use is tried.
        described = device.probe()
        drivers.update(driver for driver in gpus if _works(driver))
    return Host.from_device(described, iree_version(), drivers)


@cache
def iree_version() -> str:
    """Return the release of the IREE runtime, such as `3.13.0`."""
    from iree.runtime import version

    # The version is followed by the date of the release candidate that became it.
    return release_of(str(version.VERSION))


def physical_cores() -> int:
    """Return how many physical cores this process may use."""
    return len(_cores())


def _cores() -> list[int]:
    """Return one CPU number of each physical core that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    available = affinity(0) if affinity else range(os.cpu_count() or 1)
    cores = {_siblings(cpu): cpu for cpu in sorted(available, reverse=True)}
    return sorted(cores.values())


def pool_flag(threads: int) -> str:
    """Return IREE's flag for the size of a thread pool; Note [threads on one core]."""
    cores = _cores()
    # Without this file IREE does not know the numbers, and makes a single thread.
    if len(cores) == threads and (_SYSTEM_CPUS / "present").exists():
        return f"--task_topology_cpu_ids={','.join(map(str, cores))}"
    return f"--task_topology_group_count={threads}"


def _siblings(cpu: int) -> str:
    """Return the hardware threads of a CPU's core, as Linux lists them; used as a
    core's id.
    """
    path = _SYSTEM_CPUS / f"cpu{cpu}/topology/thread_siblings_list"
    try:
        return path.read_text()
    except OSError:
        return str(cpu)


def threads(backend: str, wanted: int | None, *, is_small: bool = False) -> int | None:
    """Return the number of threads that a model will use; None on an accelerator."""
    if not BACKENDS[backend].on_cpu:
        return None
    return 1 if is_small else _thread_count(wanted)


def _thread_count(wanted: int | None) -> int:
    """Return the number of threads: wanted, of AOTC_THREADS, or the default."""
    if not (wanted is None or isinstance(wanted, int)) or isinstance(wanted, bool):
        raise InputError(
            "bad-threads", f"expected a number of threads, an int; got {wanted!r}"
        )
    chosen = wanted if wanted is not None else options.get("AOTC_THREADS")
    by_default = _pool_size or min(physical_cores(), MAX_THREADS)
    return int(chosen) if chosen is not None else by_default


def _cpu_device(threads: int | None, is_small: bool) -> HalDevice:
    """Return the CPU device of one thread, or of the process's pool."""
    global _pool_size
    wanted = _thread_count(threads)
    if not 1 <= wanted <= MAX_THREADS:
        raise InputError(
            "bad-threads",
            f"expected 1 to {MAX_THREADS} threads, which IREE can use; got {wanted}",
        )
    if wanted == 1 or is_small:
        return _open("local-sync")
    lifetime.require_pool()
    if _pool_size is None:
        iree.flags.parse_flags(pool_flag(wanted))
        _pool_size = wanted
    if wanted != _pool_size:
        raise InputError(
            "threads-fixed",
            f"expected threads=1 or {_pool_size}, got {wanted}: this process already "
            f"computes with {_pool_size} threads",
            hint="set AOTC_THREADS for the whole process",
        )
    return _open("local-task")


@cache
def _open(driver: str) -> HalDevice:
    """Open the device of an IREE driver, once per process; raise if it does not
    work.
    """
    try:
        allocators = ["caching"] if driver in _KEPT_CALLS else None
        with _hidden(_MPI_VARIABLES):
            device = _driver(driver).create_default_device(allocators)
    except (RuntimeError, ValueError, KeyError) as error:
        raise_system_error(error)
        first_line = str(error).partition("\n")[0]
        raise SetupError(
            "no-driver",
            f"expected the IREE driver {driver} to work here, got: {first_line}",
            hint="install the device's driver, or load a variant for another target",
        ) from None
    _memories[device] = CallMemory(device, _KEPT_CALLS.get(driver, 0))
    lifetime.note_open(device, pooled=driver != "local-sync")
    return device


@contextmanager
def _hidden(names: Sequence[str]) -> Iterator[None]:
    """Remove the named environment variables within the block."""
    held = {name: os.environ.pop(name) for name in names if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(held)


def _works(driver: str) -> bool:
    """Return whether an IREE driver finds a device here."""
    try:
        return bool(_driver(driver).query_available_devices())
    except (RuntimeError, ValueError, KeyError):
        return False


def _driver(name: str) -> HalDriver:
    """Return an IREE driver, with its flags set before its first use.

    Raises:
        RuntimeError, ValueError, KeyError: there is no such driver here.
    """
    if flags := _DRIVER_FLAGS[name]:
        iree.flags.parse_flags(*flags)
    driver: HalDriver = iree.get_driver(name)
    return driver
