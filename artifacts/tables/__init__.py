"""The facts that `compat` decides by: tables of which every row names its source.

A row is data, in a JSON file beside this one; what is not in a table is unknown, and
never guessed. Where a command measures or derives a table, the file names the command.
"""

from aotc.artifacts.tables.devices import DeviceTableRow, devices, find_device
from aotc.artifacts.tables.gpus import (
    gfx_runs_on,
    linux_driver,
    ptx_driver_api,
    ptx_runs_on,
    vulkan_driver_api,
)
from aotc.artifacts.tables.levels import (
    ArchitectureLevel,
    arch_of,
    architecture_levels,
    highest_level,
)
from aotc.artifacts.tables.runtimes import IreeRuntime, iree_runtime, run_outcome

__all__ = [
    "DeviceTableRow",
    "IreeRuntime",
    "ArchitectureLevel",
    "arch_of",
    "devices",
    "find_device",
    "gfx_runs_on",
    "highest_level",
    "iree_runtime",
    "architecture_levels",
    "linux_driver",
    "ptx_driver_api",
    "ptx_runs_on",
    "run_outcome",
    "vulkan_driver_api",
]
