"""The variant that this machine runs, and what is said where it is not the best one."""

from __future__ import annotations

import threading
import warnings

from aotc.artifacts.compat import Host
from aotc.artifacts.manifest import Manifest, Variant
from aotc.artifacts.selection import Selection, on_cpu, select
from aotc.errors import AotcError, InputError, SetupError
from aotc.runtime import engine
from aotc.target import Target

_lock = threading.Lock()
_fallbacks = 0


def fallback_count() -> int:
    """How many loads of this process took a processor where an accelerator was meant.

    Each has warned. A service that watches this number sees a fleet losing its GPUs.
    """
    return _fallbacks


def choose(
    manifest: Manifest, target: str | None, fallback: bool
) -> tuple[Selection, Variant]:
    """The variant of a bundle to run here: `target`, or else the best one.

    Raises:
        InputError: `unknown-variant`.
        SetupError: `incompatible` or `no-driver`; `fallback-refused` if the best one
            runs on the processor in place of an accelerator and `fallback` is false.
    """
    host = engine.host({variant.backend for variant in manifest.variants.values()})
    among = None if target is None else _variants_named(manifest, target, host)
    selection = select(manifest, host, among)
    if selection.variant is None:
        raise _refusal(manifest, selection, host, target)
    if selection.reasons:
        warnings.warn("; ".join(selection.reasons), stacklevel=6)
    if selection.fallback:
        _fall_back(manifest, selection, fallback)
    return selection, selection.variant


def _refusal(
    manifest: Manifest, selection: Selection, host: Host, target: str | None
) -> SetupError:
    driver = all("[no-driver]" in reason for reason in selection.reasons)
    return SetupError(
        "no-driver" if driver else "incompatible",
        f"{manifest.name} {manifest.version} does not run on this machine "
        f"({selection.verdict}): {'; '.join(selection.reasons)}",
        hint=_advice(manifest, host, target),
    )


def _fall_back(manifest: Manifest, selection: Selection, allowed: bool) -> None:
    """Refuse to run on the processor, or say and count it."""
    global _fallbacks
    assert selection.variant is not None
    passed_over = "; ".join(map(str, selection.passed_over))
    title = f"{manifest.name} {manifest.version}"
    if not allowed:
        raise SetupError(
            "fallback-refused",
            f"{title} would run on the processor here ({selection.variant.id}), and "
            f"that is not allowed: {passed_over}",
            hint="install the device's driver (see `aotc doctor`), or allow it",
        )
    with _lock:
        _fallbacks += 1
    warnings.warn(
        f"{title} runs on the processor ({selection.variant.id}) and not on an "
        f"accelerator: {passed_over} [cpu-fallback]",
        stacklevel=7,
    )


def _advice(manifest: Manifest, host: Host, target: str | None) -> str:
    """What to do when no variant runs here, or not the one that was asked for."""
    other = select(manifest, host).variant if target is not None else None
    if other is not None:
        return f"this machine ({host.arch}) runs the variant {other.id}: name no target"
    return (
        f"the bundle has {', '.join(manifest.variants)}, and this machine is "
        f"{host.arch} with IREE {host.runtime_version}: build it with a --target for "
        "this machine, see `aotc targets`"
    )


def _variants_named(manifest: Manifest, target: str, host: Host) -> list[str]:
    """The variants that `target` means: by id, or by a target's name such as `cpu`."""
    try:
        named = [each.id for each in Target.named(target)]
    except AotcError:
        named = []
    if target.strip().lower() == "cpu":
        named = [v.id for v in manifest.variants.values() if on_cpu(v)]
    wanted = [id_ for id_ in (target, *named) if id_ in manifest.variants]
    if not wanted:
        known = ", ".join(manifest.variants)
        raise InputError(
            "unknown-variant",
            f"expected one of the bundle's variants ({known}), got {target!r}",
            hint=_advice(manifest, host, target),
        )
    return wanted
