"""The facts that `compat` decides by. Extend a table only from the source it names."""

from __future__ import annotations

from dataclasses import dataclass

from aotc.target import TARGETS


@dataclass(frozen=True)
class IreeRuntime:
    """What one release line of the IREE runtime can load."""

    bytecode: tuple[int, int]
    modules: dict[str, int]


# X.Y → bytecode version and the versions of the modules that the runtime brings.
# source: modules compiled with iree-base-compiler of that release
IREE_RUNTIMES = {"3.13": IreeRuntime((17, 0), {"hal": 7, "io_parameters": 0})}

# backend → the IREE drivers that can run it
DRIVERS = {target.backend: target.drivers for target in TARGETS.values()}

# PTX ISA → CUDA driver API that is the first to load it
# source: https://github.com/NVIDIA/cuda-python (_ptx_utils.py)
PTX_DRIVER_API = {
    "7.0": 11000,
    "7.1": 11010,
    "7.2": 11020,
    "7.3": 11030,
    "7.4": 11040,
    "7.5": 11050,
    "7.6": 11060,
    "7.7": 11070,
    "7.8": 11080,
    "8.0": 12000,
    "8.1": 12010,
    "8.2": 12020,
    "8.3": 12030,
    "8.4": 12040,
    "8.5": 12050,
    "8.6": 12070,
    "8.7": 12080,
    "8.8": 12090,
    "9.0": 13000,
}
