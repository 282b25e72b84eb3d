"""How convolutions reach linalg: named ops where there is one, for IREE's sake.

Measured layouts (N spatial C, spatial C F) are the fast ones; see docs/dialect.md.
"""

from typing import Any

from aotc.dialects.contraction import multiply_accumulate
from aotc.dialects.reduction import accumulator, convert
from aotc.dialects.types import Tensor
from aotc.mlir import ir, linalg

_NAMED = {
    1: linalg.conv_1d_nwc_wcf,
    2: linalg.conv_2d_nhwc_hwcf,
    3: linalg.conv_3d_ndhwc_dhwcf,
}
_DEPTHWISE = {
    1: linalg.depthwise_conv_1d_nwc_wc,
    2: linalg.depthwise_conv_2d_nhwc_hwc,
    3: linalg.depthwise_conv_3d_ndhwc_dhwc,
}


def lower(low: Any, op: Any, x: Any, kernel: Any) -> Any:
    """`conv_general` as linalg; half precision accumulates in f32."""
    source, weight, result = Tensor.of(op.x), Tensor.of(op.kernel), Tensor.of(op.y)
    spatial = source.rank - 2
    wide = accumulator(source.dtype)
    before, after = (0, *op.padding[::2], 0), (0, *op.padding[1::2], 0)
    sizes = [n + a + z for n, a, z in zip(source.shape, before, after, strict=True)]
    padded = source.with_shape(sizes)
    x = low.pad(x, padded, before, after, 0.0)
    x = convert(low, x, padded, wide)
    kernel = convert(low, kernel, weight, wide)
    init = low.full(result.with_dtype(wide), 0.0)
    depthwise = op.groups == source.shape[-1] == weight.shape[-1]
    if op.groups == 1:
        total = _named(_NAMED[spatial], op, x, kernel, init)
    elif depthwise:
        flat = weight.with_dtype(wide).with_shape((*weight.shape[:-2], weight.shape[-1]))
        kernel = low.reshape(kernel, weight.with_dtype(wide), flat)
        total = _named(_DEPTHWISE[spatial], op, x, kernel, init)
    else:
        total = _grouped(low, op, x, kernel, padded.with_dtype(wide), wide)
    return convert(low, total, result.with_dtype(wide), result.dtype)


def _named(function: Any, op: Any, x: Any, kernel: Any, init: Any) -> Any:
    return function(
        x, kernel, outs=[init], strides=list(op.strides), dilations=list(op.dilation)
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
