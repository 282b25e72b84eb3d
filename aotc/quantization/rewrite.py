"""Write layers of a program in other precisions.

    %y = graph.conv_general(%x, %w)   →

    %q = graph.cast(round(%x / %s) + %z) : u8       %v = %q.w : i8, a parameter
    %1 = graph.multiply(graph.cast(%q - %z), %s)    %2 = graph.multiply(%v, %scales)
    %y = graph.conv_general(%1, %2)

These are the ops that `nn.quantize` and `nn.dequantize` are made of, and those that the
import of an ONNX file with QuantizeLinear gives: what computes with the integers of one
does with those of the other (`integer-products`). Integers of weights are computed when
they are written (`ComputedArray`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from aotc.core import dtypes
from aotc.dialects.builder import Builder
from aotc.dialects.functions.functions import before, functions_of
from aotc.dialects.graph import GraphOp, has_effect
from aotc.dialects.ops.convolution import ConvGeneral
from aotc.dialects.ops.indexing import Gather
from aotc.dialects.types import Tensor
from aotc.mlir import Function, Value, ir
from aotc.passes.fold_parameters import retake_weights
from aotc.programs.computed_arrays import (
    Array,
    ComputedArray,
    StoredArray,
    is_computed_alike,
)
from aotc.programs.program import Program
from aotc.quantization.grids import InputGrid, WeightGrid, are_half
from aotc.quantization.layer_grids import Grids
from aotc.quantization.layers import Layer
from aotc.quantization.precisions import WIDE, LayerPrecision
from aotc.quantization.recipe import LayerPlan


def rewrite(
    program: Program,
    layers: Sequence[Layer],
    plans: Sequence[LayerPlan],
    rounded: Mapping[str, Array],
    grids: Grids,
) -> None:
    """Rewrite the layers of a program to their plans' precisions, in place.

    Args:
        program: prepared.
        layers: of it, all.
        plans: one for each.
        rounded: integers of weights that do not follow from the weight alone, by the
            name of the layer, in the shape of the weight's groups.
        grids: of the weights.
    """
    with program.module.context, ir.Location.unknown():
        for entry in program.entries:
            rewriting = _Rewriting(program, entry.name, grids)
            pairs = zip(layers, plans, strict=True)
            for layer, plan in pairs:
                if layer.entry.name == entry.name and plan.precision != WIDE:
                    rewriting.rewrite(layer, plan, rounded.get(layer.name))
            if rewriting.added:
                _erase_unused(functions_of(program.module)[entry.name])
                unread = retake_weights(program.module, entry, rewriting.added)
                program.drop_unread(unread)


@dataclass
class _Rewriting:
    """A rewrite of one entry's layers to their precisions; collects the weights it
    adds.

    Args:
        program: that it is of.
        name: of the entry.
        grids: of weights.
        added: the weights that it takes besides, by name.
    """

    program: Program
    name: str
    grids: Grids
    added: dict[str, Value] = field(default_factory=dict)
    _made: dict[object, Value] = field(default_factory=dict)  # read by several layers

    def rewrite(self, layer: Layer, plan: LayerPlan, rounded: Array | None) -> None:
        """Replace a layer's op by ops of its plan's precision."""
        op, b = layer.op, Builder()
        with before(op):
            weight = self._weight(b, layer, plan, rounded)
            weight = b.to_order(weight, layer.order)
            if isinstance(op, Gather):
                rows = op.rebuild(weight, *op.indices)
                result = b.cast(rows, dtype=WIDE) if plan.kind.dtype else rows
            else:
                result = self._product(b, layer, plan, weight)
            if plan.correction is not None:
                result = _add_correction(b, layer, result, plan.correction)
        op.results[0].replace_all_uses_with(result)
        op.operation.erase()

    # ---- inputs

    def _product(
        self, b: Builder, layer: Layer, plan: LayerPlan, weight: Value
    ) -> Value:
        """Emit a layer's product with a weight and an input of its precision; return
        it.
        """
        x = layer.op.operands[0]
        if plan.factors is not None:
            x = self._divide_input(b, layer, plan.factors, x)
        if plan.kind.dtype:
            return self._product_of_casts(b, layer, plan.kind.dtype, x, weight)
        product: Value = layer.op.rebuild(
            self._fake_quantize_input(b, layer, plan, x), weight
        )
        return product

    def _divide_input(
        self, b: Builder, layer: Layer, factors: Array, x: Value
    ) -> Value:
        """Emit a layer's input divided by its channel factors; return it, shared if
        equal.
        """
        key = x, factors.tobytes()
        if key not in self._made:
            assert layer.channels is not None
            inverse = (1 / factors).astype(np.float32)
            name = f"{_source(layer)}.input_scales"
            vector = self._store(name, inverse)
            shape, axes = Tensor.of(x).shape, (layer.channels[0],)
            self._made[key] = b.multiply(x, b.broadcast(vector, shape=shape, axes=axes))
        return self._made[key]

    def _fake_quantize_input(
        self, b: Builder, layer: Layer, plan: LayerPlan, x: Value
    ) -> Value:
        """Emit a layer's input quantised and dequantised; return it as floats."""
        if plan.kind.inputs == "float":
            return x
        is_padded = layer.form.is_padded
        key = x, plan.grid, is_padded
        if key not in self._made:
            if plan.grid is not None:
                made = _fake_quantize_static(b, x, plan.grid)
            elif is_padded:  # by zeros, which a zero point of each call is none of
                made = _fake_quantize_symmetric(b, x)
            else:
                made = _fake_quantize_dynamic(b, x)
            self._made[key] = made
        return self._made[key]

    def _product_of_casts(
        self, b: Builder, layer: Layer, dtype: str, x: Value, weight: Value
    ) -> Value:
        """Emit the product of operands cast to a narrower float; return it in f32."""
        key = x, dtype
        if key not in self._made:
            self._made[key] = b.cast(x, dtype=dtype)
        narrow = self._made[key]
        if isinstance(layer.op, ConvGeneral):  # whose sums are rounded once more
            return b.cast(layer.op.rebuild(narrow, weight), dtype=WIDE)
        product: Value = layer.op.rebuild(narrow, weight, dtype=WIDE)
        return product

    # ---- weights

    def _weight(
        self, b: Builder, layer: Layer, plan: LayerPlan, rounded: Array | None
    ) -> Value:
        """Return the layer's weight in its precision, emitted once for layers that
        share it.
        """
        factors = None if plan.factors is None else plan.factors.tobytes()
        given = None if rounded is None else rounded.tobytes()
        scales = None if plan.scales is None else plan.scales.tobytes()
        key = layer.weight, layer.summed, plan.kind.form, factors, given, scales
        if key not in self._made:
            self._made[key] = self._new_weight(b, layer, plan, rounded)
        return self._made[key]

    def _new_weight(
        self, b: Builder, layer: Layer, plan: LayerPlan, rounded: Array | None
    ) -> Value:
        """Emit the layer's weight cast, or quantised and dequantised, as new
        parameters.
        """
        kind, name = plan.kind, f"{_source(layer)}.{plan.kind.form}"
        value, arrays = layer.weight, self._leaves(layer)
        if plan.factors is not None:
            assert layer.channels is not None
            vector = self._store(f"{_source(layer)}.factors", plan.factors)
            arrays[vector] = plan.factors
            axes = (layer.channels[1],)
            repeated = b.broadcast(vector, shape=layer.shape, axes=axes)
            value = b.multiply(value, repeated)
        if kind.dtype:
            return self._store_computed(name, b.cast(value, dtype=kind.dtype), arrays)
        grid = self.grids.grid(self.program, layer, plan)
        scales = self._scales(b, name, grid, kind, arrays)
        if rounded is not None:
            integers = self._store(name, _pack_integers(rounded, grid, kind))
        else:
            steps = _quantize_weight(
                b, b.to_shape(value, grid.grouped), scales, grid, kind
            )
            integers = self._store_computed(name, steps, arrays)
        return _dequantize_weight(b, integers, scales, grid, kind, layer.shape)

    def _leaves(self, layer: Layer) -> dict[Value, StoredArray]:
        """Return the stored arrays of the weights that a layer's entry reads, by IR
        value.
        """
        weights = layer.values.weight_of.items()
        return {value: self.program.parameters[name] for value, name in weights}

    def _scales(
        self,
        b: Builder,
        name: str,
        grid: WeightGrid,
        precision: LayerPrecision,
        arrays: dict[Value, StoredArray],
    ) -> Value:
        """Store a weight's scales (in f16 if of groups and exact), add them to
        `arrays`, and return them in f32.
        """
        kept = tuple(n for i, n in enumerate(grid.grouped) if i not in grid.axes)
        array = grid.scales.reshape(kept)
        if not are_half(array, precision):
            value = self._store(f"{name}.scales", array)
            arrays[value] = array
            return value
        half = array.astype(np.float16)
        value = self._store(f"{name}.scales", half)
        arrays[value] = half
        return b.cast(value, dtype=WIDE)

    def _store_computed(
        self, name: str, value: Value, arrays: dict[Value, StoredArray]
    ) -> Value:
        """Store a value computed from weights as a parameter of its own; return its
        argument.
        """
        ops = _ops_computing(value, arrays)
        return self._store(name, ComputedArray(ops, value, arrays))

    def _store(self, name: str, array: StoredArray) -> Value:
        """Return an entry argument for an array: that of an equal parameter, or a new
        one.
        """
        found, program = name, self.program
        number = 0
        while found in program.parameters:
            if is_computed_alike(program.parameters[found], array):
                break
            number += 1
            found = f"{name}_{number}"
        if found not in program.parameters:
            dtype = dtypes.canonical_dtype(array.dtype)
            program.add_parameter(found, array, Tensor(array.shape, dtype), "weight")
        if found not in self.added:
            block = functions_of(program.module)[self.name].entry_block
            kind = Tensor(array.shape, dtypes.canonical_dtype(array.dtype)).to_mlir()
            self.added[found] = block.add_argument(kind, ir.Location.unknown())
        return self.added[found]


