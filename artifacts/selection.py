"""Selection of the variant that a machine runs: the best usable one of a bundle.

The better verdict wins, then an accelerator over a processor, then the code made for
the newer hardware: AVX-512 over AVX2, `sm_89` over `sm_80`. The order in which a bundle
lists its variants decides only between equals.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

from aotc.artifacts.backends import BACKENDS
from aotc.artifacts.compat import check
from aotc.artifacts.host import Host
from aotc.artifacts.manifest import Manifest, Variant
from aotc.artifacts.verdicts import USABLE, VERDICTS, Mismatch, Verdict, verdict_of

# code that there are no rules for comes last
_NO_SPEED = 1 + max(backend.speed_class for backend in BACKENDS.values())


@dataclass(frozen=True)
class Judgement:
    """The mismatches of one variant with one host."""

    variant: Variant
    mismatches: tuple[Mismatch, ...]

    @cached_property
    def verdict(self) -> Verdict:
        """The worst verdict of all mismatches."""
        return verdict_of(self.mismatches)

    @property
    def is_usable(self) -> bool:
        """Return whether the host may run the variant."""
        return self.verdict in USABLE

    def __str__(self) -> str:
        reasons = "; ".join(map(str, self.mismatches))
        return f"{self.variant.id}: {reasons or self.verdict}"


@dataclass(frozen=True)
class Selection:
    """The variant selected for a host, and the judgements on faster ones that cannot
    run.

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
        """Return whether a CPU runs a bundle that also has code for an accelerator."""
        return (
            self.variant is not None
            and on_cpu(self.variant)
            and not all(on_cpu(judgement.variant) for judgement in self.passed_over)
        )


def select(
    manifest: Manifest, host: Host, among: Collection[str] | None = None
) -> Selection:
    """Return the selection of a bundle's best variant on `host`, among the given ids or
    all.
    """
    judgements = judge(manifest, host)
    return select_best(
        [each for each in judgements if among is None or each.variant.id in among]
    )


def judge(manifest: Manifest, host: Host) -> tuple[Judgement, ...]:
    """Return the judgement of each variant of a bundle on `host`."""
    return tuple(
        Judgement(variant, tuple(check(manifest, variant, host)))
        for variant in manifest.variants.values()
    )


def select_best(judgements: Sequence[Judgement]) -> Selection:
    """Return the selection of the best usable variant, if any, with those passed
    over.
    """
    usable = [each for each in judgements if each.is_usable]
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
    """Return whether the variant runs on a CPU."""
    backend = BACKENDS.get(variant.backend)
    return backend is not None and backend.on_cpu


def speed_rank(variant: Variant) -> tuple[int, int]:
    """Return the sort key of a variant by speed; the fastest has the least."""
    backend = BACKENDS.get(variant.backend)
    if backend is None:
        return _NO_SPEED, 0
    return backend.speed_class, -backend.level(variant.target)


def _rank(judgement: Judgement) -> int:
    """Return the sort key of a judgement: the best verdict first."""
    return VERDICTS.index(judgement.verdict)
