"""Code for AMD GPUs: it is for one processor, or for the few that have one ISA."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aotc.artifacts.backends.backend import Facts, first_gpu, section
from aotc.artifacts.tables import gfx_runs_on
from aotc.artifacts.verdicts import Mismatch, unknown, unsupported

if TYPE_CHECKING:
    from aotc.artifacts.host import Host


def check(target: Facts, host: Host) -> list[Mismatch]:
    """Return the reasons against ROCm code on a host: the GPU's processor (gfx)."""
    built, gfx = target.get("gfx"), host.gfx
    if not built or not gfx:
        return [unknown("gfx", "the AMD processor or what the code needs is unknown")]
    if not gfx_runs_on(built, gfx):
        return [unsupported("gfx", f"expected {built}, got {gfx}")]
    return []


def level(target: Facts) -> int:
    """Return 1 if code is for one processor, which precedes generic code, else 0."""
    return int("generic" not in str(target.get("gfx", "")))


def host_facts(device: Facts) -> dict[str, object]:
    """Return a profile's facts for `Host`: the first GPU's `gfx`."""
    return {"gfx": (gpu(device) or {}).get("gfx")}


def has_driver(device: Facts) -> bool | None:
    """Return whether a profile says that HIP works; None if it does not say."""
    rocm = section(device, "rocm")
    if rocm.get("devices") and "hip" not in rocm:
        return None
    return bool(rocm.get("hip"))


def gpu(device: Facts) -> Facts | None:
    """Return the first ROCm GPU of a device profile, or None."""
    return first_gpu(device, "rocm")
