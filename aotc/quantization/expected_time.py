"""The time that a layer takes at best on a core, by the model of a processor.

It multiplies at its peak, by the best instruction for what the layer multiplies, or
reads weights and inputs from memory and writes results at the nominal bandwidth,
whichever takes longer: the roofline of Williams, Waterman and Patterson, "Roofline: an
insightful visual performance model for multicore architectures", 2009.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from aotc.dialects.sizes.symbols import known_contracts
from aotc.dialects.types import Tensor
from aotc.kernels.machine import FMA, Machine, machine_of
from aotc.kernels.typical import IMAGES, typical_size
from aotc.machine.processor import NOMINAL_GHZ
from aotc.machine.target import Target
from aotc.mlir import Value
from aotc.quantization.layers import Layer
from aotc.quantization.precisions import PRECISIONS, WIDE, LayerPrecision


def expected_times(
    layers: Sequence[Layer], precisions: Sequence[str], target: Target
) -> list[tuple[float, float]] | None:
    """Return each layer's roofline seconds in f32 and in its precision; None if
    unknown.

    They are those of a call of typical sizes; None if there is no model of a target.

    Args:
        layers: of a prepared program.
        precisions: one for each.
        target: to run them on.
    """
    machine = machine_of(target)
    if machine is None:
        return None
    wide = PRECISIONS[WIDE]
    return [
        (_seconds(layer, wide, machine), _seconds(layer, PRECISIONS[name], machine))
        for layer, name in zip(layers, precisions, strict=True)
    ]


def _seconds(layer: Layer, precision: LayerPrecision, machine: Machine) -> float:
    """Return a layer's roofline time in seconds in a precision."""
    with known_contracts(layer.entry.symbols):
        results = _elements(layer.op.results[0])
        inputs = 0 if layer.is_table else _elements(layer.op.operands[0])
    weight = precision.stored_bytes(layer.shape, layer.summed)
    if layer.is_table:  # of which as many rows are read as results have
        weight = math.ceil(weight * results / max(math.prod(layer.shape), 1))
    size = weight + 4 * (inputs + results)
    products = 0 if layer.is_table else results * layer.form.terms
    cycles = max(products / _rate(precision, machine), size / machine.memory_bytes)
    return cycles / (NOMINAL_GHZ * 1e9)


def _rate(precision: LayerPrecision, machine: Machine) -> float:
    """Return the multiply-adds per cycle at a precision's peak."""
    if precision.inputs != "float":
        pairs = [("u8", "i8"), ("i8", "i8")]
    else:
        pairs = [(precision.dtype or WIDE, precision.dtype or WIDE)]
    known = [mma for pair in pairs for mma in machine.multipliers_of(*pair)] or [FMA]
    terms = max(mma.terms / mma.operations for mma in known)
    return machine.lanes * machine.multiply_adds * terms


def _elements(value: Value) -> int:
    """Return the number of elements of a value, with typical sizes for symbols."""
    return math.prod(typical_size(size, IMAGES) for size in Tensor.of(value).shape)
