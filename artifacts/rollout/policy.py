"""Decision whether a matrix is good enough to roll out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

from aotc.artifacts.precision import PrecisionRequirements
from aotc.artifacts.rollout.matrix import CompatibilityCell, Matrix
from aotc.artifacts.verdicts import USABLE
from aotc.errors import InputError

Require = Literal["optimal", "supported"]


@dataclass(frozen=True)
class Policy:
    """Requirements that an artifact must meet on a fleet before a rollout.

    Args:
        require: `optimal`, or `supported` for what also runs and had better be rebuilt.
        checked: whether the code must have been run before it was signed, see
            `aotc.artifacts.checked`.
        min_coverage: the share of devices, 0 to 1, that must be covered.
        per_label: labels, such as `site`, each value of which must be covered so too.
        fallback: whether a processor may run what has code for an accelerator too.
        any_artifact: whether one artifact per device is enough; otherwise each artifact
            must cover the fleet.
        demand: of the precision of artifacts, see `aotc.artifacts.precision`.
    """

    require: Require = "supported"
    checked: bool = False
    min_coverage: Fraction = Fraction(1)
    per_label: tuple[str, ...] = ()
    fallback: bool = True
    any_artifact: bool = False
    demand: PrecisionRequirements = field(default_factory=PrecisionRequirements)

    def accepts(self, cell: CompatibilityCell) -> bool:
        """Return whether a cell meets the policy: verdict, memory, checks and
        precision.
        """
        return (
            cell.verdict in (USABLE if self.require == "supported" else USABLE[:1])
            and cell.fits
            and not (self.checked and cell.unchecked)
            and not self.violations(cell)
            and (self.fallback or not cell.selection.fallback)
        )

    def violations(self, cell: CompatibilityCell) -> list[str]:
        """Return how a cell's artifact violates the required precision."""
        return self.demand.violations(cell.artifact.manifest.data)


@dataclass(frozen=True)
class DeviceCoverage:
    """Number of covered devices in a group, and whether it is sufficient.

    Args:
        artifact: its number; None for any of them.
        label: such as `site=ulm`; None for the whole fleet.
        covered: devices.
        total: devices.
        holds: whether that is enough.
    """

    artifact: int | None
    label: str | None
    covered: int
    total: int
    holds: bool


def coverage_by_label(matrix: Matrix, policy: Policy) -> list[DeviceCoverage]:
    """Return each artifact's coverage of the fleet, then of each value of the policy's
    labels.

    Raises:
        InputError: `unknown-label`, for one that no device has.
    """
    _require_labels(matrix, policy.per_label)
    groups = device_groups(matrix, policy.per_label)
    found = []
    for artifact, accepted in _rows(matrix, policy):
        for label, counts in groups:
            total = sum(counts.values())
            covered = sum(n for number, n in counts.items() if accepted[number])
            holds = covered >= policy.min_coverage * total
            found.append(DeviceCoverage(artifact, label, covered, total, holds))
    return found


def _require_labels(matrix: Matrix, labels: Sequence[str]) -> None:
    """Raise if no device has one of the labels."""
    if not labels:
        return
    devices = [device for each in matrix.classes for device in each.devices]
    known = {label for device in devices for label in device.labels}
    for label in labels:
        if label not in known:
            raise InputError(
                "unknown-label",
                f"no device has the label {label!r}",
                hint=f"labels: {', '.join(sorted(known)) or 'none'}",
            )


def _rows(matrix: Matrix, policy: Policy) -> list[tuple[int | None, list[bool]]]:
    """Return (artifact index, accepted for each class); one row of None if any artifact
    will do.
    """
    accepted = [[policy.accepts(cell) for cell in row] for row in matrix.cells]
    if policy.any_artifact:
        return [(None, [any(column) for column in zip(*accepted, strict=True)])]
    return list(enumerate(accepted))


def device_groups(
    matrix: Matrix, labels: Sequence[str]
) -> list[tuple[str | None, dict[int, int]]]:
    """Return (label or None, device counts by class index) of the fleet and of each
    label value.
    """
    groups: dict[str, dict[int, int]] = {}
    for number, each in enumerate(matrix.classes):
        for device in each.devices:
            for label in dict.fromkeys(labels):
                value = device.labels.get(label)
                name = f"{label}={value}" if value is not None else f"no {label}"
                counts = groups.setdefault(name, {})
                counts[number] = counts.get(number, 0) + device.count
    everything = {number: each.count for number, each in enumerate(matrix.classes)}
    return [(None, everything), *sorted(groups.items())]
