"""Advice where an artifact does not run on a device, or not as well as it could."""

from __future__ import annotations

from collections.abc import Iterator

from aotc.artifacts.backends import BACKENDS
from aotc.artifacts.compat import RUNTIME_CODES
from aotc.artifacts.rollout.candidates import accelerator_target, candidate_targets
from aotc.artifacts.rollout.matrix import CompatibilityCell
from aotc.artifacts.selection import on_cpu
from aotc.artifacts.verdicts import USABLE
from aotc.machine.target import TARGETS


def advice(cell: CompatibilityCell) -> Iterator[str]:
    """Yield advice unless an artifact runs optimally on devices, without a CPU fallback
    and in their memory.
    """
    if cell.verdict == "optimal" and not cell.selection.fallback and cell.fits:
        return
    manifest = cell.artifact.manifest
    present = {str(v.target.get("name")) for v in manifest.variants.values()}
    best = next(iter(candidate_targets(cell.devices.profile.host)), None)
    if best and best not in present and _helps(best, cell):
        yield f"add `--target {best}`"
    elif target := missing_target(cell):
        yield f"add `--target {target}`, if it has: {TARGETS[target].needs}"
    against = cell.selection.passed_over if cell.selection.variant else cell.judgements
    found = [m.advice for judgement in against for m in judgement.mismatches]
    yield from dict.fromkeys(filter(None, found))
    if not cell.fits:
        yield "lower the largest sizes of the entries, or build with `--peak-memory`"


def missing_target(cell: CompatibilityCell) -> str | None:
    """Return the target of the devices' accelerator if the bundle has no code for it,
    or None.

    None where it runs as it is, or where code for their processor is what lacks.
    """
    host = cell.devices.profile.host
    variants = cell.artifact.manifest.variants.values()
    if _runs_as_meant(cell) or _awaits_runtime(cell):
        return None
    if not all(map(on_cpu, variants)):
        return None
    best = next(iter(candidate_targets(host)), None)
    if best and BACKENDS[TARGETS[best].backend].on_cpu:
        return None
    return best or accelerator_target(host)


def _helps(target: str, cell: CompatibilityCell) -> bool:
    """Return whether adding code for `target` would change how the device is served."""
    if _runs_as_meant(cell) or _awaits_runtime(cell):
        return False
    # where a processor stands in for an accelerator, one more for processors is no help
    return (
        cell.selection.variant is None or not BACKENDS[TARGETS[target].backend].on_cpu
    )


def _awaits_runtime(cell: CompatibilityCell) -> bool:
    """Return whether another IREE runtime alone would make existing code run."""
    hindrances = (
        {m.code for m in each.mismatches if m.verdict not in USABLE}
        for each in cell.judgements
    )
    return any(codes and codes <= RUNTIME_CODES for codes in hindrances)


def _runs_as_meant(cell: CompatibilityCell) -> bool:
    """Return whether a variant runs that is no CPU fallback for an accelerator."""
    return cell.selection.variant is not None and not cell.selection.fallback
