"""Lowering of convolutions: patches times kernel, or depthwise ones.

A convolution that is not grouped is patches times kernel (Note [patches by slices]), a
depthwise one is the named op, and any other is a few of these.

Note [grouped convolution]: G groups of C / G channels are either G convolutions beside
each other or the sum of C / G depthwise ones, of every first channel of a group, every
second, and so on; the fewer are taken, where there is no kernel for it. IREE neither
vectorises nor tiles the generic that says it at once: with 32 groups of 4 channels on
56×56 it took 16.1 ms, four depthwise ones take 2.8; with 2 groups of 32 channels on
28×28, 11.1 against 0.6.
"""

from typing import TYPE_CHECKING, Any

from aotc.core import dtypes as dt
from aotc.dialects.lowering import Lowering
from aotc.dialects.lowering.conversion import accumulator
from aotc.dialects.lowering.patches import insert_last, patches
from aotc.dialects.ops.contraction import MATRICES, contract, multiply_accumulate
from aotc.dialects.types import Shape, Tensor, element_count
from aotc.mlir import Value, ir, linalg

if TYPE_CHECKING:
    from aotc.dialects.ops.convolution import ConvGeneral

_DEPTHWISE = {  # ops of linalg, by the number of spatial axes
    1: "depthwise_conv_1d_nwc_wc",
    2: "depthwise_conv_2d_nhwc_hwc",
    3: "depthwise_conv_3d_ndhwc_dhwc",
}


def lower_convolution(
    low: Lowering, op: "ConvGeneral", x: Value, kernel: Value
) -> Value:
    """Emit a `conv_general` as linalg; half precision accumulates in f32."""
    source, weight, result = Tensor.of(op.x), Tensor.of(op.kernel), Tensor.of(op.y)
    wide = _accumulator(op)
    before, after = (0, *op.padding[::2], 0), (0, *op.padding[1::2], 0)
    sizes = [n + a + z for n, a, z in zip(source.shape, before, after, strict=True)]
    padded = source.with_shape(sizes)
    x = low.vary(low.pad(x, padded, before, after, 0.0))
    if op.groups == 1:
        total = _by_patches(low, op, x, kernel, padded, weight)
        return low.convert(total, result.with_dtype(wide), result.dtype)
    channels = source.shape[-1]
    if channels // op.groups <= op.groups:
        total = _by_channels(low, op, x, kernel, padded, wide)
    else:
        total = _by_groups(low, op, x, kernel, padded, wide)
    return low.convert(total, result.with_dtype(wide), result.dtype)


def _by_patches(
    low: Lowering,
    op: "ConvGeneral",
    x: Value,
    kernel: Value,
    source: Tensor,
    weight: Tensor,
) -> Value:
    """Emit all windows times the flattened kernel, as one matrix product (im2col)."""
    counts: Any = Tensor.of(op.y).shape[1:-1]
    wide = Tensor((source.shape[0], *counts, weight.shape[-1]), _accumulator(op))
    window: Any = weight.shape[:-2]
    rows, row_type = patches(low, x, source, counts, window, op.strides, op.dilation)
    depth, features = row_type.shape[-1], weight.shape[-1]
    positions = element_count(row_type.shape[:-1])
    matrix = row_type.with_shape((positions, depth))
    product = wide.with_shape((positions, features))
    left = low.reshape(rows, row_type, matrix)
    right = low.reshape(kernel, weight, weight.with_shape((depth, features)))
    if dt.is_float(source.dtype):
        total = low.matmul(left, right, low.full(product, 0.0))
    else:
        body = multiply_accumulate(wide.dtype, source.dtype, weight.dtype)
        total = contract(low, MATRICES, left, right, product, body)
    return low.reshape(total, product, wide)


def _accumulator(op: "ConvGeneral") -> str:
    """Return the dtype that the op's sums are accumulated in."""
    return accumulator(Tensor.of(op.y).dtype)


