"""What would make an artifact run, or run better, where it does not."""

from __future__ import annotations

from collections.abc import Iterator

from aotc.artifacts.compat import Host, check_device
from aotc.artifacts.manifest import Manifest, Variant
from aotc.artifacts.rollout.matrix import Cell
from aotc.artifacts.selection import speed_rank
from aotc.target import TARGETS, Target

# Portable code runs everywhere and some hundred times slower, so it is no cure.
_NO_CURE = {"vmvx"}


def cures(cell: Cell) -> Iterator[str]:
    """What to do about an artifact that does not run, or falls to the processor."""
    if cell.verdict == "optimal" and not cell.selection.fallback and cell.fits:
        return
    manifest = cell.artifact.manifest
    present = {str(v.target.get("name")) for v in manifest.variants.values()}
    best = next(iter(targets_for(manifest, cell.devices.profile.host)), None)
    if best and best not in present and not _runs_as_meant(cell):
        yield f"add `--target {best}`"
    against = cell.selection.passed_over if cell.selection.variant else cell.judged
    advice = [m.cure for judged in against for m in judged.mismatches]
    yield from dict.fromkeys(filter(None, advice))
    if not cell.fits:
        yield "lower the largest sizes of the entries, or build with `--peak-memory`"


def _runs_as_meant(cell: Cell) -> bool:
    return cell.selection.variant is not None and not cell.selection.fallback


def targets_for(manifest: Manifest, host: Host) -> list[str]:
    """The targets that a device has the hardware and drivers for, fastest first."""
    variants = [
        _imagined(manifest, target)
        for target in TARGETS.values()
        if target.name not in _NO_CURE
    ]
    usable = [variant for variant in variants if not check_device(variant, host)]
    return [str(v.target["name"]) for v in sorted(usable, key=speed_rank)]


def _imagined(manifest: Manifest, target: Target) -> Variant:
    """The variant that a build for `target` with the same toolchain would add."""
    existing = next(iter(manifest.variants.values()))
    return Variant(
        id=target.id,
        file="",
        backend=target.backend,
        target=target.to_json(),
        flags=(),
        runtime_abi=existing.runtime_abi,
        memory={},
    )
