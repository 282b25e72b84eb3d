"""Artifacts × devices: for each pair the variant that runs, or why none does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from aotc.artifacts.checked import CodeCheckResult, checks_of
from aotc.artifacts.host import Host
from aotc.artifacts.manifest import EntryPoint, Manifest, Variant
from aotc.artifacts.rollout.device_classes import DeviceClass
from aotc.artifacts.rollout.profiles import DeviceProfile
from aotc.artifacts.selection import (
    Judgement,
    Selection,
    judge,
    on_cpu,
    select_best,
)
from aotc.artifacts.verdicts import Verdict


@dataclass(frozen=True)
class Artifact:
    """A bundle to roll out: its path and manifest."""

    path: str
    manifest: Manifest

    def __str__(self) -> str:
        return f"{self.manifest.name} {self.manifest.version}"


@dataclass(frozen=True)
class EntryMemory:
    """The memory that an entry needs at its largest sizes, and that a device has.

    Args:
        entry: its name.
        sizes: the largest of its symbolic dimensions, which need the most.
        needed_bytes: None if a size has no limit, so that nobody knows.
        available_bytes: None if the profile does not say.
    """

    entry: str
    sizes: Mapping[str, int]
    needed_bytes: int | None
    available_bytes: int | None

    @property
    def fits(self) -> bool | None:
        """Return whether the entry fits in the device's memory; None if a number is
        unknown.
        """
        if self.needed_bytes is None or self.available_bytes is None:
            return None
        return self.needed_bytes <= self.available_bytes


@dataclass(frozen=True)
class CompatibilityCell:
    """The judgement of one artifact on one class of devices.

    Args:
        artifact: the bundle.
        devices: the class.
        judgements: of each variant.
        selection: the variant that the loader would take.
    """

    artifact: Artifact
    devices: DeviceClass
    judgements: tuple[Judgement, ...]
    selection: Selection

    @property
    def verdict(self) -> Verdict:
        """The verdict on the selected variant, or on why there is none."""
        return self.selection.verdict

    @cached_property
    def checks(self) -> tuple[CodeCheckResult, ...]:
        """The self-check results of the selected variant's code, by entry."""
        variant = self.selection.variant
        if variant is None:
            return ()
        return tuple(
            checks_of(self.artifact.manifest.data, str(variant.target["name"]))
        )

    @property
    def unchecked(self) -> tuple[CodeCheckResult, ...]:
        """The check results of entries with code that was never run."""
        return tuple(each for each in self.checks if not each.is_checked)

    @cached_property
    def memory(self) -> tuple[EntryMemory, ...]:
        """The memory needs of each entry; empty if no variant runs."""
        variant = self.selection.variant
        if variant is None:
            return ()
        there = _memory_there(variant, self.devices.profile)
        return tuple(
            _entry_memory(variant, point, there)
            for point in self.artifact.manifest.entry_points.values()
        )

    @property
    def fits(self) -> bool:
        """Return whether no entry is known to need more memory than the device has."""
        return all(entry.fits is not False for entry in self.memory)


@dataclass(frozen=True)
class Matrix:
    """A matrix of cells, row by row: `cells[i][j]` is artifact i on class j."""

    artifacts: tuple[Artifact, ...]
    classes: tuple[DeviceClass, ...]
    cells: tuple[tuple[CompatibilityCell, ...], ...]


def matrix(artifacts: Sequence[Artifact], classes: Sequence[DeviceClass]) -> Matrix:
    """Judge each artifact on each class of devices; return the matrix."""
    cells = tuple(tuple(_row(artifact, classes)) for artifact in artifacts)
    return Matrix(tuple(artifacts), tuple(classes), cells)


def _row(
    artifact: Artifact, classes: Sequence[DeviceClass]
) -> Iterator[CompatibilityCell]:
    """Yield the cells of one artifact; classes that differ only in memory are judged
    once.
    """
    known: dict[Host, tuple[tuple[Judgement, ...], Selection]] = {}
    for each in classes:
        host = each.profile.host
        if host not in known:
            judgements = judge(artifact.manifest, host)
            known[host] = (judgements, select_best(judgements))
        yield CompatibilityCell(artifact, each, *known[host])


def _memory_there(variant: Variant, profile: DeviceProfile) -> int | None:
    """Return the bytes of memory of the processor that runs a variant; None if
    unknown.
    """
    return profile.memory_bytes if on_cpu(variant) else profile.gpu_memory_bytes


def _entry_memory(
    variant: Variant, point: EntryPoint, available_bytes: int | None
) -> EntryMemory:
    """Return the largest memory need of an entry's codes; unknown if one of them is."""
    plans = [variant.memory[name] for name in point.exports if name in variant.memory]
    if len(plans) < len(point.exports):
        return EntryMemory(point.name, {}, None, available_bytes)
    worst = max(plans, key=lambda plan: int(plan["peak_bytes"]))
    return EntryMemory(point.name, worst["sizes"], worst["peak_bytes"], available_bytes)


def entry_names(entries: Iterable[EntryMemory], *, fits: bool | None) -> list[str]:
    """Return the names of entries that fit (True), do not (False), or are unknown
    (None).
    """
    return [entry.entry for entry in entries if entry.fits is fits]
