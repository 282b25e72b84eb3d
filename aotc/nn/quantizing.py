"""Numbers on a grid of few steps: x ≈ (q - zero point) * scale with small integers q.

Per tensor, scale and zero point are scalars; per channel, one for each element of
`axis`; per block, one for each `block` elements along it, in arrays of the rank of x.
Symmetric quantisation has a zero point of 0. Values are rounded to the nearest step,
halves to even, and saturate.
"""

from __future__ import annotations

from aotc import numpy as np
from aotc.core import dtypes
from aotc.core.dtypes import DTypeLike
from aotc.dialects.lowering.conversion import integer_bounds
from aotc.dialects.types import Shape
from aotc.nn.convolving import require_kernel
from aotc.nn.spatial import (
    Padding,
    Window,
    each,
    pad_spatial,
    sides_of,
    spatial_rank,
    static_size,
)
from aotc.numpy.axes import one_axis
from aotc.numpy.products import dot_general
from aotc.tracing.array import Array
from aotc.tracing.conversion import ArrayLike, as_float, astype, lift, to_accumulator
from aotc.tracing.source_locations import fail
from aotc.tracing.tracing import emit

__all__ = [
    "dequantize", "fake_quantize", "integer_conv", "quantization_scale", "quantize",
    "quantized_conv", "quantized_matmul",
]  # fmt: skip

Bounds = tuple[int, int]


def quantize(
    x: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike = 0,
    dtype: DTypeLike = "i8",
    *,
    axis: int | None = None,
    block: int | None = None,
    bits: int | None = None,
) -> Array:
    """`round(x / scale) + zero_point` as integers.

    Args:
        x: floats.
        scale: the size of a step.
        zero_point: the integer that stands for 0.
        dtype: of the result, an integer dtype of at most 16 bits.
        axis: that of the channels, where scale and zero point are vectors, or of the
            blocks.
        block: how many elements along `axis` share a scale and a zero point, which have
            the rank of x then.
        bits: use fewer values than the dtype has: 4 for -8 … 7 in i8.
    """
    steps, offset = _steps(x, scale, zero_point, axis, block, _range(dtype, bits))
    return astype(np.add(np.round(steps), offset), dtype)


def dequantize(
    q: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike = 0,
    *,
    axis: int | None = None,
    block: int | None = None,
    bits: int | None = None,
    less: ArrayLike | None = None,
) -> Array:
    """`(q - zero_point) * scale - less`, in the dtype of the scale.

    The difference is that of whole numbers, and the product is rounded to half
    precision at the end only: a difference may be beyond what f16 holds (65504). A
    weight that is dequantised to f32 and multiplied by stays integers in the archive
    and in memory.

    Args:
        q: integers, or floats of few bits.
        scale: the size of a step.
        zero_point: what stands for 0.
        axis: as for `quantize`.
        block: as for `quantize`.
        bits: that integers have, at most: others are the nearest that has so many. Of a
            weight of 4 bits two are a byte.
        less: what is subtracted in the end, as some formats have it of blocks: minus
            the least number of each. Of the shape of the scale.
    """
    q, scale = lift(q), as_float(scale)
    if bits is not None:
        q = np.clip(q, *_range(q.dtype, bits))
    # parts are converted before they are repeated, so that kernels can repeat them
    step, offset = to_accumulator(scale), lift(zero_point)
    is_whole = not dtypes.is_float(q.dtype) and not dtypes.is_float(offset.dtype)
    wide = _difference_dtype(q.dtype) if is_whole else step.dtype
    offset = broadcast_along(astype(offset, wide), q, axis, block)
    steps = astype(np.subtract(astype(q, wide), offset), step.dtype)
    y = np.multiply(steps, broadcast_along(step, q, axis, block))
    if less is not None:
        wide_less = astype(to_accumulator(as_float(less)), y.dtype)
        y = np.subtract(y, broadcast_along(wide_less, q, axis, block))
    return astype(y, scale.dtype)


def _difference_dtype(integer: str) -> str:
    """Return the dtype in which differences of an integer dtype are exact."""
    return "i32" if dtypes.bits(integer) < 32 else "i64"


def fake_quantize(
    x: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike = 0,
    dtype: DTypeLike = "i8",
    *,
    axis: int | None = None,
    block: int | None = None,
    bits: int | None = None,
) -> Array:
    """The floats that `dequantize(quantize(x))` gives, with a derivative.

    Rounding counts as the identity (the straight-through estimator: Bengio, Leonard and
    Courville, 2013), so x has the derivative 1 inside of the range and 0 outside; the
    scale has that of Esser et al., "Learned step size quantization", ICLR 2020.
    """
    x = as_float(x)
    steps, _ = _steps(x, scale, zero_point, axis, block, _range(dtype, bits))
    step = to_accumulator(broadcast_along(lift(scale, x.dtype), x, axis, block))
    return astype(np.multiply(round_straight_through(steps), step), x.dtype)


