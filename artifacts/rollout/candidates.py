"""The targets that a device has the hardware and drivers for."""

from __future__ import annotations

from aotc.artifacts.compat import Host, check_device
from aotc.artifacts.manifest import Manifest, Variant
from aotc.artifacts.selection import speed_rank
from aotc.target import TARGETS, Target

# Portable code runs everywhere and some hundred times slower: nobody is advised to it.
_LEFT_OUT = {"vmvx"}


def candidate_targets(manifest: Manifest, host: Host) -> list[str]:
    """The names of the targets whose code `host` could run, the fastest first.

    Args:
        manifest: of the bundle that would be built for them.
        host: the device; whatever IREE runtime it has.
    """
    variants = [
        _variant_for(manifest, target)
        for target in TARGETS.values()
        if target.name not in _LEFT_OUT
    ]
    usable = [variant for variant in variants if not check_device(variant, host)]
    return [str(v.target["name"]) for v in sorted(usable, key=speed_rank)]


def _variant_for(manifest: Manifest, target: Target) -> Variant:
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
