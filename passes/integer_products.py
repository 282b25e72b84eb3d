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

A zero point of a weight takes the sums of rows, too. Where no operand is a weight, the
zero points are subtracted before, and i16 are multiplied. Convolutions of groups of few
channels multiply whole numbers in f32, whose sums are as exact; those of one group if
windows are not transformed, as relaxed numerics allow.

Left as they are: convolutions of more than 255 terms whose weight has a zero point or
few channels in each of some groups, products with a scale for each of several blocks of
what is summed up; what may exceed i32.

Ensures: of each product of two dequantised operands of this form, integers.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from math import prod

import numpy as np

from aotc.core.numerics import STRICT
from aotc.dialects.builder import Builder
from aotc.dialects.functions.functions import before
from aotc.dialects.lowering.conversion import integer_bounds
from aotc.dialects.ops.contraction import DotGeneral, free_axes
from aotc.dialects.ops.convolution import ConvGeneral
from aotc.dialects.patterns.values import repeated_scalar
from aotc.dialects.types import Size, Tensor
from aotc.dialects.weight_values import weight_values
from aotc.kernels.planning.depthwise import MOST_OF_BYTES
from aotc.mlir import Function, Operation, Value
from aotc.passes.base import FunctionPass
from aotc.passes.dequantized import Dequantized, as_dequantized
from aotc.passes.properties import CALLS_INLINED
from aotc.programs.program import numerics_of

_TOGETHER = 4  # channels that instructions multiply at a time
_WIDE = 16  # channels and features of a group that fill vectors by themselves
_HALF = 128  # what u8 have more than i8


class IntegerProducts(FunctionPass):
    """Compute matrix products and convolutions of dequantised operands in integers."""

    name = "integer-products"
    level = 2
    keeps_graph = True
    requires = (CALLS_INLINED,)

    def change(self, function: Function) -> bool:
        """Rewrite the matching products and convolutions of a function; return whether
        there were any.
        """
        weights = weight_values(function)
        found = [_product(op, weights) for op in function.entry_block.operations]
        products = [product for product in found if product is not None]
        for product in products:
            _replace(product)
        return bool(products)


class _How(Enum):
    """The operand representation of a rewritten matrix product or convolution.

    INTEGERS: the bytes as they are; sums of columns by the left operand's zero point
        are subtracted.
    SHIFTED: the same, of a weight as i8; sums of rows by its zero point are subtracted.
    DIFFERENCES: bytes less their zero points, as i16.
    FLOATS: the same as f32, of convolutions with so few terms that their sums are whole
        numbers below 2**24, which f32 has: those of narrow groups.
    """

    INTEGERS = auto()
    SHIFTED = auto()
    DIFFERENCES = auto()
    FLOATS = auto()


@dataclass(frozen=True)
class _DequantizedProduct:
    """A product or convolution whose operands are both dequantised integers.

    Args:
        op: a product or a convolution.
        left: its first operand.
        right: its second one.
        summed: the axes of the right operand that are summed up.
        how: what is multiplied.
    """

    op: DotGeneral | ConvGeneral
    left: Dequantized
    right: Dequantized
    summed: tuple[int, ...]
    how: _How

    @property
    def columns(self) -> list[int]:
        """The right operand's free axes, which become the last axes of the result."""
        batch = self.op.rhs_batch if isinstance(self.op, DotGeneral) else ()
        return free_axes(self.right.kind.rank, batch, self.summed)

    @property
    def column_axes(self) -> tuple[int, ...]:
        """The axes of the result that are columns: the last ones."""
        rank = Tensor.of(self.op.results[0]).rank
        return tuple(range(rank - len(self.columns), rank))

    def is_along_columns(self, value: Value | None) -> bool:
        """Return whether a scale or zero of the right operand varies along column axes
        only.
        """
        return self.right.varying_axes(value) <= {*self.columns}


def _product(op: Operation, weights: set[Value]) -> _DequantizedProduct | None:
    """Match an op as a matrix product or convolution to compute in integers; else
    None.
    """
    if not isinstance(op, (DotGeneral, ConvGeneral)) or op.results[0] in weights:
        return None
    left, right = (as_dequantized(value) for value in op.operands)
    if left is None or right is None or left.varying_axes(left.scale):
        return None
    dtype = Tensor.of(op.results[0]).dtype
    scales = [each.scale is not None for each in (left, right)]
    if scales != [dtype == "f32"] * 2 or dtype not in ("f32", "i32"):
        return None
    if isinstance(op, ConvGeneral):
        summed = tuple(range(right.kind.rank - 1))
    else:
        summed = tuple(op.rhs_contract)
    for how in _How:
        found = _DequantizedProduct(op, left, right, summed, how)
        if _is_possible(found, is_weight=right.integers in weights):
            return found
    return None


