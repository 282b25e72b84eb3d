"""torchao's affine quantisation: one scale for each block, whatever its shape.

Source: `quant_primitives.py` of pytorch/ao. A block has a size along each axis, 1 for
those whose elements each have a scale; scales are one for each block, in any shape.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from aotc import nn
from aotc import numpy as np
from aotc.dialects.lowering.conversion import accumulator, integer_bounds
from aotc.dialects.types import Size
from aotc.importers.torch.ops.quantization import nearest_level
from aotc.importers.torch.promotion import as_dtype
from aotc.nn.quantizing import broadcast_along
from aotc.nn.spatial import static_size
from aotc.tracing.array import Array
from aotc.tracing.conversion import to_accumulator


def quantize_affine(
    x: Array,
    block_size: Sequence[Size],
    scale: Array,
    zero: Array | None,
    output_dtype: str,
    low: float | None = None,
    high: float | None = None,
) -> Array:
    """Return x quantised with a scale for each block."""
    wide = to_accumulator(x)
    blocks = _BlockLayout(x, block_size)
    zero = _zero_points_or_none(zero)
    step, origin = (
        broadcast_along(as_dtype(blocks.shape(part), wide.dtype), x, **blocks.kind)
        for part in (scale, np.zeros_like(scale) if zero is None else zero)
    )
    levels = nearest_level(wide, step, origin)
    least, most = integer_bounds(output_dtype)
    bounds = (least if low is None else low, most if high is None else high)
    return np.astype(np.clip(levels, *bounds), output_dtype)


def dequantize_affine(
    x: Array,
    block_size: Sequence[Size],
    scale: Array,
    zero: Array | None,
    input_dtype: str,
    low: float | None = None,
    high: float | None = None,
    output_dtype: str = "f32",
) -> Array:
    """Return the floats of integers with a scale for each block."""
    blocks = _BlockLayout(x, block_size)
    step = as_dtype(blocks.shape(scale), accumulator(output_dtype))
    zero = _zero_points_or_none(zero)
    origin = 0 if zero is None else blocks.shape(zero)
    found = nn.dequantize(
        x, step, origin, bits=_bits(x.dtype, low, high), **blocks.kind
    )
    return np.astype(found, output_dtype)


def choose_qparams_affine(
    x: Array,
    mapping_type: str,
    block_size: Sequence[Size],
    target_dtype: str,
    low: float | None = None,
    high: float | None = None,
    eps: float | None = None,
    scale_dtype: str | None = None,
    zero_point_dtype: str | None = None,
    keepdim: bool = False,
) -> list[Array]:
    """Return the scale and zero point for each block's range of x."""
    bounds = integer_bounds(target_dtype)
    least = float(bounds[0] if low is None else low)
    most = float(bounds[1] if high is None else high)
    smallest = _SMALLEST[x.dtype] if eps is None else eps
    split, axes, counts = _split_into_blocks(x, block_size)
    below = np.minimum(np.min(split, axes), 0.0)
    above = np.maximum(np.max(split, axes), 0.0)
    if mapping_type == "ASYMMETRIC":
        scale = np.divide(np.subtract(above, below), most - least)
        scale = np.maximum(scale, smallest)
        zero = np.subtract(least, np.round(np.divide(below, scale)))
        zero = np.clip(zero, least, most)
    else:
        scale = np.maximum(
            _SYMMETRIC[mapping_type](below, above, least, most), smallest
        )
        zero = np.full_like(scale, int((most + least + 1) / 2))
    if keepdim:
        scale, zero = (np.reshape(part, counts) for part in (scale, zero))
    default = "i32" if mapping_type == "ASYMMETRIC" else zero.dtype
    return [
        np.astype(scale, scale_dtype or x.dtype),
        np.astype(zero, zero_point_dtype or default),
    ]


def _split_into_blocks(
    x: Array, sizes: Sequence[Size]
) -> tuple[Array, tuple[int, ...], list[Size]]:
    """Return x reshaped with axes for blocks' elements, those axes, and block
    counts.
    """
    shape: list[Size] = []
    axes: list[int] = []
    counts: list[Size] = []
    for known, n, size in zip(x.type.shape, x.shape, sizes, strict=True):
        is_whole = size == known
        counts.append(1 if is_whole else n // size)
        if is_whole and size != 1:
            axes.append(len(shape))
        if is_whole or size == 1:
            shape.append(n)
        else:
            axes.append(len(shape) + 1)
            shape += [n // size, size]
    return np.reshape(x, shape), tuple(axes), counts


def _symmetric(below: Array, above: Array, least: float, most: float) -> Array:
    """Return the symmetric scale that maps the larger magnitude to half the range."""
    return np.divide(np.maximum(np.negative(below), above), (most - least) / 2)


def _symmetric_to_both_ends(
    below: Array, above: Array, least: float, most: float
) -> Array:
    """Return the symmetric scale by which neither end is clipped."""
    return np.maximum(np.divide(below, least), np.divide(above, most))


# the smallest normal number of each dtype
_SMALLEST = {"f32": 2.0**-126, "bf16": 2.0**-126, "f16": 2.0**-14, "f64": 2.0**-1022}

_SYMMETRIC = {
    "SYMMETRIC": _symmetric,
    "SYMMETRIC_NO_CLIPPING_ERR": _symmetric_to_both_ends,
}


def _bits(dtype: str, low: float | None, high: float | None) -> int | None:
    """Return the bits, 2 to 7, of integers whose full range is `low` to `high`; else
    None.
    """
    if low is None or high is None:
        return None
    is_signed = dtype in ("i8", "i16")
    for bits in range(2, 8):
        least = -(2 ** (bits - 1)) if is_signed else 0
        if (low, high) == (least, least + 2**bits - 1):
            return bits
    return None


class _BlockLayout:
    """The blocks of an array, as axis, block size and repeats for `nn.dequantize`.

    Args:
        x: the array.
        sizes: of a block along each axis.

    Attributes:
        kind: the axis and the block that `nn.dequantize` takes; scales are repeated
            along other axes that blocks have a size along.
    """

    def __init__(self, x: Array, sizes: Sequence[Size]) -> None:
        pairs = zip(x.type.shape, x.shape, sizes, strict=True)
        self._counts: list[Size] = [
            1 if size == known else n // size for known, n, size in pairs
        ]
        self._repeats: dict[int, int] = {}
        self.kind: dict[str, int | None] = {"axis": None}
        varying = [axis for axis, count in enumerate(self._counts) if count != 1]
        wide = [axis for axis, size in enumerate(sizes) if size != 1]
        if not varying:
            self._counts = []
        elif len(varying) == 1 and sizes[varying[0]] == 1:
            self._counts = [x.shape[varying[0]]]
            self.kind = {"axis": varying[0]}
        else:
            axis = wide[-1] if wide else x.ndim - 1
            self.kind = {"axis": axis, "block": static_size(sizes[axis], "block")}
            self._repeats = {i: static_size(sizes[i], "block") for i in wide[:-1]}

    def shape(self, part: Array) -> Array:
        """Return scales or zero points in the shape that `nn.dequantize` takes."""
        found = np.reshape(part, self._counts)
        for axis, count in self._repeats.items():
            found = np.repeat(found, count, axis)
        return found


def _zero_points_or_none(zero: Array | None) -> Array | None:
    """Return zero points; None for an empty array."""
    return None if zero is None or zero.shape == (0,) else zero


OPS: dict[str, Callable[..., Any]] = {
    "torchao.quantize_affine": quantize_affine,
    "torchao.dequantize_affine": dequantize_affine,
    "torchao.choose_qparams_affine": choose_qparams_affine,
}
