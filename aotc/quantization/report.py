"""Report on a quantised program: errors of layers, bytes, loss."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from aotc.core.json_values import JsonObject
from aotc.machine.processor import NOMINAL_GHZ
from aotc.machine.target import Target
from aotc.mlir import Operation
from aotc.programs.computed_arrays import Array
from aotc.programs.program import Program
from aotc.quantization.expected_time import expected_times
from aotc.quantization.fakes import FakeLayer
from aotc.quantization.layer_grids import Grids
from aotc.quantization.layers import Layer, LayerRefusal
from aotc.quantization.measuring import Calls, MeasuredLoss, run
from aotc.quantization.precisions import WIDE
from aotc.quantization.recipe import LayerPlan, Recipe
from aotc.quantization.search import Chosen

FEW_SAMPLES = 32  # fewer leave much of the ranges of inputs to chance


@dataclass
class LayerError:
    """Error of a layer's result by its own quantisation, accumulated over calls.

    Args:
        signal: the sum of the squares of the results.
        noise: that of the differences.
        found: the sum of the squares of what is found.
        both: that of the products of both.
    """

    signal: float = 0.0
    noise: float = 0.0
    found: float = 0.0
    both: float = 0.0

    def add(self, wanted: Array, found: Array) -> None:
        """Add a pair of results, exact and quantised, to the sums."""
        x, y = wanted.astype(np.float64), found.astype(np.float64)
        self.signal += float(np.square(x).sum())
        self.noise += float(np.square(x - y).sum())
        self.found += float(np.square(y).sum())
        self.both += float((x * y).sum())

    @property
    def sqnr(self) -> float:
        """Signal-to-noise ratio of the quantised results in dB; infinite if they are
        exact.
        """
        if not self.noise:
            return math.inf
        return 10 * math.log10(self.signal / self.noise) if self.signal else -math.inf

    @property
    def cosine(self) -> float:
        """Cosine similarity of the exact and the quantised results."""
        size = math.sqrt(self.signal * self.found)
        return self.both / size if size else 1.0


def layer_errors(
    program: Program,
    calls: Calls,
    layers: Sequence[Layer],
    plans: Sequence[LayerPlan],
    rounded: Mapping[str, Array],
    grids: Grids,
) -> dict[str, LayerError]:
    """Return the error of each layer when it alone is quantised, given exact inputs."""
    fakes = {
        layer.op.results[0]: FakeLayer.of(
            program, layer, plan, grids, rounded.get(layer.name)
        )
        for layer, plan in zip(layers, plans, strict=True)
        if plan.precision != WIDE
    }
    found: dict[str, LayerError] = {}

    def watch(
        op: Operation, operands: list[np.ndarray], results: list[np.ndarray]
    ) -> None:
        fake = fakes.get(op.results[0]) if len(op.results) == 1 else None
        if fake is not None:
            error = found.setdefault(fake.plan.layer, LayerError())
            error.add(np.asarray(results[0]), fake.result(operands))

    run(program, calls, watch)
    return found


@dataclass(frozen=True)
class LayerFigures:
    """The figures of a layer in a report.

    Args:
        plan: of it.
        bytes_before: of its weight.
        bytes_after: of integers and scales.
        error: on the data, if there is any.
        seconds: at best, before and after; None where no model says so.
        sensitivity: what the program loses if this layer alone has a precision, by
            its name; empty where that was not measured.
    """

    plan: LayerPlan
    bytes_before: int
    bytes_after: int
    error: LayerError | None
    seconds: tuple[float, float] | None = None
    sensitivity: Mapping[str, MeasuredLoss] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the layer's row of the report."""
        plan = self.plan
        row: dict[str, Any] = {
            "layer": plan.layer,
            "where": plan.where,
            "precision": plan.precision,
            "bytes_before": self.bytes_before,
            "bytes_after": self.bytes_after,
        }
        if self.seconds is not None:
            row["seconds_before"], row["seconds_after"] = self.seconds
        if self.error is not None:
            sqnr = self.error.sqnr
            row["sqnr_db"] = sqnr if math.isfinite(sqnr) else None
            row["cosine"] = self.error.cosine
        if self.sensitivity:
            row["sensitivity"] = {k: v._asdict() for k, v in self.sensitivity.items()}
        return {**row, **({"why": plan.why} if plan.why else {})}


