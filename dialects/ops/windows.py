"""Windows that slide over an image (N, spatial…, C), and the adjoint: folding."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from aotc.core import dtypes as dt
from aotc.dialects.attributes import Ints
from aotc.dialects.builder import Builder
from aotc.dialects.graph import GraphOp, Operand, Pure, Result
from aotc.dialects.lowering import Lowering
from aotc.dialects.lowering.patches import patches
from aotc.dialects.movement.views import View
from aotc.dialects.ops.padding import dilated_size
from aotc.dialects.rules.batching import fold_leading_axis
from aotc.dialects.rules.linearity import linear
from aotc.dialects.rules.padding import HARMLESS
from aotc.dialects.rules.samples import OpSample, f32
from aotc.dialects.types import Size, Tensor
from aotc.errors import InputError
from aotc.mlir import Value


def window_count(size: Size, window: int, stride: int, dilation: int = 1) -> Size:
    """Return the number of windows that fit along an axis of `size`."""
    return (size - dilation * (window - 1) - 1) // stride + 1


def windowed_shape(
    x: Tensor, window: Sequence[int], strides: Sequence[int], dilation: Sequence[int]
) -> list[Size]:
    """Return the spatial sizes after sliding a window over x (N, spatial…, C)."""
    spatial = x.shape[1:-1]
    if not len(spatial) == len(window) == len(strides) == len(dilation):
        raise InputError(
            "bad-window",
            f"expected one window, stride and dilation for each of the {len(spatial)} "
            f"spatial axes of {x}; got {tuple(window)}, {tuple(strides)}, "
            f"{tuple(dilation)}",
        )
    if min((*window, *strides, *dilation), default=1) < 1:
        raise InputError(
            "bad-window",
            f"expected windows, strides and dilations of 1 or more; got "
            f"{tuple(window)}, {tuple(strides)}, {tuple(dilation)}",
        )
    counts = [
        window_count(n, w, s, d)
        for n, w, s, d in zip(spatial, window, strides, dilation, strict=True)
    ]
    if any(isinstance(n, int) and n < 1 for n in counts):
        raise InputError(
            "bad-window", f"a window of {tuple(window)} does not fit into {x}"
        )
    return counts


def padded_windows(x: View, op: Any, window: Sequence[int], fill: float) -> View | None:
    """Return the view of padded windows that a convolution or pooling reads, or None.

    Args:
        x: the view that its image is: N, spatial…, C.
        op: it has padding, strides, dilation and a result y.
        window: sizes of a window.
        fill: the elements of the padding.
    """
    counts = Tensor.of(op.y).shape[1:-1]
    low, high = (0, *op.padding[::2], 0), (0, *op.padding[1::2], 0)
    padded: View | None = x
    if min(op.padding, default=0) < 0:  # which cuts off
        start = tuple(max(0, -n) for n in low)
        cuts = zip(x.shape, low, high, strict=True)
        sizes = tuple(n + min(0, a) + min(0, z) for n, a, z in cuts)
        padded = x.slice(start, sizes, [1] * len(low))
        low, high = (tuple(max(0, n) for n in each) for each in (low, high))
    if padded is not None and any((*low, *high)):
        padded = padded.pad(low, high, fill)
    return padded and padded.windows(counts, window, op.strides, op.dilation)


def pad_spatial(
    b: Builder, x: Value, padding: Sequence[int], value: float = 0.0
) -> Value:
    """Emit `x` with `padding` (low, high per spatial axis) around its spatial axes."""
    if not any(padding):
        return x
    low, high = (0, *padding[::2], 0), (0, *padding[1::2], 0)
    return b.pad(x, low=low, high=high, interior=(0,) * len(low), value=value)


class Windows(GraphOp, name="windows", traits=[Pure]):
    """y[n, o…, k…, c] = x[n, o * stride + k * dilation…, c]: all windows."""

    selects = True
    why = "what convolution and pooling read; its adjoint folds"

    x: Operand[Any]
    window: Ints
    strides: Ints
    dilation: Ints
    y: Result[Any]
    is_free = True
    dtypes = ("bool", *dt.NUMBERS)

    @staticmethod
    def infer(
        x: Tensor,
        *,
        window: tuple[int, ...],
        strides: tuple[int, ...],
        dilation: tuple[int, ...],
    ) -> Tensor:
        """Return the type: images, positions…, window…, channels."""
        counts = windowed_shape(x, window, strides, dilation)
        return x.with_shape([x.shape[0], *counts, *window, x.shape[-1]])

    @staticmethod
    def ref(
        x: np.ndarray,
        *,
        window: tuple[int, ...],
        strides: tuple[int, ...],
        dilation: tuple[int, ...],
    ) -> np.ndarray:
        """Return a strided NumPy view of every window."""
        spatial = tuple(range(1, x.ndim - 1))
        extent = [d * (w - 1) + 1 for w, d in zip(window, dilation, strict=True)]
        view = np.lib.stride_tricks.sliding_window_view(x, extent, spatial)
        steps = [slice(None, None, s) for s in strides]
        inner = [slice(None, None, d) for d in dilation]
        view = view[(slice(None), *steps, slice(None), *inner)]
        return np.moveaxis(view, len(spatial) + 1, -1)

    jvp = linear

    @staticmethod
    def vjp(b: Builder, op: "Windows", dy: Value) -> list[Value]:
        """Return the elements of windows added up, as windows overlap."""
        return [fold(b, dy, Tensor.of(op.x), op.window, op.strides, op.dilation)]

    batch = staticmethod(fold_leading_axis)

    pad = HARMLESS

    @staticmethod
    def lower(low: Lowering, op: "Windows", x: Value) -> Value:
        """Emit the windows as rows (im2col), the window's axes split off again."""
        source, result = Tensor.of(op.x), Tensor.of(op.y)
        counts = result.shape[1 : 1 + len(op.window)]
        rows, flat = patches(low, x, source, counts, op.window, op.strides, op.dilation)
        return low.reshape(rows, flat, result)

    @staticmethod
    def view(op: "Windows", x: View) -> View | None:
        """Return the windows of the operand's view `x` as a view, or None."""
        counts = Tensor.of(op.y).shape[1 : 1 + len(op.window)]
        return x.windows(counts, op.window, op.strides, op.dilation)

    samples = [
        OpSample(
            (f32(2, 5, 6, 2),),
            {"window": (3, 2), "strides": (1, 2), "dilation": (1, 1)},
        ),
        OpSample(
            (f32("n", 7, 1),), {"window": (3,), "strides": (2,), "dilation": (2,)}
        ),
        OpSample(
            (f32(1, 4, 4, 2),),
            {"window": (2, 2), "strides": (2, 2), "dilation": (1, 1)},
        ),
        OpSample(
            (f32(1, "h", "w", 1),),
            {"window": (3, 2), "strides": (2, 1), "dilation": (1, 2)},
        ),
        OpSample(
            (f32(2, "h", "w", 1),),
            {"window": (2, 2), "strides": (2, 2), "dilation": (1, 1)},
        ),
    ]


