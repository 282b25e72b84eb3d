"""GPUs of this machine that kernels can be timed on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from aotc.core.dtypes import is_float, to_numpy
from aotc.machine import gpus
from aotc.machine.target import Target
from aotc.tuning.cuda_driver import CudaLaunch, Driver, microseconds

_LEAST = 16  # bytes of memory, of arrays of no elements too


@dataclass(frozen=True)
class TimedKernel:
    """A kernel's code, launch configuration and buffers, for a timer to launch.

    Args:
        code: of it.
        function: its name there.
        threads: of a program.
        shared: bytes of memory that they share.
        programs: how many there are.
        buffers: dtype and elements of what it reads, and then of what it writes.
    """

    code: bytes
    function: str
    threads: int
    shared: int
    programs: int
    buffers: tuple[tuple[str, int], ...]


class KernelTimer(Protocol):
    """A timer of compiled kernels on a device."""

    def microseconds(self, kernel: TimedKernel) -> float:
        """Return the least time of a launch of the kernel."""


class CudaTimer:
    """Times kernels on the first NVIDIA GPU, on random floats, and on integers that are
    0.
    """

    def __init__(self) -> None:
        self._driver = Driver()

    def microseconds(self, kernel: TimedKernel) -> float:
        """Return the least time of a launch of the kernel."""
        driver, rng = self._driver, np.random.default_rng(0)
        memories = []
        try:
            for dtype, count in kernel.buffers:
                array = _array(rng, dtype, count)
                memories.append(driver.allocate(max(array.nbytes, _LEAST)))
                driver.upload(memories[-1], array)
            launch = CudaLaunch(
                driver,
                kernel.code,
                kernel.function,
                kernel.threads,
                kernel.shared,
                kernel.programs,
                memories,
            )
            found = microseconds(driver, launch)[0]
            launch.unload()
            return found
        finally:
            for memory in memories:
                driver.free(memory)


def _array(rng: np.random.Generator, dtype: str, count: int) -> np.ndarray:
    """Return an array of normally distributed floats, or of zeros for integers."""
    if is_float(dtype):
        return rng.standard_normal(count, "float32").astype(to_numpy(dtype))
    return np.zeros(count, to_numpy(dtype))


def chips_here() -> Sequence[str]:
    """Return the architectures (`sm_90`, `gfx942`) of this machine's GPUs, in order."""
    found = gpus.probe()
    cuda, rocm = ((found[name] or {}).get("devices", ()) for name in ("cuda", "rocm"))
    return [*(each["sm"] for each in cuda), *(each.get("gfx", "") for each in rocm)]


def why_no_timer(target: Target) -> str:
    """Return why kernels for a target cannot be timed here; "" if they can.

    Those of a chip are timed on that chip: how fast a schedule is on another one, which
    may run the same code, says nothing.
    """
    chip = (target.sm or target.gfx or "").removesuffix("a")
    here = chips_here()
    if target.backend != "cuda":
        return f"schedules for {target} are not measured: no timer launches its code"
    if here[:1] == [chip]:
        return ""
    first = f"its first GPU is of {here[0]}" if here else "this machine has none"
    return f"schedules for {target} are measured on a GPU of {chip}; {first}"


def timer_of(target: Target) -> KernelTimer:
    """Return the timer of kernels for a target on this machine's first GPU."""
    return CudaTimer()
