"""Targets whose code a build must run before it signs: refused early, or at the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aotc.artifacts.checked import require_checked
from aotc.artifacts.rollout.candidates import reasons_against
from aotc.core import options
from aotc.errors import Finding
from aotc.machine import processor
from aotc.machine.target import Target

_HINT = (
    "build on a machine that runs it; for another processor, name a Python under an "
    "emulator (AOTC_PYTHONS=ARCH=PYTHON); for entries that take long, "
    "--self-check=full; see docs/self-check.md"
)


def require_runnable(targets: Sequence[Target]) -> None:
    """Raise if this machine cannot run code for a target; called before compiling.

    Raises:
        Finding: `not-checked`.
    """
    reasons = {str(target): _reason_against(target) for target in targets}
    lines = [f"\n  {target}: {why}" for target, why in reasons.items() if why]
    if lines:
        raise Finding(
            "not-checked",
            "this machine cannot run code that must be checked:" + "".join(lines),
            hint=_HINT,
        )


def require_run(manifest: Mapping[str, object], targets: Sequence[Target]) -> None:
    """Raise if a manifest says that the self-check did not run a target's code.

    Args:
        manifest: of the bundle that is to be written, with what the checks found.
        targets: that must be checked.

    Raises:
        Finding: `not-checked`.
    """
    require_checked(manifest, [str(target) for target in targets], _HINT)


def _reason_against(target: Target) -> str | None:
    """Return why this machine runs no code for a target; None if it may."""
    from aotc.runtime import engine

    arch = target.arch
    if arch and arch != processor.arch():
        if arch in options.get("AOTC_PYTHONS"):
            return None
        return f"it is for {arch}, and AOTC_PYTHONS names no Python for that"
    found = reasons_against(target, engine.host({target.backend}))
    return "; ".join(each.message for each in found) or None
