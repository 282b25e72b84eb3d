"""Layers of a program that can be quantised: products by weights, and lookup tables.

A program is prepared first: its calls are inlined and what scales results is folded
into weights, so that a layer has the weight that a build would give it.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from aotc.core import dtypes
from aotc.dialects.functions.entries import Entry
from aotc.dialects.functions.functions import functions_of, is_entry
from aotc.dialects.functions.walking import defining_op
from aotc.dialects.graph import where_of
from aotc.dialects.ops.contraction import DotGeneral, free_axes
from aotc.dialects.ops.convolution import ConvGeneral
from aotc.dialects.ops.indexing import Gather
from aotc.dialects.ops.shape import Reshape, Transpose
from aotc.dialects.patterns.values import made_by
from aotc.dialects.types import Tensor
from aotc.mlir import Operation, Value
from aotc.passes import run_passes
from aotc.passes.base import Unit
from aotc.passes.build_time_values import BuildTimeValues
from aotc.passes.fold_parameters import SUFFIX
from aotc.programs.computed_arrays import Array, ComputedArray, StoredArray
from aotc.programs.program import Program
from aotc.quantization.forms import LayerForm
from aotc.quantization.grids import grouped_shape
from aotc.quantization.precisions import LayerPrecision

# what leaves each layer with its weight, and changes no result but by rounding
_PREPARATION = (
    *("autodiff", "inline", "simplify", "cse", "recover-ops", "sink-transposes"),
    *("simplify", "sink-reshapes"),
)
_FOLDING = ("fold-scales",)  # what lies beside layers into their weights
_CLEANING = ("simplify", "cse")
LayerOp = DotGeneral | ConvGeneral | Gather
_FOLDED = re.compile(rf"\.{SUFFIX}(_\d+)?$")


def prepare(program: Program, *, is_trained: bool = False) -> None:
    """Inline calls and fold scales into weights, in place, before layers are collected.

    Entries stand for what they were imported from no more: they are compared with the
    reference evaluator.

    Args:
        program: of the stage `graph`.
        is_trained: whether layers were trained with ranges, of the inputs and weights
            that they have as the model is written: nothing is folded into them.
    """
    folding = () if is_trained else _FOLDING
    passes = (*_PREPARATION, *folding, *_CLEANING)
    run_passes(Unit(program), passes, silently=True)
    program.networks = {}


@dataclass(frozen=True)
class Layer:
    """A product, convolution or embedding lookup whose weight can be quantised.

    The weight is what transposes are taken of, so that a table that is multiplied by as
    well is one weight. Axes are its own.

    Args:
        name: entry and weight, `predict/conv1.kernel`; with a number behind it where
            an entry multiplies by a weight several times.
        entry: that it is in.
        op: itself.
        values: what of the entry depends on weights alone.
    """

    name: str
    entry: Entry
    op: LayerOp
    values: BuildTimeValues = field(repr=False)

    @property
    def is_table(self) -> bool:
        """Return whether the layer is an embedding lookup, not a product."""
        return isinstance(self.op, Gather)

    @property
    def weight(self) -> Value:
        """IR value of the weight, before any transposes."""
        return _base_of_transposes(weight_operand(self.op))[0]

    @property
    def order(self) -> tuple[int, ...]:
        """The permutation from the stored weight's axes to those of the op's
        operand.
        """
        return _base_of_transposes(weight_operand(self.op))[1]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the stored weight."""
        return tuple(map(int, Tensor.of(self.weight).shape))

    @property
    def where(self) -> str:
        """Source location of the layer in the user's model."""
        return where_of(self.op) or self.entry.name

    @property
    def summed(self) -> tuple[int, ...]:
        """Axes of the weight that the product contracts, or that share a scale."""
        order = self.order
        if isinstance(self.op, ConvGeneral):
            return tuple(sorted(order[:-1]))
        if isinstance(self.op, Gather):  # a scale is that of a row
            return order[1:]
        return tuple(sorted(order[axis] for axis in self.op.rhs_contract))

    @property
    def kept_axes(self) -> tuple[int, ...]:
        """Axes of the weight that are neither contracted nor share a scale."""
        return tuple(free_axes(len(self.shape), (), self.summed))

    @property
    def features(self) -> tuple[int, ...]:
        """Sizes of the weight's kept axes: the last ones of the result, or a table's
        rows.
        """
        kept = [axis for axis in self.order if axis in self.kept_axes]
        return tuple(self.shape[axis] for axis in kept)

    @property
    def channels(self) -> tuple[int, int] | None:
        """The contracted axis of input and of weight; None where there is not
        just one.
        """
        if isinstance(self.op, ConvGeneral):
            rank = len(self.shape)
            return (rank - 1, self.order[-2]) if self.op.groups == 1 else None
        if isinstance(self.op, Gather) or len(self.op.rhs_contract) != 1:
            return None
        return self.op.lhs_contract[0], self.order[self.op.rhs_contract[0]]

    @property
    def channel_count(self) -> int:
        """Size of the contracted axis; 0 where there is not just one."""
        return 0 if self.channels is None else self.shape[self.channels[1]]

    @property
    def form(self) -> LayerForm:
        """The `LayerForm`: the facts that decide which precisions the layer can
        have.
        """
        op = self.op
        return LayerForm(
            type(op)._op_name,
            self.shape,
            self.summed,
            is_batched=isinstance(op, DotGeneral) and bool(op.lhs_batch),
            is_padded=isinstance(op, ConvGeneral) and any(op.padding),
        )

    def scale_count(self, precision: LayerPrecision) -> int:
        """Return how many scales the weight has in a precision; 0 if it stores
        floats.
        """
        if not precision.is_integer:
            return 0
        shape, axes = grouped_shape(self.shape, self.summed, precision)
        return math.prod(n for i, n in enumerate(shape) if i not in axes)

    def stored_weight(self, program: Program) -> StoredArray:
        """Return the array of the weight, which may be computed only when it is
        read.
        """
        arrays = {x: program.parameters[n] for x, n in self.values.weight_of.items()}
        if self.weight in arrays:
            return arrays[self.weight]
        ops = self.values.ops_of(self.values.values_below([self.weight]))
        return ComputedArray(ops, self.weight, arrays)

    def array(self, program: Program) -> Array:
        """Return the weight as an f32 array."""
        return np.asarray(self.stored_weight(program)).astype(np.float32, copy=False)

    def refusal(self, precision: LayerPrecision, program: Program) -> str | None:
        """Return why the layer cannot have a precision; None if it can.

        Args:
            precision: to have.
            program: of the layer, with the weight.
        """
        return self.form.refusal(precision) or self._overflow(precision, program)

    def _overflow(self, precision: LayerPrecision, program: Program) -> str | None:
        """Return why the weight overflows a precision's narrower float; None if it does
        not.
        """
        if not precision.dtype:
            return None
        weight = np.abs(self.array(program))
        most = weight.max(initial=0, where=np.isfinite(weight))
        with np.errstate(over="ignore"):
            fits = np.isfinite(most.astype(dtypes.to_numpy(precision.dtype)))
        if fits:
            return None
        return f"its weight has {most:.6g}, which {precision.dtype} cannot hold"


