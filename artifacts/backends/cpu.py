"""Code for processors: which features they need."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aotc.artifacts.backends.backend import Facts
from aotc.artifacts.tables import arch_of
from aotc.artifacts.verdicts import STATE_FACT, Mismatch, unknown, unsupported

if TYPE_CHECKING:
    from aotc.artifacts.host import Host

DRIVERS = ("local-sync", "local-task")


def check(target: Facts, host: Host) -> list[Mismatch]:
    """Return the reasons against CPU code on a host: architecture, then CPU
    features.
    """
    arch = arch_of(str(target.get("arch", "")))
    if not arch or not host.arch:
        return [unknown("arch", "the processor architecture is unknown", STATE_FACT)]
    if arch != host.arch:
        return [unsupported("arch", f"expected an {arch} processor, got {host.arch}")]
    if "cpu_features_required" not in target:
        return [unknown("cpu-features", "the needed CPU features are unknown")]
    missing = sorted(set(target["cpu_features_required"]) - host.cpu_features)
    if missing:
        message = f"expected CPU features that are not here: {', '.join(missing)}"
        return [unsupported("cpu-features", message)]
    return []


def level(target: Facts) -> int:
    """Return the number of required CPU features, so that AVX-512 ranks above AVX2."""
    return len(target.get("cpu_features_required", ()))


def has_driver(device: Facts) -> bool | None:
    """Return True, as every runtime of IREE runs code for CPUs."""
    return True
