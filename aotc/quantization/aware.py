"""Quantisation-aware training: a function whose layers compute as they will later.

    aware = aotc.quantization_aware(network, "int8")
    ranges = aware.init(params, images)                    # once, before training
    ranges, logits = aware.observe(ranges, params, images)       # in a training step

Products and convolutions by weights, which are the leaves of the first argument, get
weights and inputs that are rounded to what integers can hold (`straight_through`).
`aotc quantize MODEL --recipe int8 --ranges FILE` makes the integers that were trained.
Which precision a layer has follows from the recipe, as it does there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy

from aotc import numpy as np
from aotc.core.pytree import PyTree
from aotc.nn.layers import stop_gradient
from aotc.quantization.forms import CONVOLUTION, TABLE, LayerForm
from aotc.quantization.grids import weight_grid
from aotc.quantization.precisions import RECIPES, LayerPrecision, trained_precision
from aotc.quantization.straight_through import (
    fake_dynamic_input,
    fake_static_input,
    fake_weight,
)
from aotc.tracing.array import Array
from aotc.tracing.bodies import function_name
from aotc.tracing.calls import guard
from aotc.tracing.conversion import lift
from aotc.tracing.layer_ops import LayerInterceptor, LayerOp
from aotc.tracing.scopes import without_tracing
from aotc.tracing.source_locations import fail

LOW, HIGH, STEPS = "low", "high", "steps"  # the leaves of a layer's ranges
Ranges = Mapping[str, Mapping[str, Any]]
_Range = Callable[[str, LayerForm, LayerPrecision, Array, Array], Mapping[str, Any]]
_WIDE = None, "", "f32"  # of the sums of products
_MOVING = 0.01  # what a call counts in a moving average


def quantization_aware(
    function: Callable[..., object],
    recipe: str,
    *,
    learned: bool = False,
    rate: float = _MOVING,
) -> QuantizationAware:
    """Return the function with weights and inputs of layers rounded as by a recipe.

    Layers are products and convolutions by weights, the leaves of the first argument
    (or transposes and other views of them), and rows that are read of such. Those in
    bodies of loops, branches and functions with rules of their own stay as they are.

    Args:
        function: of a pytree of weights, and other arguments.
        recipe: `int8`, `int8-dynamic`, `int8-weights`, `int4-g32` or `mixed`, as of
            `aotc quantize`.
        learned: whether the steps of weights are ranges as well, so that an optimizer
            can change them by their gradients, like the ends of inputs.
        rate: what a call counts in the moving average of an input's range.

    Returns:
        A function of ranges and the arguments; see `QuantizationAware`.
    """
    if recipe not in RECIPES or trained_precision(recipe, lambda kind: None) is None:
        names = [x for x in RECIPES if trained_precision(x, lambda kind: None)]
        fail(
            "bad-recipe",
            f"expected a recipe of integers, {', '.join(names)}; got {recipe!r}",
            "aotc.mixed_precision computes in bf16 and f16",
        )
    if not 0 < rate <= 1:
        fail("bad-rate", f"expected a rate above 0, at most 1; got {rate}")
    return QuantizationAware(function, recipe, learned, rate)


@dataclass(frozen=True)
class QuantizationAware:
    """A function whose layers fake-quantise their weights and inputs by a recipe.

    Ranges are a dict with a dict for each layer that has any, by the name of its weight
    in the first argument: `low` and `high`, the ends of its inputs, and `steps` of its
    weights. Where they are learned, they are parameters like others; where they are
    observed, a part of a `State`.

    Args:
        function: of weights, and other arguments.
        recipe: the name of one.
        learned: whether there are steps of weights.
        rate: what a call counts in the moving average.
    """

    function: Callable[..., Any]
    recipe: str
    learned: bool = False
    rate: float = _MOVING

    def __call__(
        self, ranges: Ranges, params: PyTree, *args: object, **kwargs: object
    ) -> Any:
        """Return the function's result, fake-quantised with these ranges."""

        def known(
            name: str, form: LayerForm, kind: LayerPrecision, weight: Array, x: Array
        ) -> Mapping[str, Any]:
            return self._ranges_of_layer(ranges, name, kind)

        return self._call_rounded(known, params, args, kwargs)[1]

    def observe(
        self, ranges: Ranges, params: PyTree, *args: object, **kwargs: object
    ) -> tuple[dict[str, Any], Any]:
        """Return the ranges updated by the inputs seen, and the function's result with
        them.

        The ends of a range move towards the least and the greatest element of the
        input (Jacob et al., "Quantization and Training of Neural Networks for
        Efficient Integer-Arithmetic-Only Inference", CVPR 2018).
        """

        def moved(
            name: str, form: LayerForm, kind: LayerPrecision, weight: Array, x: Array
        ) -> Mapping[str, Any]:
            known = dict(self._ranges_of_layer(ranges, name, kind))
            for end, seen in _input_range(kind, x).items():
                before = lift(known[end])
                step = np.multiply(np.subtract(seen, before), self.rate)
                known[end] = np.add(before, step)
            return known

        found, result = self._call_rounded(moved, params, args, kwargs)
        return {**ranges, **found}, result

    def init(self, params: PyTree, *args: object, **kwargs: object) -> dict[str, Any]:
        """Return the initial ranges of weights and inputs, by layer, from example
        arguments.

        Args:
            params: of the function.
            args: of the function, with values, such as a batch of data.
            kwargs: likewise.
        """

        def first(
            name: str, form: LayerForm, kind: LayerPrecision, weight: Array, x: Array
        ) -> Mapping[str, Any]:
            found: dict[str, Any] = _input_range(kind, x)
            if self.learned and kind.is_integer:
                found[STEPS] = weight_grid(weight.__array__(), form.summed, kind).scales
            return found

        with without_tracing():
            found, _ = self._call_rounded(first, params, args, kwargs)
            return {
                name: {k: numpy.array(lift(x).__array__()) for k, x in row.items()}
                for name, row in found.items()
            }

    def _ranges_of_layer(
        self, ranges: Ranges, name: str, precision: LayerPrecision
    ) -> Mapping[str, Any]:
        """Return a layer's ranges; refuse if one that its precision needs is
        missing.
        """
        row = ranges.get(name, {})
        needed = {LOW, HIGH} if precision.inputs == "static" else set()
        needed |= {STEPS} if self.learned else set()
        if missing := sorted(needed - {*row}):
            fail(
                "missing-range",
                f"expected the ranges of all layers; there is no {missing[0]} of "
                f"'{name}', which the function runs",
                "make them by init, with arguments that run the same layers",
            )
        return row

    def _call_rounded(
        self, range_of: _Range, params: object, args: Any, kwargs: Any
    ) -> tuple[dict[str, Any], Any]:
        """Call the function with fake-quantised layers; return the ranges used and its
        result.
        """
        rounding = _Rounding(self, range_of)
        result = rounding.layers.call(self.function, params, args, kwargs)
        return rounding.ranges, result

    @property
    def __name__(self) -> str:
        return function_name(self.function)


