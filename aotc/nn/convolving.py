"""Convolutions of images (N, spatial…, C) with kernels (spatial…, C / groups, F)."""

from __future__ import annotations

from collections.abc import Sequence

from aotc import numpy as np
from aotc.dialects.ops.padding import dilated_size
from aotc.dialects.types import Shape, bounds
from aotc.errors import InputError
from aotc.nn.spatial import (
    Padding,
    Sides,
    Window,
    each,
    pad_for_op,
    pad_spatial,
    sides_of,
    spatial_rank,
    static_size,
)
from aotc.tracing.array import Array
from aotc.tracing.conversion import ArrayLike, one_dtype
from aotc.tracing.source_locations import fail
from aotc.tracing.tracing import emit

__all__ = [
    "conv", "conv1d", "conv2d", "conv3d", "conv_general_dilated", "conv_transpose",
]  # fmt: skip


def conv(
    x: ArrayLike,
    kernel: ArrayLike,
    bias: ArrayLike | None = None,
    *,
    strides: Window = 1,
    padding: Padding = "VALID",
    dilation: Window = 1,
    groups: int = 1,
) -> Array:
    """Convolve over 1 to 3 spatial axes.

    Args:
        x: N, spatial…, C.
        kernel: spatial…, C / groups, F.
        bias: F, or None.
        strides: steps between windows.
        padding: "VALID", "SAME" (as many positions as size / stride, rounded up; an odd
            element goes to the end), "SAME_LOWER" (to the start), an int, or per
            spatial axis an int or (low, high).
        dilation: distance between the elements of a window.
        groups: channel groups that only see features of their own group.
    """
    y = conv_general_dilated(
        x,
        kernel,
        strides,
        padding,
        rhs_dilation=dilation,
        feature_group_count=groups,
    )
    return y if bias is None else np.add(y, bias)


conv1d = conv2d = conv3d = conv


def conv_general_dilated(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Window = 1,
    padding: Padding = "VALID",
    lhs_dilation: Window = 1,
    rhs_dilation: Window = 1,
    *,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    window_reversal: Sequence[bool] = (),
) -> Array:
    """Convolve with all options of XLA's convolution, in the layout N, spatial…, C.

    Args:
        lhs: N, spatial…, C.
        rhs: spatial…, C / feature groups, F.
        window_strides: steps between windows.
        padding: as for `conv`, of the dilated image; negative numbers cut.
        lhs_dilation: distance between the elements of the image, zeros between them.
        rhs_dilation: distance between the elements of a window.
        feature_group_count: groups of channels, each for its own share of features.
        batch_group_count: groups of images, each for its own share of features; the
            result has N / groups images.
        window_reversal: for each spatial axis, whether the kernel is read backwards.
    """
    x, kernel = one_dtype(lhs, rhs)
    spatial = spatial_rank(x)
    strides = each(window_strides, spatial, "stride")
    spread = each(lhs_dilation, spatial, "lhs_dilation")
    dilation = each(rhs_dilation, spatial, "dilation")
    backwards = [axis for axis, back in enumerate(window_reversal) if back]
    if backwards:
        kernel = np.flip(kernel, backwards)
    groups = feature_group_count
    if batch_group_count != 1:
        x = _batch_groups(x, kernel, batch_group_count, groups)
        groups = batch_group_count
    require_kernel(x, kernel, groups)
    sizes = [dilated_size(n, s - 1) for n, s in zip(x.shape[1:-1], spread, strict=True)]
    sides = sides_of(padding, sizes, _window(kernel), strides, dilation)
    if set(spread) != {1}:
        x, sides = (
            pad_spatial(x, sides, interior=[s - 1 for s in spread]),
            (0,) * len(sides),
        )
    x, numbers = pad_for_op(x, sides)
    try:
        return emit(
            "conv_general",
            x,
            kernel,
            strides=strides,
            padding=numbers,
            dilation=dilation,
            groups=groups,
        )
    except InputError as error:
        shapes = x.type.shape, kernel.type.shape
        error.hint = error.hint or _layout_advice(*shapes, groups)
        raise


def require_kernel(x: Array, kernel: Array, groups: int) -> None:
    """Raise if a kernel's shape does not fit the image and groups."""
    spatial_rank(x)
    sizes, of_kernel = x.type.shape, kernel.type.shape
    if (
        kernel.ndim != x.ndim
        or not isinstance(groups, int)
        or groups < 1
        or of_kernel[-2] * groups != sizes[-1]
        or of_kernel[-1] % groups != 0
    ):
        fail(
            "shape-mismatch",
            f"expected a kernel of spatial…, C / groups, F for x {x.type} and "
            f"{groups} group(s) that divide C and F; got {kernel.type}",
            _layout_advice(sizes, of_kernel, groups),
        )