def _by_groups(
    low: Lowering, op: "ConvGeneral", x: Value, kernel: Value, source: Tensor, wide: str
) -> Value:
    """Emit a convolution of each group, and their results concatenated."""
    weight, result = Tensor.of(op.kernel), Tensor.of(op.y).with_dtype(wide)
    channels, features = weight.shape[-2], weight.shape[-1] // op.groups
    some = source.with_shape((*source.shape[:-1], channels))
    own = weight.with_shape((*weight.shape[:-1], features))
    part = result.with_shape((*result.shape[:-1], features))
    total = low.empty(result)
    ones, zeros = [1] * source.rank, [0] * (source.rank - 1)
    for group in range(op.groups):
        first = group * features
        image = low.slice(x, some, (*zeros, group * channels), ones)
        filters = low.slice(kernel, own, (*zeros, first), ones)
        y = _by_patches(low, op, image, filters, some, own)
        total = insert_last(low, y, total, part, first)
    return total


def _by_channels(
    low: Lowering, op: "ConvGeneral", x: Value, kernel: Value, source: Tensor, wide: str
) -> Value:
    """Emit the sum of depthwise convolutions, one for each channel of the groups.

    Channels are widened after they are sliced, see Note [widened reads].
    """
    weight, result = Tensor.of(op.kernel), Tensor.of(op.y).with_dtype(wide)
    groups = op.groups
    channels, features = (int(size) for size in weight.shape[-2:])
    x = x if channels == 1 else low.materialize(x)  # it is read in steps
    some = source.with_shape((*_sizes_seen(op, source), groups))
    own = weight.with_shape((*weight.shape[:-2], 1, features))
    flat = own.with_shape((*own.shape[:-2], features)).with_dtype(wide)
    steps, zeros = [*[1] * (source.rank - 1), channels], [0] * (source.rank - 1)
    total = low.full(result, 0.0)
    for channel in range(channels):
        image = low.slice(x, some, (*zeros, channel), steps)
        image = low.convert(image, some, wide)
        image = _repeat_last(low, image, some.with_dtype(wide), features // groups)
        filters = low.slice(kernel, own, (*zeros[1:], channel, 0), [1] * own.rank)
        filters = low.convert(filters, own, wide)
        total = getattr(linalg, _DEPTHWISE[weight.rank - 2])(
            image,
            low.reshape(filters, own.with_dtype(wide), flat),
            outs=[total],
            strides=list(op.strides),
            dilations=list(op.dilation),
        )
    return total


def _sizes_seen(op: "ConvGeneral", source: Tensor) -> Shape:
    """Return the number of images and the spatial sizes that windows read.

    Only where there is one window: an image that goes on behind it is of another size
    than the window, which IREE 3.13 takes for an error in a depthwise convolution.
    """
    window = Tensor.of(op.kernel).shape[:-2]
    counts, (images, *sizes) = Tensor.of(op.y).shape[1:-1], source.shape[:-1]
    seen = [
        (length - 1) * dilation + 1 if count == 1 else size
        for length, dilation, count, size in zip(
            window, op.dilation, counts, sizes, strict=True
        )
    ]
    return (images, *seen)


def _repeat_last(low: Lowering, x: Value, source: Tensor, count: int) -> Value:
    """Emit every element of the last axis repeated `count` times."""
    if count == 1:
        return x
    apart = source.with_shape((*source.shape, count))
    loops = [ir.AffineDimExpr.get(i) for i in range(apart.rank)]
    maps = [
        ir.AffineMap.get(apart.rank, 0, loops[:n]) for n in (source.rank, apart.rank)
    ]
    kinds = ["parallel"] * apart.rank
    y = low.generic([x], maps, low.empty(apart), kinds, lambda element, _: element)
    last = source.shape[-1] * count
    return low.reshape(y, apart, source.with_shape((*source.shape[:-1], last)))
