"""Pooling over windows of an image (N, spatial…, C)."""

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from aotc.core import dtypes as dt
from aotc.dialects.attributes import Ints
from aotc.dialects.builder import Builder
from aotc.dialects.graph import GraphOp, Operand, Pure, Result
from aotc.dialects.lowering import Lowering
from aotc.dialects.lowering.conversion import accumulator
from aotc.dialects.movement.nests import Nest
from aotc.dialects.movement.views import View
from aotc.dialects.ops.windows import (
    Windows,
    fold,
    pad_spatial,
    padded_windows,
    windowed_shape,
)
from aotc.dialects.reference.wide_sums import wide_sum
from aotc.dialects.rules.batching import fold_leading_axis
from aotc.dialects.rules.checks import require_dtype
from aotc.dialects.rules.linearity import linear
from aotc.dialects.rules.padding import BucketPadding
from aotc.dialects.rules.samples import OpSample, f32
from aotc.dialects.types import Size, Tensor
from aotc.errors import InputError
from aotc.mlir import Value, linalg


def _sample(
    x: Tensor,
    window: tuple[int, ...],
    strides: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...] | None = None,
) -> OpSample:
    """Return a sample of a pooling op."""
    return OpSample(
        (x,),
        {
            "window": window,
            "strides": strides,
            "padding": padding,
            "dilation": dilation or (1,) * len(window),
        },
    )


class Pool(GraphOp, traits=[Pure]):
    """Base of poolings; subclasses give the reduction, its start and named op."""

    x: Operand[Any]
    window: Ints
    strides: Ints
    padding: Ints
    dilation: Ints
    y: Result[Any]
    if TYPE_CHECKING:
        reduce: Callable[..., Any]
        named: dict[int, str]  # by the number of spatial axes, ops of linalg
    start = 0.0
    ufunc = "add"  # that `reduce` is of
    in_memory = True
    takes_images = True

    @classmethod
    def infer(
        cls,
        x: Tensor,
        *,
        window: tuple[int, ...],
        strides: tuple[int, ...],
        padding: tuple[int, ...],
        dilation: tuple[int, ...],
    ) -> Tensor:
        """Return the type: images, spatial positions, channels."""
        require_dtype(x, dt.FLOATS)
        if x.rank not in (3, 4, 5) or len(padding) != 2 * (x.rank - 2):
            raise InputError(
                "shape-mismatch",
                "expected N, 1 to 3 spatial axes, C and low and high padding; "
                f"got {x}, padding {tuple(padding)}",
            )
        padded = _padded_type(x, padding)
        counts = windowed_shape(padded, window, strides, dilation)
        return x.with_shape([x.shape[0], *counts, x.shape[-1]])

    @classmethod
    def ref(
        cls,
        x: np.ndarray,
        *,
        window: tuple[int, ...],
        strides: tuple[int, ...],
        padding: tuple[int, ...],
        dilation: tuple[int, ...],
    ) -> Any:
        """Return the reduction over all windows in NumPy."""
        around = [(0, 0), *zip(padding[::2], padding[1::2], strict=True), (0, 0)]
        padded = np.pad(x, around, constant_values=cls.start)
        patches = Windows.ref(padded, window=window, strides=strides, dilation=dilation)
        axes = tuple(range(1 + len(window), 1 + 2 * len(window)))
        return cls.reduce(
            patches.astype(dt.to_numpy(accumulator(dt.canonical_dtype(x.dtype)))), axes
        )

    batch = staticmethod(fold_leading_axis)

    @classmethod
    def nests(cls, op: Self) -> tuple[Nest, ...]:
        """Return loops over images, positions, channels, and windows."""
        spatial = len(op.window)

        def read(x: View) -> View | None:
            windows = padded_windows(x, op, op.window, cls.start)
            if windows is None:
                return None
            inside = range(spatial + 1, 2 * spatial + 1)
            return windows.transpose((*range(spatial + 1), 2 * spatial + 1, *inside))

        sizes = (*Tensor.of(op.y).shape, *op.window)
        return (Nest(sizes, spatial, (read,), cls.ufunc, cls.start),)

    @classmethod
    def pad(cls, p: BucketPadding, op: Self, operands: Sequence[Value]) -> Any:
        """Emit the op with padding replaced by the neutral element."""
        (x,) = operands
        spatial = range(1, Tensor.of(x).rank - 1)
        return p.build(op, [p.hide(x, Tensor.of(op.x), spatial, cls.start)])

    @classmethod
    def lower(cls, low: Lowering, op: Self, x: Value) -> Value:
        """Emit the named linalg pooling op; half precision accumulates in f32."""
        source, result = Tensor.of(op.x), Tensor.of(op.y)
        before, after = (0, *op.padding[::2], 0), (0, *op.padding[1::2], 0)
        padded = _padded_type(source, op.padding)
        wide = accumulator(source.dtype)
        x = low.pad(x, padded, before, after, cls.start)
        x = low.vary(low.convert(x, padded, wide))
        reached = _reached_type(padded, result, op).with_dtype(wide)
        if reached.shape != padded.shape:
            x = low.slice(x, reached, (0,) * padded.rank, (1,) * padded.rank)
        window = low.empty(Tensor(op.window, wide))
        total = getattr(linalg, cls.named[len(op.window)])(
            x,
            window,
            outs=[low.full(result.with_dtype(wide), cls.start)],
            strides=list(op.strides),
            dilations=list(op.dilation),
        )
        return low.convert(total, result.with_dtype(wide), result.dtype)

    @classmethod
    def flops(cls, op: Self) -> Size:
        """Return the number of operations: one for each element of each window."""
        return Tensor.of(op.y).elements * prod(op.window)

    samples = [
        _sample(f32(2, 4, 6, 2), (2, 2), (2, 2), (0,) * 4),
        _sample(f32("n", 5, 5, 1), (3, 2), (2, 1), (1, 1, 0, 1)),
        _sample(f32(1, 7, 2), (3,), (2,), (0, 0)),
        _sample(f32(1, 4, 4, 4, 1), (2,) * 3, (2,) * 3, (0,) * 6),
        _sample(f32(1, "h", "w", 2), (2, 3), (2, 1), (0, 1, 1, 1)),
        _sample(f32(1, 6, 5, 2), (2, 3), (2, 1), (1, 0, 1, 1), (3, 2)),
        _sample(f32(1, 4, 7, 2), (3, 3), (3, 2), (0,) * 4),
    ]


