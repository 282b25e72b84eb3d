"""Layers computed in their precisions, in NumPy, to measure the loss of one alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from aotc.core import dtypes
from aotc.dialects.graph import evaluate
from aotc.programs.computed_arrays import Array
from aotc.programs.program import Program
from aotc.quantization.grids import InputGrid, fake_input, fake_weight
from aotc.quantization.layer_grids import Grids, scaled_weight
from aotc.quantization.layers import Layer, divide_channels
from aotc.quantization.recipe import LayerPlan


@dataclass(frozen=True)
class FakeLayer:
    """A fake-quantised layer, computed in NumPy: its weight is quantised and
    dequantised.

    Args:
        layer: of the program as it was.
        plan: of it.
        weight: dequantised, and multiplied by its factors.
    """

    layer: Layer
    plan: LayerPlan
    weight: Array

    @classmethod
    def of(
        cls,
        program: Program,
        layer: Layer,
        plan: LayerPlan,
        grids: Grids,
        integers: Array | None = None,
    ) -> FakeLayer:
        """Return a layer with its weight fake-quantised by a plan.

        Args:
            program: prepared.
            layer: of it.
            plan: of the layer.
            grids: of weights.
            integers: of the weight, if they are not the nearest.
        """
        kind = plan.kind
        if kind.dtype:
            return cls(layer, plan, _cast(layer.array(program), kind.dtype))
        if not kind.is_integer:
            return cls(layer, plan, layer.array(program))
        weight = scaled_weight(program, layer, plan)
        grid = grids.grid(program, layer, plan)
        if integers is None:
            return cls(layer, plan, fake_weight(weight, grid, kind))
        steps = (integers * grid.scales).reshape(weight.shape)
        return cls(layer, plan, steps.astype(np.float32))

    def input(self, x: Array) -> Array:
        """Return an input fake-quantised to the layer's precision."""
        kind, plan = self.plan.kind, self.plan
        if plan.factors is not None:
            x = divide_channels(self.layer, x, plan.factors)
        if kind.dtype:
            return _cast(x, kind.dtype)
        if plan.grid is not None:
            return fake_input(x, plan.grid)
        if kind.inputs == "dynamic":
            low, high = float(x.min(initial=0)), float(x.max(initial=0))
            return fake_input(x, InputGrid.of(low, high))
        return x

    def result(self, operands: Sequence[Array]) -> Array:
        """Return the layer's result on its operands, of which the weight is
        replaced.
        """
        weight = self.weight.transpose(self.layer.order)
        if self.layer.is_table:
            given = [weight, *operands[1:]]
        else:
            given = [self.input(np.asarray(operands[0])), weight]
        (result,) = evaluate(self.layer.op, given, [])
        if self.plan.correction is None:
            return result
        by = self.plan.correction.reshape(self.layer.features)
        corrected: Array = result + by
        return corrected


def _cast(x: Array, dtype: str) -> Array:
    """Return an array rounded to a narrower float dtype, as f32."""
    return x.astype(dtypes.to_numpy(dtype)).astype(np.float32)
