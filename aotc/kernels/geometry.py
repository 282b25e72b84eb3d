"""What one kernel computes, as windows over images: all of it is a convolution.

A product of matrices (M, K) times (K, N) is the convolution of an image of one line of
M positions and K channels with a window of one position; so is one of 1×1 windows and
steps of one over all pixels of a batch. Pooling is a depthwise convolution that adds
up, or compares, without weights.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from aotc.dialects.graph import GraphOp
from aotc.dialects.ops.contraction import DotGeneral, free_axes
from aotc.dialects.ops.convolution import ConvGeneral
from aotc.dialects.ops.pooling import Pool
from aotc.dialects.types import Tensor


@dataclass(frozen=True)
class Geometry:
    """A convolution of images in NHWC; pairs are (lines, positions).

    Args:
        images: N.
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

    images: int
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
    def lines(self) -> int:
        """Lines of all results."""
        return self.images * self.result[0]

    @property
    def rows(self) -> int:
        """Positions of all results."""
        return self.lines * self.result[1]

    @property
    def is_product(self) -> bool:
        """Whether it is a product of matrices."""
        if self.lines != 1 or self.window != (1, 1):
            return False
        is_whole = self.size[1] == self.result[1]  # neither fewer nor padded at the end
        return is_whole and self.strides[1] == 1 and self.padding == (0, 0)

    @property
    def flops(self) -> int:
        """Operations on floats: a multiplication and an addition for each product."""
        return 2 * self.rows * self.depth * self.features


def geometry_of(op: GraphOp) -> Geometry | None:
    """What an op computes, as far as there is a kernel for it; None if there is none.

    The shapes are static, the elements f32; contracted axes are the last ones of the
    left operand.
    """
    types = [Tensor.of(value) for value in (*op.operands, *op.results)]
    if not all(x.is_static and x.dtype == "f32" and 0 not in x.shape for x in types):
        return None
    if isinstance(op, DotGeneral):
        return _of_product(op)
    if isinstance(op, ConvGeneral):
        return _of_convolution(op)
    return _of_pooling(op) if isinstance(op, Pool) else None


def _product(rows: int, depth: int, features: int) -> Geometry:
    return Geometry(1, (1, rows), depth, (1, 1), features, (1, rows))


def _of_product(op: DotGeneral) -> Geometry | None:
    lhs, rhs = Tensor.of(op.lhs), Tensor.of(op.rhs)
    trailing = tuple(range(lhs.rank - len(op.lhs_contract), lhs.rank))
    if op.lhs_batch or not op.lhs_contract or op.lhs_contract != trailing:
        return None
    depth = _count(lhs, op.lhs_contract)
    rows = _count(lhs, range(trailing[0]))
    return _product(rows, depth, _count(rhs, free_axes(rhs.rank, (), op.rhs_contract)))


def _of_convolution(op: ConvGeneral) -> Geometry | None:
    x, kernel = Tensor.of(op.x), Tensor.of(op.kernel)
    if x.rank not in (3, 4) or min(op.padding) < 0:
        return None
    window, channels = _pair(kernel.shape[:-2], 1), _count(x, [-1])
    is_pointwise = window == (1, 1) and {*op.strides} == {1} and not any(op.padding)
    if is_pointwise and op.groups == 1:
        return _product(_count(x, range(x.rank - 1)), channels, _count(kernel, [-1]))
    return _of_windows(op, window, op.groups)


def _of_pooling(op: Pool) -> Geometry | None:
    x = Tensor.of(op.x)
    if x.rank not in (3, 4) or min(op.padding) < 0:
        return None
    return _of_windows(op, _pair(op.window, 1), _count(x, [-1]))


def _of_windows(
    op: ConvGeneral | Pool, window: tuple[int, int], groups: int
) -> Geometry:
    x, y = Tensor.of(op.x), Tensor.of(op.y)
    return Geometry(
        images=_count(x, [0]),
        size=_pair(x.shape[1:-1], 1),
        channels=_count(x, [-1]),
        window=window,
        features=_count(y, [-1]),
        result=_pair(y.shape[1:-1], 1),
        strides=_pair(op.strides, 1),
        padding=_pair(op.padding[::2], 0),
        dilation=_pair(op.dilation, 1),
        groups=groups,
    )


def _pair(sizes: Sequence[Any], missing: int) -> tuple[int, int]:
    """Lines and positions; a sequence has one line."""
    lines, positions = sizes if len(sizes) == 2 else (missing, *sizes)
    return lines, positions


def _count(x: Tensor, axes: Iterable[int]) -> int:
    """How many elements there are along some axes of a static shape."""
    sizes: Any = x.shape
    return math.prod(sizes[axis] for axis in axes)
