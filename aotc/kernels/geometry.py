"""Geometry of one kernel as windows over images: every op is a convolution.

A product of matrices (M, K) times (K, N) is the convolution of M images of one pixel
and K channels; so is one of 1×1 windows and steps of one over all pixels of a batch.
Pooling is a depthwise convolution that adds up, or compares, without weights.

How many images there are may be a size that only a call decides, and of products also
how many terms their sums have, and how many products there are. All else is static.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from aotc.core.dtypes import to_numpy
from aotc.dialects.graph import GraphOp, remembered_by_signature
from aotc.dialects.ops.contraction import DotGeneral, free_axes
from aotc.dialects.ops.convolution import ConvGeneral
from aotc.dialects.ops.pooling import Pool
from aotc.dialects.ops.windows import Windows
from aotc.dialects.plain import attribute_of, plain_of
from aotc.dialects.sizes.contracts import Contract
from aotc.dialects.sizes.symbols import current_contracts
from aotc.dialects.types import (
    Shape,
    Size,
    SymbolicDim,
    Tensor,
    bounds,
    element_count,
)
from aotc.kernels.layout import OperandLayout, layout_through, windows_of_left
from aotc.kernels.typical import IMAGES, PRODUCT_ROWS, PRODUCT_TERMS, typical_size

WITHIN = "graph.within"  # an attribute of a product, see `attach_bound`
_FEW_ROWS = 32  # of a product of which calls decide how many
_FLOATS = {"f32", "bf16", "f16"}
_INTEGERS = {("i8", "i32"), ("u8", "i32"), ("i16", "i32")}


@dataclass(frozen=True)
class ConvolutionGeometry:
    """The sizes of a product, convolution or pooling, all as a convolution in NHWC.

    Args:
        images: N; the pixels of a product.
        size: of an image.
        channels: C; typical ones where a call decides how many terms a sum has.
        window: of the kernel.
        features: N of a product.
        result: size of a result.
        strides: steps between windows.
        padding: zeros before the first line, and the first position.
        dilation: distance between the elements of a window.
        groups: of channels and features; those of one group see each other only.
        layout: of the operands of products; None if they lie as images do, and the
            kernel by window, channels and features.
        dtype: of the left operand.
        right_dtype: of the right one.
        within: the greatest absolute value of integers of the right operand, if that is
            known; else 0.
    """

    images: Size
    size: tuple[int, int]
    channels: int
    window: tuple[int, int]
    features: int
    result: tuple[int, int]
    strides: tuple[int, int] = (1, 1)
    padding: tuple[int, int] = (0, 0)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1
    layout: OperandLayout | None = None
    dtype: str = "f32"
    right_dtype: str = "f32"
    within: int = 0

    @property
    def bytes(self) -> int:
        """The bytes of an element, equal in both operands."""
        return int(to_numpy(self.dtype).itemsize)

    @property
    def is_narrow(self) -> bool:
        """Return whether the left operand's elements are narrower than f32."""
        return self.dtype != "f32"

    @property
    def is_float(self) -> bool:
        """Return whether the left operand's elements are floats."""
        return self.dtype in _FLOATS

    def has_runs_of(self, terms: int) -> bool:
        """Return whether left terms (K) are contiguous by groups of `terms`.

        So it is where all terms are contiguous, or those of each window position, or of
        the innermost loop, are a multiple of `terms`.
        """
        if terms == 1:
            return True
        if self.left_steps[1] != 1:
            return False
        if self.layout is None:
            is_pixel = self.window == (1, 1) and self.groups == 1
            return is_pixel or self.group_channels % terms == 0
        *outer, last = self.layout.sums
        return not outer or (isinstance(last.size, int) and last.size % terms == 0)

    def interleaves_runs_of(self, terms: int) -> bool:
        """Return whether a kernel can interleave a row's terms, `terms` at a time.

        Kernels interleave terms as they copy rows of floats that lie side by side,
        where all terms have one stride, or those of the innermost loop are a multiple
        of `terms`.
        """
        if self.layout is None or not self.is_float or self.left_steps[0] != 1:
            return False
        *outer, last = self.layout.sums
        return not outer or (isinstance(last.size, int) and last.size % terms == 0)

    def ends_with(self, terms: int) -> bool:
        """Return whether contiguous runs of terms are a multiple of `terms` long."""
        if self.layout is None:
            return self.group_channels % terms == 0
        size = self.layout.sums[-1].size
        return isinstance(size, int) and size % terms == 0

    @property
    def depth(self) -> int:
        """The number of products that each sum adds up (K)."""
        return math.prod(self.window) * self.channels // self.groups

    @property
    def group_channels(self) -> int:
        """The number of input channels of a group."""
        return self.channels // self.groups

    @property
    def group_features(self) -> int:
        """The number of output features of a group."""
        return self.features // self.groups

    def groups_together(self, lanes: int) -> int:
        """Return how many convolution groups fit in a vector of `lanes`."""
        if self.groups == 1:
            return 1
        return max(1, lanes // max(self.group_channels, self.group_features))

    @property
    def lines(self) -> Size:
        """The number of lines (image rows) of all results together."""
        return self.images * self.result[0]

    @property
    def rows(self) -> Size:
        """The number of pixels of all results together (M of a product)."""
        return self.lines * self.result[1]

    @property
    def is_product(self) -> bool:
        """Return whether the op is a product of matrices."""
        is_pixel = self.size == self.result == self.window == (1, 1)
        return is_pixel and self.padding == (0, 0) and self.groups == 1

    @property
    def products(self) -> Size:
        """The number of products in the batch, each of operands of its own."""
        return 1 if self.layout is None else self.layout.products

    @property
    def left_steps(self) -> tuple[int, int]:
        """The left operand's strides, in elements: between rows and between terms.

        Images of one pixel lie side by side, whatever the steps of their windows.
        """
        if self.layout is None:
            step = 1 if self.is_product else self.strides[1]
            return step * self.channels, 1
        return self.layout.row, self.layout.depth

    @property
    def right_step(self) -> int | None:
        """The stride between rows of the right operand; None if it must be packed."""
        return self.features if self.layout is None else self.layout.right

    @property
    def flops(self) -> Size:
        """Operations on floats: a multiplication and an addition for each term."""
        return 2 * self.products * self.rows * self.depth * self.features

    def with_sizes(self, number_of: Callable[[Size], int]) -> ConvolutionGeometry:
        """Return the geometry with symbolic sizes replaced by those of one call."""
        images = number_of(self.images)
        if self.layout is None:
            return replace(self, images=images)
        layout = self.layout.with_sizes(number_of)
        return replace(
            self, images=images, channels=number_of(layout.terms), layout=layout
        )

    @property
    def typical(self) -> ConvolutionGeometry:
        """The geometry with static typical sizes, for which schedules are chosen.

        Where calls decide how many images there are, it has as many as most calls, and
        where that is not known, as few as they may have: a schedule that leaves nothing
        over for one is as good for many. Where that is few rows of a product, it has
        more: smaller tiles, which a call of few rows needs, are there besides.
        """
        return _typical(self, current_contracts())


@lru_cache(maxsize=1024)  # a program has few shapes, and many products of each
def _typical(
    geometry: ConvolutionGeometry, _: tuple[Contract, ...]
) -> ConvolutionGeometry:
    """Return the geometry with typical static sizes (`typical`), cached."""
    images = typical_size(geometry.images, IMAGES)
    if geometry.is_product and bounds(geometry.images)[0] < _FEW_ROWS:
        images = typical_size(geometry.images, PRODUCT_ROWS)
    few = geometry.with_sizes(lambda size: typical_size(size, 1))
    return replace(few, images=images, channels=geometry.channels)


def geometry_of(op: GraphOp) -> ConvolutionGeometry | None:
    """Return the geometry of a product, convolution or pooling; None without a kernel.

    The elements are f32, bf16 or f16, and sums f32; or i8, u8 or i16, and sums i32.
    Sizes are static, but for how many images there are, and of products the rows, the
    terms of a sum and the batch.
    """
    windows = windows_of_left(op) if isinstance(op, DotGeneral) else None
    found, within = _geometry_of(op, windows), bound_of(op)
    return replace(found, within=within) if found and within else found


@remembered_by_signature
def _geometry_of(op: GraphOp, windows: Windows | None) -> ConvolutionGeometry | None:
    """Return an op's geometry without bounds of elements, cached by signature."""
    types = [Tensor.of(value) for value in (*op.operands, *op.results)]
    dtypes = {x.dtype for x in types}
    if any(0 in x.shape for x in types):
        return None
    if not dtypes <= _FLOATS and (types[0].dtype, types[-1].dtype) not in _INTEGERS:
        return None
    if isinstance(op, DotGeneral):
        found = _of_product(op, windows)
    elif isinstance(op, ConvGeneral):
        found = _of_convolution(op)
    else:
        found = _of_pooling(op) if isinstance(op, Pool) else None
    if found is None:
        return None
    kinds = types[0].dtype, types[-2].dtype
    return replace(found, dtype=kinds[0], right_dtype=kinds[1])


def bound_of(op: GraphOp) -> int:
    """Return the stated bound on the right operand's integers; 0 if none is stated."""
    stated = op.operation.attributes
    return int(plain_of(stated[WITHIN])) if WITHIN in stated else 0


def attach_bound(op: GraphOp, bound: int) -> None:
    """Set the attribute that bounds the right operand's integers by absolute value."""
    op.operation.attributes[WITHIN] = attribute_of(bound)


def known_geometry(op: GraphOp) -> ConvolutionGeometry:
    """Return the geometry of an op, asserting that it has one; see `geometry_of`."""
    found = geometry_of(op)
    assert found is not None
    return found


def geometry_by_lines(op: ConvGeneral) -> ConvolutionGeometry | None:
    """Return a convolution's geometry as windows over images, even if they are 1×1.

    To `geometry_of` such a convolution is a product, which knows no lines of images.
    """
    known = geometry_of(op)
    if known is None or Tensor.of(op.x).rank not in (3, 4):
        return None
    found = _of_windows(op, Tensor.of(op.kernel).shape[:-2], op.groups)
    if found is None:
        return None
    dtypes = known.dtype, known.right_dtype
    return replace(found, dtype=dtypes[0], right_dtype=dtypes[1], within=known.within)


def product(
    rows: Size, depth: Size, features: Size, layout: OperandLayout | None = None
) -> ConvolutionGeometry | None:
    """Return the geometry of a matrix product; None for symbolic depth or features."""
    if isinstance(depth, SymbolicDim) or isinstance(features, SymbolicDim):
        return None
    one = (1, 1)
    return ConvolutionGeometry(rows, one, depth, one, features, one, layout=layout)


def _of_product(op: DotGeneral, windows: Windows | None) -> ConvolutionGeometry | None:
    """Return the geometry of a product; None if a kernel cannot read its layout."""
    layout = layout_through(windows, op) if op.lhs_contract else None
    if layout is None:
        return None
    rhs = Tensor.of(op.rhs)
    features = _count(rhs, free_axes(rhs.rank, op.rhs_batch, op.rhs_contract))
    depth = typical_size(layout.terms, PRODUCT_TERMS)
    return product(layout.rows, depth, features, layout)


def _of_convolution(op: ConvGeneral) -> ConvolutionGeometry | None:
    """Return the geometry of a convolution; a pointwise one becomes a product."""
    x, kernel = Tensor.of(op.x), Tensor.of(op.kernel)
    if x.rank not in (3, 4) or min(op.padding) < 0:
        return None
    window, channels = kernel.shape[:-2], x.shape[-1]
    is_pointwise = {*window, *op.strides} == {1} and not any(op.padding)
    if is_pointwise and op.groups == 1:
        return product(_count(x, range(x.rank - 1)), channels, kernel.shape[-1])
    return _of_windows(op, window, op.groups)


def _of_pooling(op: Pool) -> ConvolutionGeometry | None:
    """Return the geometry of a pooling as a depthwise convolution."""
    x = Tensor.of(op.x)
    if x.rank not in (3, 4) or min(op.padding) < 0:
        return None
    return _of_windows(op, op.window, x.shape[-1])


def _of_windows(
    op: ConvGeneral | Pool, window: Shape, groups: Size
) -> ConvolutionGeometry | None:
    """Return the geometry of windows over images; None unless sizes are static."""
    x, y = Tensor.of(op.x).shape, Tensor.of(op.y).shape
    if any(isinstance(size, SymbolicDim) for size in (*x[1:], *y[1:], *window, groups)):
        return None
    static: Any = {"channels": x[-1], "features": y[-1], "groups": groups}
    return ConvolutionGeometry(
        images=x[0],
        size=_pair(x[1:-1], 1),
        window=_pair(window, 1),
        result=_pair(y[1:-1], 1),
        strides=_pair(op.strides, 1),
        padding=_pair(op.padding[::2], 0),
        dilation=_pair(op.dilation, 1),
        **static,
    )


def _pair(sizes: Sequence[Any], missing: int) -> tuple[int, int]:
    """Return spatial sizes as (lines, positions); of 1-D ones, lines are `missing`."""
    lines, positions = sizes if len(sizes) == 2 else (missing, *sizes)
    return lines, positions


def _count(x: Tensor, axes: Iterable[int]) -> Size:
    """Return the number of elements along some axes of a tensor."""
    return element_count(tuple(x.shape[axis] for axis in axes))
