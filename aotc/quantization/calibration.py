"""Plans for the layers of a program, by the statistics of calibration data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from aotc.errors import InputError
from aotc.mlir import Operation
from aotc.programs.computed_arrays import Array
from aotc.programs.program import Program
from aotc.quantization.factors import activation_aware, equalize, smooth
from aotc.quantization.fakes import FakeLayer
from aotc.quantization.gptq import integers_of
from aotc.quantization.layer_grids import Grids, scaled_weight
from aotc.quantization.layers import Layer
from aotc.quantization.measuring import Calls, Tell, run
from aotc.quantization.metrics import LossMetric
from aotc.quantization.observers import input_grid
from aotc.quantization.precisions import LayerPrecision, ladder
from aotc.quantization.recipe import GPTQ, NEAREST, LayerPlan
from aotc.quantization.statistics import InputStatistics, observe

# method → what it is, and the ways of inputs (`LayerPrecision.inputs`) that it is for
METHODS = {
    "smoothquant": (
        "factors that make channels of inputs alike",
        ("static", "dynamic"),
    ),
    "equalize": (
        "factors that make channels of neighbours alike",
        ("static", "dynamic"),
    ),
    "awq": ("factors that spare the weights of large inputs", ("float",)),
    "gptq": ("weights rounded so that results have the least error", ("all",)),
    "bias-correction": ("the mean error of each feature, taken back", ("all",)),
}

PERCENTILE = 99.99  # of the inputs, within the range


@dataclass(frozen=True)
class QuantizationOptions:
    """The options of quantising a program: recipe, calibration, quality and methods.

    Args:
        recipe: out of `RECIPES`.
        calibration: how ranges of inputs are found, out of `observers.METHODS`.
        percentile: for the method of that name; `PERCENTILE` by default.
        quality: what may be lost by the metric; None for any loss.
        metric: what is lost.
        methods: what is done besides, out of `METHODS`.
    """

    recipe: str
    calibration: str = "mean-square"
    percentile: float | None = None
    quality: float | None = None
    metric: LossMetric = field(default_factory=LossMetric)
    methods: Sequence[str] = ()

    def __post_init__(self) -> None:
        """Refuse methods that exclude each other, and options that have no effect."""
        if {"smoothquant", "equalize"} <= {*self.methods}:
            raise InputError(
                "bad-option",
                "expected one of smoothquant and equalize, which choose the same "
                "factors; got both",
                hint="smoothquant looks at the data, equalize at weights alone",
            )
        for why, instead in self._without_effect():
            raise InputError(
                "bad-option",
                f"expected options that change something; {why}",
                hint=f"leave it out, or choose {instead}: docs/precision.md has what "
                "each is for",
            )

    @property
    def has_calibration(self) -> bool:
        """Return whether the options ask for another calibration than the default."""
        return (
            self.calibration != QuantizationOptions.calibration
            or self.percentile is not None
        )

    def _without_effect(self) -> Iterator[tuple[str, str]]:
        """Yield the reason why an option has no effect, and what would give it one."""
        recipe = "another recipe"
        kinds = [each for each in ladder(self.recipe) if not each.is_of_tables]
        for method in self.methods:
            if not any(_applies_to(method, kind) for kind in kinds):
                why = f"the method '{method}' does nothing for the recipe {self.recipe}"
                yield why, recipe
        if self.percentile is not None and self.calibration != "percentile":
            why = f"a percentile does nothing for the calibration '{self.calibration}'"
            yield why, "--calibration percentile"
        is_static = any(kind.inputs == "static" for kind in kinds)
        if self.calibration != QuantizationOptions.calibration and not is_static:
            yield f"the recipe {self.recipe} calibrates no inputs", recipe


Rungs = list[list[LayerPlan]]  # of each layer, the narrowest first
Integers = Mapping[tuple[str, str], Array]  # of weights, by layer and precision


@dataclass(frozen=True)
class Calibration:
    """The plans that each layer can have, with the integers and scales of its weight.

    Args:
        rungs: the plans that each layer can have.
        integers: of weights that are not rounded to the nearest.
        grids: of weights.
    """

    rungs: Rungs
    integers: Integers
    grids: Grids

    def rounded_weights(self, plans: Sequence[LayerPlan]) -> dict[str, Array]:
        """Return the integers of weights not rounded to nearest, by layer, for these
        plans.
        """
        keys = [(plan.layer, plan.precision) for plan in plans]
        return {key[0]: self.integers[key] for key in keys if key in self.integers}


def calibrate(
    program: Program,
    layers: Sequence[Layer],
    choice: QuantizationOptions,
    calls: Calls,
    tell: Tell,
) -> Calibration:
    """Return a `Calibration`: each layer's possible plans by precision, with integers
    and grids.

    Args:
        program: prepared.
        layers: of it.
        choice: what is asked for.
        calls: of the calibration data; none without.
        tell: gets what is being done.
    """
    with_moments = "gptq" in choice.methods
    seen: dict[str, InputStatistics] = {}
    if calls:
        tell("calibrates")
        seen = observe(program, calls, layers, with_moments=with_moments)
    rows = [_rungs(program, layer, choice, seen) for layer in layers]
    rows = _with_factors(program, layers, rows, choice, seen, tell)
    rows = _with_grids(program, layers, rows, choice, calls, seen)
    rows = [
        [_with_rounding(x, y, choice, seen) for y in row]
        for x, row in zip(layers, rows, strict=True)
    ]
    tell("rounds weights")
    grids, plans = Grids(), [plan for row in rows for plan in row]
    integers = rounded_integers(program, layers, plans, seen, grids)
    if calls and "bias-correction" in choice.methods:
        tell("corrects means")
        rows = _with_corrections(program, layers, rows, calls, integers, grids)
    return Calibration(rows, integers, grids)


def _rungs(
    program: Program,
    layer: Layer,
    choice: QuantizationOptions,
    statistics: Mapping[str, InputStatistics],
) -> list[LayerPlan]:
    """Return a layer's plans, the narrowest precision first, without grids or
    factors.
    """
    plans, why = list[LayerPlan](), ""
    for kind in ladder(choice.recipe):
        if kind.is_of_tables and not layer.is_table:
            continue
        refusal = layer.refusal(kind, program)
        if refusal is None and kind.inputs == "static" and layer.name not in statistics:
            refusal = f"the data has no call that runs it ('{layer.entry.name}')"
        if refusal is None:
            plans.append(LayerPlan(layer.name, kind.name, layer.where, why))
        else:
            why = f"not {kind.name}: {refusal}"
    return plans


def _is_chosen_for(
    method: str, choice: QuantizationOptions, precision: LayerPrecision
) -> bool:
    """Return whether a calibration method is chosen and applies to a precision."""
    return method in choice.methods and _applies_to(method, precision)


def _applies_to(method: str, precision: LayerPrecision) -> bool:
    """Return whether a calibration method applies to a precision."""
    inputs = METHODS[method][1]
    return precision.is_integer and ("all" in inputs or precision.inputs in inputs)


def _with_factors(
    program: Program,
    layers: Sequence[Layer],
    rungs: Rungs,
    choice: QuantizationOptions,
    statistics: Mapping[str, InputStatistics],
    tell: Tell,
) -> Rungs:
    """Return the plans with the scale factors of input channels that methods choose."""
    alike: dict[str, Array] = {}
    if "smoothquant" in choice.methods:
        of_bytes = [each for each in ladder(choice.recipe) if each.inputs != "float"]
        alike = smooth(program, layers, statistics, of_bytes[0]) if of_bytes else {}
    if "equalize" in choice.methods:
        alike = equalize(program, layers)
    changed = []
    for layer, row in zip(layers, rungs, strict=True):
        plans = []
        for plan in row:
            factors = None
            if any(
                _is_chosen_for(each, choice, plan.kind)
                for each in ("smoothquant", "equalize")
            ):
                factors = alike.get(layer.name)
            elif _is_chosen_for("awq", choice, plan.kind) and layer.name in statistics:
                tell(f"awq: {layer.name}")
                factors = activation_aware(
                    program, layer, statistics[layer.name], plan.kind
                )
            plans.append(replace(plan, factors=factors))
        changed.append(plans)
    return changed


def _with_grids(
    program: Program,
    layers: Sequence[Layer],
    rungs: Rungs,
    choice: QuantizationOptions,
    calls: Calls,
    statistics: Mapping[str, InputStatistics],
) -> Rungs:
    """Return the plans with the scale and zero point of inputs that are static.

    Inputs that are divided by factors are observed again.
    """
    factors = {
        plan.layer: plan.factors
        for row in rungs
        for plan in row
        if plan.kind.inputs == "static" and plan.factors is not None
    }
    again = [layer for layer in layers if layer.name in factors]
    divided = observe(program, calls, again, factors=factors) if again else {}

    def with_grid(plan: LayerPlan) -> LayerPlan:
        if plan.kind.inputs != "static":
            return plan
        looked_at = (divided if plan.factors is not None else statistics)[plan.layer]
        given = looked_at.histogram, choice.calibration, choice.percentile or PERCENTILE
        return replace(plan, grid=input_grid(*given))

    return [[with_grid(plan) for plan in row] for row in rungs]


def _with_rounding(
    layer: Layer,
    plan: LayerPlan,
    choice: QuantizationOptions,
    statistics: Mapping[str, InputStatistics],
) -> LayerPlan:
    """Return the layer's plan with its weight's rounding method: GPTQ, or to
    nearest.
    """
    has_moments = (
        layer.name in statistics and statistics[layer.name].moments is not None
    )
    is_gptq = _is_chosen_for("gptq", choice, plan.kind) and has_moments
    return replace(plan, rounding=GPTQ if is_gptq else NEAREST)


def rounded_integers(
    program: Program,
    layers: Sequence[Layer],
    plans: Sequence[LayerPlan],
    statistics: Mapping[str, InputStatistics],
    grids: Grids,
) -> dict[tuple[str, str], Array]:
    """Return the integers of weights that GPTQ rounds, by layer and precision."""
    by_name = {layer.name: layer for layer in layers}
    found = {}
    for plan in plans:
        if plan.rounding == GPTQ:
            layer = by_name[plan.layer]
            weight = scaled_weight(program, layer, plan)
            grid = grids.grid(program, layer, plan)
            given = layer, plan, weight, grid, statistics[layer.name]
            found[plan.layer, plan.precision] = integers_of(*given)
    return found


def _with_corrections(
    program: Program,
    layers: Sequence[Layer],
    rungs: Rungs,
    calls: Calls,
    integers: Integers,
    grids: Grids,
) -> Rungs:
    """Return the plans with a correction: the mean error of each feature of the result.

    Nagel et al., "Data-Free Quantization Through Weight Equalization and Bias
    Correction", ICCV 2019, by the data.
    """
    fakes = {
        layer.op.results[0]: [
            FakeLayer.of(
                program, layer, plan, grids, integers.get((plan.layer, plan.precision))
            )
            for plan in row
            if plan.kind.is_integer
        ]
        for layer, row in zip(layers, rungs, strict=True)
        if not layer.is_table
    }
    totals: dict[tuple[str, str], Array] = {}
    counts: Counter[tuple[str, str]] = Counter()

    def watch(
        op: Operation, operands: list[np.ndarray], results: list[np.ndarray]
    ) -> None:
        for fake in fakes.get(op.results[0], ()) if len(op.results) == 1 else ():
            error = np.asarray(results[0], np.float64) - fake.result(operands)
            flat = error.reshape(-1, int(np.prod(fake.layer.features)))
            key = fake.plan.layer, fake.plan.precision
            totals[key] = totals.get(key, np.zeros(flat.shape[1])) + flat.sum(axis=0)
            counts[key] += len(flat)

    run(program, calls, watch)

    def corrected(plan: LayerPlan) -> LayerPlan:
        key = plan.layer, plan.precision
        if not counts[key]:
            return plan
        mean = totals[key] / counts[key]
        return replace(plan, correction=mean.astype(np.float32))

    return [[corrected(plan) for plan in row] for row in rungs]
