"""Quantise a program: calibrate, choose a precision for each layer, and write it.

`quantize` makes a recipe and the program that it gives; `apply_recipe` makes that
program again of the recipe alone, to the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from aotc.computed_arrays import Array
from aotc.errors import InputError
from aotc.program import Program
from aotc.quantization.data import Data
from aotc.quantization.layers import (
    Layer,
    Refusal,
    layers_by_name,
    layers_of,
    prepare,
    refusals_of,
)
from aotc.quantization.measuring import Tell, Yardstick, calls_of
from aotc.quantization.metrics import Metric
from aotc.quantization.observers import input_grid
from aotc.quantization.precisions import Precision, ladder
from aotc.quantization.recipe import LayerPlan, Recipe
from aotc.quantization.report import LayerError, Report, layer_errors
from aotc.quantization.rewrite import rewrite
from aotc.quantization.search import choose
from aotc.quantization.statistics import Seen, observe


@dataclass(frozen=True)
class Choice:
    """What is asked for.

    Args:
        recipe: out of `RECIPES`.
        calibration: how ranges of inputs are found, out of `observers.METHODS`.
        percentile: for the method of that name.
        quality: what may be lost by the metric; None for any loss.
        metric: what is lost.
    """

    recipe: str
    calibration: str = "mean-square"
    percentile: float = 99.99
    quality: float | None = None
    metric: Metric = field(default_factory=Metric)


@dataclass(frozen=True)
class Quantized:
    """What a program has become.

    Args:
        program: of the stage `graph`.
        recipe: that gives it.
        report: what is to be said of it.
    """

    program: Program
    recipe: Recipe
    report: Report


def quantize(
    program: Program,
    choice: Choice,
    data: Data | None = None,
    held_out: Data | None = None,
    tell: Tell = lambda text: None,
) -> Quantized:
    """Quantise a program that was imported.

    Args:
        program: of the stage `graph`; it is prepared in place.
        choice: what is asked for.
        data: to calibrate with.
        held_out: to measure on, if that is other data.
        tell: gets what is being done.

    Raises:
        InputError: `nothing-to-quantize`, `no-calibration-data`, `bad-data`,
            `bad-metric`.
    """
    _require_data(choice, data or held_out)
    _require_graph(program)
    tell("prepares the graph")
    prepare(program)
    layers, refusals = layers_of(program), refusals_of(program)
    if not layers:
        raise _nothing(refusals)
    calibration = _Calibration.of(program, layers, choice, data, tell)
    yardstick = None
    if (measured_on := held_out or data) is not None:
        tell("measures the program as it is")
        yardstick = Yardstick.of(program, measured_on, choice.metric)
    rows = [calibration.rungs(layer, ladder(choice.recipe)) for layer in layers]
    plans = tuple(row[0] for row in rows)
    lost, evaluations = None, 0

    def measure(plans: Sequence[LayerPlan]) -> float:
        assert yardstick is not None
        return yardstick.lost(_quantized(program, plans, {}))

    if yardstick is not None and choice.quality is not None:
        found = choose(layers, rows, measure, choice.quality, tell)
        plans, lost, evaluations = found.plans, found.lost, found.evaluations
    elif yardstick is not None:
        tell("measures the quantised program")
        lost, evaluations = measure(plans), 1
    recipe = Recipe(
        choice.recipe,
        plans,
        _calibration_facts(program, choice, data),
        _quality_facts(program, choice, yardstick, lost),
    )
    made = _quantized(program, plans, {})
    made.quantization = recipe.facts()
    errors = calibration.errors(plans, tell)
    report = Report.of(program, made, recipe, layers, errors, refusals, evaluations)
    return Quantized(made, recipe, report)


def apply_recipe(
    program: Program, recipe: Recipe, where: str, data: Data | None = None
) -> None:
    """Quantise a program that was imported as a recipe says, in place.

    Args:
        program: of the stage `graph`.
        recipe: of a program with the same layers.
        where: the file of the recipe.
        data: that it was made with; read where weights follow from it.

    Raises:
        InputError: `recipe-mismatch`: it is for another program.
    """
    _require_graph(program)
    prepare(program)
    layers = layers_of(program)
    plans = {plan.layer: plan for plan in recipe.layers}
    _require_same(layers, plans, where)
    for layer in layers:
        kind = plans[layer.name].kind
        if (why := layer.refusal(kind)) is not None:
            raise _mismatch(f"'{layer.name}' cannot be {kind.name}: {why}", where)
    rewrite(program, layers, [plans[layer.name] for layer in layers], {})
    program.quantization = recipe.facts()


def _quantized(
    program: Program, plans: Sequence[LayerPlan], rounded: Mapping[str, Array]
) -> Program:
    """A copy of a prepared program whose layers are as some plans say."""
    copy = program.copy()
    rewrite(copy, layers_of(copy), plans, rounded)
    return copy


@dataclass(frozen=True)
class _Calibration:
    """What is known of a program's layers, and what was asked for.

    Args:
        program: prepared.
        layers: of it.
        choice: what is asked for.
        data: that was looked at.
        seen: of the layers whose entry the data has inputs for, by name.
    """

    program: Program
    layers: Sequence[Layer]
    choice: Choice
    data: Data | None
    seen: Mapping[str, Seen]

    @classmethod
    def of(
        cls,
        program: Program,
        layers: Sequence[Layer],
        choice: Choice,
        data: Data | None,
        tell: Tell,
    ) -> _Calibration:
        """Run a program on data."""
        seen: Mapping[str, Seen] = {}
        if data is not None:
            tell("calibrates")
            calls = calls_of(program, data)
            seen = observe(program, calls, layers, with_moments=False)
        return cls(program, layers, choice, data, seen)

    def rungs(self, layer: Layer, precisions: Sequence[Precision]) -> list[LayerPlan]:
        """The plans that a layer can have, the narrowest first."""
        plans, why = list[LayerPlan](), ""
        for kind in precisions:
            refusal = self._refusal(layer, kind)
            if refusal is None:
                plans.append(self._plan(layer, kind, why))
            else:
                why = f"not {kind.name}: {refusal}"
        return plans

    def _refusal(self, layer: Layer, kind: Precision) -> str | None:
        if kind.inputs == "static" and layer.name not in self.seen:
            return f"the data has no inputs of the entry '{layer.entry.name}'"
        return layer.refusal(kind)

    def _plan(self, layer: Layer, kind: Precision, why: str) -> LayerPlan:
        plan = LayerPlan(layer.name, kind.name, layer.where, why)
        if kind.inputs != "static":
            return plan
        choice, seen = self.choice, self.seen[layer.name]
        grid = input_grid(seen.histogram, choice.calibration, choice.percentile)
        return replace(plan, grid=grid)

    def errors(self, plans: Sequence[LayerPlan], tell: Tell) -> dict[str, LayerError]:
        """What each layer's own result loses by its precision, on the data."""
        if self.data is None:
            return {}
        tell("measures each layer")
        calls = calls_of(self.program, self.data)
        return layer_errors(self.program, calls, self.layers, plans)