def _layout_advice(x: Shape, kernel: Shape, groups: int) -> str | None:
    """Return a hint on transposes if operands would fit in PyTorch's layout; else None.

    PyTorch's images are N, C, spatial… and its kernels F, C / groups, spatial….
    """
    axes = tuple(range(2, len(x)))
    of_image, of_kernel = ("x", (0, *axes, 1)), ("kernel", (*axes, 1, 0))
    if len(kernel) != len(x) or not isinstance(groups, int) or groups < 1:
        return None
    for moves in ([of_kernel], [of_image, of_kernel], [of_image]):
        shapes = {"x": x, "kernel": kernel}
        for name, order in moves:
            shapes[name] = tuple(shapes[name][axis] for axis in order)
        if _fits(shapes["x"], shapes["kernel"], groups):
            written = [
                f"aotc.numpy.transpose({name}, {order})" for name, order in moves
            ]
            return (
                "images are N, spatial…, C and kernels spatial…, C / groups, F; these "
                f"look like PyTorch's: write {' and '.join(written)}"
            )
    return None


def _fits(x: Shape, kernel: Shape, groups: int) -> bool:
    """Return whether an image's and a kernel's shape can be convolved."""
    windows = zip(x[1:-1], kernel[:-2], strict=True)
    inside = all(bounds(n - w)[1] >= 0 for n, w in windows)
    return inside and kernel[-2] * groups == x[-1] and kernel[-1] % groups == 0


def _window(kernel: Array) -> list[int]:
    """Return the static spatial sizes of a kernel."""
    return [static_size(n, "kernel") for n in kernel.shape[:-2]]


def _batch_groups(x: Array, kernel: Array, count: int, groups: int) -> Array:
    """Move batch groups of images into the channel axis, for a grouped convolution."""
    images, *sizes, channels = x.type.shape
    features = kernel.type.shape[-1]
    if groups != 1 or count < 1 or images % count != 0 or features % count != 0:
        fail(
            "bad-groups",
            "expected a batch_group_count that divides the images and the features, "
            f"without feature groups; got {count} for {x.type} and {kernel.type}",
        )
    split = np.reshape(x, (count, images // count, *sizes, channels))
    beside = np.moveaxis(split, 0, -2)
    return np.reshape(beside, (images // count, *sizes, count * channels))


def conv_transpose(
    x: ArrayLike,
    kernel: ArrayLike,
    bias: ArrayLike | None = None,
    *,
    strides: Window = 1,
    padding: Padding = "VALID",
    output_padding: int | Sequence[int] = 0,
    dilation: Window = 1,
    groups: int = 1,
) -> Array:
    """Convolve transposed: y[i * stride + k * dilation - low] += x[i] * kernel[k].

    This is the adjoint of `conv` in x, as in PyTorch and ONNX. For the kernels of
    `jax.lax.conv_transpose`, which correlates, flip their spatial axes.

    Args:
        x: N, spatial…, C.
        kernel: spatial…, C / groups, F.
        bias: F, or None.
        strides: steps between the windows that are added up.
        padding: what the transposed convolution would pad, so it cuts from the result:
            "VALID" leaves (n - 1) * stride + window elements, "SAME" n * stride.
        output_padding: elements more at the end of each spatial axis.
        dilation: distance between the elements of a window.
        groups: channel groups that only make features of their own group.
    """
    x, kernel = one_dtype(x, kernel)
    require_kernel(x, kernel, groups)
    spatial = spatial_rank(x)
    steps, spread = (
        each(strides, spatial, "stride"),
        each(dilation, spatial, "dilation"),
    )
    reach = [d * (w - 1) for d, w in zip(spread, _window(kernel), strict=True)]
    cut = _cut_sides(padding, x.shape, _window(kernel), steps, spread)
    more = _more_at_the_end(output_padding, spatial)
    sides = [
        (r - low, r - high + end)
        for r, low, high, end in zip(reach, cut[::2], cut[1::2], more, strict=True)
    ]
    y = conv_general_dilated(
        x,
        kernel,
        padding=sides,
        lhs_dilation=steps,
        rhs_dilation=spread,
        feature_group_count=groups,
        window_reversal=(True,) * spatial,
    )
    return y if bias is None else np.add(y, bias)


def _cut_sides(
    padding: Padding,
    shape: Shape,
    window: Sequence[int],
    strides: Sequence[int],
    dilation: Sequence[int],
) -> Sides:
    """Return the padding of the convolution whose adjoint is computed."""
    sizes = [n * s for n, s in zip(shape[1:-1], strides, strict=True)]
    cut = list(sides_of(padding, sizes, window, strides, dilation))
    if isinstance(padding, str) and padding.upper() != "VALID":
        for axis, (w, d, s) in enumerate(zip(window, dilation, strides, strict=True)):
            cut[2 * axis + 1] += min(d * (w - 1) + 1 - s, 0)  # windows with gaps
    return tuple(cut)


def _more_at_the_end(value: int | Sequence[int], spatial: int) -> tuple[int, ...]:
    """Return `output_padding` as one number per spatial axis."""
    more = (value,) * spatial if isinstance(value, int) else tuple(value)
    if len(more) != spatial or any(number < 0 for number in more):
        fail(
            "bad-padding",
            f"expected one output_padding of at least 0, or one per spatial axis "
            f"({spatial}); got {value}",
        )
    return more