def round_straight_through(x: ArrayLike) -> Array:
    """Round to whole numbers, halves to even, with the derivative of the identity.

    Bengio, Leonard and Courville, "Estimating or propagating gradients through
    stochastic neurons for conditional computation", 2013.
    """
    x = as_float(x)
    # exact: a float and the nearest whole number differ by a float
    return np.add(x, emit("stop_gradient", np.subtract(np.round(x), x)))


def _steps(
    x: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike,
    axis: int | None,
    block: int | None,
    bounds: Bounds,
) -> tuple[Array, Array]:
    """Return `x / scale`, clamped but not rounded, and the zero point.

    Both are f32 for half precision, which has not all integers of 16 bits.
    """
    x = as_float(x)
    ratio = np.divide(x, broadcast_along(lift(scale, x.dtype), x, axis, block))
    ratio = to_accumulator(ratio)
    offset = astype(broadcast_along(lift(zero_point), x, axis, block), ratio.dtype)
    low, high = (np.subtract(float(bound), offset) for bound in bounds)
    return np.minimum(np.maximum(ratio, low), high), offset


def _range(dtype: DTypeLike, bits: int | None) -> Bounds:
    """Return the least and the greatest integer of a dtype or number of bits."""
    name = dtypes.canonical_dtype(dtype)
    if name not in dtypes.INTEGERS or dtypes.bits(name) > 16:
        fail(
            "dtype-mismatch",
            f"expected an integer dtype of at most 16 bits; got {name}",
        )
    if bits is None:
        return integer_bounds(name)
    if not 2 <= bits <= dtypes.bits(name):
        fail("bad-bits", f"expected 2 to {dtypes.bits(name)} bits; got {bits}")
    if name in dtypes.UNSIGNED:
        return 0, 2**bits - 1
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


def broadcast_along(
    part: Array, x: Array, axis: int | None, block: int | None = None
) -> Array:
    """Reshape scales or zero points, per tensor, axis or block, to broadcast with x.

    Raises:
        InputError: `shape-mismatch` if it has not one number for each of them.
    """
    if part.ndim == 0:
        return part
    number = -1 if axis is None else one_axis(x, axis)
    counts = () if axis is None else _counts(x, number, block)
    if part.type.shape != counts:
        counted = "element" if block is None else f"block of {block}"
        fail(
            "shape-mismatch",
            f"expected a scalar, or with an axis one number for each {counted} of that "
            f"axis of {x.type}; got {part.type}",
        )
    if block is None:
        sizes = [n if i == number else 1 for i, n in enumerate(x.shape)]
        return np.reshape(part, sizes)
    wide = part if block == 1 else np.repeat(part, block, number)
    return wide[(*[slice(None)] * number, slice(0, x.shape[number]))]