def _require_data(choice: Choice, data: Data | None) -> None:
    needs = [each.name for each in ladder(choice.recipe) if each.inputs == "static"]
    if data is not None or not (needs or choice.quality is not None):
        return
    what = "--quality, which is measured" if choice.quality is not None else needs[0]
    raise InputError(
        "no-calibration-data",
        f"expected calibration data for {what}; got none",
        hint="--data calibration.npz, an array for each input with samples along the "
        "first axis; int8-dynamic, int8-weights, int4-g32, bf16 and f16 need none",
    )


def _require_graph(program: Program) -> None:
    if program.stage != "graph":
        raise InputError(
            "bad-option",
            f"expected a program of the stage 'graph'; got '{program.stage}'",
            hint="quantise the model, or the graph.mlir of `aotc build --dump`",
        )
    if program.quantization is not None:
        raise InputError(
            "already-quantized",
            "expected a program of floats; this one was quantised by the recipe "
            f"'{program.quantization['recipe']}'",
            hint="quantise the model that it was made of",
        )
    if not program.has_arrays:
        raise InputError(
            "bad-option", "expected a program with its parameters; it has none"
        )


def _nothing(refusals: Sequence[Refusal]) -> InputError:
    said = "".join(f"\n  {each}" for each in refusals[:10])
    return InputError(
        "nothing-to-quantize",
        f"no product or convolution of the program can be quantised{said}",
        hint="weights must be aotc.Weights: a State changes from call to call, and "
        "an array that is an input is not known",
    )


def _require_same(
    layers: Sequence[Layer], plans: Mapping[str, LayerPlan], where: str
) -> None:
    known = layers_by_name(layers)
    if other := [name for name in plans if name not in known]:
        raise _mismatch(f"there is no layer '{other[0]}' in the program", where)
    if other := [name for name in known if name not in plans]:
        raise _mismatch(
            f"it says nothing of the layer '{other[0]}' at {known[other[0]].where}",
            where,
        )


def _mismatch(why: str, where: str) -> InputError:
    return InputError(
        "recipe-mismatch",
        f"expected a recipe for this program: {why}",
        where=where,
        hint="run `aotc quantize` on it again, with the same options",
    )


def _calibration_facts(
    program: Program, choice: Choice, data: Data | None
) -> dict[str, object]:
    if data is None:
        return {}
    facts = {"method": choice.calibration, **data.facts(program.entries)}
    if choice.calibration == "percentile":
        facts["percentile"] = choice.percentile
    return facts


def _quality_facts(
    program: Program,
    choice: Choice,
    yardstick: Yardstick | None,
    lost: float | None,
) -> dict[str, object]:
    if yardstick is None or lost is None:
        return {}
    asked = {} if choice.quality is None else {"asked": choice.quality}
    facts = yardstick.data.facts(program.entries)
    return {"metric": yardstick.name, "lost": lost, **asked, **facts}
