"""The levels of CPU architectures: names for sets of features that come together."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from aotc.artifacts.tables.reading import rows

_ARCH_NAMES = {"amd64": "x86_64", "x64": "x86_64", "arm64": "aarch64"}


@dataclass(frozen=True)
class ArchitectureLevel:
    """A level of a CPU architecture, such as x86_64-v3, with its features.

    Args:
        name: such as `x86-64-v3` or `armv8.6-a`.
        arch: such as `aarch64`.
        features: by LLVM's names.
        unseen: further features that the level has and no probe of a device can find:
            where there are some, no device can be said to have the level.
    """

    name: str
    arch: str
    features: frozenset[str]
    unseen: frozenset[str]


def architecture_levels(arch: str) -> list[ArchitectureLevel]:
    """Return the levels of an architecture, each with the features of those before
    it.
    """
    return [
        ArchitectureLevel(
            row["level"],
            arch,
            frozenset(row["features"]),
            frozenset(row.get("unseen", ())),
        )
        for row in rows("cpu_levels.json")
        if row["arch"] == arch
    ]


def highest_level(arch: str, features: Collection[str]) -> str | None:
    """Return the highest level whose features are all present; None if none is."""
    have = set(features)
    reached = [
        level.name
        for level in architecture_levels(arch)
        if level.features <= have and not level.unseen
    ]
    return reached[-1] if reached else None


def arch_of(name: str) -> str:
    """Return LLVM's name of an architecture, such as `x86_64` for `AMD64`."""
    return _ARCH_NAMES.get(name.lower(), name.lower())
