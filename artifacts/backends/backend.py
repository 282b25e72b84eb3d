"""`Backend`: the row of a backend in the table, and what its rules have in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aotc.artifacts.verdicts import Mismatch
from aotc.core.json_values import JsonObject

if TYPE_CHECKING:
    from aotc.artifacts.host import Host

# The `target` of a variant, or what `aotc.machine.device.probe` says of a device.
Facts = JsonObject


def _no_reasons(target: Facts, host: Host) -> list[Mismatch]:
    """Return no mismatches: the default `check` of a backend without rules."""
    return []


def _no_facts(device: Facts) -> dict[str, object]:
    """Return no facts: the default `host_facts`."""
    return {}


def _one_level(target: Facts) -> int:
    """Return 0: the default `level` of a backend whose hardware has no ranks."""
    return 0


def _not_found(device: Facts) -> bool | None:
    """Return False: the default `has_driver`."""
    return False


def _no_gpu(device: Facts) -> Facts | None:
    """Return None: the default `gpu`."""
    return None


@dataclass(frozen=True)
class Backend:
    """A backend of IREE's compiler, with the rules that decide where its code runs.

    Args:
        name: as `iree-compile` and manifests name it.
        drivers: IREE's runtime drivers, any of which runs its code.
        speed_class: the fastest kind of code is 0; a variant of a lower class wins.
        on_cpu: whether a processor runs its code, and no accelerator.
        portable_format: of executables that every processor runs, if it makes those.
        driver_flags: what IREE's driver is started with.
        check: what speaks against code for this `target` on a host with the driver.
        level: how new the hardware is that a `target` asks for; the newer one wins.
        host_facts: the fields of `Host` that a device's profile gives for this backend.
        has_driver: whether a profile, written without IREE's runtime, says that the
            drivers work; None if it leaves that open.
        gpu: what a profile says of the GPU that IREE takes, if it has one.
        vendors: of its GPUs, as PCI numbers them; none for those of several.
    """

    name: str
    drivers: tuple[str, ...]
    speed_class: int
    on_cpu: bool = False
    portable_format: str | None = None
    driver_flags: tuple[str, ...] = ()
    check: Callable[[Facts, Host], list[Mismatch]] = _no_reasons
    level: Callable[[Facts], int] = _one_level
    host_facts: Callable[[Facts], dict[str, Any]] = _no_facts
    has_driver: Callable[[Facts], bool | None] = _not_found
    gpu: Callable[[Facts], Facts | None] = _no_gpu
    vendors: frozenset[str] = frozenset()

    @property
    def is_portable(self) -> bool:
        """Return whether every CPU runs the backend's code, which is slow and keeps
        line numbers.
        """
        return self.portable_format is not None


def section(device: Facts, name: str) -> Facts:
    """Return a section of a device profile; empty if it is null or missing."""
    found: Facts = device.get(name) or {}
    return found


def first_gpu(device: Facts, name: str) -> Facts | None:
    """Return the first device in a section of a device profile, or None; IREE takes
    that one.
    """
    return next(iter(section(device, name).get("devices", ())), None)