def fold(
    b: Builder,
    dy: Value,
    x: Tensor,
    window: Sequence[int],
    strides: Sequence[int],
    dilation: Sequence[int],
) -> Value:
    """Emit the adjoint of `windows`: each window's elements added at their indices."""
    tiled = tuple(window) == tuple(strides) and set(dilation) <= {1}
    return (_fold_tiles if tiled else _fold_offsets)(
        b, dy, x, window, strides, dilation
    )


def _fold_tiles(
    b: Builder,
    dy: Value,
    x: Tensor,
    window: Sequence[int],
    strides: Sequence[int],
    dilation: Sequence[int],
) -> Value:
    """Emit a transpose of windows that touch but do not overlap, zeros for the rest."""
    spatial = len(window)
    counts = Tensor.of(dy).shape[1 : 1 + spatial]
    order = [0]
    for axis in range(1, 1 + spatial):
        order += [axis, axis + spatial]
    mixed = b.transpose(dy, permutation=(*order, 2 * spatial + 1))
    covered = [n * w for n, w in zip(counts, window, strict=True)]
    image = b.reshape(mixed, shape=(x.shape[0], *covered, x.shape[-1]))
    return b.pad_to(image, x.shape)


def _fold_offsets(
    b: Builder,
    dy: Value,
    x: Tensor,
    window: Sequence[int],
    strides: Sequence[int],
    dilation: Sequence[int],
) -> Value:
    """Emit the sum of one shifted image per offset in the window."""
    spatial = len(window)
    counts = Tensor.of(dy).shape[1 : 1 + spatial]
    # The window comes first, so that each part is contiguous: IREE 3.13 cannot compile
    # a vector gather, which the padding becomes, from a strided part.
    inner = range(1 + spatial, 1 + 2 * spatial)
    order = (*inner, *range(1 + spatial), 1 + 2 * spatial)
    moved = b.transpose(dy, permutation=order)
    image_shape = (x.shape[0], *counts, x.shape[-1])
    total = None
    for offset in np.ndindex(*window):
        part = b.slice(
            moved,
            start=offset + (0,) * len(image_shape),
            sizes=(1,) * spatial + image_shape,
            strides=(1,) * len(order),
        )
        part = b.reshape(part, shape=image_shape)
        low = [o * d for o, d in zip(offset, dilation, strict=True)]
        high = [
            n - before - dilated_size(c, s - 1)
            for n, before, c, s in zip(x.shape[1:-1], low, counts, strides, strict=True)
        ]
        image = b.pad(
            part,
            low=(0, *low, 0),
            high=(0, *high, 0),
            interior=(0, *(s - 1 for s in strides), 0),
            value=0.0,
        )
        total = image if total is None else b.add(total, image)
    assert total is not None  # windows are of size 1 or more
    return total
