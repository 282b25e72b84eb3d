"""How convolutions reach linalg.

Ungrouped ones are patches times kernel (Note [patches by slices]), depthwise ones the
named op, other grouped ones a generic.
"""

from typing import Any

from aotc.dialects.contraction import multiply_accumulate
from aotc.dialects.patches import patches
from aotc.dialects.reduction import accumulator, convert
from aotc.dialects.types import Tensor, element_count
from aotc.mlir import ir, linalg

_DEPTHWISE = {
    1: linalg.depthwise_conv_1d_nwc_wc,
    2: linalg.depthwise_conv_2d_nhwc_hwc,
    3: linalg.depthwise_conv_3d_ndhwc_dhwc,
}


def lower(low: Any, op: Any, x: Any, kernel: Any) -> Any:
    """`conv_general` as linalg; half precision accumulates in f32."""
    source, weight, result = Tensor.of(op.x), Tensor.of(op.kernel), Tensor.of(op.y)
    wide = accumulator(source.dtype)
    before, after = (0, *op.padding[::2], 0), (0, *op.padding[1::2], 0)
    sizes = [n + a + z for n, a, z in zip(source.shape, before, after, strict=True)]
    padded = source.with_shape(sizes)
    x = low.pad(x, padded, before, after, 0.0)
    if op.groups == 1:
        total = _by_patches(low, op, x, kernel, padded)
        return convert(low, total, result.with_dtype(wide), result.dtype)
    x = convert(low, x, padded, wide)
    kernel = convert(low, kernel, weight, wide)
    if op.groups == source.shape[-1] == weight.shape[-1]:
        total = _depthwise(low, op, x, kernel, wide)
    else:
        total = _grouped(low, op, x, kernel, padded.with_dtype(wide), wide)
    return convert(low, total, result.with_dtype(wide), result.dtype)


def _by_patches(low: Any, op: Any, x: Any, kernel: Any, source: Tensor) -> Any:
    """One matrix product of all windows with the flattened kernel."""
    weight, result = Tensor.of(op.kernel), Tensor.of(op.y)
    wide = result.with_dtype(accumulator(result.dtype))
    window, counts = weight.shape[:-2], result.shape[1:-1]
    rows, row_type = patches(low, x, source, counts, window, op.strides, op.dilation)
    depth, features = row_type.shape[-1], weight.shape[-1]
    positions = element_count(row_type.shape[:-1])
    matrix = row_type.with_shape((positions, depth))
    product = wide.with_shape((positions, features))
    total = linalg.matmul(
        low.reshape(rows, row_type, matrix),
        low.reshape(kernel, weight, weight.with_shape((depth, features))),
        outs=[low.full(product, 0.0)],
    )
    return low.reshape(total, product, wide)


def _depthwise(low: Any, op: Any, x: Any, kernel: Any, wide: str) -> Any:
    weight = Tensor.of(op.kernel).with_dtype(wide)
    flat = weight.with_shape((*weight.shape[:-2], weight.shape[-1]))
    return _DEPTHWISE[weight.rank - 2](
        x,
        low.reshape(kernel, weight, flat),
        outs=[low.full(Tensor.of(op.y).with_dtype(wide), 0.0)],
        strides=list(op.strides),
        dilations=list(op.dilation),
    )


def _grouped(low: Any, op: Any, x: Any, kernel: Any, source: Tensor, wide: str) -> Any:
    """One generic over (n, o…, group, feature; window…, channel)."""
    groups, spatial = op.groups, source.rank - 2
    weight = Tensor.of(op.kernel).with_dtype(wide)
    result = Tensor.of(op.y).with_dtype(wide)
    x_split = source.with_shape((*source.shape[:-1], groups, source.shape[-1] // groups))
    k_split = weight.with_shape((*weight.shape[:-1], groups, weight.shape[-1] // groups))
    y_split = result.with_shape((*result.shape[:-1], groups, result.shape[-1] // groups))
    outer, inner = spatial + 3, spatial + 1
    loops = [ir.AffineDimExpr.get(i) for i in range(outer + inner)]
    n, positions, group, feature = (
        loops[0],
        loops[1 : 1 + spatial],
        loops[1 + spatial],
        loops[2 + spatial],
    )
    window, channel = loops[outer : outer + spatial], loops[-1]
    reads = [
        p * s + k * d
        for p, s, k, d in zip(positions, op.strides, window, op.dilation, strict=True)
    ]
    maps = [
        ir.AffineMap.get(len(loops), 0, exprs)
        for exprs in (
            [n, *reads, group, channel],
            [*window, channel, group, feature],
            [n, *positions, group, feature],
        )
    ]
    total = low.generic(
        [low.reshape(x, source, x_split), low.reshape(kernel, weight, k_split)],
        maps,
        low.full(y_split, 0.0),
        ["parallel"] * outer + ["reduction"] * inner,
        multiply_accumulate(wide, wide),
    )
    return low.reshape(total, y_split, result)
