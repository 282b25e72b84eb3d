"""The cure of a fleet: the fewest targets that would cover it as the policy asks."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from aotc.artifacts.backends import BACKENDS
from aotc.artifacts.compat import RUNTIME_CODES
from aotc.artifacts.rollout.candidates import candidate_targets
from aotc.artifacts.rollout.cover import Demand, Targets, smallest_cover
from aotc.artifacts.rollout.device_classes import DeviceClass
from aotc.artifacts.rollout.matrix import CompatibilityCell, Matrix
from aotc.artifacts.rollout.policy import Policy, device_groups
from aotc.artifacts.verdicts import USABLE
from aotc.machine.target import TARGETS


@dataclass(frozen=True)
class Cure:
    """The fewest targets that would cover a fleet as the policy asks.

    Args:
        targets: from nothing.
        add: beside the variants that the artifact has.
        reaches_coverage: whether any targets could; if not, these cover whatever device
            has a target.
        left_out_classes: the numbers of the classes that have a target and that
            `targets` do not cover, as the policy does not ask for all devices.
        uncovered_classes: of those that no target covers.
        other_runtime_classes: of those whose IREE runtime has to be another first.
    """

    targets: Targets
    add: Targets
    reaches_coverage: bool
    left_out_classes: tuple[int, ...]
    uncovered_classes: tuple[int, ...]
    other_runtime_classes: tuple[int, ...]


def find_cures(matrix: Matrix, policy: Policy) -> dict[int | None, Cure]:
    """Return a cure for each artifact by its index; if any artifact may serve a device,
    one for all, under None.

    All together they are cured if the policy asks for any of them on each device.
    """
    candidates = [_candidates(each, policy) for each in matrix.classes]
    demands = _demands(matrix, policy, candidates)
    rows = enumerate(matrix.cells)
    groups: dict[int | None, Sequence[Sequence[CompatibilityCell]]] = (
        {None: matrix.cells} if policy.any_artifact else {n: [row] for n, row in rows}
    )
    given = {number: _targets_of(group) for number, group in groups.items()}
    covers = {
        present: smallest_cover(demands[0], demands[1:], present)
        for present in {frozenset[str](), *given.values()}
    }
    targets = covers[frozenset()]
    left_out = [bool(has) and set(has).isdisjoint(targets) for has in candidates]
    return {
        number: Cure(
            targets,
            covers[given[number]],
            all(demand.is_feasible for demand in demands),
            tuple(number for number, is_left in enumerate(left_out) if is_left),
            tuple(number for number, has in enumerate(candidates) if not has),
            _classes_of_other_runtimes(group),
        )
        for number, group in groups.items()
    }


def _candidates(devices: DeviceClass, policy: Policy) -> Targets:
    """Return the targets that would satisfy the policy on these devices, fastest
    first.
    """
    targets = candidate_targets(devices.profile.host)
    if not policy.fallback:
        targets = _on_accelerators(targets) or targets
    return targets


def _on_accelerators(targets: Targets) -> Targets:
    """Return those of the targets that run on accelerators."""
    return tuple(t for t in targets if not BACKENDS[TARGETS[t].backend].on_cpu)


def _demands(
    matrix: Matrix, policy: Policy, candidates: Sequence[Targets]
) -> list[Demand]:
    """Return the demands of the policy on the whole fleet, then on each label value."""
    found = []
    for _, counts in device_groups(matrix, policy.per_label):
        devices: Counter[Targets] = Counter()
        for number, count in counts.items():
            devices[candidates[number]] += count
        total = devices.total()
        spare = total - math.ceil(policy.min_coverage * total)
        found.append(Demand(devices, spare))
    return found


def _targets_of(rows: Sequence[Sequence[CompatibilityCell]]) -> frozenset[str]:
    """Return the targets that the artifacts of some rows were built for."""
    return frozenset(
        str(variant.target.get("name"))
        for row in rows
        for variant in row[0].artifact.manifest.variants.values()
    )


def _classes_of_other_runtimes(
    rows: Sequence[Sequence[CompatibilityCell]],
) -> tuple[int, ...]:
    """Return the indices of device classes whose runtime refuses the code of all
    artifacts.
    """
    columns = enumerate(zip(*rows, strict=True))
    return tuple(n for n, cells in columns if all(map(_has_other_runtime, cells)))


def _has_other_runtime(cell: CompatibilityCell) -> bool:
    """Return whether the device's runtime refuses all code of the bundle's compiler."""
    return all(
        any(m.code in RUNTIME_CODES and m.verdict not in USABLE for m in j.mismatches)
        for j in cell.judgements
    )
