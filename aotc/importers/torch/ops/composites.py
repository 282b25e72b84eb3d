"""ATen ops that torch would take apart into ones of the other families.

They are here because exported networks are full of them: a graph that needs no
decomposition is imported several times faster (see `exporting.py`). One that needs it
is rid of them as well: `dropout` and `batch_norm` are this simple after training only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from aotc import nn
from aotc import numpy as np
from aotc.dialects.types import Size, ceil_divide, element_count
from aotc.importers.common.channels import apply_channels_last
from aotc.importers.torch.dropping import next_key
from aotc.importers.torch.ops.convolution import convolution
from aotc.importers.torch.ops.creation import full
from aotc.importers.torch.ops.geometry import Numbers, allow_unbatched
from aotc.importers.torch.ops.pooling import adaptive_avg_pool_2d
from aotc.importers.torch.ops.shapes import constant_pad, padding, split
from aotc.importers.torch.promotion import as_dtype, promoting
from aotc.tracing.array import Array


def dropout(x: Array, p: float, train: bool) -> Array:
    """Return x with dropout at rate `p` in training; x itself otherwise."""
    if not train or not p:
        return x
    return np.zeros_like(x) if p == 1 else nn.dropout(next_key(), x, p)


def cast(x: Array, *_: object, dtype: str | None = None, **__: object) -> Array:
    """Return x in another dtype."""
    return x if dtype is None else np.astype(x, dtype)


def to_device(x: Array, device: object, dtype: str, *_: object, **__: object) -> Array:
    """Return x in another dtype; the device is ignored."""
    return np.astype(x, dtype)


def cast_like(x: Array, other: Array, *_: object, **__: object) -> Array:
    """Return x in the dtype of another array."""
    return np.astype(x, other.dtype)


def _filler(value: int) -> Callable[..., Array]:
    """Return a function (x, size) that creates an array in x's dtype, filled with
    `value`.
    """
    return lambda x, size, *, dtype=None: full(size, value, dtype=dtype or x.dtype)


def new_full(x: Array, size: Sequence[Size], value: object, **options: Any) -> Array:
    """Return an array of a size, filled with a value, in the dtype of x."""
    return full(size, value, dtype=options.get("dtype") or x.dtype)


def flatten(x: Array, first: int = 0, last: int = -1) -> Array:
    """Return x with the axes from `first` to `last` flattened into one."""
    if not x.ndim:
        return np.reshape(x, (1,))
    first, last = first % x.ndim, last % x.ndim
    size = element_count(x.shape[first : last + 1])
    return np.reshape(x, (*x.shape[:first], size, *x.shape[last + 1 :]))


def chunk(x: Array, count: int, dim: int = 0) -> list[Array]:
    """Return at most `count` parts of an axis, of equal size but for the last."""
    return split(x, ceil_divide(x.shape[dim], count), dim)


def pad(
    x: Array, widths: Sequence[Size], mode: str = "constant", value: float | None = None
) -> Array:
    """Return x padded by a mode; negative widths crop."""
    if mode == "constant":
        return constant_pad(x, widths, value or 0)
    return padding(_MODES[mode])(x, widths)


# NumPy's names of what torch calls differently
_MODES = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def masked_fill(x: Array, mask: Array, value: Any) -> Array:
    """Return `x` with a value where the mask is true."""
    return np.where(mask, as_dtype(value, x.dtype), x)


def batch_norm(
    x: Array,
    weight: Array | None,
    bias: Array | None,
    mean: Array,
    variance: Array,
    training: bool,
    momentum: float,
    eps: float,
    *_: object,
) -> Array:
    """Return x normalised by running statistics of each channel."""
    return apply_channels_last(
        nn.batch_norm, x, mean, variance, weight, bias, epsilon=eps
    )


def _convolution(spatial: int) -> Callable[..., Array]:
    """Return the import function of a convolution over `spatial` axes."""

    def call(
        x: Array,
        weight: Array,
        bias: Array | None = None,
        stride: Numbers = 1,
        padding: Numbers = 0,
        dilation: Numbers = 1,
        groups: int = 1,
    ) -> Array:
        return convolution(x, weight, bias, stride, padding, dilation, False, 0, groups)

    return allow_unbatched(call, spatial)


def _transposed_convolution(spatial: int) -> Callable[..., Array]:
    """Return the import function of a transposed convolution over `spatial` axes."""

    def call(
        x: Array,
        weight: Array,
        bias: Array | None = None,
        stride: Numbers = 1,
        padding: Numbers = 0,
        output_padding: Numbers = 0,
        groups: int = 1,
        dilation: Numbers = 1,
    ) -> Array:
        return convolution(
            x, weight, bias, stride, padding, dilation, True, output_padding, groups
        )

    return allow_unbatched(call, spatial)


OPS: dict[str, Callable[..., Any]] = {
    "aten.dropout": dropout,
    "aten.to.device": to_device,
    "aten.to.dtype_layout": cast,
    "aten.to.other": cast_like,
    "aten.type_as": cast_like,
    "aten.new_zeros": _filler(0),
    "aten.new_ones": _filler(1),
    "aten.new_full": new_full,
    "aten.__and__": promoting(np.bitwise_and),
    "aten.__or__": promoting(np.bitwise_or),
    "aten.__xor__": promoting(np.bitwise_xor),
    "aten.__lshift__": promoting(np.left_shift),
    "aten.__rshift__": promoting(np.right_shift),
    "aten.flatten.using_ints": flatten,
    "aten.chunk": chunk,
    "aten.pad": pad,
    "aten.min.other": promoting(np.minimum),
    "aten.max.other": promoting(np.maximum),
    "aten.masked_fill": masked_fill,
    "aten.adaptive_avg_pool2d": adaptive_avg_pool_2d,
    "aten.batch_norm": batch_norm,
    "aten.conv1d.default": _convolution(1),
    "aten.conv2d.default": _convolution(2),
    "aten.conv3d.default": _convolution(3),
    "aten.conv_transpose1d": _transposed_convolution(1),
    "aten.conv_transpose2d.input": _transposed_convolution(2),
    "aten.conv_transpose3d.input": _transposed_convolution(3),
}
