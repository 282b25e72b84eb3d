"""What to do where an artifact does not run on a device, or not as well as it could."""

from __future__ import annotations

from collections.abc import Iterator

from aotc.artifacts.rollout.candidates import candidate_targets
from aotc.artifacts.rollout.matrix import Cell


def advice(cell: Cell) -> Iterator[str]:
    """What to do about an artifact that does not run, or falls to the processor."""
    if cell.verdict == "optimal" and not cell.selection.fallback and cell.fits:
        return
    manifest = cell.artifact.manifest
    present = {str(v.target.get("name")) for v in manifest.variants.values()}
    best = next(iter(candidate_targets(cell.devices.profile.host)), None)
    if best and best not in present and not _runs_as_meant(cell):
        yield f"add `--target {best}`"
    against = cell.selection.passed_over if cell.selection.variant else cell.judgements
    found = [m.advice for judgement in against for m in judgement.mismatches]
    yield from dict.fromkeys(filter(None, found))
    if not cell.fits:
        yield "lower the largest sizes of the entries, or build with `--peak-memory`"


def _runs_as_meant(cell: Cell) -> bool:
    return cell.selection.variant is not None and not cell.selection.fallback
