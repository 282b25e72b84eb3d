"""A matrix as a JSON document (schema `aotc.compat/1`), which all other forms show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from aotc.artifacts.compat import RUNTIME_CODES, USABLE
from aotc.artifacts.rollout.cover import Need, smallest_cover
from aotc.artifacts.rollout.cures import cures, targets_for
from aotc.artifacts.rollout.fleet import DeviceClass
from aotc.artifacts.rollout.matrix import Artifact, Cell, Matrix, entries
from aotc.artifacts.rollout.policy import Policy, coverages
from aotc.artifacts.selection import CPU_BACKENDS, Judgement
from aotc.target import TARGETS

SCHEMA = "aotc.compat/1"


def report(matrix: Matrix, policy: Policy, *, cure: bool = False) -> dict[str, Any]:
    """The document: policy, artifacts, classes of devices, cells and coverage.

    Args:
        matrix: what was judged.
        policy: what is asked for.
        cure: also the smallest set of targets that would cover the fleet.
    """
    covered = coverages(matrix, policy)
    return {
        "schema": SCHEMA,
        "passed": all(coverage.holds for coverage in covered),
        "policy": _policy(policy),
        "artifacts": [_artifact(a, matrix.artifacts) for a in matrix.artifacts],
        "classes": [_class(n, each) for n, each in enumerate(matrix.classes)],
        "cells": [
            {"artifact": row, "class": column, **_cell(cell, policy)}
            for row, cells in enumerate(matrix.cells)
            for column, cell in enumerate(cells)
        ],
        "coverage": [asdict(coverage) for coverage in covered],
        "cure": [
            {"artifact": row, **_cure(cells, policy)}
            for row, cells in enumerate(matrix.cells)
        ]
        if cure
        else None,
    }


def _policy(policy: Policy) -> dict[str, Any]:
    return {
        "require": policy.require,
        "min_coverage": float(policy.min_coverage),
        "per_label": list(policy.per_label),
        "fallback": policy.fallback,
        "any_artifact": policy.any_artifact,
    }


def _artifact(artifact: Artifact, others: Sequence[Artifact]) -> dict[str, Any]:
    manifest = artifact.manifest
    alone = [str(other) for other in others].count(str(artifact)) == 1
    return {
        "title": str(artifact) if alone else f"{artifact} ({artifact.path})",
        "path": artifact.path,
        "identity": manifest.identity,
        "channel": manifest.channel,
        "compiler": manifest.compiler_version,
        "variants": list(manifest.variants),
        "entries": list(manifest.entry_points),
    }


def _class(number: int, devices: DeviceClass) -> dict[str, Any]:
    profile = devices.profile
    host = profile.host
    return {
        "class": number,
        "name": devices.name,
        "count": devices.count,
        "devices": [
            {"name": d.name, "count": d.count, "labels": dict(d.labels)}
            for d in devices.devices
        ],
        "arch": host.arch,
        "runtime": host.runtime_version or None,
        "drivers": sorted(host.drivers),
        "memory_bytes": profile.memory_bytes,
        "gpu_memory_bytes": profile.gpu_memory_bytes,
        "assumed": list(profile.assumed),
    }


def _cell(cell: Cell, policy: Policy) -> dict[str, Any]:
    selection = cell.selection
    return {
        "verdict": cell.verdict,
        "accepted": policy.accepts(cell),
        "variant": selection.variant.id if selection.variant else None,
        "fallback": selection.fallback,
        "reasons": [reason for judged in cell.judged for reason in _reasons(judged)],
        "cures": list(cures(cell)),
        "memory": {
            "available_bytes": cell.memory[0].available_bytes if cell.memory else None,
            "needed": {
                m.entry: {"bytes": m.needed_bytes, "sizes": dict(m.sizes)}
                for m in cell.memory
            },
            "fit": entries(cell.memory, fits=True),
            "exceed": entries(cell.memory, fits=False),
            "unknown": entries(cell.memory, fits=None),
        },
    }


def _reasons(judged: Judgement) -> list[dict[str, str]]:
    return [
        {
            "variant": judged.variant.id,
            "code": mismatch.code,
            "verdict": mismatch.verdict,
            "message": mismatch.message,
        }
        for mismatch in judged.mismatches
    ]


def _cure(row: Sequence[Cell], policy: Policy) -> dict[str, Any]:
    """The fewest targets for a fleet, from nothing and beside the variants that are."""
    artifact = row[0].artifact
    needs = [_need(cell, policy) for cell in row]
    present = [str(v.target.get("name")) for v in artifact.manifest.variants.values()]
    return {
        "targets": list(smallest_cover(needs)),
        "add": list(smallest_cover(needs, present)),
        "uncovered_classes": [n for n, need in enumerate(needs) if not need.targets],
        "other_runtime_classes": [
            number for number, cell in enumerate(row) if _has_other_runtime(cell)
        ],
    }


def _has_other_runtime(cell: Cell) -> bool:
    """Whether the runtime there refuses all code of the bundle's compiler."""
    return all(
        any(m.code in RUNTIME_CODES and m.verdict not in USABLE for m in j.mismatches)
        for j in cell.judged
    )


def _need(cell: Cell, policy: Policy) -> Need:
    targets = targets_for(cell.artifact.manifest, cell.devices.profile.host)
    if not policy.fallback:
        targets = _accelerated(targets) or targets
    return Need(tuple(targets), cell.devices.count)


def _accelerated(targets: Sequence[str]) -> list[str]:
    return [t for t in targets if TARGETS[t].backend not in CPU_BACKENDS]