def weight_operand(op: LayerOp) -> Value:
    """Return the operand that is the weight of a layer."""
    value: Value = op.operands[0 if isinstance(op, Gather) else 1]
    return value


def _base_of_transposes(value: Value) -> tuple[Value, tuple[int, ...]]:
    """Return the value below a chain of transposes, and their combined permutation."""
    order = tuple(range(Tensor.of(value).rank))
    while (turned := made_by(value, Transpose)) is not None:
        order = tuple(turned.permutation[axis] for axis in order)
        value = turned.x
    return value, order


def divide_channels(layer: Layer, x: Array, factors: Array) -> Array:
    """Return a layer's input divided by its channel factors."""
    assert layer.channels is not None
    shape = [1] * x.ndim
    shape[layer.channels[0]] = -1
    divided: Array = x * (1 / factors).astype(np.float32).reshape(shape)
    return divided


@dataclass(frozen=True)
class LayerRefusal:
    """An op that cannot be quantised, and why.

    Args:
        op: its name, or that of an op that reads a weight.
        where: the user's line.
        why: the reason.
        bytes: of the weight.
    """

    op: str
    where: str
    why: str
    bytes: int = 0

    def __str__(self) -> str:
        return f"{self.op} at {self.where}: {self.why}"


def layers_of(program: Program) -> list[Layer]:
    """Return the layers of a prepared program, in the order of its ops."""
    found: list[Layer] = []
    counts: Counter[str] = Counter()
    for values, op in _products(program):
        if _refusal(values, op) is not None:
            continue
        source = values.source_of[weight_operand(op)]
        name = f"{values.entry.name}/{_FOLDED.sub('', source)}"
        counts[name] += 1
        number = f"#{counts[name]}" if counts[name] > 1 else ""
        found.append(Layer(name + number, values.entry, op, values))
    return found


