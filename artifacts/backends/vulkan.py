"""Code for GPUs with Vulkan: both the code and IREE's driver ask for a version."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aotc.artifacts.backends.backend import Facts, section
from aotc.artifacts.tables import iree_runtime, vulkan_driver_api
from aotc.artifacts.verdicts import (
    STATE_FACT,
    Mismatch,
    slower,
    unknown,
    unsupported,
)

if TYPE_CHECKING:
    from aotc.artifacts.host import Host

# Note [replay on Vulkan]: IREE 3.13 keeps the native commands of a function and replays
# them. From the second call on they write to where the first call's results lay, if
# those are still held, or if states lie in the same memory: the numbers are wrong
# without a word. Without the cache, commands are recorded for each call.
DRIVER_FLAGS = ("--vulkan_cached_bda_replay_instances=0",)
# devices that compute on the processor, by how their names begin
_SOFTWARE_DEVICES = ("llvmpipe", "lavapipe", "SwiftShader")


def check(target: Facts, host: Host) -> list[Mismatch]:
    """Return the reasons against Vulkan code on a host: version, features, or no real
    GPU.
    """
    runtime, got = iree_runtime(host.runtime_version), host.vulkan_api
    module = target.get("min_vulkan_api")
    if runtime is None or runtime.vulkan_api is None or module is None or got is None:
        message = "the Vulkan version or its need is unknown"
        return [unknown("vulkan-api", message, STATE_FACT)]
    least = max(runtime.vulkan_api, module, key=_numbers)
    if _numbers(got) < _numbers(least):
        message = f"expected Vulkan {least} or newer, got {got}"
        return [unsupported("vulkan-api", message, _newer_vulkan(least, host))]
    wanted = runtime.vulkan_features.union(target.get("vulkan_features", ()))
    return _check_features(wanted, host) or _check_hardware(host)


def _check_hardware(host: Host) -> list[Mismatch]:
    """Return a `slower` mismatch if the host's Vulkan device is a CPU renderer."""
    if not host.vulkan_is_software:
        return []
    message = (
        "the Vulkan device here computes on the processor, slower than code for that"
    )
    return [slower("software-device", message)]


def is_software(device: Facts) -> bool:
    """Return whether a Vulkan device is a software renderer on the CPU."""
    return str(device.get("name")).startswith(_SOFTWARE_DEVICES)


def _newer_vulkan(least: str, host: Host) -> str:
    """Return advice on the Vulkan driver to install."""
    there = [vulkan_driver_api(chip) for chip in (host.sm, host.gfx) if chip]
    if any(api and _numbers(api) >= _numbers(least) for api in there):
        return f"install a driver with Vulkan {least}"
    return f"find out whether there is a driver with Vulkan {least} for its GPU"


def _check_features(required: frozenset[str], host: Host) -> list[Mismatch]:
    """Return the mismatch of Vulkan features that a host lacks, if any."""
    if host.vulkan_features is None:
        message = "the device's Vulkan features are unknown"
        return [unknown("vulkan-features", message, STATE_FACT)]
    missing = sorted(required - host.vulkan_features)
    if not missing:
        return []
    message = f"expected Vulkan features that are not here: {', '.join(missing)}"
    return [unsupported("vulkan-features", message)]


def host_facts(device: Facts) -> dict[str, object]:
    """Return a profile's facts for `Host`: version and features of the best Vulkan
    device.

    Neither a device nor the system's loader can do more than the other allows.
    """
    vulkan = section(device, "vulkan")
    loader, best = vulkan.get("api"), best_device(device)
    if best is None:
        return {"vulkan_api": None if "devices" in vulkan else loader}
    api = min(best["api"], loader, key=_numbers) if loader else None
    return {
        "vulkan_api": api,
        "vulkan_features": frozenset(best["features"]),
        "vulkan_is_software": is_software(best),
    }


def has_driver(device: Facts) -> bool | None:
    """Return whether a profile has a Vulkan loader with a device (or without a list of
    them).
    """
    vulkan = section(device, "vulkan")
    return bool(vulkan and vulkan.get("devices", True))


def best_device(device: Facts) -> Facts | None:
    """Return the Vulkan device that IREE takes: a GPU before software, then most
    features; None without any.
    """
    return max(
        section(device, "vulkan").get("devices", ()),
        key=lambda each: (
            not is_software(each),
            len(set(each["features"])),
            _numbers(each["api"]),
        ),
        default=None,
    )


def _numbers(version: str) -> tuple[int, ...]:
    """Parse a version as a tuple of integers, for comparison."""
    return tuple(int(part) for part in version.split("."))
