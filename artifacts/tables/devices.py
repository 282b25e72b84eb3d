"""Common devices by name, as profiles such as `aotc doctor` gives.

A profile says what every device of that name has: the features of its weakest core, the
memory of its smallest edition. What depends on what is installed there, above all the
versions of drivers, is null, so that nothing is approved by a guess; which kinds of
driver there are is assumed, in `DeviceTableRow.drivers`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from aotc.artifacts.tables.reading import document, rows
from aotc.core.json_values import JsonObject
from aotc.errors import InputError
from aotc.machine.target import level_of

_FILE = "devices.json"
_GIB = 2**30

# The kinds of devices, and their titles for people.
KINDS = {
    "edge": "Boards",
    "phone": "Phones",
    "desktop": "Desktops and laptops",
    "cloud-cpu": "Processors of clouds",
    "gpu": "GPUs",
}


@dataclass(frozen=True)
class DeviceTableRow:
    """A device of the shipped table, with its profile and sources.

    Args:
        id: its name, such as `jetson-agx-orin`.
        name: for people.
        kind: of `KINDS`; a `gpu` is a card in some computer, of which nothing is known.
        aliases: other names for it, such as `jetson-orin`.
        drivers: of IREE, assumed to work there.
        profile: as `aotc.machine.device.probe` gives it (schema ``aotc.device/1``).
        notes: what a user should know; empty if there is nothing.
        sources: where the facts are from.
    """

    id: str
    name: str
    kind: str
    aliases: tuple[str, ...]
    drivers: tuple[str, ...]
    profile: dict[str, Any]
    notes: str
    sources: tuple[str, ...]


@cache
def devices() -> dict[str, DeviceTableRow]:
    """Return all devices of the shipped table, by `id`."""
    texts = document(_FILE)["sources"]
    return {row["id"]: _device(row, texts) for row in rows(_FILE)}


def find_device(name: str) -> DeviceTableRow:
    """Return the device of a name or an alias, ignoring case; raise if there is none.

    Raises:
        InputError: `unknown-device`; the hint names those that begin so or are alike.
    """
    known = devices()
    names = {alias: each.id for each in known.values() for alias in each.aliases}
    names |= {id_: id_ for id_ in known}
    wanted = name.strip().lower().replace("_", "-").replace(" ", "-")
    if wanted in names:
        return known[names[wanted]]
    from difflib import get_close_matches

    longer = [each for each in names if wanted and each.startswith(wanted)]
    close = longer[:3] or get_close_matches(wanted, names, n=3, cutoff=0.6)
    raise InputError(
        "unknown-device",
        f"no device {name!r} is in the table of {len(known)} common devices",
        hint=(f"did you mean {' or '.join(close)}? " if close else "")
        + "`aotc devices` lists them, and what `aotc doctor --format json` prints on a "
        "device describes any other",
    )


def _device(row: dict[str, Any], texts: dict[str, str]) -> DeviceTableRow:
    """Return a row of the JSON table as a `DeviceTableRow`."""
    arch, features = row.get("arch"), _features(row)
    logical = row.get("cores", (None, None))
    profile = {
        "schema": "aotc.device/1",
        "os": {"name": row.get("os", "linux"), "release": None},
        "arch": arch,
        "cpu": {
            "model": row.get("processor"),
            "features": features,
            "level": level_of(arch, features) if arch else None,
            "cores_logical": logical[1],
            "cores_physical": logical[0],
            "caches": {"l1d": None, "l2": None, "l3": None},
        },
        "memory": {"total_bytes": _bytes(row.get("memory_gib"))},
        "cuda": _gpu(row, "sm", driver_api=None),
        "vulkan": {"api": None} if row.get("vulkan") else None,
        "rocm": _gpu(row, "gfx"),
    }
    return DeviceTableRow(
        row["id"],
        row["name"],
        row["class"],
        tuple(row["aliases"]),
        tuple(row["drivers"]),
        profile,
        row.get("notes", ""),
        tuple(texts[source] for source in row["sources"]),
    )


def _features(row: JsonObject) -> list[str]:
    """Return the CPU features of a device, its own or its processor's."""
    found = row.get("features") or _processors().get(row.get("processor", ""), [])
    return sorted(set(found) - set(row.get("without", ())))


@cache
def _processors() -> dict[str, list[str]]:
    """Return the CPU features of each processor in the table."""
    return {row["processor"]: row["features"] for row in rows("processors.json")}


def _gpu(row: dict[str, Any], chip: str, **driver: Any) -> dict[str, Any] | None:
    """Return a profile's section for a GPU; None if the device has none of this
    kind.
    """
    if chip not in row:
        return None
    memory = _bytes(row.get("gpu_memory_gib"))
    one = {"name": row["name"], chip: row[chip], "memory_bytes": memory}
    return {**driver, "devices": [one]}


def _bytes(gib: float | None) -> int | None:
    """Convert GiB to bytes; None for None."""
    return None if gib is None else int(gib * _GIB)