def _source(layer: Layer) -> str:
    """Return the name of the parameter that a layer's weight is computed from."""
    return layer.values.source_of[layer.weight]


def _ops_computing(value: Value, known: Mapping[Value, object]) -> list[GraphOp]:
    """Return the ops that compute a value from known ones, in topological order."""
    found: dict[GraphOp, None] = {}

    def visit(each: Value) -> None:
        if each in known:
            return
        op = each.owner.opview
        if op not in found:
            for operand in op.operands:
                visit(operand)
            found[op] = None

    visit(value)
    return [*found]


def _erase_unused(function: Function) -> None:
    """Erase ops of a function whose results have no uses."""
    for op in reversed([*function.entry_block.operations]):
        if isinstance(op, GraphOp) and not has_effect(op) and not _has_uses(op):
            op.operation.erase()


def _has_uses(op: GraphOp) -> bool:
    """Return whether a result of an op has uses."""
    return any(next(iter(value.uses), None) is not None for value in op.results)


# ---- ops ----------------------------------------------------------------------------


def _clip(b: Builder, x: Value, least: float, most: float) -> Value:
    """Emit a value clipped to two bounds."""
    return b.minimum(b.maximum(x, b.full_like(x, least)), b.full_like(x, most))


def _fake_quantize_static(b: Builder, x: Value, grid: InputGrid) -> Value:
    """Emit x quantised to u8 by a static grid and dequantised."""
    kind, zero = Tensor.of(x), grid.zero_point
    scale = b.full(kind, grid.scale)
    ratio = _clip(b, b.divide(x, scale), 0.0 - zero, 255.0 - zero)
    steps = b.round_even(ratio)
    if zero:
        steps = b.offset(steps, float(zero))
    wide = b.cast(b.cast(steps, dtype="u8"), dtype="i32")
    if zero:
        wide = b.subtract(wide, b.full_like(wide, zero))
    return b.multiply(b.cast(wide, dtype=WIDE), scale)


