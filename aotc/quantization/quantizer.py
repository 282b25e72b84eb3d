"""Quantise a program: calibrate, choose a precision for each layer, and write it.

`quantize` makes a recipe and the program that it gives; `apply_recipe` makes that
program again of the recipe alone, to the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from aotc.core.cache import arrays_digest
from aotc.errors import InputError
from aotc.machine.target import Target
from aotc.programs.computed_arrays import Array
from aotc.programs.program import Program
from aotc.quantization.calibration import (
    PERCENTILE,
    Calibration,
    QuantizationOptions,
    Rungs,
    calibrate,
    rounded_integers,
)
from aotc.quantization.data import Data
from aotc.quantization.layer_grids import Grids
from aotc.quantization.layers import (
    Layer,
    LayerRefusal,
    layers_by_name,
    layers_of,
    prepare,
    refusals_of,
)
from aotc.quantization.measuring import Calls, MeasuredLoss, Tell, Yardstick, calls_of
from aotc.quantization.precisions import ladder
from aotc.quantization.recipe import LayerPlan, Recipe, layers_digest
from aotc.quantization.report import (
    QuantizationReport,
    layer_errors,
    with_repetition_counts,
)
from aotc.quantization.rewrite import rewrite
from aotc.quantization.search import Chosen, choose
from aotc.quantization.shared_prefix import SharedPrefix
from aotc.quantization.statistics import observe
from aotc.quantization.trained import Trained


@dataclass(frozen=True)
class Quantized:
    """A quantised program with its recipe and its report.

    Args:
        program: of the stage `graph`.
        recipe: that gives it.
        report: what is to be said of it.
    """

    program: Program
    recipe: Recipe
    report: QuantizationReport


def quantize(
    program: Program,
    choice: QuantizationOptions,
    data: Data | None = None,
    held_out: Data | None = None,
    tell: Tell = lambda text: None,
    trained: Trained | None = None,
    target: Target | None = None,
) -> Quantized:
    """Quantise an imported program; return it with its recipe and report.

    Args:
        program: of the stage `graph`; it is prepared in place.
        choice: what is asked for.
        data: to calibrate with.
        held_out: to measure on, if that is other data.
        tell: gets what is being done.
        trained: the ranges of quantisation-aware training, instead of calibration.
        target: to say the times of layers for.

    Raises:
        InputError: `nothing-to-quantize`, `no-calibration-data`, `bad-data`,
            `bad-metric`, `bad-ranges`.
    """
    _require_data(choice, data, held_out, trained)
    _require_graph(program)
    tell("prepares the graph")
    weights = arrays_digest(program.parameters)
    prepare(program, is_trained=trained is not None)
    layers, refusals = layers_of(program), refusals_of(program)
    if not layers:
        raise _nothing_to_quantize_error(refusals)
    looked_at = held_out if trained is not None and data is None else data
    calls = {} if looked_at is None else calls_of(program, looked_at)
    if data is not None and ladder(choice.recipe)[0].inputs == "static":
        _require_calls_of_layers(program, layers, calls, data)
    calibration = _calibration(program, layers, choice, calls, trained, tell)
    yardstick = _yardstick(program, choice, held_out or data, tell)

    def made_of(plans: Sequence[LayerPlan]) -> Program:
        return _quantized_copy(program, plans, calibration)

    rungs = calibration.rungs
    if yardstick is not None and choice.quality is not None:
        rungs = _keep_unmeasured_wide(layers, rungs, yardstick.entries)
    chosen = _choose_plans(layers, rungs, made_of, choice, yardstick, tell)
    _require_finite(chosen.lost)
    facts = _calibration_facts(program, choice, data, trained)
    quality = _quality_facts(program, choice, yardstick, chosen, weights)
    recipe = Recipe(choice.recipe, chosen.plans, facts, quality)
    made = made_of(recipe.layers)
    made.quantization = recipe.facts(weights)
    tell("measures each layer")
    rounded = calibration.rounded_weights(recipe.layers)
    given = layers, recipe.layers, rounded, calibration.grids
    errors = layer_errors(program, calls, *given)
    report = QuantizationReport.of(
        program, made, recipe, layers, errors, refusals, chosen, target
    )
    unread = _unread(program, choice, data, held_out)
    return Quantized(made, recipe, replace(report, unread=unread))


def _calibration(
    program: Program,
    layers: Sequence[Layer],
    choice: QuantizationOptions,
    calls: Calls,
    trained: Trained | None,
    tell: Tell,
) -> Calibration:
    """Return the possible plans of layers, by trained ranges or by running calls."""
    if trained is not None:
        return trained.calibration(program, layers, choice.recipe)
    return calibrate(program, layers, choice, calls, tell)


def _yardstick(
    program: Program, choice: QuantizationOptions, data: Data | None, tell: Tell
) -> Yardstick | None:
    """Run the unquantised program as the reference to measure with; None
    without data.
    """
    if data is None:
        return None
    tell("measures the program as it is")
    return Yardstick.of(program, data, choice.metric)


def _require_finite(lost: float) -> None:
    """Refuse a quantised program whose measured loss is infinite or NaN."""
    if not math.isfinite(lost):
        raise InputError(
            "not-finite",
            "expected finite results of the quantised program; by the metric it loses "
            f"{lost}",
            hint="--quality 1% leaves layers wide where it must; bf16 has the range of "
            "f32",
        )


def _keep_unmeasured_wide(
    layers: Sequence[Layer], rungs: Rungs, measured: Sequence[str]
) -> Rungs:
    """Return the rungs, with layers of unmeasured entries restricted to the widest."""
    found = []
    for layer, row in zip(layers, rungs, strict=True):
        if (entry := layer.entry.name) not in measured:
            why = f"not {row[0].precision}: no result of '{entry}' is measured"
            row = [replace(row[-1], why=why)]
        found.append(row)
    return found


def _unread(
    program: Program,
    choice: QuantizationOptions,
    data: Data | None,
    held_out: Data | None,
) -> tuple[str, ...]:
    """Return the names of calibration arrays that neither entries nor the
    metric read.
    """
    of_metric = None if choice.metric.function is None else held_out or data
    return tuple(
        f"{name} of {each.where}"
        for each in (data, held_out)
        if each is not None and each is not of_metric
        for name in each.unread(program.entries)
    )


def _choose_plans(
    layers: Sequence[Layer],
    rungs: Rungs,
    quantized_copy: Callable[[Sequence[LayerPlan]], Program],
    choice: QuantizationOptions,
    yardstick: Yardstick | None,
    tell: Tell,
) -> Chosen:
    """Return the narrowest plans, or the smallest that keep the required quality."""
    narrowest = tuple(row[0] for row in rungs)
    if yardstick is None:
        return Chosen(narrowest, 0.0, 0)
    if choice.quality is None:
        tell("measures the quantised program")
        return Chosen(narrowest, yardstick.measure(quantized_copy(narrowest)).lost, 1)

    prefix = SharedPrefix(yardstick.calls)

    def measure(plans: Sequence[LayerPlan]) -> MeasuredLoss:
        program = quantized_copy(plans)
        return yardstick.compare(program, prefix.run(program))

    def keep(plans: Sequence[LayerPlan]) -> None:
        prefix.keep(quantized_copy(plans))

    return choose(layers, rungs, measure, choice.quality, tell, keep)


def apply_recipe(
    program: Program, recipe: Recipe, where: str, data: Data | None = None
) -> None:
    """Quantise an imported program in place, as a recipe says.

    Args:
        program: of the stage `graph`.
        recipe: of a program with the same layers.
        where: the file of the recipe.
        data: that it was made with; read where weights follow from it.

    Raises:
        InputError: `recipe-mismatch`: it is for another program.
    """
    _require_graph(program)
    weights = arrays_digest(program.parameters)
    prepare(program, is_trained=recipe.is_trained)
    layers = layers_of(program)
    plans = {plan.layer: plan for plan in recipe.layers}
    _require_same_layers(layers, plans, where)
    for layer in layers:
        kind = plans[layer.name].kind
        if (why := layer.refusal(kind, program)) is not None:
            raise _mismatch(f"'{layer.name}' cannot be {kind.name}: {why}", where)
        sizes = layer.channel_count, layer.features, layer.scale_count(kind)
        if why := plans[layer.name].misfit(*sizes):
            raise _mismatch(f"'{layer.name}' at {layer.where}: {why}", where)
    rows = [plans[layer.name] for layer in layers]
    rounded, grids = dict[str, Array](), Grids()
    if recipe.needs_data and data is not None:
        seen = observe(program, calls_of(program, data), layers, with_moments=True)
        integers = rounded_integers(program, layers, rows, seen, grids)
        rounded = {name: array for (name, _), array in integers.items()}
    rewrite(program, layers, rows, rounded, grids)
    program.quantization = recipe.facts(weights)


def _quantized_copy(
    program: Program, plans: Sequence[LayerPlan], calibration: Calibration
) -> Program:
    """Return a copy of a prepared program, with its layers quantised by these plans."""
    copy = program.copy()
    rounded = calibration.rounded_weights(plans)
    rewrite(copy, layers_of(copy), plans, rounded, calibration.grids)
    return copy


def _require_data(
    choice: QuantizationOptions,
    data: Data | None,
    held_out: Data | None,
    trained: Trained | None,
) -> None:
    """Refuse options whose calibration data is missing, or contradicts trained
    ranges.
    """
    if trained is not None and (choice.methods or choice.has_calibration):
        raise InputError(
            "bad-option",
            "expected ranges that were trained, or a calibration and its methods; got "
            "both",
            hint="leave out --ranges, or --method, --calibration and --percentile",
        )
    static = [each.name for each in ladder(choice.recipe) if each.inputs == "static"]
    methods = [each for each in choice.methods if each != "equalize"]
    if static and data is None and trained is None:
        what = static[0]
        without = "; int8-dynamic, int8-weights, int4-g32, bf16 and f16 need none"
    elif methods and data is None:
        what, without = methods[0], f"; or leave out --method {methods[0]}"
    elif choice.quality is not None and (data or held_out) is None:
        what, without = "--quality, which is measured", "; or leave out --quality"
    elif choice.metric.name != "auto" and (data or held_out) is None:
        what, without = "--metric, which measures on it", "; or leave out --metric"
    else:
        return
    raise InputError(
        "no-calibration-data",
        f"expected calibration data for {what}; got none",
        hint="--data calibration.npz, an array for each input with samples along the "
        f"first axis{without}",
    )


def _require_calls_of_layers(
    program: Program, layers: Sequence[Layer], calls: Calls, data: Data
) -> None:
    """Refuse data that has inputs for no entry with a layer."""
    names = {layer.entry.name for layer in layers}
    if names & calls.keys():
        return
    rows = [
        f"'{entry.name}' lacks {', '.join(data.missing(entry))}"
        for entry in program.entries
        if entry.name in names
    ]
    raise InputError(
        "no-calibration-data",
        f"expected arrays for the inputs of an entry with layers: {'; '.join(rows)}; "
        f"got those of '{', '.join(calls)}', which has none",
        where=data.where,
        hint="numpy.savez(FILE, x=samples): an array for each input, by its name",
    )


def _require_graph(program: Program) -> None:
    """Refuse a program that is not at stage `graph`, or is quantised already."""
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


def _nothing_to_quantize_error(refusals: Sequence[LayerRefusal]) -> InputError:
    """Return the error for a program in which no layer can be quantised."""
    rows = with_repetition_counts(map(str, refusals))
    said = "".join(f"\n  {each}" for each in rows[:10])
    if len(rows) > 10:
        said += f"\n  and {len(rows) - 10} more"
    return InputError(
        "nothing-to-quantize",
        f"no product or convolution of the program can be quantised{said}",
        hint="weights must be aotc.Weights: of a State that was trained, give "
        "model.py:ENTRY --state FILE, with an entry that only reads it"
        if any("State" in each.why for each in refusals)
        else "weights must be aotc.Weights; an array that is an input is not known",
    )


def _require_same_layers(
    layers: Sequence[Layer], plans: Mapping[str, LayerPlan], where: str
) -> None:
    """Refuse a recipe whose layers are not those of the program."""
    known = layers_by_name(layers)
    if other := [name for name in plans if name not in known]:
        raise _mismatch(f"there is no layer '{other[0]}' in the program", where)
    if other := [name for name in known if name not in plans]:
        raise _mismatch(
            f"it says nothing of the layer '{other[0]}' at {known[other[0]].where}",
            where,
        )


def _mismatch(why: str, where: str) -> InputError:
    """Return an error of code `recipe-mismatch`."""
    return InputError(
        "recipe-mismatch",
        f"expected a recipe for this program: {why}",
        where=where,
        hint="run `aotc quantize` on it again, with the same options",
    )


def _calibration_facts(
    program: Program,
    choice: QuantizationOptions,
    data: Data | None,
    trained: Trained | None,
) -> dict[str, object]:
    """Return what the recipe records of its calibration: method, digest, samples."""
    if trained is not None:
        return trained.facts
    if data is None:
        return {}
    facts = {"method": choice.calibration, **data.facts(program.entries)}
    if choice.calibration == "percentile":
        facts["percentile"] = choice.percentile or PERCENTILE
    return facts


def _quality_facts(
    program: Program,
    choice: QuantizationOptions,
    yardstick: Yardstick | None,
    chosen: Chosen,
    weights: str,
) -> dict[str, object]:
    """Return what the recipe records of its quality: metric, loss, data and digests."""
    if yardstick is None:
        return {}
    asked = {} if choice.quality is None else {"asked": choice.quality}
    facts = yardstick.data.facts(program.entries)
    found = {
        "metric": yardstick.name,
        "lost": chosen.lost,
        "weights": weights,
        "layers": layers_digest(chosen.plans),
        "entries": yardstick.entries,
        "unmeasured": yardstick.unmeasured(program),
    }
    return {**found, **asked, **facts}
