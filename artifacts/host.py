"""The facts of a machine by which `compat` judges."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from aotc.artifacts.backends import BACKENDS
from aotc.artifacts.tables import arch_of
from aotc.core.json_values import JsonObject


@dataclass(frozen=True)
class Host:
    """The facts of a machine that decide which code runs; None means unknown.

    Args:
        arch: `x86_64`, `aarch64`, …
        cpu_features: LLVM's names.
        runtime_version: of IREE, such as `3.13.0`.
        drivers: the IREE drivers that work here.
        sm: compute capability of the first CUDA device, such as `sm_86`.
        cuda_driver_api: such as 12040 for CUDA 12.4.
        vulkan_api: of the best device, such as `1.3.280`.
        vulkan_features: those of it that IREE's driver may want, under Vulkan's names.
        vulkan_is_software: whether that device is the processor, such as `llvmpipe`.
        gfx: processor of the first ROCm device, such as `gfx942`.
        unknown_drivers: those of which nobody knows whether they work.
    """

    arch: str
    cpu_features: frozenset[str]
    runtime_version: str
    drivers: frozenset[str]
    sm: str | None = None
    cuda_driver_api: int | None = None
    vulkan_api: str | None = None
    vulkan_features: frozenset[str] | None = None
    vulkan_is_software: bool = False
    gfx: str | None = None
    unknown_drivers: frozenset[str] = frozenset()

    @classmethod
    def from_device(
        cls,
        device: JsonObject,
        runtime_version: str,
        drivers: Iterable[str],
        unknown_drivers: Iterable[str] = (),
    ) -> Host:
        """Build the facts from a device profile, of a file or of
        `aotc.machine.device.probe`.
        """
        facts: dict[str, Any] = {}
        for backend in BACKENDS.values():
            facts |= backend.host_facts(device)
        return cls(
            arch=arch_of(str(device.get("arch") or "")),
            cpu_features=frozenset((device.get("cpu") or {}).get("features", ())),
            runtime_version=runtime_version,
            drivers=frozenset(drivers),
            unknown_drivers=frozenset(unknown_drivers),
            **facts,
        )
