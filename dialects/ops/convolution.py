"""Convolution of an image (N, spatial…, C) with a kernel (spatial…, C / groups, F)."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from aotc.core import dtypes as dt
from aotc.dialects.attributes import Int, Ints
from aotc.dialects.builder import Builder
from aotc.dialects.graph import LOW, GraphOp, Operand, Pure, Result
from aotc.dialects.lowering import Lowering
from aotc.dialects.lowering.conversion import accumulator
from aotc.dialects.movement.nests import Nest
from aotc.dialects.movement.views import View
from aotc.dialects.ops.contraction import (
    BYTES,
    dot_axes,
)
from aotc.dialects.ops.convolution_lowering import lower_convolution
from aotc.dialects.ops.padding import dilated_size
from aotc.dialects.ops.subpixel_convolution import without_inner_zeros
from aotc.dialects.ops.windows import (
    Windows,
    pad_spatial,
    padded_windows,
    windowed_shape,
)
from aotc.dialects.patterns.rows import RewriteRow
from aotc.dialects.patterns.terms import X, Y, call, this
from aotc.dialects.reference.products import sum_of_products
from aotc.dialects.rules.batching import add_leading_axes, fold_leading_axis
from aotc.dialects.rules.checks import require_dtype
from aotc.dialects.rules.linearity import linear
from aotc.dialects.rules.padding import BucketPadding
from aotc.dialects.rules.samples import OpSample, f32
from aotc.dialects.types import Shape, Size, Tensor, element_count
from aotc.errors import InputError
from aotc.mlir import Value


class ConvGeneral(GraphOp, name="conv_general", traits=[Pure]):
    """y[n, o…, f] = sum over k…, c of x[n, o * stride + k * dilation - low…, c] * w.

    w is kernel[k…, c, f]. x is N, spatial…, C (1 to 3 spatial axes); kernel is
    spatial…, C / groups, F. `padding` holds low and high zeros for each spatial axis.
    With groups, feature group g sees channel group g only. Products of bytes, i8 or u8
    on either side, are summed in i32.
    """

    why = "two adjoints that are convolutions; lowered by its kind"
    is_costly = True
    in_memory = True
    precision = LOW
    adds_products = True
    takes_images = True

    x: Operand[Any]
    kernel: Operand[Any]
    strides: Ints
    padding: Ints
    dilation: Ints
    groups: Int
    y: Result[Any]

    @staticmethod
    def infer(
        x: Tensor,
        kernel: Tensor,
        *,
        strides: tuple[int, ...],
        padding: tuple[int, ...],
        dilation: tuple[int, ...],
        groups: int,
    ) -> Tensor:
        """Return the type: images, spatial positions, features."""
        require_dtype(x, (*dt.FLOATS, *BYTES))
        is_of_bytes = x.dtype in BYTES
        require_dtype(kernel, BYTES if is_of_bytes else (x.dtype,))
        if x.rank not in (3, 4, 5) or kernel.rank != x.rank:
            raise InputError(
                "shape-mismatch",
                "expected x as N, 1 to 3 spatial axes, C and a kernel of equal rank; "
                f"got {x} and {kernel}",
            )
        if not kernel.is_static:
            raise InputError(
                "symbolic-size", f"expected a kernel of fixed size; got {kernel}"
            )
        _require_channels(x, kernel, groups)
        window: Any = kernel.shape[:-2]
        if len(padding) != 2 * len(window):
            raise InputError(
                "bad-attribute",
                f"expected low and high padding for each spatial axis of {x}; got "
                f"{tuple(padding)}",
            )
        low, high = padding[::2], padding[1::2]
        around = zip(x.shape[1:-1], low, high, strict=True)
        padded = x.with_shape(
            [x.shape[0], *(n + a + z for n, a, z in around), x.shape[-1]]
        )
        counts = windowed_shape(padded, window, strides, dilation)
        y = x.with_shape([x.shape[0], *counts, kernel.shape[-1]])
        return y.with_dtype("i32") if is_of_bytes else y

    @staticmethod
    def ref(
        x: np.ndarray,
        kernel: np.ndarray,
        *,
        strides: tuple[int, ...],
        padding: tuple[int, ...],
        dilation: tuple[int, ...],
        groups: int,
    ) -> Any:
        """Return windows times the kernel in NumPy, for all groups."""
        around = [(0, 0), *zip(padding[::2], padding[1::2], strict=True), (0, 0)]
        *window, channels, features = kernel.shape
        dtype = dt.canonical_dtype(x.dtype)
        wide = dt.to_numpy("i32" if dtype in BYTES else accumulator(dtype))
        padded = np.pad(x.astype(wide, copy=False), around)
        read = Windows.ref(
            padded, window=tuple(window), strides=strides, dilation=dilation
        )
        read = read.reshape(*read.shape[:-1], groups, channels)
        kernel = kernel.astype(wide, copy=False)
        kernel = kernel.reshape(*window, channels, groups, features // groups)
        # loops: images and positions, windows, groups, channels, features
        *kept, group, channel, feature = range(read.ndim + 1)
        inner = kept[x.ndim - 1 :]
        y: np.ndarray = sum_of_products(
            read,
            (*kept, group, channel),
            kernel,
            (*inner, channel, group, feature),
            (*kept[: x.ndim - 1], group, feature),
        )
        return y.reshape(*y.shape[:-2], features)

    @staticmethod
    def nests(op: "ConvGeneral") -> tuple[Nest, ...]:
        """Return loops over images, positions, groups, features, windows, channels."""
        image, y = Tensor.of(op.x).shape, Tensor.of(op.y).shape
        kernel: Any = Tensor.of(op.kernel).shape  # of numbers
        *window, channels, features = kernel
        groups, spatial = op.groups, len(window)
        own = (groups, features // groups)
        sizes = (*y[:-1], *own, *window, channels)
        first, last = spatial + 1, range(spatial + 3, len(sizes))

        def read_image(x: View) -> View | None:
            windows = padded_windows(x, op, window, 0.0)
            if windows is None:
                return None
            split = windows.split_axis(len(image) + spatial - 1, (groups, channels))
            if split is None:
                return None
            inside = range(first, first + spatial)
            order = (*range(first), first + spatial, *inside, first + spatial + 1)
            loops = (*range(first), first, *last)
            return split.transpose(order).broadcast(sizes, loops)

        def read_kernel(x: View) -> View | None:
            split = x.split_axis(spatial + 1, own)
            if split is None:
                return None
            order = (spatial + 1, spatial + 2, *range(spatial + 1))
            return split.transpose(order).broadcast(sizes, range(first, len(sizes)))

        return (Nest(sizes, spatial + 1, (read_image, read_kernel)),)

    jvp = linear

    @staticmethod
    def vjp(b: Builder, op: "ConvGeneral", dy: Value) -> list[Value]:
        """Return cotangents: dy convolved with the mirrored kernel, and with x."""
        return [_input_adjoint(b, op, dy), _kernel_adjoint(b, op, dy)]

    @staticmethod
    def batch(
        b: Builder,
        op: "ConvGeneral",
        operands: Sequence[Value],
        batched: Sequence[bool],
        size: Size,
    ) -> Value:
        """Emit the op on more images; for batched kernels, on more channel groups."""
        if not batched[1]:
            return fold_leading_axis(b, op, operands, batched, size)
        x, kernel = add_leading_axes(b, operands, batched, size)
        return _batch_into_groups(b, op, x, kernel, size)

    @staticmethod
    def pad(p: BucketPadding, op: "ConvGeneral", operands: Sequence[Value]) -> Any:
        """Emit the op with zeros for padding of the images, as around them."""
        x, kernel = operands
        spatial = range(1, Tensor.of(x).rank - 1)
        return p.build(op, [p.hide(x, Tensor.of(op.x), spatial, 0), kernel])

    @classmethod
    def scaled_axes(cls, op: Self, operand: int) -> dict[int, int]:
        """Return {0: 0}, images, for x; {feature axis: its axis} for the kernel."""
        if operand == 0:
            return {0: 0}
        return {Tensor.of(op.y).rank - 1: Tensor.of(op.kernel).rank - 1}

    @classmethod
    def summed_axes(cls, op: Self) -> dict[int, int]:
        """Return {channel axis of x: that of the kernel}; {} if grouped or padded."""
        if op.groups != 1 or any(op.padding):
            return {}
        rank = Tensor.of(op.kernel).rank
        return {rank - 1: rank - 2}

    @staticmethod
    def lower(low: Lowering, op: "ConvGeneral", x: Value, kernel: Value) -> Value:
        """Emit windows times kernel, or a depthwise op: see `convolution_lowering`."""
        return lower_convolution(low, op, x, kernel)

    simplify = (
        RewriteRow(
            "zeros between the elements of an image are not multiplied",
            this(call("pad", X).named("pad"), Y),
            lambda b, m: without_inner_zeros(b, m.op, m.pad),
            given=(f32(1, 3, 2), f32(2, 2, 4)),
            example=lambda b, x, y: _of_spread(b, x, y, zeros=1),
            near_miss=lambda b, x, y: _of_spread(b, x, y, zeros=2),
        ),
    )

    @classmethod
    def flops(cls, op: Self) -> Size:
        """Return the number of operations: two for each product."""
        products = element_count(Tensor.of(op.kernel).shape[:-1])
        return 2 * Tensor.of(op.y).elements * products

    samples = [
        OpSample(
            (f32(2, 5, 5, 2), f32(3, 3, 2, 4)),
            {
                "strides": (1, 1),
                "padding": (1, 1, 1, 1),
                "dilation": (1, 1),
                "groups": 1,
            },
        ),
        OpSample(
            (f32("n", 6, 5, 6), f32(3, 2, 3, 4)),
            {
                "strides": (2, 1),
                "padding": (0, 1, 1, 0),
                "dilation": (1, 2),
                "groups": 2,
            },
        ),
        OpSample(
            (f32(1, 7, 3), f32(3, 3, 2)),
            {"strides": (2,), "padding": (0, 0), "dilation": (1,), "groups": 1},
        ),
        OpSample(
            (f32(1, 3, 4, 3, 2), f32(2, 2, 2, 2, 3)),
            {
                "strides": (1, 1, 1),
                "padding": (0, 0, 1, 0, 0, 1),
                "dilation": (1, 1, 1),
                "groups": 1,
            },
        ),
        OpSample(
            (f32(2, 5, 5, 3), f32(3, 3, 1, 3)),
            {
                "strides": (1, 1),
                "padding": (1, 1, 1, 1),
                "dilation": (1, 1),
                "groups": 3,
            },
        ),
        OpSample(  # one window, behind which the image goes on
            (f32(2, 3, 5, 3), f32(4, 3, 1, 3)),
            {
                "strides": (2, 2),
                "padding": (1, 1, 0, 0),
                "dilation": (1, 1),
                "groups": 3,
            },
        ),
        OpSample(
            (Tensor((2, 5, 4, 6), "i8"), Tensor((3, 2, 2, 6), "i8")),
            {
                "strides": (2, 1),
                "padding": (1, 1, 0, 1),
                "dilation": (1, 1),
                "groups": 3,
            },
        ),
        OpSample(
            (Tensor((2, 5, 4, 3), "u8"), Tensor((3, 2, 3, 4), "i8")),
            {
                "strides": (2, 1),
                "padding": (1, 1, 0, 1),
                "dilation": (1, 1),
                "groups": 1,
            },
        ),
        OpSample(
            (f32("n", "h", "w", 2), f32(3, 2, 2, 3)),
            {
                "strides": (2, 1),
                "padding": (1, 1, 0, 1),
                "dilation": (1, 1),
                "groups": 1,
            },
        ),
        OpSample(
            (f32(2, "h", 5, 2), f32(2, 3, 1, 4)),
            {
                "strides": (1, 2),
                "padding": (0, 0, 2, 0),
                "dilation": (1, 1),
                "groups": 2,
            },
        ),
    ]


def _of_spread(b: Builder, x: Value, kernel: Value, zeros: int) -> Value:
    """Emit a 1-d convolution of values with zeros in between, for an example."""
    spread = b.pad(x, low=(0, 1, 0), high=(0, 1, 0), interior=(0, zeros, 0), value=0.0)
    return b.conv_general(
        spread, kernel, strides=(1,), padding=(0, 0), dilation=(1,), groups=1
    )


def _require_channels(x: Tensor, kernel: Tensor, groups: int) -> None:
    """Raise InputError for groups that do not divide channels and features."""
    channels, per_group, features = x.shape[-1], kernel.shape[-2], kernel.shape[-1]
    if groups < 1 or per_group * groups != channels or features % groups != 0:
        raise InputError(
            "shape-mismatch",
            f"expected groups that divide the {channels} channels of {x} into "
            f"{per_group} each, and the {features} features of the kernel {kernel}; "
            f"got {groups}",
        )


def _kernel_adjoint(b: Builder, op: ConvGeneral, dy: Value) -> Value:
    """Emit the kernel's cotangent: windows of x contracted with dy."""
    kernel = Tensor.of(op.kernel)
    window, spatial = kernel.shape[:-2], kernel.rank - 2
    padded = pad_spatial(b, op.x, op.padding)
    patches = b.windows(padded, window=window, strides=op.strides, dilation=op.dilation)
    shared = tuple(range(1 + spatial))
    if op.groups == 1:
        return b.dot_general(
            patches,
            dy,
            **dot_axes(contract=(shared, shared)),
        )
    groups = op.groups
    split = _split_last(b, patches, groups)
    grouped = b.dot_general(
        split,
        _split_last(b, dy, groups),
        **dot_axes(
            contract=(shared, shared), batch=((2 * spatial + 1,), (spatial + 1,))
        ),
    )  # groups, window…, C / groups, F / groups
    return b.reshape(b.move_axis(grouped, 0, -2), shape=kernel.shape)


