"""A matrix as a JSON document (schema `aotc.compat/1`), which all other forms show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from aotc.artifacts.rollout.advice import advice, missing_target
from aotc.artifacts.rollout.cure import find_cures
from aotc.artifacts.rollout.device_classes import DeviceClass
from aotc.artifacts.rollout.matrix import (
    Artifact,
    CompatibilityCell,
    Matrix,
    entry_names,
)
from aotc.artifacts.rollout.policy import Policy, coverage_by_label
from aotc.artifacts.selection import Judgement, speed_rank

SCHEMA = "aotc.compat/1"


def report(matrix: Matrix, policy: Policy, *, cure: bool = False) -> dict[str, Any]:
    """Return the matrix as a JSON document: policy, artifacts, classes, cells,
    coverage.

    Args:
        matrix: what was judged.
        policy: what is asked for.
        cure: also the smallest set of targets that would cover as much as is asked.
    """
    covered = coverage_by_label(matrix, policy)
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
        "cure": _cures(matrix, policy) if cure else None,
    }


def _policy(policy: Policy) -> dict[str, object]:
    """Return the policy as a JSON object."""
    return {
        "require": policy.require,
        "checked": policy.checked,
        "precision": str(policy.demand) or None,
        "min_coverage": float(policy.min_coverage),
        "per_label": list(policy.per_label),
        "fallback": policy.fallback,
        "any_artifact": policy.any_artifact,
    }


def _artifact(artifact: Artifact, others: Sequence[Artifact]) -> dict[str, object]:
    """Return an artifact as a JSON object; its title has the path if others are titled
    alike.
    """
    manifest = artifact.manifest
    alone = [str(other) for other in others].count(str(artifact)) == 1
    path = artifact.path.encode(errors="replace").decode()
    return {
        "title": str(artifact) if alone else f"{artifact} ({path})",
        "path": artifact.path,
        "identity": manifest.identity,
        "channel": manifest.channel,
        "compiler": manifest.compiler_version,
        "variants": list(manifest.variants),
        "entries": list(manifest.entry_points),
    }


def _class(number: int, devices: DeviceClass) -> dict[str, object]:
    """Return a class of devices as a JSON object."""
    profile = devices.profile
    host = profile.host
    return {
        "class": number,
        "name": devices.name,
        "count": devices.count,
        "devices": [
            {
                "name": d.name,
                "count": d.count,
                "labels": dict(d.labels),
                "where": d.where,
            }
            for d in devices.devices
        ],
        "arch": host.arch,
        "runtime": host.runtime_version or None,
        "drivers": sorted(host.drivers),
        "memory_bytes": profile.memory_bytes,
        "gpu_memory_bytes": profile.gpu_memory_bytes,
        "assumed": list(profile.assumed),
    }


def _cell(cell: CompatibilityCell, policy: Policy) -> dict[str, object]:
    """Return a cell of the matrix as a JSON object: verdict, reasons, advice,
    memory.
    """
    selection = cell.selection
    return {
        "verdict": cell.verdict,
        "accepted": policy.accepts(cell),
        "variant": selection.variant.id if selection.variant else None,
        "fallback": selection.fallback,
        "missing_target": missing_target(cell),
        "reasons": [reason for each in _by_speed(cell) for reason in _reasons(each)],
        "advice": [*advice(cell), *_advice_on_checks(cell, policy)],
        "checks": [each.to_json() for each in cell.checks],
        "unchecked": [str(each) for each in cell.unchecked] if policy.checked else [],
        "imprecise": policy.violations(cell),
        "memory": {
            "available_bytes": cell.memory[0].available_bytes if cell.memory else None,
            "needed": {
                m.entry: {"bytes": m.needed_bytes, "sizes": dict(m.sizes)}
                for m in cell.memory
            },
            "fit": entry_names(cell.memory, fits=True),
            "exceed": entry_names(cell.memory, fits=False),
            "unknown": entry_names(cell.memory, fits=None),
        },
    }


def _advice_on_checks(cell: CompatibilityCell, policy: Policy) -> list[str]:
    """Return advice to check the code, if the policy requires it."""
    if not (policy.checked and cell.unchecked):
        return []
    return ["build with `--require-check`, where the target runs or is emulated"]


def _by_speed(cell: CompatibilityCell) -> list[Judgement]:
    """Return a cell's judgements sorted by speed of code, fastest first."""
    return sorted(cell.judgements, key=lambda each: speed_rank(each.variant))


def _reasons(judgement: Judgement) -> list[dict[str, str]]:
    """Return the mismatches of a judgement as JSON objects."""
    return [
        {
            "variant": judgement.variant.id,
            "code": mismatch.code,
            "verdict": mismatch.verdict,
            "message": mismatch.message,
        }
        for mismatch in judgement.mismatches
    ]


def _cures(matrix: Matrix, policy: Policy) -> list[dict[str, object]]:
    """Return the cures of a fleet as JSON objects."""
    return [
        {
            "artifact": number,
            **{
                k: list(v) if isinstance(v, tuple) else v
                for k, v in asdict(cure).items()
            },
        }
        for number, cure in find_cures(matrix, policy).items()
    ]
