"""Windows of an image laid out as rows, so that a matrix product can run over them.

Note [patches by slices]: one strided copy per offset in the window, not one generic
that reads `x[o * stride + k]`. IREE would fuse such a generic into the product that
follows and then neither vectorise nor tile it: the kernel gradient of a 3×3 convolution
on 8×8 images took 14.6 ms that way and takes 0.9 ms this way. A convolution as patches
times kernel is 2 to 15 times faster than IREE's direct one on AVX2 (14×14, 256
channels: 5.9 ms against 90 ms), for window-size times the memory of its input.

On GPUs each copy would be a launch of its own, one after the other: 24 of the 87 of a
training step with two small convolutions. There it is one generic.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from aotc.dialects.lowering import Lowering
from aotc.dialects.types import Size, Tensor, lowered_type
from aotc.mlir import Value, arith, tensor


def patches(
    low: Lowering,
    x: Value,
    source: Tensor,
    counts: Sequence[Size],
    window: Sequence[int],
    strides: Sequence[int],
    dilation: Sequence[int],
) -> tuple[Value, Tensor]:
    """Emit all windows of an image as rows (im2col); return them and their type.

    Args:
        low: the function under construction.
        x: lowered image, N, spatial…, C.
        source: its graph type.
        counts: how many windows there are along each spatial axis.
        window: size of a window along each spatial axis.
        strides: steps between windows.
        dilation: distance between the elements of a window.

    Returns:
        The lowered tensor N, counts…, product(window) * C, and its graph type.
    """
    channels: Any = source.shape[-1]
    one = source.with_shape((source.shape[0], *counts, channels))
    offsets = list(np.ndindex(*window))
    x = low.materialize(x)
    if len(offsets) == 1:
        return low.slice(x, one, (0,) * source.rank, [1, *strides, 1]), one
    rows = one.with_shape((*one.shape[:-1], channels * len(offsets)))
    if low.on_gpu:
        split = one.with_shape((*one.shape[:-1], *window, channels))
        return low.reshape(_gather(low, x, split, strides, dilation), split, rows), rows
    value = low.empty(rows)
    for number, offset in enumerate(offsets):
        start = (0, *(o * d for o, d in zip(offset, dilation, strict=True)), 0)
        part = low.slice(x, one, start, [1, *strides, 1])
        value = insert_last(low, part, value, one, number * channels)
    return value, rows


def _gather(
    low: Lowering,
    x: Value,
    result: Tensor,
    strides: Sequence[int],
    dilation: Sequence[int],
) -> Value:
    """Emit all windows of an image as one linalg.generic, N, counts…, window…, C."""
    x = low.materialize(x)

    def element(loops: list[Value]) -> Value:
        first, *inner, last = loops
        spatial = len(strides)
        places = zip(inner[:spatial], strides, inner[spatial:], dilation, strict=True)
        at = [
            arith.addi(
                arith.muli(count, low.index(stride)), arith.muli(k, low.index(step))
            )
            for count, stride, k, step in places
        ]
        return low.extract(x, [first, *at, last])

    return low.generate(result, element)


def insert_last(
    low: Lowering, part: Value, into: Value, type_: Tensor, first: Size
) -> Value:
    """Emit `part` inserted into `into` from position `first` of the last axis."""
    known = isinstance(first, int)
    offsets = [0] * (type_.rank - 1) + [first if known else _DYNAMIC]
    return tensor.insert_slice(
        part,
        into,
        [] if known else [low.size(first)],
        low.dynamic_sizes(type_.shape),
        [],
        offsets,
        lowered_type(type_).shape,
        [1] * type_.rank,
    )


_DYNAMIC = -(2**63)  # MLIR's mark for an offset given as a value
