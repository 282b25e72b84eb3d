"""Precisions of layers, and their measured quality, from a manifest.

`aotc quantize` states in the program, and a build in the signed manifest, by which
recipe layers were quantised, which precision each has, and how much results lose by a
metric on data that is named by its digest. Both can be asked for: `aotc verify` and
`aotc compat` take `--require-quality` and `--require-precision`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from aotc.core.json_values import JsonObject
from aotc.errors import Finding, InputError

NOT_PRECISE = "not-precise"
WIDE = "f32"  # of layers that a bundle says nothing of: those of the model
_QUALITY = re.compile(
    r"((?P<metric>[^=@]+)=)?(?P<lost>[^=@]+)(@(?P<sha256>[0-9a-f]{8,64}))?"
)
_LOST = re.compile(r"([0-9]+(?:\.[0-9]+)?(?:e-?[0-9]+)?)(%?)")
_LISTED = 12


@dataclass(frozen=True)
class PrecisionRequirements:
    """Requirements on a bundle's quantisation: lost quality, metric, and layer
    precisions.

    Args:
        lost: what may be lost at most, by a measurement in the manifest; None for any.
        metric: that it must be by; None for any.
        sha256: how the digest of the data begins that it must be on; None for any.
        precisions: that layers may have; empty for any.
    """

    lost: float | None = None
    metric: str | None = None
    sha256: str | None = None
    precisions: Collection[str] = ()

    @classmethod
    def parse(
        cls, quality: str | None, precisions: str | None
    ) -> PrecisionRequirements:
        """Parse `top1=0.5%@DIGEST` and `int8,f32`, as command-line options give them.

        Raises:
            InputError: `bad-option`.
        """
        names = tuple(filter(None, map(str.strip, (precisions or "").split(","))))
        if precisions is not None and not names:
            raise InputError(
                "bad-option",
                "expected names of precisions for --require-precision, such as "
                f"int8,f32; got {precisions!r}",
            )
        if quality is None:
            return cls(precisions=names)
        try:
            found = _QUALITY.fullmatch(quality)
            if found is None:
                raise ValueError("a metric may stand before it, and a digest behind it")
            lost = lost_share(found["lost"])
        except ValueError as error:
            raise InputError(
                "bad-option",
                "expected what may be lost for --require-quality, such as 0.5%, "
                f"top1=0.5% or top1=0.5%@DIGEST; got {quality[:60]!r}",
                hint=str(error),
            ) from None
        return cls(lost, found["metric"], found["sha256"], names)

    def __bool__(self) -> bool:
        return self.lost is not None or bool(self.precisions)

    def __str__(self) -> str:
        parts = []
        if self.lost is not None:
            by = f" by {self.metric}" if self.metric else ""
            on = f" on {self.sha256}" if self.sha256 else ""
            parts.append(f"at most {self.lost:.4g} lost{by}{on}")
        if self.precisions:
            parts.append(f"layers of {', '.join(self.precisions)}")
        return " and ".join(parts)

    def violations(self, manifest: JsonObject) -> list[str]:
        """Return how a manifest (JSON) violates the requirements, as text."""
        facts = manifest.get("quantization")
        if facts is None:
            return []
        return [*self._losses(facts["quality"]), *self._layers(facts["layers"])]

    def _losses(self, quality: JsonObject) -> Iterator[str]:
        """Yield how the measured loss of quality violates the requirements."""
        if self.lost is None:
            return
        if not quality:
            yield "nothing was measured of what it loses"
            return
        metric, lost, digest = (quality[key] for key in ("metric", "lost", "sha256"))
        if self.metric is not None and metric != self.metric:
            yield f"what it loses was measured by {metric}, not by {self.metric}"
        elif self.sha256 is not None and not digest.startswith(self.sha256):
            yield f"it was measured on the data {digest}, not on {self.sha256}"
        elif not lost <= self.lost:
            yield f"it loses {lost:.4g} by {metric}, more than {self.lost:.4g}"

    def _layers(self, layers: Collection[Mapping[str, object]]) -> Iterator[str]:
        """Yield a text on each layer whose precision is not allowed, the first 12 by
        name.
        """
        if not self.precisions:
            return
        other = [row for row in layers if row["precision"] not in self.precisions]
        for row in other[:_LISTED]:
            yield f"the layer {row['layer']} is of {row['precision']}"
        if len(other) > _LISTED:
            yield f"and {len(other) - _LISTED} more layers"


def lost_share(text: str) -> float:
    """Parse an allowed loss, which is written as `0.5%` or `0.005`.

    Raises:
        ValueError: it is neither, or a number of 1 or more, by which `5%` may be meant.
    """
    found = _LOST.fullmatch(text)
    if found is None:
        raise ValueError(f"expected a loss such as 0.5% or 0.005; got {text[:60]!r}")
    lost = float(found[1])
    if not found[2] and lost >= 1:
        raise ValueError(
            f"expected a loss such as 0.5% or 0.005; got {text[:60]}: write {lost:g}%, "
            f"or {100 * lost:g}% if that is meant"
        )
    return lost / (100 if found[2] else 1)


def require_precise(
    manifest: Mapping[str, object], demand: PrecisionRequirements
) -> None:
    """Raise if the precision in a manifest (JSON) violates the requirements.

    Raises:
        Finding: `not-precise`.
    """
    if violations := demand.violations(manifest):
        raise Finding(
            "not-precise",
            f"expected {demand}:" + "".join(f"\n  {line}" for line in violations),
            hint="quantise it with --quality and --data, and build what that writes: "
            "docs/precision.md",
        )


def lines_of(manifest: JsonObject) -> list[str]:
    """Return lines for people on the quantisation in a manifest (JSON)."""
    facts = manifest.get("quantization")
    if facts is None:
        mixed = manifest.get("precision", {}).get("mixed")
        return [f"mixed: products in {mixed}, states in f32"] if mixed else []
    counts = Counter(row["precision"] for row in facts["layers"])
    said = ", ".join(f"{count} of {name}" for name, count in counts.items())
    lines = [f"by the recipe {facts['recipe']}: layers {said}"]
    if calibration := facts["calibration"]:
        if calibration["method"] == "training":
            digest = calibration["sha256"][:12]
            lines.append(f"ranges of quantisation-aware training ({digest}…)")
        else:
            data = _data(calibration)
            lines.append(f"calibrated on {data} by {calibration['method']}")
    if quality := facts["quality"]:
        lines.append(
            f"loses {quality['lost']:.4g} by {quality['metric']} on {_data(quality)}"
        )
        for name, said in (("entries", "measured: "), ("unmeasured", "not measured: ")):
            if quality.get(name):
                lines.append(said + ", ".join(quality[name]))
    return lines


def _data(facts: Mapping[str, Any]) -> str:
    """Format a data set by its number of samples and its digest."""
    return f"{facts['samples']} samples ({facts['sha256'][:12]}…)"
