"""Which of a bundle's variants a machine runs: the best one of those that it can.

The better verdict wins, then an accelerator over a processor, then the code made for
the newer hardware: AVX-512 over AVX2, `sm_89` over `sm_80`. The order in which a bundle
lists its variants decides only between equals.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

from aotc.artifacts.compat import (
    USABLE,
    VERDICTS,
    Host,
    Mismatch,
    Verdict,
    check,
    verdict_of,
)
from aotc.artifacts.manifest import Manifest, Variant

CPU_BACKENDS = ("llvm-cpu", "vmvx")
# the fastest kind of code first
_KINDS = ({"cuda", "rocm", "metal-spirv"}, {"vulkan-spirv"}, {"llvm-cpu"}, {"vmvx"})


@dataclass(frozen=True)
class Judgement:
    """What is known of one variant on one host."""

    variant: Variant
    mismatches: tuple[Mismatch, ...]

    @cached_property
    def verdict(self) -> Verdict:
        """The worst verdict of all mismatches."""
        return verdict_of(self.mismatches)

    @property
    def usable(self) -> bool:
        """Whether the host may run the variant."""
        return self.verdict in USABLE

    def __str__(self) -> str:
        reasons = "; ".join(map(str, self.mismatches))
        return f"{self.variant.id}: {reasons or self.verdict}"


@dataclass(frozen=True)
class Selection:
    """The best variant for a host, and what was judged on the way.

    Args:
        variant: None if none can be used.
        verdict: of the variant; without one, `not_applicable` if a variant might run
            and a fact is missing, else `unsupported`.
        reasons: against the variant; without one, against each.
        passed_over: the variants that would have been better, had they been usable.
    """

    variant: Variant | None
    verdict: Verdict
    reasons: tuple[str, ...]
    passed_over: tuple[Judgement, ...] = ()

    @property
    def fallback(self) -> bool:
        """Whether a processor runs what has code for an accelerator too."""
        return (
            self.variant is not None
            and on_cpu(self.variant)
            and not all(on_cpu(judgement.variant) for judgement in self.passed_over)
        )


def select(
    manifest: Manifest, host: Host, among: Collection[str] | None = None
) -> Selection:
    """The variant to use on `host`; of those whose ids are in `among`, if given."""
    judgements = judge(manifest, host)
    return select_best(
        [each for each in judgements if among is None or each.variant.id in among]
    )


def judge(manifest: Manifest, host: Host) -> tuple[Judgement, ...]:
    """What is known of each variant of a bundle on `host`."""
    return tuple(
        Judgement(variant, tuple(check(manifest, variant, host)))
        for variant in manifest.variants.values()
    )


def select_best(judgements: Sequence[Judgement]) -> Selection:
    """The best of these variants of one bundle on one host."""
    usable = [each for each in judgements if each.usable]
    if not usable:
        reasons = tuple(
            f"{e.variant.id}: {m}" for e in judgements for m in e.mismatches
        )
        unknown = any(each.verdict == "not_applicable" for each in judgements)
        return Selection(None, "not_applicable" if unknown else "unsupported", reasons)
    best = min(usable, key=lambda each: (_rank(each), speed_rank(each.variant)))
    better = [
        each
        for each in sorted(judgements, key=lambda each: speed_rank(each.variant))
        if speed_rank(each.variant) < speed_rank(best.variant)
    ]
    reasons = tuple(map(str, best.mismatches))
    return Selection(best.variant, best.verdict, reasons, tuple(better))


def on_cpu(variant: Variant) -> bool:
    """Whether a processor runs the variant."""
    return variant.backend in CPU_BACKENDS


def speed_rank(variant: Variant) -> tuple[int, int]:
    """Where a variant stands among those of its bundle; the fastest is the least."""
    kinds = [n for n, kind in enumerate(_KINDS) if variant.backend in kind]
    return (kinds[0] if kinds else len(_KINDS)), -_level(variant)


def _rank(judgement: Judgement) -> int:
    return VERDICTS.index(judgement.verdict)


def _level(variant: Variant) -> int:
    """How new the hardware is that a variant asks for, within its backend."""
    if variant.backend == "cuda":
        sm = str(variant.target.get("sm", "")).removeprefix("sm_")
        number = sm.rstrip("af")
        return 2 * int(number or 0) + (number != sm)  # sm_90a before sm_90
    if variant.backend == "rocm":
        return int("generic" not in str(variant.target.get("gfx", "")))
    return len(variant.target.get("cpu_features_required", ()))