def _fake_quantize_dynamic(b: Builder, x: Value) -> Value:
    """Emit x quantised to u8 by its own range and dequantised.

    As DynamicQuantizeLinear of ONNX has it.
    """
    kind, axes = Tensor.of(x), tuple(range(Tensor.of(x).rank))
    nought = b.constant(value=np.array(0, np.float32))
    low = b.minimum(b.reduce_min(x, axes=axes), nought)
    high = b.maximum(b.reduce_max(x, axes=axes), nought)
    scale = _step(b, b.subtract(high, low), 255.0)
    zero = _clip(b, b.round_even(b.divide(b.subtract(nought, low), scale)), 0, 255)

    def spread(value: Value) -> Value:
        return b.broadcast(value, shape=kind.shape, axes=())

    steps = b.round_even(b.divide(x, spread(scale)))
    steps = _clip(b, b.add(steps, spread(zero)), 0, 255)
    wide = b.cast(b.cast(steps, dtype="u8"), dtype="i32")
    offset = spread(b.cast(b.cast(zero, dtype="u8"), dtype="i32"))
    whole = b.cast(b.subtract(wide, offset), dtype=WIDE)
    return b.multiply(whole, spread(scale))


def _fake_quantize_symmetric(b: Builder, x: Value) -> Value:
    """Emit x quantised symmetrically to i8 by its own range and dequantised."""
    kind, axes = Tensor.of(x), tuple(range(Tensor.of(x).rank))
    most = b.reduce_max(b.abs(x), axes=axes)
    scale = b.broadcast(_step(b, most, 127.0), shape=kind.shape, axes=())
    steps = _clip(b, b.round_even(b.divide(x, scale)), -127, 127)
    whole = b.cast(b.cast(steps, dtype="i8"), dtype=WIDE)
    return b.multiply(whole, scale)