def _padded_type(x: Tensor, padding: Sequence[int]) -> Tensor:
    """Return the type of an image with its spatial padding."""
    around = zip(x.shape[1:-1], padding[::2], padding[1::2], strict=True)
    return x.with_shape([x.shape[0], *(n + a + z for n, a, z in around), x.shape[-1]])


def _reached_type(padded: Tensor, result: Tensor, op: Pool) -> Tensor:
    """Return the type of the padded image, cut to what windows read.

    IREE 3.13 takes such an axis for one of the size of the window, and refuses others.
    """
    sizes = list(padded.shape)
    for axis, (w, d) in enumerate(zip(op.window, op.dilation, strict=True), start=1):
        if result.shape[axis] == 1:
            sizes[axis] = d * (w - 1) + 1
    return padded.with_shape(sizes)


class SumPool(Pool, name="sum_pool"):
    """y = the sum over each window; zeros around the image."""

    why = "no windows in memory; its adjoint is a spread"
    adds_products = True

    reduce = staticmethod(wide_sum)
    named = {
        1: "pooling_nwc_sum",
        2: "pooling_nhwc_sum",
        3: "pooling_ndhwc_sum",
    }

    jvp = linear

    @staticmethod
    def vjp(b: Builder, op: "SumPool", dy: Value) -> list[Value]:
        """Return dy added to every element of its window."""
        patches = _patches(Tensor.of(op.y), op.window)
        spread = b.expand(dy, patches, _window_axes(op.window))
        return [_unpad_fold(b, op, spread)]


class MaxPool(Pool, name="max_pool"):
    """y = the largest element of each window; the first one gets the gradient."""

    selects = True
    why = "no windows in memory; the first of equal elements gets the derivative"

    start = -np.inf
    ufunc = "maximum"
    reduce = staticmethod(np.max)
    named = {
        1: "pooling_nwc_max",
        2: "pooling_nhwc_max",
        3: "pooling_ndhwc_max",
    }

    @classmethod
    def jvp(cls, b: Builder, op: Self, dx: Value) -> Value:
        """Return the tangent of each window's first maximum."""
        chosen, flat = _first_maximum(b, op)
        padded = pad_spatial(b, dx, op.padding)
        patches = b.windows(
            padded, window=op.window, strides=op.strides, dilation=op.dilation
        )
        taken = b.where_true(chosen, b.reshape(patches, shape=flat.shape))
        return b.reduce_sum(taken, axes=(flat.rank - 2,))

    @staticmethod
    def vjp(b: Builder, op: "MaxPool", dy: Value) -> list[Value]:
        """Return dy at each window's first maximum."""
        chosen, flat = _first_maximum(b, op)
        spread = b.where_true(chosen, b.expand(dy, flat, (flat.rank - 2,)))
        patches = _patches(Tensor.of(op.y), op.window)
        return [_unpad_fold(b, op, b.reshape(spread, shape=patches.shape))]


def _patches(y: Tensor, window: Sequence[int]) -> Tensor:
    """Return the type of all windows of a pooling with result y."""
    return y.with_shape([*y.shape[:-1], *window, y.shape[-1]])


def _window_axes(window: Sequence[int]) -> tuple[int, ...]:
    """Return the axes within a window."""
    return tuple(range(1 + len(window), 1 + 2 * len(window)))


def _unpad_fold(b: Builder, op: Pool, patches: Value) -> Value:
    """Emit the windows added up to an image, without its padding."""
    source = Tensor.of(op.x)
    padded = _padded_type(source, op.padding)
    image = fold(b, patches, padded, op.window, op.strides, op.dilation)
    return pad_spatial(b, image, [-n for n in op.padding])


def _first_maximum(b: Builder, op: MaxPool) -> tuple[Value, Tensor]:
    """Emit a mask of each window's first maximum; return the mask and its type."""
    y = Tensor.of(op.y)
    flat = y.with_shape([*y.shape[:-1], int(np.prod(op.window)), y.shape[-1]])
    padded = pad_spatial(b, op.x, op.padding, -np.inf)
    patches = b.windows(
        padded, window=op.window, strides=op.strides, dilation=op.dilation
    )
    best = b.argmax(b.reshape(patches, shape=flat.shape), axis=flat.rank - 2)
    index = b.iota(shape=flat.shape, axis=flat.rank - 2, dtype="i32")
    wanted = b.expand(best, flat.with_dtype("i32"), (flat.rank - 2,))
    return b.compare(index, wanted, direction="eq"), flat
