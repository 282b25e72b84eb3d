"""Tables of GPUs and drivers that run compiled GPU code."""

from __future__ import annotations

import re

from aotc.artifacts.tables.reading import rows

_SM = re.compile(r"sm_(\d+)([af]?)")
# of AMD's chips the last two digits are no part of it
_GENERATION = re.compile(r"(sm_(\d+)|gfx(\d+)[0-9a-f]{2})(?![0-9a-z])")


def ptx_driver_api(ptx_isa: str) -> int | None:
    """Return the oldest CUDA driver API that loads a PTX version, such as 12040, or
    None.
    """
    for row in rows("ptx.json"):
        if row["ptx_isa"] == ptx_isa:
            api: int = row["driver_api"]
            return api
    return None


def linux_driver(driver_api: int) -> str | None:
    """Return the first NVIDIA Linux driver with at least this CUDA driver API, or
    None.
    """
    known = (row for row in rows("ptx.json") if row["linux_driver"])
    for row in known:
        if row["driver_api"] >= driver_api:
            return str(row["linux_driver"])
    return None


def ptx_runs_on(built: str, device: str) -> bool:
    """Return whether PTX for one compute capability runs on a device of another.

    Plain PTX runs on every newer device. That of `sm_90a` runs on 9.0 only, and that of
    `sm_120f` on the devices of its family, which are a table.
    """
    made, present = _SM.fullmatch(built), _SM.fullmatch(device)
    if not made or not present:
        return False
    if made[2] == "f":
        return f"sm_{present[1]}" in _family(built)
    needed, number = int(made[1]), int(present[1])
    return number == needed if made[2] == "a" else number >= needed


def gfx_runs_on(built: str, device: str) -> bool:
    """Return whether a ROCm code object for one processor loads on another.

    It loads on the processor that it names, or on those of the generic one that it
    names. Features such as `:xnack+` must be the device's; without them the code is for
    both settings. To call one processor another (`HSA_OVERRIDE_GFX_VERSION`) is not a
    rule that anybody vouches for.
    """
    needed, *features = built.split(":")
    present, *offered = device.split(":")
    if not set(features) <= set(offered):
        return False
    return present in _processors(needed)


def vulkan_driver_api(chip: str) -> str | None:
    """Return the Vulkan version of a GPU's newest known driver; None if none is known.

    Args:
        chip: such as `sm_89` or `gfx1100`.
    """
    found = _GENERATION.match(chip)
    if not found:
        return None
    generation = int(found[2] or found[3])
    for row in rows("vulkan_drivers.json"):
        last = row["last"] or generation
        if (
            found[0].startswith(row["chips"])
            and row["first"] <= generation <= last
            and found[0] not in row["except"]
        ):
            return str(row["api"])
    return None


def _processors(name: str) -> tuple[str, ...]:
    """Return the processors that run code for a generic gfx target; else `name`
    alone.
    """
    for row in rows("gfx.json"):
        if row["generic"] == name:
            return tuple(row["processors"])
    return (name,)


def _family(target: str) -> tuple[str, ...]:
    """Return the compute capabilities of the family of a target such as `sm_120f`."""
    found = (each for each in rows("sm_families.json") if each["target"] == target)
    return tuple(next(found, {"devices": ()})["devices"])