def _is_possible(product: _DequantizedProduct, *, is_weight: bool) -> bool:
    """Return whether a product can be computed exactly in its form (`how`)."""
    left, right, how = product.left, product.right, product.how
    if not product.is_along_columns(right.scale) or not _fits(product):
        return False
    if not (left.has_own_zero and right.has_own_zero):
        return False  # differences may be 256 and more
    if how in (_How.DIFFERENCES, _How.FLOATS):
        return _takes_differences(product, is_weight=is_weight)
    if any(each.is_padded and each.offset is None for each in (left, right)):
        return False  # bytes of padding are to have the zero point
    if not _is_simple(product.op, left):
        return False
    has_batch = isinstance(product.op, DotGeneral) and bool(product.op.lhs_batch)
    is_summed = is_weight and not has_batch  # by columns, when the model is built
    if not left.has_one_zero or not (is_summed or left.offset == 0):
        return False
    if how is _How.INTEGERS:
        return right.offset == 0
    is_product = isinstance(product.op, DotGeneral)
    return is_product and is_summed and product.is_along_columns(right.zero)


def _takes_differences(product: _DequantizedProduct, *, is_weight: bool) -> bool:
    """Return whether a form that multiplies `integers - zero` is possible for a
    product.
    """
    op = product.op
    if isinstance(op, ConvGeneral):
        # of several groups, or as they are: transformed windows round
        is_direct = op.groups > 1 or numerics_of(op) == STRICT
        is_exact = is_direct and _count(product) * 2**16 < 2**24
        return product.how is _How.FLOATS and is_exact
    # those that have no scale may be such differences
    is_first = product.left.scale is not None
    is_asked = product.how is _How.DIFFERENCES and bool(product.summed)
    return is_asked and is_first and not is_weight


def _is_simple(op: DotGeneral | ConvGeneral, left: Dequantized) -> bool:
    """Return whether an op is a matrix product, or a convolution, that integer kernels
    support.
    """
    if isinstance(op, DotGeneral):
        return bool(op.rhs_contract)
    has_kernel = op.groups == 1 or _is_depthwise(op) or _has_wide_groups(op)
    if min(op.padding) < 0 or not has_kernel:
        return False
    # the number around the image is an attribute
    return not any(op.padding) or left.offset is not None


def _is_depthwise(op: ConvGeneral) -> bool:
    """Return whether an op is a depthwise convolution that has a kernel on bytes."""
    image, kernel = Tensor.of(op.x), Tensor.of(op.kernel)
    *window, own, features = kernel.shape
    is_alone = own == 1 and op.groups == features == image.shape[-1]
    is_static = all(isinstance(size, int) for size in window)
    is_short = is_static and prod(map(int, window)) <= MOST_OF_BYTES
    return is_alone and is_short and image.rank in (3, 4)


def _has_wide_groups(op: ConvGeneral) -> bool:
    """Return whether each group of a convolution is wide enough for byte kernels."""
    *_, own, features = Tensor.of(op.kernel).shape
    if not (isinstance(own, int) and isinstance(features, int)) or own % _TOGETHER:
        return False
    return own >= _WIDE and features >= _WIDE * op.groups


def _fits(product: _DequantizedProduct) -> bool:
    """Return whether sums of products of differences below 256 cannot overflow i32."""
    sizes: list[Size] = [product.right.kind.shape[axis] for axis in product.summed]
    is_static = all(isinstance(size, int) for size in sizes)
    return is_static and 2**16 * _count(product) <= integer_bounds("i32")[1]


def _count(product: _DequantizedProduct) -> int:
    """Return how many terms each sum of a product adds up."""
    return prod(int(product.right.kind.shape[axis]) for axis in product.summed)


# ---- what takes its place -----------------------------------------------------------


def _replace(product: _DequantizedProduct) -> None:
    """Replace a dequantised product by an integer product whose sums are scaled."""
    b, op = Builder(), product.op
    with before(op):
        kind = Tensor.of(op.results[0])
        total = _differences(b, product) or _sum(b, product)
        scale = _scale(b, product)
        if scale is not None:
            scales = b.broadcast(scale, shape=kind.shape, axes=product.column_axes)
            total = b.multiply(b.cast(total, dtype="f32"), scales)
        total = b.cast(total, dtype=kind.dtype)
    op.results[0].replace_all_uses_with(total)
    op.operation.erase()


def _differences(b: Builder, product: _DequantizedProduct) -> Value | None:
    """Emit the product of `integers - zero`; None where the plain bytes are
    multiplied.
    """
    op, left, right = product.op, product.left, product.right
    if product.how is _How.DIFFERENCES:
        axes = {**DotGeneral.attributes_of(op), "dtype": "i32"}
        wide = left.difference(b, "i16"), right.difference(b, "i16")
        return b.dot_general(*wide, **axes)
    if product.how is _How.FLOATS:
        whole = left.difference(b, "f32"), right.difference(b, "f32")
        return b.conv_general(*whole, **ConvGeneral.attributes_of(op))
    return None


