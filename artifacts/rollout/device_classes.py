"""Devices, and the classes of those that are equal for all that matters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from aotc.artifacts.rollout.profiles import DeviceProfile


@dataclass(frozen=True)
class FleetDevice:
    """A row of a fleet: one device, or `count` equal ones.

    Args:
        name: what it is called, for people.
        profile: what it is.
        count: how many of them there are.
        labels: such as its site; policies may ask for coverage by label.
        where: the place that says so, such as a file and a line of it.
    """

    name: str
    profile: DeviceProfile
    count: int = 1
    labels: Mapping[str, str] = field(default_factory=dict)
    where: str = ""


@dataclass(frozen=True)
class DeviceClass:
    """Devices of equal profiles, on which each artifact has the same verdict.

    `name` is that of the first device, with how many other names there are; no other
    class of the fleet has it.
    """

    name: str
    profile: DeviceProfile
    devices: tuple[FleetDevice, ...]

    @property
    def count(self) -> int:
        """The number of devices in the class."""
        return sum(device.count for device in self.devices)


def classes(devices: Iterable[FleetDevice]) -> tuple[DeviceClass, ...]:
    """Group devices by profile into classes, in order of first appearance."""
    groups: dict[DeviceProfile, list[FleetDevice]] = {}
    for device in devices:
        groups.setdefault(device.profile, []).append(device)
    found = [
        DeviceClass(_name(group), profile, tuple(group))
        for profile, group in groups.items()
    ]
    return tuple(_tell_apart(found))


def _name(devices: Sequence[FleetDevice]) -> str:
    """Return the name of a class: its first device, and how many are alike."""
    others = len({device.name for device in devices}) - 1
    return f"{devices[0].name} and {others} alike" if others else devices[0].name


def _tell_apart(device_classes: Sequence[DeviceClass]) -> list[DeviceClass]:
    """Return the classes under unique names, with the origin of their first device or a
    number.
    """
    for note in ("where", "number"):
        uses = Counter(each.name for each in device_classes)
        device_classes = [
            each
            if uses[each.name] == 1
            else replace(each, name=f"{each.name} ({_suffix(note, number, each)})")
            for number, each in enumerate(device_classes, 1)
        ]
    return list(device_classes)


def _suffix(by: str, number: int, device_class: DeviceClass) -> str:
    """Return a suffix for an ambiguous class name: origin ("where") or number, as `by`
    says.
    """
    return device_class.devices[0].where if by == "where" else f"class {number}"