@dataclass(frozen=True)
class QuantizationReport:
    """The report on a quantised program.

    Args:
        recipe: that gives it.
        rows: a row for each layer.
        refusals: what no recipe quantises.
        bytes_before: of all parameters.
        bytes_after: likewise.
        evaluations: how many programs were measured to choose it.
        files: paths of what was written, by what it is.
        unread: arrays of the data that no entry has as an input.
        target: whose model says the times of layers.
    """

    recipe: Recipe
    rows: tuple[LayerFigures, ...]
    refusals: tuple[LayerRefusal, ...]
    bytes_before: int
    bytes_after: int
    evaluations: int = 0
    files: Mapping[str, str] = field(default_factory=dict)
    unread: tuple[str, ...] = ()
    target: Target | None = None

    @classmethod
    def of(
        cls,
        before: Program,
        after: Program,
        recipe: Recipe,
        layers: Sequence[Layer],
        errors: Mapping[str, LayerError],
        refusals: Sequence[LayerRefusal],
        chosen: Chosen | None,
        target: Target | None = None,
    ) -> QuantizationReport:
        """Return the report on a program that was quantised."""
        rows = []
        names = [plan.precision for plan in recipe.layers]
        times = None if target is None else expected_times(layers, names, target)
        for number, (layer, plan) in enumerate(zip(layers, recipe.layers, strict=True)):
            sizes = layer.shape, layer.summed
            wide, narrow = 4 * math.prod(layer.shape), plan.kind.stored_bytes(*sizes)
            alone = {} if chosen is None else chosen.sensitivity.get(layer.name, {})
            seconds = None if times is None else times[number]
            error = errors.get(layer.name)
            rows.append(LayerFigures(plan, wide, narrow, error, seconds, alone))
        first, last = (
            sum(x.nbytes for x in p.parameters.values()) for p in (before, after)
        )
        evaluations = 0 if chosen is None else chosen.evaluations
        return cls(
            recipe,
            tuple(rows),
            tuple(refusals),
            first,
            last,
            evaluations,
            target=None if times is None else target,
        )

    @property
    def seconds(self) -> tuple[float, float] | None:
        """Roofline seconds of all layers, before and after; None without a target's
        model.
        """
        found = [row.seconds for row in self.rows if row.seconds is not None]
        if self.target is None:
            return None
        return sum(each[0] for each in found), sum(each[1] for each in found)

    def to_json(self) -> dict[str, Any]:
        """Return the report as a document of the schema `aotc.quantize/1`."""
        return {
            "recipe": self.recipe.name,
            "calibration": dict(self.recipe.calibration),
            "quality": dict(self.recipe.quality),
            "bytes_before": self.bytes_before,
            "bytes_after": self.bytes_after,
            "evaluations": self.evaluations,
            "expected": self._expected(),
            "layers": [row.to_json() for row in self.rows],
            "kept": [
                {"op": r.op, "where": r.where, "why": r.why, "bytes": r.bytes}
                for r in self.refusals
            ],
            "unread": list(self.unread),
            "files": dict(self.files),
        }

    def _expected(self) -> JsonObject | None:
        """Return the report's roofline figures; None without a target's model."""
        if self.seconds is None:
            return None
        before, after = self.seconds
        return {
            "target": str(self.target),
            "nominal_ghz": NOMINAL_GHZ,
            "seconds_before": before,
            "seconds_after": after,
        }

    def to_text(self) -> str:
        """Return the report as text for people."""
        counts = Counter(row.plan.precision for row in self.rows)
        said = ", ".join(f"{n} {name}" for name, n in counts.items())
        share = self.bytes_after / max(self.bytes_before, 1)
        lines = [
            f"{len(self.rows)} layer{'s' * (len(self.rows) != 1)}: {said}",
            f"parameters: {self.bytes_before:,} → {self.bytes_after:,} bytes "
            f"({share:.0%})",
        ]
        if self.seconds is not None:
            before, after = map(_time_text, self.seconds)
            lines.append(
                f"layers take at best: {before} → {after}, at usual or least sizes, by "
                f"the model of {self.target} on one core at {NOMINAL_GHZ:g} GHz"
            )
        if quality := self.recipe.quality:
            lines.append(
                f"lost by {quality['metric']}: {quality['lost']:.4%} on "
                f"{_samples(quality)} of {', '.join(quality['entries'])}"
            )
            if outputs := quality["unmeasured"]:
                lines.append(f"not measured: {', '.join(outputs)}")
        calibration = self.recipe.calibration
        has_grids = any(plan.grid is not None for plan in self.recipe.layers)
        is_calibrated = has_grids and not self.recipe.is_trained
        if is_calibrated and calibration["samples"] < FEW_SAMPLES:
            lines.append(
                f"calibrated with {_samples(calibration)}: ranges are those of some "
                "hundred as a rule"
            )
        if self.unread:
            lines.append(f"no input of an entry: {', '.join(self.unread)}")
        width = max(len(row.plan.layer) for row in self.rows)
        lines += ["", "LAYERS"]
        lines += [f"  {_row_text(row, width)}" for row in self.rows]
        if self.refusals:
            lines += ["", "KEPT: what no recipe quantises"]
            lines += [
                f"  {text}"
                for text in with_repetition_counts(map(_refusal_text, self.refusals))
            ]
        lines += ["", *(f"{what}: {path}" for what, path in self.files.items())]
        return "\n".join(lines).rstrip()


def _samples(facts: Mapping[str, object]) -> str:
    """Return the number of samples as text."""
    count = facts["samples"]
    return f"{count} sample{'s' * (count != 1)}"


def _row_text(row: LayerFigures, width: int) -> str:
    """Return the report's line of text on a layer."""
    plan = row.plan
    text = f"{plan.layer:<{width}}  {plan.precision:<12}"
    text += f" {row.bytes_before:>11,} → {row.bytes_after:>10,}"
    if row.seconds is not None:
        before, after = map(_time_text, row.seconds)
        text += f"  {before:>8} → {after:>8}"
    if row.error is not None:
        text += f"  {row.error.sqnr:5.1f} dB  cosine {row.error.cosine:.6f}"
    if row.sensitivity:
        alone = ", ".join(f"{k} {v.lost:.3%}" for k, v in row.sensitivity.items())
        text += f"  alone: {alone}"
    return text + (f"  ({plan.why}, at {plan.where})" if plan.why else "")


def _refusal_text(refusal: LayerRefusal) -> str:
    """Return the report's line of text on an op that was not quantised."""
    size = f" ({refusal.bytes:,} bytes)" if refusal.bytes else ""
    return f"{refusal}{size}"


def with_repetition_counts(texts: Iterable[str]) -> list[str]:
    """Return each text once, with a count if it occurs several times."""
    counts = Counter(texts).items()
    return [f"{text} ({count}×)" if count > 1 else text for text, count in counts]


def _time_text(seconds: float) -> str:
    """Return a duration as text in s, ms or µs."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"