def refusals_of(program: Program) -> list[LayerRefusal]:
    """Return refusals of the products, and other readers of weights, that cannot be
    quantised.
    """
    found, read = list[LayerRefusal](), set[str]()
    for values, op in _products(program):
        sources = [values.source_of[x] for x in op.operands if x in values.source_of]
        read.update(sources)
        if (why := _refusal(values, op)) is not None:
            size = sum(program.parameters[name].nbytes for name in sources)
            where = where_of(op) or values.entry.name
            found.append(LayerRefusal(_title(op), where, why, size))
    found += _refusals_in_bodies(program)
    for values in _entries(program):
        for value, name in values.weight_of.items():
            reader = next((use.owner for use in value.uses), None)
            if name not in read and reader is not None and Tensor.of(value).rank > 1:
                read.add(name)
                found.append(_unused_weight_refusal(values, reader, name, program))
    return found


def _unused_weight_refusal(
    values: BuildTimeValues, reader: Operation, name: str, program: Program
) -> LayerRefusal:
    """Return the refusal of a weight that no product reads."""
    where = where_of(reader) or values.entry.name
    why = f"it reads the weight '{name}', which no product multiplies by"
    return LayerRefusal(_title(reader), where, why, program.parameters[name].nbytes)


def _refusals_in_bodies(program: Program) -> Iterator[LayerRefusal]:
    """Yield a refusal for each product in the body of a loop or branch."""
    for name, function in functions_of(program.module).items():
        if is_entry(function) or function.is_external:
            continue
        for op in function.entry_block.operations:
            if isinstance(op, (DotGeneral, ConvGeneral)):
                why = (
                    "it is in the body of a loop or branch, whose weights are operands"
                )
                yield LayerRefusal(_title(op), where_of(op) or name, why)


def _entries(program: Program) -> Iterator[BuildTimeValues]:
    """Yield the `BuildTimeValues` of each entry: its values that depend on weights
    alone.
    """
    functions = functions_of(program.module)
    for entry in program.entries:
        yield BuildTimeValues(entry, functions[entry.name], {})


def _products(
    program: Program,
) -> Iterator[tuple[BuildTimeValues, LayerOp]]:
    """Yield (values of its entry, op) for each product and embedding lookup of all
    entries.
    """
    for values in _entries(program):
        for op in values.ops:
            if not isinstance(op, LayerOp):
                continue
            if isinstance(op, Gather) and op.x not in values.source_of:
                continue
            if op.results[0] not in values.number_of:
                yield values, op


def _refusal(values: BuildTimeValues, op: LayerOp) -> str | None:
    """Return why a product or lookup cannot be quantised; None if it can."""
    if _is_quantized(values, weight_operand(op)):
        return "its weight is quantised already"
    if isinstance(op, Gather):
        kind = Tensor.of(op.x)
        if kind.dtype != "f32":
            return f"it is of {kind.dtype} and not of f32"
        reads_rows = kind.rank == 2 and tuple(op.axes) == (0,)
        return None if reads_rows else "it reads other elements than whole rows"
    left, right = op.operands
    kinds = [Tensor.of(x).dtype for x in (left, right, op.results[0])]
    if any(kind in ("i8", "u8") for kind in kinds):
        return "it is a product of integers already"
    if kinds != ["f32"] * 3:
        return f"it is of {kinds[0]} and not of f32"
    if right in values.source_of:
        return None
    if left in values.source_of:
        return "its weight is the first operand; write it as the second one"
    if any(_is_state(values, x) for x in (left, right)):
        return "its weight is a State, which changes between calls"
    return "both of its operands are computed in each call"


def _is_quantized(values: BuildTimeValues, value: Value) -> bool:
    """Return whether a weight is dequantised from integers."""
    if value not in values.source_of:
        return False
    leaves = values.values_below([value]) & values.weight_of.keys()
    return not all(dtypes.is_float(Tensor.of(leaf).dtype) for leaf in leaves)


def _is_state(values: BuildTimeValues, value: Value) -> bool:
    """Return whether a value is a state's leaf, perhaps transposed or reshaped."""
    while isinstance(op := defining_op(value), Transpose | Reshape):
        value = op.x
    arguments = values.function.entry_block.arguments
    ports = zip(values.entry.arguments, arguments, strict=True)
    return any(port.kind == "state" and x == value for port, x in ports)


def _title(op: Operation) -> str:
    """Return the name of a graph op without its dialect."""
    return str(op.operation.name).removeprefix("graph.")


def layers_by_name(layers: Sequence[Layer]) -> dict[str, Layer]:
    """Return layers by their names."""
    return {layer.name: layer for layer in layers}