def _counts(x: Array, axis: int, block: int | None) -> Shape:
    """Return the shape of per-axis or per-block scales of `x`."""
    if block is None:
        return x.type.shape[axis : axis + 1]
    if block < 1:
        fail("bad-count", f"expected a block of at least 1 element; got {block}")
    shape = x.type.shape
    return (*shape[:axis], -(-shape[axis] // block), *shape[axis + 1 :])


def quantization_scale(
    low: ArrayLike, high: ArrayLike, dtype: DTypeLike = "i8", *, bits: int | None = None
) -> tuple[Array, Array]:
    """Return scale and zero point (i32) so that [low, high] and 0 are representable."""
    least, greatest = _range(dtype, bits)
    low = np.minimum(as_float(low), 0.0)
    high = np.maximum(as_float(high), 0.0)
    span = np.divide(np.subtract(high, low), float(greatest - least))
    scale = np.where(np.equal(span, 0), 1.0, span)
    zero_point = np.subtract(float(least), np.round(np.divide(low, scale)))
    return scale, astype(np.clip(zero_point, least, greatest), "i32")


# ---- products -----------------------------------------------------------------------


def quantized_matmul(
    x: ArrayLike,
    y: ArrayLike,
    x_scale: ArrayLike,
    y_scale: ArrayLike,
    x_zero_point: ArrayLike = 0,
    y_zero_point: ArrayLike = 0,
) -> Array:
    """The float product of two quantised matrices, summed in i32.

    (x - zx) (y - zy) = x y - zx (column sums of y) - zy (row sums of x) + n zx zy: the
    product itself stays one of small integers.

    Args:
        x: rows, n; i8 or u8.
        y: n, columns; of the same dtype.
        x_scale: a scalar.
        y_scale: a scalar, or one for each column.
        x_zero_point: a scalar.
        y_zero_point: a scalar, or one for each column.
    """
    x, y = lift(x), lift(y)
    if x.ndim != 2 or y.ndim != 2 or x.dtype not in ("i8", "u8"):
        fail(
            "shape-mismatch",
            f"expected two matrices of i8 or u8; got {x.type} and {y.type}",
        )
    zx, zy = (astype(lift(z), "i32") for z in (x_zero_point, y_zero_point))
    total = dot_general(x, y, ((1,), (0,)), dtype="i32")
    columns = np.sum(astype(y, "i32"), 0)
    rows = np.sum(astype(x, "i32"), 1, keepdims=True)
    both = np.multiply(np.multiply(zx, zy), x.shape[1])
    total = np.subtract(total, np.multiply(columns, zx))
    total = np.add(np.subtract(total, np.multiply(rows, zy)), both)
    scale = np.multiply(as_float(x_scale), as_float(y_scale))
    return np.multiply(astype(total, scale.dtype), scale)


def quantized_conv(
    x: ArrayLike,
    kernel: ArrayLike,
    x_scale: ArrayLike,
    kernel_scale: ArrayLike,
    x_zero_point: ArrayLike = 0,
    kernel_zero_point: ArrayLike = 0,
    *,
    strides: Window = 1,
    padding: Padding = "VALID",
    dilation: Window = 1,
    groups: int = 1,
) -> Array:
    """The float convolution of a quantised image and kernel, summed in i32.

    The image and the kernel are i8 or u8; arguments as of `conv`. The scale and zero
    point of the kernel are scalars, or one for each feature.
    """
    total = integer_conv(
        x,
        kernel,
        x_zero_point,
        kernel_zero_point,
        strides=strides,
        padding=padding,
        dilation=dilation,
        groups=groups,
    )
    scale = np.multiply(as_float(x_scale), as_float(kernel_scale))
    return np.multiply(astype(total, scale.dtype), scale)


def integer_conv(
    x: ArrayLike,
    kernel: ArrayLike,
    x_zero_point: ArrayLike = 0,
    kernel_zero_point: ArrayLike = 0,
    *,
    strides: Window = 1,
    padding: Padding = "VALID",
    dilation: Window = 1,
    groups: int = 1,
) -> Array:
    """The convolution of `x - x_zero_point` with `kernel - kernel_zero_point`, in i32.

    The image and the kernel are i8 or u8; what is around the image counts as its zero
    point. Other arguments as of `quantized_conv`.
    """
    image, filters = _offset(x, x_zero_point), _offset(kernel, kernel_zero_point, -1)
    spatial = spatial_rank(image)
    require_kernel(image, filters, groups)
    *window, channels, features = (static_size(n, "kernel") for n in filters.shape)
    steps = each(strides, spatial, "stride")
    spread = each(dilation, spatial, "dilation")
    sides = sides_of(padding, image.shape[1:-1], window, steps, spread)
    rows = emit(
        "windows",
        pad_spatial(image, sides),
        window=window,
        strides=steps,
        dilation=spread,
    )
    if groups == 1:
        contract = (range(1 + spatial, rows.ndim), range(spatial + 1))
        return dot_general(rows, filters, contract=contract, dtype="i32")
    rows = np.reshape(rows, (*rows.shape[:-1], groups, channels))
    filters = np.reshape(filters, (*window, channels, groups, features // groups))
    inner = range(1 + spatial, 1 + 2 * spatial)
    y = dot_general(
        rows,
        filters,
        contract=((*inner, rows.ndim - 1), range(spatial + 1)),
        batch=((rows.ndim - 2,), (spatial + 1,)),
        dtype="i32",
    )
    beside = np.moveaxis(y, 0, -2)
    return np.reshape(beside, (*beside.shape[:-2], features))


def _offset(q: ArrayLike, zero_point: ArrayLike, axis: int | None = None) -> Array:
    """Return `q - zero_point` in i16, so that padding with 0 is right."""
    array = lift(q)
    if array.dtype not in ("i8", "u8"):
        fail("dtype-mismatch", f"expected i8 or u8; got {array.type}")
    offset = broadcast_along(lift(zero_point), array, axis)
    return np.subtract(astype(array, "i16"), astype(offset, "i16"))
