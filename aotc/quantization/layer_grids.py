"""The grids of the weights of layers, each of which is searched for once."""

from __future__ import annotations

from dataclasses import dataclass, field

from aotc.programs.computed_arrays import Array
from aotc.programs.program import Program
from aotc.quantization.grids import WeightGrid, given_grid, weight_grid
from aotc.quantization.layers import Layer
from aotc.quantization.recipe import LayerPlan


@dataclass
class Grids:
    """A cache of the weight grids of a program's layers, shared with its copies."""

    _known: dict[object, WeightGrid] = field(default_factory=dict)

    def grid(self, program: Program, layer: Layer, plan: LayerPlan) -> WeightGrid:
        """Return the weight grid of a layer by its plan; one that is searched for is
        cached.
        """
        if plan.scales is not None:
            return given_grid(plan.scales, layer.shape, layer.summed, plan.kind)
        factors = None if plan.factors is None else plan.factors.tobytes()
        key = layer.name, plan.precision, factors
        if key not in self._known:
            weight = scaled_weight(program, layer, plan)
            self._known[key] = weight_grid(weight, layer.summed, plan.kind)
        return self._known[key]


def scaled_weight(program: Program, layer: Layer, plan: LayerPlan) -> Array:
    """Return a layer's weight, multiplied by its plan's channel factors."""
    weight = layer.array(program)
    if plan.factors is None:
        return weight
    assert layer.channels is not None
    shape = [1] * weight.ndim
    shape[layer.channels[1]] = -1
    scaled: Array = weight * plan.factors.reshape(shape)
    return scaled