def _split_last(b: Builder, x: Value, groups: int) -> Value:
    """Emit the last axis split into (groups, rest)."""
    shape = Tensor.of(x).shape
    return b.reshape(x, shape=(*shape[:-1], groups, shape[-1] // groups))


def _input_adjoint(b: Builder, op: ConvGeneral, dy: Value) -> Value:
    """Emit the cotangent of x: dy convolved with the mirrored kernel."""
    x, kernel = Tensor.of(op.x), Tensor.of(op.kernel)
    spatial = kernel.rank - 2
    mirrored = _mirrored_kernel(b, op, kernel, spatial)
    counts = Tensor.of(dy).shape[1:-1]
    low: list[Size] = []
    high: list[Size] = []
    for axis in range(spatial):
        reach = op.dilation[axis] * (kernel.shape[axis] - 1)
        before = reach - op.padding[2 * axis]
        spread = dilated_size(counts[axis], op.strides[axis] - 1)
        low.append(before)
        high.append(x.shape[1 + axis] + reach - spread - before)
    return _convolve_spread(b, op, dy, mirrored, low, high)


def _convolve_spread(
    b: Builder,
    op: ConvGeneral,
    dy: Value,
    kernel: Value,
    low: list[Size],
    high: list[Size],
) -> Value:
    """Emit dy with zeros between and around, convolved with stride 1."""
    spatial = len(low)
    simple = set(op.strides) == {1} and all(
        isinstance(n, int) and n >= 0 for n in (*low, *high)
    )
    padding: list[Any] = [0] * (2 * spatial)
    if simple:
        padding[::2], padding[1::2] = low, high
    else:
        interior = (0, *(s - 1 for s in op.strides), 0)
        dy = b.pad(
            dy, low=(0, *low, 0), high=(0, *high, 0), interior=interior, value=0.0
        )
    return b.conv_general(
        dy,
        kernel,
        strides=(1,) * spatial,
        padding=tuple(padding),
        dilation=op.dilation,
        groups=op.groups,
    )


def _mirrored_kernel(
    b: Builder, op: ConvGeneral, kernel: Tensor, spatial: int
) -> Value:
    """Emit the kernel reversed spatially, channels and features of groups exchanged."""
    window: Shape = kernel.shape[:spatial]
    per_group, features = kernel.shape[-2], kernel.shape[-1]
    flipped = b.reverse(op.kernel, axes=tuple(range(spatial)))
    if op.groups == 1:
        return b.move_axis(flipped, -1, -2)
    # window…, C / groups, groups, F / groups
    split = _split_last(b, flipped, op.groups)
    order = (*range(spatial), spatial + 2, spatial + 1, spatial)
    swapped = b.transpose(split, permutation=order)
    return b.reshape(
        swapped, shape=(*window, features // op.groups, per_group * op.groups)
    )


# ---- batched ------------------------------------------------------------------------


def _batch_into_groups(
    b: Builder, op: ConvGeneral, x: Value, kernel: Value, size: Size
) -> Value:
    """Emit a batch of convolutions with a kernel each as one of more groups."""
    if not isinstance(size, int):
        raise InputError(
            "symbolic-size",
            f"a kernel for each of '{size}' convolutions needs a fixed number of them",
        )
    merged = [_merge_before_last(b, value) for value in (x, kernel)]
    y = op.rebuild(*merged, groups=op.groups * size)
    shape = Tensor.of(y).shape
    split = b.reshape(y, shape=(*shape[:-1], size, shape[-1] // size))
    return b.move_axis(split, -2, 0)


def _merge_before_last(b: Builder, x: Value) -> Value:
    """Emit a value with its leading axis merged into the last one, in front."""
    shape = Tensor.of(x).shape
    merged = (*shape[1:-1], shape[0] * shape[-1])
    return b.reshape(b.move_axis(x, 0, -2), shape=merged)
