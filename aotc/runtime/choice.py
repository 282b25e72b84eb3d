"""The variant that this machine runs, and messages where it is not the best one."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from aotc.artifacts.backends import BACKENDS
from aotc.artifacts.host import Host
from aotc.artifacts.manifest import Manifest, Variant
from aotc.artifacts.rollout.candidates import candidate_targets
from aotc.artifacts.selection import Judgement, Selection, judge, on_cpu, select
from aotc.counting import counters
from aotc.errors import InputError, SetupError
from aotc.machine import gpus
from aotc.machine.target import TARGETS, Target
from aotc.runtime import engine

_said: set[tuple[str, str]] = set()  # bundles and variants that were warned of


def fallback_count() -> int:
    """Return how many loads of this process fell back from an accelerator to the CPU.

    A service that watches this number sees a fleet losing its GPUs.
    """
    return int(counters.value("processor_fallbacks"))


def choose(
    manifest: Manifest, target: str | None, fallback: bool
) -> tuple[Selection, Variant]:
    """Return the selection among a bundle's variants, and the one to run here: that for
    `target`, or else the best one.

    Raises:
        InputError: `unknown-variant`.
        SetupError: `incompatible` or `no-driver`; `fallback-refused` if the best one
            runs on the processor in place of an accelerator and `fallback` is false;
            `unknown-host` if `target` is `native` and no level is known for this one.
    """
    host = engine.host({variant.backend for variant in manifest.variants.values()})
    among = None if target is None else _variant_ids(manifest, target, host)
    selection = select(manifest, host, among)
    if selection.variant is None:
        raise _refusal(manifest, selection, host, target)
    if selection.reasons:
        warnings.warn("; ".join(selection.reasons), stacklevel=6)
    if selection.fallback:
        _fall_back(manifest, selection, host, fallback)
    return selection, selection.variant


def _refusal(
    manifest: Manifest, selection: Selection, host: Host, target: str | None
) -> SetupError:
    """Return the error for a bundle that does not run on this machine."""
    driver = all("[no-driver]" in reason for reason in selection.reasons)
    return SetupError(
        "no-driver" if driver else "incompatible",
        f"{manifest.name} {manifest.version} does not run on this machine "
        f"({selection.verdict}): {'; '.join(selection.reasons)}",
        hint=_advice(manifest, host, candidate_targets(host)),
    )


def _fall_back(
    manifest: Manifest, selection: Selection, host: Host, allowed: bool
) -> None:
    """Count and warn of a fallback to the CPU; raise if it is not allowed.

    Where there is no accelerator of the kind, nothing is amiss and nothing is said.
    """
    assert selection.variant is not None
    passed_over = "; ".join(map(str, selection.passed_over))
    title = f"{manifest.name} {manifest.version}"
    remedies = dict.fromkeys(
        _remedy(judgement, host)
        for judgement in selection.passed_over
        if not on_cpu(judgement.variant)
    )
    remedy = "; or ".join(remedies)
    if not allowed:
        raise SetupError(
            "fallback-refused",
            f"{title} would run on the processor here ({selection.variant.id}), and "
            f"that is not allowed: {passed_over}",
            hint=f"{remedy}; or allow the processor",
        )
    counters.counter("processor_fallbacks").add()
    said = manifest.identity, selection.variant.id
    if said in _said or not _has_accelerator(selection, host):
        return
    _said.add(said)
    warnings.warn(
        f"{title} runs on the processor ({selection.variant.id}) and not on an "
        f"accelerator: {passed_over} [cpu-fallback]; {remedy}",
        stacklevel=7,
    )


def _has_accelerator(selection: Selection, host: Host) -> bool:
    """Return whether this machine has an accelerator whose code cannot be used.

    Also where its driver fails, which is what a warning is for.
    """
    passed_over = [
        judgement
        for judgement in selection.passed_over
        if judgement.variant.backend in BACKENDS and not on_cpu(judgement.variant)
    ]
    return any(
        _is_driven(judgement, host)
        or gpus.is_present(BACKENDS[judgement.variant.backend].vendors)
        for judgement in passed_over
    )


def _is_driven(judgement: Judgement, host: Host) -> bool:
    """Return whether a driver works here for a real accelerator of the variant."""
    if any(mismatch.code == "software-device" for mismatch in judgement.mismatches):
        return False
    return bool(host.drivers.intersection(BACKENDS[judgement.variant.backend].drivers))


def _remedy(judgement: Judgement, host: Host) -> str:
    """Return advice on how to run an accelerator's variant that was passed over."""
    variant = judgement.variant
    if judgement.is_usable:
        return (
            f"{variant.id} runs here too, but is {judgement.verdict}: name it as the "
            "target to take it"
        )
    if any(mismatch.code == "no-driver" for mismatch in judgement.mismatches):
        return f"install the driver that {variant.id} needs (see `aotc doctor`)"
    advice = [mismatch.advice for mismatch in judgement.mismatches if mismatch.advice]
    if advice:
        return f"for {variant.id}, {', and '.join(dict.fromkeys(advice))}"
    others = [
        name
        for name in candidate_targets(host)
        if TARGETS[name].backend == variant.backend
    ]
    if others:
        return f"build it with `--target {others[0]}` for this device"
    return f"no target of aotc with the backend {variant.backend} is for this device"


def _advice(manifest: Manifest, host: Host, targets: Sequence[str]) -> str:
    """Return advice when no variant runs here, or not the requested one.

    Args:
        manifest: of the bundle.
        host: this machine.
        targets: names of what it could be built for instead, the best first.
    """
    judgements = judge(manifest, host)
    usable = [each.variant.id for each in judgements if each.is_usable]
    lines = []
    if usable:
        which = "it" if len(usable) == 1 else "one of them"
        lines.append(f"this machine runs {', '.join(usable)}: name {which}, or none")
    if targets and TARGETS[targets[0]].id not in manifest.variants:
        lines.append(f"build it with `--target {targets[0]}`")
    if not usable:
        lines += [m.advice for each in judgements for m in each.mismatches if m.advice]
    return "; or ".join(dict.fromkeys(lines)) or "see `aotc doctor` and `aotc targets`"


def _variant_ids(manifest: Manifest, target: str, host: Host) -> list[str]:
    """Return the ids of variants that `target` means: an id, or a target's name such as
    `cpu`.
    """
    if target in manifest.variants:
        return [target]
    targets = _parsed_targets(target)
    ids = [each.id for each in targets if each.id in manifest.variants]
    if target.strip().lower() == "cpu":
        ids = [v.id for v in manifest.variants.values() if on_cpu(v)]
    if ids:
        return ids
    names = [str(each) for each in targets]
    means = f" ({', '.join(names)} here)" if target not in (*names, "") else ""
    raise InputError(
        "unknown-variant",
        f"expected one of the bundle's variants, {', '.join(manifest.variants)}; "
        f"got {target!r}{means if names else ''}",
        hint=_advice(manifest, host, names),
    )


def _parsed_targets(text: str) -> tuple[Target, ...]:
    """Return the targets that a text names; none if it is not a target."""
    try:
        return Target.named(text)
    except InputError:  # it may be the id of a variant that another compiler made
        return ()