def _input_range(precision: LayerPrecision, x: Array) -> dict[str, Array]:
    """Return {low, high} of an input, 0 included; empty if its range is not static."""
    if precision.inputs != "static":
        return {}
    x = stop_gradient(x)
    return {LOW: np.minimum(np.min(x), 0.0), HIGH: np.maximum(np.max(x), 0.0)}


class _Rounding:
    """A hook that fake-quantises the operands of layers while a function is traced.

    Args:
        aware: what is asked for.
        range_of: the ranges of a layer.
    """

    def __init__(self, aware: QuantizationAware, range_of: _Range) -> None:
        self.ranges: dict[str, Any] = {}  # those that were used, by layer
        self.layers = LayerInterceptor(self._fake_quantized_results)
        self._aware, self._range_of = aware, range_of

    def _fake_quantized_results(self, layer: LayerOp) -> list[Array]:
        """Record a layer's ranges; return its results with operands rounded to its
        precision, if any.
        """
        form = _form(layer)
        if form is None:
            return layer.results()
        name = self.layers.name_of(layer)
        kind = trained_precision(self._aware.recipe, form.refusal, table=form.is_table)
        if kind is None:
            return layer.results()
        weight, x = layer.weight, layer.operands[0]
        row = self._range_of(name, form, kind, weight.base, x)
        if row:
            self.ranges[name] = row
        steps = None if STEPS not in row else lift(row[STEPS])
        narrow = fake_weight(weight.base, form, kind, steps)
        if weight.is_transposed:
            narrow = np.transpose(narrow, weight.order)
        found = [*layer.operands]
        found[layer.number] = narrow
        if kind.inputs == "dynamic":
            found[0] = fake_dynamic_input(x, is_padded=form.is_padded)
        elif kind.inputs == "static":
            found[0] = fake_static_input(x, lift(row[LOW]), lift(row[HIGH]))
        return layer.results(found)


def _form(layer: LayerOp) -> LayerForm | None:
    """Return the `LayerForm` of a traced layer, which decides its precisions; None if
    it cannot be quantised.
    """
    weight, attributes = layer.weight, layer.attributes
    if layer.operands[layer.number].dtype != "f32":
        return None
    order, shape = weight.order, tuple(map(int, weight.base.type.shape))
    if layer.op == TABLE:
        if len(shape) != 2 or tuple(attributes["axes"]) != (0,):
            return None
        return LayerForm(layer.op, shape, order[1:])
    is_wide = all(x.dtype == "f32" for x in layer.inputs)
    if not is_wide or attributes.get("dtype") not in _WIDE:
        return None
    if layer.op == CONVOLUTION:
        is_padded = any(attributes["padding"])
        return LayerForm(
            layer.op, shape, tuple(sorted(order[:-1])), is_padded=is_padded
        )
    summed = tuple(sorted(order[axis] for axis in attributes["rhs_contract"]))
    return LayerForm(layer.op, shape, summed, is_batched=bool(attributes["lhs_batch"]))


guard(globals(), ["quantization_aware"])