def _step(b: Builder, span: Value, count: float) -> Value:
    """Emit `span / count`, or 1 where it is 0: the quantisation step of a range."""
    step = b.scale(span, 1 / count)
    is_none = b.compare(step, b.full_like(step, 0.0), direction="eq")
    return b.select(is_none, b.full_like(step, 1.0), step)


def _quantize_weight(
    b: Builder,
    grouped: Value,
    scales: Value,
    grid: WeightGrid,
    precision: LayerPrecision,
) -> Value:
    """Emit a weight's integers as they are stored: i8, or two of 4 bits in a u8."""
    ratio = b.divide(grouped, _spread_scales(b, scales, grid))
    steps = _clip(b, b.round_even(ratio), *map(float, precision.bounds))
    if precision.bits > 4:
        return b.cast(steps, dtype="i8")
    (axis,) = grid.axes
    shifted = b.cast(b.offset(steps, 8.0), dtype="u8")
    half = precision.group // 2
    low, high = (b.part(shifted, axis, start, half) for start in (0, half))
    return b.bitwise_or(low, b.shift_left(high, b.full_like(high, 4)))


def _pack_integers(
    integers: Array, grid: WeightGrid, precision: LayerPrecision
) -> Array:
    """Return a weight's integers as they are stored: i8, or two of 4 bits in a u8."""
    if precision.bits > 4:
        return integers.astype(np.int8)
    low, high = np.split((integers + 8).astype(np.uint8), 2, axis=grid.axes[0])
    packed: Array = low | high << 4
    return packed


def _spread_scales(b: Builder, scales: Value, grid: WeightGrid) -> Value:
    """Emit a weight's scales, broadcast to its grouped shape."""
    axes = tuple(i for i in range(len(grid.grouped)) if i not in grid.axes)
    return b.broadcast(scales, shape=grid.grouped, axes=axes)


def _dequantize_weight(
    b: Builder,
    integers: Value,
    scales: Value,
    grid: WeightGrid,
    precision: LayerPrecision,
    shape: tuple[int, ...],
) -> Value:
    """Emit the f32 weight that stored integers and scales encode."""
    if precision.bits > 4:
        steps = b.cast(integers, dtype=WIDE)
    else:
        low = b.bitwise_and(integers, b.full_like(integers, 15))
        high = b.shift_right(integers, b.full_like(integers, 4))
        nibbles = b.to_shape(b.concatenate(low, high, axis=grid.axes[0]), shape)
        wide = b.cast(nibbles, dtype="i32")
        steps = b.cast(b.subtract(wide, b.full_like(wide, 8)), dtype=WIDE)
    # of the weight's own shape, as who looks for what is dequantised expects
    return b.multiply(steps, b.to_shape(_spread_scales(b, scales, grid), shape))


def _add_correction(
    b: Builder, layer: Layer, result: Value, correction: Array
) -> Value:
    """Emit a result plus a correction for each feature."""
    kind = Tensor.of(result)
    features = layer.features
    vector = b.constant(value=correction.reshape(features))
    axes = tuple(range(kind.rank - len(features), kind.rank))
    return b.add(result, b.broadcast(vector, shape=kind.shape, axes=axes))