def _sum(b: Builder, product: _DequantizedProduct) -> Value:
    """Emit the product of plain bytes, and corrections for both zero points; return the
    sums.
    """
    kind = Tensor.of(product.op.results[0])
    left = product.left.moved(product.left.integers)
    right, zero = _weight(b, product)
    total = _sum_of_bytes(b, product, left, right)
    if zero is not None:
        rows = _row_sums(b, product, left)
        leading = range(kind.rank - len(product.columns))
        rows = b.broadcast(rows, shape=kind.shape, axes=(*leading,))
        zeros = b.broadcast(zero, shape=kind.shape, axes=product.column_axes)
        total = b.subtract(total, b.multiply(rows, zeros))
    if product.left.offset != 0:
        sums = b.reduce_sum(b.cast(right, dtype="i32"), axes=product.summed)
        if zero is not None:
            count = b.full_like(sums, _count(product))
            sums = b.subtract(sums, b.multiply(zero, count))
        number = _zero_point(b, product.left)
        every = b.broadcast(number, shape=Tensor.of(sums).shape, axes=())
        excess = b.multiply(sums, every)
        repeated = b.broadcast(excess, shape=kind.shape, axes=product.column_axes)
        total = b.subtract(total, repeated)
    return total


def _weight(b: Builder, product: _DequantizedProduct) -> tuple[Value, Value | None]:
    """Emit the right operand's bytes, and the zero point of each column (None for
    zero).

    Those of u8 that have zero points become i8, by which instructions multiply u8.
    """
    right = product.right
    integers = right.moved(right.integers)
    if product.how is _How.INTEGERS or right.zero is None:
        return integers, None
    zero = b.cast(_along_columns(b, product, right.zero), dtype="i32")
    if Tensor.of(integers).dtype == "u8":
        wide = b.cast(integers, dtype="i16")
        integers = b.cast(b.subtract(wide, b.full_like(wide, _HALF)), dtype="i8")
        zero = b.subtract(zero, b.full_like(zero, _HALF))
        if right.offset == _HALF:
            return integers, None
    return integers, zero


def _row_sums(b: Builder, product: _DequantizedProduct, left: Value) -> Value:
    """Emit the sum of each row of the left operand's bytes, as i32.

    Below 2**24, sums of f32 are exact in any order.
    """
    assert isinstance(product.op, DotGeneral)
    axes = product.op.lhs_contract
    return b.cast(b.reduce_sum(b.cast(left, dtype="f32"), axes=axes), dtype="i32")


def _zero_point(b: Builder, left: Dequantized) -> Value:
    """Emit the left operand's single zero point as an i32 of rank 0."""
    if left.offset is not None or left.zero is None:
        return b.constant(value=np.array(left.offset, np.int32))
    return b.cast(_number(b, left.zero), dtype="i32")


def _sum_of_bytes(
    b: Builder, product: _DequantizedProduct, left: Value, right: Value
) -> Value:
    """Emit the integer product or convolution of the bytes without zero points."""
    op = product.op
    if isinstance(op, DotGeneral):
        axes = {**DotGeneral.attributes_of(op), "dtype": "i32"}
        return b.dot_general(left, right, **axes)
    image, kernel = product.left.kind, product.right.kind
    is_pointwise = {*kernel.shape[:-2], *op.strides} == {1} and not any(op.padding)
    channels = image.shape[-1]
    is_alone = is_pointwise or op.groups > 1
    more = 0 if is_alone else -int(channels) % _TOGETHER
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


def _scale(b: Builder, product: _DequantizedProduct) -> Value | None:
    """Emit the product of both scales, one for each column; None where there are no
    scales.
    """
    left, right = product.left, product.right
    if left.scale is None or right.scale is None:
        return None
    columns = _along_columns(b, product, right.scale)
    shape = Tensor.of(columns).shape
    rows = b.broadcast(_number(b, left.scale), shape=shape, axes=())
    return b.multiply(rows, columns)


def _along_columns(b: Builder, product: _DequantizedProduct, value: Value) -> Value:
    """Emit a scale or zero of the right operand as one number for each column."""
    right, columns = product.right, product.columns
    shape = tuple(right.kind.shape[axis] for axis in columns)
    if not right.varying_axes(value):
        return b.broadcast(_number(b, value), shape=shape, axes=())
    sizes = [
        size if axis in columns else 1 for axis, size in enumerate(right.kind.shape)
    ]
    return b.reshape(b.cut_to(right.moved(value), tuple(sizes)), shape=shape)


def _number(b: Builder, value: Value) -> Value:
    """Emit the number that all elements of a value equal, as a tensor of rank 0."""
    found = repeated_scalar(b, value)
    if found is not None:
        return found
    return b.reshape(b.cut_to(value, (1,) * Tensor.of(value).rank), shape=())
