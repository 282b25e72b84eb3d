"""The targets that a device has the hardware and drivers for."""

from __future__ import annotations

from functools import lru_cache

from aotc.artifacts.backends import BACKENDS
from aotc.artifacts.compat import check_device
from aotc.artifacts.host import Host
from aotc.artifacts.manifest import Variant
from aotc.artifacts.selection import speed_rank
from aotc.artifacts.verdicts import Mismatch, verdict_of
from aotc.machine.target import TARGETS, Target


@lru_cache(maxsize=1 << 12)
def candidate_targets(host: Host) -> tuple[str, ...]:
    """Return the names of targets whose code `host` could run, the fastest first.

    Whatever IREE runtime there is, as another could be installed. Those that only some
    models gain by come last: fewer devices run their code.
    """
    # Portable code runs everywhere and some hundred times slower: nobody is advised it.
    advised = [t for t in TARGETS.values() if not BACKENDS[t.backend].is_portable]
    variants = [_variant_for(target) for target in advised]
    usable = [variant for variant in variants if not check_device(variant, host)]
    names = [str(v.target["name"]) for v in sorted(usable, key=speed_rank)]
    return tuple(sorted(names, key=lambda n: TARGETS[n].gains_narrow_types_alone))


@lru_cache(maxsize=1 << 12)
def accelerator_target(host: Host) -> str | None:
    """Return the fastest target for an accelerator of `host`; None if it has none.

    Facts that are unknown, such as the version of its driver, do not speak against it.
    """
    targets = [t for t in TARGETS.values() if not BACKENDS[t.backend].on_cpu]
    variants = [
        variant
        for variant in map(_variant_for, targets)
        if host.drivers.intersection(BACKENDS[variant.backend].drivers)
        and verdict_of(check_device(variant, host)) in ("optimal", "not_applicable")
    ]
    best = min(variants, key=speed_rank, default=None)
    return None if best is None else str(best.target["name"])


def reasons_against(target: Target, host: Host) -> list[Mismatch]:
    """Return the reasons why code for a target cannot run on `host`; empty if it
    may.
    """
    found = check_device(_variant_for(target), host)
    return found if verdict_of(found) == "unsupported" else []


def _variant_for(target: Target) -> Variant:
    """Return a variant as a build for `target` would make it, as far as devices
    matter.
    """
    return Variant(
        id=target.id,
        file="",
        backend=target.backend,
        target=target.to_json(),
        flags=(),
        runtime_abi={},
        memory={},
    )
