"""What one kernel computes, as windows over images: all of it is a convolution.

A product of matrices (M, K) times (K, N) is the convolution of M images of one pixel
and K channels; so is one of 1×1 windows and steps of one over all pixels of a batch.
Pooling is a depthwise convolution that adds up, or compares, without weights.

How many images there are may be a size that only a call decides; all else is static.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from aotc.dialects.graph import GraphOp
from aotc.dialects.ops.contraction import DotGeneral, free_axes
from aotc.dialects.ops.convolution import ConvGeneral
from aotc.dialects.ops.pooling import Pool
from aotc.dialects.types import Dim, Shape, Size, Tensor, bounds, element_count

_FEW_ROWS, _TYPICAL_ROWS = 32, 128  # of a product of which calls decide how many


@dataclass(frozen=True)
class Geometry:
    """A convolution of images in NHWC; pairs are (lines, positions).

    Args:
        images: N; the pixels of a product.
        size: of an image.
        channels: C.
        window: of the kernel.
        features: N of a product.
        result: size of a result.
        strides: steps between windows.
        padding: zeros before the first line, and the first position.
        dilation: distance between the elements of a window.
        groups: of channels and features; those of one group see each other only.
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

    @property
    def depth(self) -> int:
        """How many products each sum is of."""
        return math.prod(self.window) * self.channels // self.groups

    @property
    def is_depthwise(self) -> bool:
        """Whether each feature sees one channel only, its own."""
        return self.groups == self.channels == self.features > 1

    @property
    def lines(self) -> Size:
        """Lines of all results."""
        return self.images * self.result[0]

    @property
    def rows(self) -> Size:
        """Positions of all results."""
        return self.lines * self.result[1]

    @property
    def is_product(self) -> bool:
        """Whether it is a product of matrices."""
        is_pixel = self.size == self.result == self.window == (1, 1)
        return is_pixel and self.padding == (0, 0)

    @property
    def flops(self) -> Size:
        """Operations on floats: a multiplication and an addition for each product."""
        return 2 * self.rows * self.depth * self.features

    @property
    def typical(self) -> Geometry:
        """One of static sizes, by which this one is cut up.

        Where calls decide how many images there are, it has as few as they may have: a
        schedule that leaves nothing over for one is as good for many. Where that is few
        rows of a product, it has more: smaller tiles, which a call of few rows needs,
        are there besides.
        """
        least, most = bounds(self.images)
        if self.is_product and least < _FEW_ROWS:
            least = min(_TYPICAL_ROWS, most)
        return replace(self, images=int(max(least, min(1, most))))


def geometry_of(op: GraphOp) -> Geometry | None:
    """What an op computes, as far as there is a kernel for it; None if there is none.

    The elements are f32; contracted axes are the last ones of the left operand. Sizes
    are static, but for those of a product's rows, and how many images there are.
    """
    types = [Tensor.of(value) for value in (*op.operands, *op.results)]
    if not all(x.dtype == "f32" and 0 not in x.shape for x in types):
        return None
    if isinstance(op, DotGeneral):
        return _of_product(op)
    if isinstance(op, ConvGeneral):
        return _of_convolution(op)
    return _of_pooling(op) if isinstance(op, Pool) else None


def product(rows: Size, depth: Size, features: Size) -> Geometry | None:
    """The product of matrices (rows, depth) times (depth, features), if it is one."""
    if isinstance(depth, Dim) or isinstance(features, Dim):
        return None
    return Geometry(rows, (1, 1), depth, (1, 1), features, (1, 1))


def _of_product(op: DotGeneral) -> Geometry | None:
    lhs, rhs = Tensor.of(op.lhs), Tensor.of(op.rhs)
    trailing = tuple(range(lhs.rank - len(op.lhs_contract), lhs.rank))
    if op.lhs_batch or not op.lhs_contract or op.lhs_contract != trailing:
        return None
    depth = _count(lhs, op.lhs_contract)
    rows = _count(lhs, range(trailing[0]))
    return product(rows, depth, _count(rhs, free_axes(rhs.rank, (), op.rhs_contract)))


def _of_convolution(op: ConvGeneral) -> Geometry | None:
    x, kernel = Tensor.of(op.x), Tensor.of(op.kernel)
    if x.rank not in (3, 4) or min(op.padding) < 0:
        return None
    window, channels = kernel.shape[:-2], x.shape[-1]
    is_pointwise = {*window, *op.strides} == {1} and not any(op.padding)
    if is_pointwise and op.groups == 1:
        return product(_count(x, range(x.rank - 1)), channels, kernel.shape[-1])
    return _of_windows(op, window, op.groups)


def _of_pooling(op: Pool) -> Geometry | None:
    x = Tensor.of(op.x)
    if x.rank not in (3, 4) or min(op.padding) < 0:
        return None
    return _of_windows(op, op.window, x.shape[-1])


def _of_windows(op: ConvGeneral | Pool, window: Shape, groups: Size) -> Geometry | None:
    x, y = Tensor.of(op.x).shape, Tensor.of(op.y).shape
    if any(isinstance(size, Dim) for size in (*x[1:], *y[1:], *window, groups)):
        return None
    static: Any = {"channels": x[-1], "features": y[-1], "groups": groups}
    return Geometry(
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
    """Lines and positions; a sequence has one line."""
    lines, positions = sizes if len(sizes) == 2 else (missing, *sizes)
    return lines, positions


def _count(x: Tensor, axes: Iterable[int]) -> Size:
    """How many elements there are along some axes."""
    return element_count(tuple(x.shape[axis] for axis in axes))
