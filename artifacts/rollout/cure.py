"""The cure of a fleet: the fewest targets that would make an artifact run on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aotc.artifacts.compat import RUNTIME_CODES, USABLE
from aotc.artifacts.rollout.candidates import candidate_targets
from aotc.artifacts.rollout.cover import Need, smallest_cover
from aotc.artifacts.rollout.matrix import Cell, Matrix
from aotc.artifacts.rollout.policy import Policy
from aotc.artifacts.selection import CPU_BACKENDS
from aotc.target import TARGETS


@dataclass(frozen=True)
class Cure:
    """The fewest targets that cover a fleet.

    Args:
        targets: from nothing.
        add: beside the variants that the artifact has.
        uncovered_classes: the numbers of the classes that no target covers.
        other_runtime_classes: of those whose IREE runtime has to be another first.
    """

    targets: tuple[str, ...]
    add: tuple[str, ...]
    uncovered_classes: tuple[int, ...]
    other_runtime_classes: tuple[int, ...]


def find_cures(matrix: Matrix, policy: Policy) -> dict[int | None, Cure]:
    """The cure of each artifact by its number; under None one for all together.

    All together they are cured if the policy asks for any of them on each device.
    """
    if policy.any_artifact:
        return {None: _cure(matrix.cells, policy)}
    return {number: _cure([row], policy) for number, row in enumerate(matrix.cells)}


def _cure(rows: Sequence[Sequence[Cell]], policy: Policy) -> Cure:
    """The cure of artifacts of which a device needs any."""
    needs = [_need(cell, policy) for cell in rows[0]]
    present = {
        str(variant.target.get("name"))
        for row in rows
        for variant in row[0].artifact.manifest.variants.values()
    }
    columns = enumerate(zip(*rows, strict=True))
    return Cure(
        smallest_cover(needs),
        smallest_cover(needs, present),
        tuple(number for number, need in enumerate(needs) if not need.targets),
        tuple(n for n, cells in columns if all(map(_has_other_runtime, cells))),
    )


def _has_other_runtime(cell: Cell) -> bool:
    """Whether the runtime there refuses all code of the bundle's compiler."""
    return all(
        any(m.code in RUNTIME_CODES and m.verdict not in USABLE for m in j.mismatches)
        for j in cell.judgements
    )


def _need(cell: Cell, policy: Policy) -> Need:
    targets = candidate_targets(cell.devices.profile.host)
    if not policy.fallback:
        targets = _on_accelerators(targets) or targets
    return Need(targets, cell.devices.count)


def _on_accelerators(targets: Sequence[str]) -> tuple[str, ...]:
    return tuple(t for t in targets if TARGETS[t].backend not in CPU_BACKENDS)
