"""The backends of IREE's compiler whose code aotc judges and runs: one row each.

What one backend differs in from another is a field of its row. Else only the form of a
device's profile, and what `aotc doctor` prints of it, name GPUs by their drivers. The
order is that in which a device's GPUs are looked for.
"""

from __future__ import annotations

from aotc.artifacts.backends import cpu, cuda, rocm, vulkan
from aotc.artifacts.backends.backend import Backend

_TABLE = [
    Backend(
        name="cuda",
        drivers=("cuda",),
        speed_class=0,
        check=cuda.check,
        level=cuda.level,
        host_facts=cuda.host_facts,
        has_driver=cuda.has_driver,
        gpu=cuda.gpu,
        vendors=frozenset({"0x10de"}),
    ),
    Backend(
        name="rocm",
        drivers=("hip",),
        speed_class=0,
        check=rocm.check,
        level=rocm.level,
        host_facts=rocm.host_facts,
        has_driver=rocm.has_driver,
        gpu=rocm.gpu,
        vendors=frozenset({"0x1002"}),
    ),
    # A Metal driver exists only where Metal does, so there is nothing to check.
    Backend(
        name="metal-spirv",
        drivers=("metal",),
        speed_class=0,
        vendors=frozenset({"0x106b"}),
    ),
    Backend(
        name="vulkan-spirv",
        drivers=("vulkan",),
        speed_class=1,
        driver_flags=vulkan.DRIVER_FLAGS,
        check=vulkan.check,
        host_facts=vulkan.host_facts,
        has_driver=vulkan.has_driver,
        gpu=vulkan.best_device,
    ),
    Backend(
        name="llvm-cpu",
        drivers=cpu.DRIVERS,
        speed_class=2,
        on_cpu=True,
        check=cpu.check,
        level=cpu.level,
        has_driver=cpu.has_driver,
    ),
    Backend(
        name="vmvx",
        drivers=cpu.DRIVERS,
        speed_class=3,
        on_cpu=True,
        portable_format="vmvx-bytecode-fb",
        has_driver=cpu.has_driver,
    ),
]

BACKENDS = {backend.name: backend for backend in _TABLE}
# what runs code for processors, which is there wherever IREE's runtime is
CPU_DRIVERS = frozenset(cpu.DRIVERS)

__all__ = ["BACKENDS", "CPU_DRIVERS", "Backend"]
