"""Find the operands that GPU kernels read through views, or dequantise on the way.

A window of an image, or the image in zeros, is read where it lies: written out, windows
of three by three are nine images, and those of the gradient of a kernel were the larger
part of what a step of a network of convolutions moves.
"""

from __future__ import annotations

from collections.abc import Mapping

from aotc.dialects.functions.walking import defining_op, has_one_use
from aotc.dialects.graph import GraphOp, view_of_result
from aotc.dialects.movement.views import View
from aotc.dialects.ops.contraction import DotGeneral
from aotc.dialects.ops.convolution import ConvGeneral
from aotc.dialects.ops.padding import Pad
from aotc.dialects.ops.quantization import Dequantize
from aotc.dialects.ops.selection import Cast
from aotc.dialects.ops.shape import Reshape, Reverse, Transpose
from aotc.dialects.ops.slicing import Slice
from aotc.dialects.ops.windows import Windows
from aotc.dialects.types import Tensor
from aotc.kernels.gpu.nibbles import unpacking_ops
from aotc.mlir import Value

_AROUND = Pad, Windows  # what makes more of an image than there is
_TURNED = Reverse, Transpose  # what a kernel is for the gradient of an image
_BY_MATRICES = ("f16", "bf16")  # whose instructions take factors in any order
_ON_THE_WAY = Cast, Reshape, Transpose  # from an integer of a weight to a factor


def views_of_reshapes(op: GraphOp) -> Mapping[Value, Value]:
    """Map each operand that is a reshape to its source."""
    found = {}
    for value in op.operands:
        view = defining_op(value)
        if isinstance(view, Reshape):
            found[value] = view.x
    return found


def views_of_factors(op: GraphOp) -> Mapping[Value, Value]:
    """Map each operand of a product that its kernel reads as a view to its source.

    Those are reshapes, slices, windows, and images in zeros; of products by
    instructions for matrices, also kernels of convolutions that are turned around.
    """
    found = {}
    for number, value in enumerate(op.operands):
        known: tuple[type[GraphOp], ...] = (Reshape, Slice, *_AROUND)
        is_narrow = Tensor.of(value).dtype in _BY_MATRICES
        if number == 1 and isinstance(op, ConvGeneral) and is_narrow:
            known = (Reshape, Slice, *_TURNED)
        source = _source(op, number, known)
        if source != value:
            found[value] = source
    return found


def _source(op: GraphOp, number: int, view_ops: tuple[type[GraphOp], ...]) -> Value:
    """Return the source of an operand behind view ops, or the operand itself."""
    value: Value = op.operands[number]
    found, moves = value, list[GraphOp]()
    while isinstance(inner := defining_op(value), view_ops) and _is_cheap(inner):
        moves.append(inner)
        value = inner.operands[0]
        if _is_read_as(op, number, value, moves):
            found = value
    return found


def _is_cheap(op: GraphOp) -> bool:
    """Return whether reading through a view op is as fast as reading a copy.

    A slice is if what it is of lies there, and neighbours beside each other.
    """
    if not isinstance(op, Slice):
        return True
    value: Value = op.x
    while isinstance(view := defining_op(value), Reshape):
        value = view.x
    lies = not isinstance(view, GraphOp) or type(view).in_memory
    return lies and op.strides[-1:] == (1,)


def _is_read_as(op: GraphOp, number: int, source: Value, moves: list[GraphOp]) -> bool:
    """Return whether an op's nest can read an operand as one view through moves."""
    view: View | None = View.identity(Tensor.of(source).shape)
    for move in reversed(moves):
        view = None if view is None else view_of_result(move, view)
    if view is None:
        return False
    if view.fill is None:
        return True
    (nest,) = type(op).nests(op)
    return nest.reads[number](view) is not None


def views_of_parts(op: GraphOp) -> Mapping[Value, Value]:
    """Map each operand that is a slice, perhaps with reshapes, to its source.

    So a query, a key and a value are read that are columns of one tensor.
    """
    found = {}
    for operand in op.operands:
        value, is_part = operand, False
        while isinstance(view := defining_op(value), (Reshape, Slice, Transpose)):
            if isinstance(view, Slice):
                is_part = True
            value = view.x
        if is_part:
            found[operand] = value
    return found


def dequantizing_ops(op: GraphOp) -> list[GraphOp]:
    """Return the ops that dequantise a product's second operand, in order; or [].

    Those that unpack nibbles are among them. There are none where it is made otherwise,
    or read by others.
    """
    if not isinstance(op, DotGeneral):
        return []
    found: list[GraphOp] = []
    value: Value = op.rhs
    while has_one_use(value):
        inner = defining_op(value)
        if not isinstance(inner, (Dequantize, *_ON_THE_WAY)):
            break
        found.insert(0, inner)
        if isinstance(inner, Dequantize):
            return [*unpacking_ops(inner), *found]
        value = inner.operands[0]
    return []
