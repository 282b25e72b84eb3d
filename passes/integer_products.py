"""Multiply the integers of dequantised operands, and scale the sums.

    %1 = graph.cast(graph.subtract(%q, %z))   %1 = graph.conv_general(%q, %w) : i32
    %2 = graph.multiply(%1, %s)               %2 = graph.multiply(%z, column sums of %w)
    %3 = graph.multiply(%w, %t)          →    %3 = graph.cast(graph.subtract(%1, %2))
    %4 = graph.conv_general(%2, %3)           %4 = graph.multiply(%3, %s * %t)

where %q and %w are of i8 or u8, %s and %z are one number each, and %t is one number, or
one for each feature; and so, without scales, where the integers were widened to i16 to
subtract the zero point (Jacob et al., "Quantization and Training of Neural Networks for
Efficient Integer-Arithmetic-Only Inference", CVPR 2018). What is around an image counts
as its zero point. The sums are those of integers and exact, on every target the same;
those of the dequantised numbers were rounded.

Left as they are: products whose weight has a zero point, or a scale for each of several
blocks of what is summed up; grouped convolutions; what may exceed i32.

Ensures: of each product of two dequantised operands of this form, integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from aotc.dialects.builder import Builder
from aotc.dialects.functions import before
from aotc.dialects.lowering.conversion import integer_bounds
from aotc.dialects.ops.binary import Multiply, Subtract
from aotc.dialects.ops.contraction import BYTES, DotGeneral, free_axes
from aotc.dialects.ops.convolution import ConvGeneral
from aotc.dialects.ops.selection import Cast
from aotc.dialects.ops.shape import Broadcast, Reshape, Transpose, varying_axes
from aotc.dialects.ops.slicing import Pad
from aotc.dialects.ops.windows import Windows
from aotc.dialects.patterns.values import made_by, repeated_scalar, splat_of
from aotc.dialects.types import Size, Tensor
from aotc.dialects.walking import defining_op
from aotc.dialects.weight_values import weight_values
from aotc.dtypes import is_float
from aotc.mlir import Function, Operation, Value
from aotc.passes.base import FunctionPass
from aotc.passes.properties import CALLS_INLINED

_TOGETHER = 4  # channels that instructions multiply at a time


_Move = Transpose | Reshape | Windows | Pad


class IntegerProducts(FunctionPass):
    """Multiply integers where both operands of a product are dequantised."""

    name = "integer-products"
    level = 2
    keeps_graph = True
    requires = (CALLS_INLINED,)

    def change(self, function: Function) -> bool:
        """Whether anything changed."""
        weights = weight_values(function)
        found = [_product(op, weights) for op in function.entry_block.operations]
        products = [product for product in found if product is not None]
        for product in products:
            _replace(product)
        return bool(products)


@dataclass(frozen=True)
class _Dequantized:
    """A value that is `(integers - zero) * scale`, moved in some steps.

    Args:
        integers: of i8 or u8.
        zero: what is subtracted, of their shape; None for nothing.
        scale: of their shape; None for 1, of values that are integers, too.
        moves: what follows, in order.
    """

    integers: Value
    zero: Value | None
    scale: Value | None = None
    moves: tuple[_Move, ...] = ()

    def moved(self, value: Value) -> Value:
        """Return the integers, or the scale, as the value has them."""
        for op in self.moves:
            attributes = type(op).attributes_of(op)
            if isinstance(op, Pad):
                attributes["value"] = float(self.offset or 0)
            value = type(op).build(value, **attributes)
        return value

    @property
    def kind(self) -> Tensor:
        """The type of the integers, as the value has them."""
        kind = Tensor.of(self.integers)
        last = self.moves[-1:]
        return Tensor.of(last[0].y).with_dtype(kind.dtype) if last else kind

    @property
    def offset(self) -> int | None:
        """The zero, if it is one known number."""
        number = 0.0 if self.zero is None else splat_of(_unmoved(self.zero))
        return None if number is None else int(number)

    @property
    def has_one_zero(self) -> bool:
        """Whether one number is subtracted, which is known if there is padding."""
        is_padded = any(isinstance(op, Pad) for op in self.moves)
        if self.zero is None:
            return True
        if self.offset is not None:  # the bytes of padding are to have it
            least, greatest = integer_bounds(self.kind.dtype)
            return least <= self.offset <= greatest
        return not is_padded and not _varying_axes(self.zero)

    def scaled_axes(self) -> set[int]:
        """Return the axes of the value along which the scale varies."""
        axes = set() if self.scale is None else _varying_axes(self.scale)
        for op in self.moves:
            if isinstance(op, Transpose):
                axes = {at for at, axis in enumerate(op.permutation) if axis in axes}
            elif axes:
                axes = {*range(Tensor.of(op.y).rank)}
        return axes


@dataclass(frozen=True)
class _Product:
    """A product of dequantised operands.

    Args:
        op: a product or a convolution.
        left: its first operand.
        right: its second one.
        summed: the axes of the right operand that are summed up.
    """

    op: DotGeneral | ConvGeneral
    left: _Dequantized
    right: _Dequantized
    summed: tuple[int, ...]


def _product(op: Operation, weights: set[Value]) -> _Product | None:
    """Return an op as a product of integers, if it is to be one."""
    if not isinstance(op, (DotGeneral, ConvGeneral)) or op.results[0] in weights:
        return None
    left, right = (_dequantized(value) for value in op.operands)
    if left is None or right is None or left.scaled_axes():
        return None
    dtype = Tensor.of(op.results[0]).dtype
    scales = [each.scale is not None for each in (left, right)]
    if scales != [dtype == "f32"] * 2 or dtype not in ("f32", "i32"):
        return None
    if right.offset != 0 or not left.has_one_zero:
        return None
    rank = right.kind.rank
    if isinstance(op, ConvGeneral):
        summed = tuple(range(rank - 1))
        if op.groups != 1 or min(op.padding) < 0:
            return None
        if any(op.padding) and left.offset is None:
            return None  # the number around the image is an attribute
    else:
        summed = tuple(op.rhs_contract)
        if not summed or op.lhs_batch:
            return None
    if right.scaled_axes() & {*summed} or not _fits(left, right, summed):
        return None
    is_weight = right.integers in weights
    return _Product(op, left, right, summed) if is_weight or left.offset == 0 else None


def _fits(left: _Dequantized, right: _Dequantized, summed: Sequence[int]) -> bool:
    """Whether no sum is too large for i32."""
    sizes: list[Size] = [right.kind.shape[axis] for axis in summed]
    if not all(isinstance(size, int) for size in sizes):
        return False
    least = [max(map(abs, integer_bounds(x.kind.dtype))) for x in (left, right)]
    return 2 * prod(map(int, sizes)) * prod(least) <= integer_bounds("i32")[1]


# ---- operands -----------------------------------------------------------------------


def _dequantized(value: Value) -> _Dequantized | None:
    """Return a value as dequantised integers; None if it is none."""
    op = defining_op(value)
    if isinstance(op, _Move) and not (isinstance(op, Pad) and op.value):
        found = _dequantized(op.x)
        return None if found is None else replace(found, moves=(*found.moves, op))
    if Tensor.of(value).dtype == "i16":
        integers = _integers(value)
        return None if integers is None else _Dequantized(*integers)
    scaled = made_by(value, Multiply)
    if scaled is None:
        return None
    for steps, scale in (scaled.operands, reversed(list(scaled.operands))):
        cast = made_by(steps, Cast)
        if cast is not None and Tensor.of(steps).dtype == "f32":
            integers = _integers(cast.x)
            if integers is not None:
                return _Dequantized(*integers, scale)
    return None


def _integers(value: Value) -> tuple[Value, Value | None] | None:
    """Return the bytes that a value is of, and what is subtracted from them."""
    difference = made_by(value, Subtract)
    zero = None
    if difference is not None:
        if Tensor.of(value).dtype in BYTES:
            return None  # it wraps around
        value, zero = difference.operands
        if Tensor.of(_unmoved(zero)).dtype not in BYTES and _is_beyond(zero):
            return None  # it may wrap around
    while Tensor.of(value).dtype not in BYTES:
        cast = made_by(value, Cast)
        if cast is None or Tensor.of(cast.x).dtype not in (*BYTES, "i16", "i32"):
            return None
        value = cast.x
    return value, zero


def _unmoved(value: Value) -> Value:
    """Return the integers that a value repeats, in another dtype or shape."""
    op = defining_op(value)
    while isinstance(op, (Cast, Reshape, Broadcast, Transpose)):
        if is_float(Tensor.of(op.x).dtype):
            break
        value = op.x
        op = defining_op(value)
    return value


def _is_beyond(zero: Value) -> bool:
    """Return whether a zero point may be none of a byte, given that it was no byte."""
    number = splat_of(_unmoved(zero))
    return number is None or not -(2**7) <= number < 2**8


def _varying_axes(value: Value) -> set[int]:
    """Return the axes of a value along which its elements may differ."""
    if splat_of(value) is not None:
        return set()
    repeated = made_by(value, Broadcast)
    rank = Tensor.of(value).rank
    return {*range(rank)} if repeated is None else {*varying_axes(repeated)}


# ---- what takes its place -----------------------------------------------------------


def _replace(product: _Product) -> None:
    b, op = Builder(), product.op
    with before(op):
        kind = Tensor.of(op.results[0])
        total = _sum(b, product)
        columns = _along_columns(product)
        if product.left.offset != 0:
            weight = b.cast(product.right.moved(product.right.integers), dtype="i32")
            sums = b.reduce_sum(weight, axes=product.summed)
            number = _zero_point(b, product.left)
            every = b.broadcast(number, shape=Tensor.of(sums).shape, axes=())
            excess = b.multiply(sums, every)
            repeated = b.broadcast(excess, shape=kind.shape, axes=columns)
            total = b.subtract(total, repeated)
        scale = _scale(b, product)
        if scale is not None:
            scales = b.broadcast(scale, shape=kind.shape, axes=columns)
            total = b.multiply(b.cast(total, dtype="f32"), scales)
    op.results[0].replace_all_uses_with(total)
    op.operation.erase()


def _zero_point(b: Builder, left: _Dequantized) -> Value:
    """Return the one number that is subtracted, as an i32 of rank 0."""
    if left.offset is not None or left.zero is None:
        return b.constant(value=np.array(left.offset, np.int32))
    return b.cast(_number(b, left.zero), dtype="i32")


def _along_columns(product: _Product) -> tuple[int, ...]:
    """Return the axes of the result that are those of the right operand."""
    rank, kept = Tensor.of(product.op.results[0]).rank, product.right.kind.rank
    return tuple(range(rank - kept + len(product.summed), rank))


def _sum(b: Builder, product: _Product) -> Value:
    """Return the sums of the products of the integers as they are."""
    op, left = product.op, product.left.moved(product.left.integers)
    right = product.right.moved(product.right.integers)
    if isinstance(op, DotGeneral):
        axes = {**DotGeneral.attributes_of(op), "dtype": "i32"}
        return b.dot_general(left, right, **axes)
    image, kernel = product.left.kind, product.right.kind
    is_pointwise = {*kernel.shape[:-2], *op.strides} == {1} and not any(op.padding)
    channels = image.shape[-1]
    more = 0 if is_pointwise else -int(channels) % _TOGETHER
    padding, offset = tuple(op.padding), float(product.left.offset or 0)
    around = padding if offset else (0,) * len(padding)
    if more or any(around):
        zeros = (0,) * image.rank
        low, high = (0, *around[::2], 0), (0, *around[1::2], more)
        left = b.pad(left, low=low, high=high, interior=zeros, value=offset)
    if more:
        *window, own, features = kernel.shape
        right = b.pad_to(right, (*window, own + more, features))
    attributes = ConvGeneral.attributes_of(op)
    rest = (0,) * len(padding) if offset else padding
    return b.conv_general(left, right, **{**attributes, "padding": rest})


def _scale(b: Builder, product: _Product) -> Value | None:
    """Return the product of both scales, for each column; None where there are none."""
    left, right = product.left, product.right
    if left.scale is None or right.scale is None:
        return None
    kept = free_axes(right.kind.rank, (), product.summed)
    shape = tuple(right.kind.shape[axis] for axis in kept)
    if right.scaled_axes():
        sizes = [
            1 if axis in product.summed else size
            for axis, size in enumerate(right.kind.shape)
        ]
        first = b.cut_to(right.moved(right.scale), tuple(sizes))
        columns = b.reshape(first, shape=shape)
    else:
        columns = b.broadcast(_number(b, right.scale), shape=shape, axes=())
    rows = b.broadcast(_number(b, left.scale), shape=shape, axes=())
    return b.multiply(rows, columns)


def _number(b: Builder, value: Value) -> Value:
    """Return the number that all elements of a value are, of rank 0."""
    found = repeated_scalar(b, value)
    if found is not None:
        return found
    return b.reshape(b.cut_to(value, (1,) * Tensor.of(value).rank), shape=())
