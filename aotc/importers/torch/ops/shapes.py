"""ATen ops that rearrange elements: shapes, axes, parts, copies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy

from aotc import numpy as np
from aotc.dialects.types import Size, SymbolicDim
from aotc.importers.torch.promotion import promote
from aotc.nn.interpolation import whole_ratio
from aotc.tracing.array import Array
from aotc.tracing.conversion import ArrayLike
from aotc.tracing.source_locations import fail

Part = TypeVar("Part")
_END = 2**63 - 1  # how torch writes the end of a slice that has none


def view(x: Array, shape: str | Sequence[Size]) -> Array:
    """Return x reshaped, or its bits viewed as another dtype of equal width."""
    return np.bitcast(x, shape) if isinstance(shape, str) else np.reshape(x, shape)


def expand(x: Array, shape: Sequence[Size], implicit: bool = False) -> Array:
    """Return x broadcast to a shape, in which -1 keeps a size."""
    new = len(shape) - x.ndim
    sizes = [
        x.shape[axis - new] if size == -1 else size for axis, size in enumerate(shape)
    ]
    return np.broadcast_to(x, tuple(sizes))


def squeeze(x: Array, dim: int | Sequence[int] | None = None) -> Array:
    """Return x without axes of size 1: all, or those listed."""
    listed = range(x.ndim) if dim is None else [dim] if isinstance(dim, int) else dim
    gone = {axis % x.ndim for axis in listed if x.ndim}
    sizes = [
        size
        for axis, size in enumerate(x.shape)
        if axis not in gone or not isinstance(size, int) or size != 1
    ]
    return np.reshape(x, tuple(sizes))


def transpose(x: Array, dim0: int, dim1: int) -> Array:
    """Return x with two axes swapped."""
    return np.swapaxes(x, dim0, dim1) if x.ndim else x


def transpose_2d(x: Array) -> Array:
    """Return a matrix transposed."""
    return np.transpose(x)


def concatenate(tensors: Sequence[Array], dim: int = 0) -> Array:
    """Return the tensors concatenated along an axis, without those of shape [0]."""
    parts = [x for x in tensors if x.shape != (0,)] or tensors[:1]
    return np.concatenate(promote(*parts), dim)


def stack(tensors: Sequence[Array], dim: int = 0) -> Array:
    """Return the tensors stacked along a new axis."""
    return np.stack(promote(*tensors), dim)


# ---- parts --------------------------------------------------------------------------


def key_on_axis(x: Array, dim: int, key: object) -> tuple[object, ...]:
    """Return an indexing key with `key` on one axis, the others whole."""
    axis = dim % x.ndim
    return (*[slice(None)] * axis, key)


def select(x: Array, dim: int, index: object) -> Array:
    """Return x at one index of an axis, without that axis."""
    return np.getitem(x, key_on_axis(x, dim, index))


def slice_axis(
    x: Array, dim: int = 0, start: object = None, end: object = None, step: int = 1
) -> Array:
    """Return `x[start:end:step]` along an axis."""
    return np.getitem(x, key_on_axis(x, dim, _slice(start, end, step)))


def _slice(start: object, end: object, step: int) -> slice:
    """Return a slice object, with None for torch's maximal end."""
    whole = isinstance(end, int) and end >= _END
    return slice(start, None if whole else end, step)


def narrow(x: Array, dim: int, start: Any, length: Size) -> Array:
    """Return `length` positions of an axis from `start`."""
    return slice_axis(x, dim, start, start + length)


def splitting(narrow: Callable[..., Part]) -> Callable[..., list[Part]]:
    """Return a function that splits an axis into given sizes by `narrow`."""

    def split_with_sizes(
        x: ArrayLike, sizes: Sequence[Size], dim: int = 0
    ) -> list[Part]:
        parts: list[Part] = []
        start: Size = 0
        for size in sizes:
            parts.append(narrow(x, dim, start, size))
            start = start + size
        return parts

    return split_with_sizes


def split(x: Array, size: Size, dim: int = 0) -> list[Array]:
    """Return parts of an axis of one size; the last may be smaller."""
    total = x.shape[dim]
    if isinstance(total, int) and isinstance(size, int):
        count = -(-max(total, 1) // size) if size else 1
    else:
        count = whole_ratio(total, size) or 0
    if not count:
        fail("symbolic-size", f"cannot split {x.type} into parts of {size}")
    if not isinstance(size, SymbolicDim) and not size:
        return [x]
    return [slice_axis(x, dim, n * size, (n + 1) * size) for n in range(count)]


def unbind(x: Array, dim: int = 0) -> list[Array]:
    """Return x at each index of an axis, as a list."""
    return list(np.unstack(x, axis=dim))


def select_scatter(x: Array, src: Array, dim: int, index: int) -> Array:
    """Return x with one index of an axis replaced by src."""
    return x.at[key_on_axis(x, dim, index)].set(np.astype(src, x.dtype))


def slice_scatter(
    x: Array,
    src: Array,
    dim: int = 0,
    start: ArrayLike | None = None,
    end: ArrayLike | None = None,
    step: int = 1,
) -> Array:
    """Return x with a slice of an axis replaced by src."""
    place = x.at[key_on_axis(x, dim, _slice(start, end, step))]
    return place.set(np.astype(src, x.dtype))


def diagonal(x: Array, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Array:
    """Return the diagonal of two axes, along a new last axis."""
    return np.diagonal(x, offset, dim1, dim2)


def diagonal_scatter(
    x: Array, src: Array, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Array:
    """Return x with a diagonal replaced by src."""
    y = np.moveaxis(x, (dim1, dim2), (-2, -1))
    rows = np.add(np.arange(src.shape[-1]), max(-offset, 0))
    y = y.at[..., rows, np.add(rows, offset)].set(np.astype(src, x.dtype))
    return np.moveaxis(y, (-2, -1), (dim1, dim2))


def diagonal_matrix(x: Array, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Array:
    """Return matrices of zeros with the last axis of `x` on a diagonal."""
    size = x.shape[-1] + abs(offset)
    zeros = np.zeros((*x.shape[:-1], size, size), x.dtype)
    rank = zeros.ndim
    placed = diagonal_scatter(zeros, x, offset, rank - 2, rank - 1)
    return np.moveaxis(placed, (-2, -1), (dim1, dim2))


def unfold(x: Array, dim: int, size: int, step: int) -> Array:
    """Return windows of an axis, with their elements along a new last axis."""
    if not x.ndim:
        return np.reshape(x, (size,))
    axis = dim % x.ndim
    count = (x.shape[axis] - size) // step + 1
    starts = np.multiply(np.arange(count, dtype="i32"), step)
    places = np.add(np.expand_dims(starts, 1), numpy.arange(size, dtype="i4"))
    return np.moveaxis(np.take(x, places, axis), axis + 1, -1)


def as_strided(
    x: Array, size: Sequence[int], stride: Sequence[int], offset: int | None = 0
) -> Array:
    """Return elements of x by sizes and strides of its row-major memory."""
    return np.take(np.ravel(x), _strided_places(size, stride, offset or 0))


def as_strided_scatter(
    x: Array, src: Array, size: Sequence[int], stride: Sequence[int], offset: int = 0
) -> Array:
    """Return x with the elements at sizes and strides of its memory replaced."""
    places = numpy.ravel(_strided_places(size, stride, offset))
    return np.reshape(np.ravel(x).at[places].set(np.ravel(src)), x.shape)


def _strided_places(
    size: Sequence[int], stride: Sequence[int], offset: int
) -> numpy.ndarray:
    """Return the flat indices of a strided view."""
    places = numpy.full((), offset)
    for count, step in zip(size, stride, strict=True):
        places = places[..., None] + numpy.arange(count) * step
    return places.astype("i4")


# ---- copies and order ---------------------------------------------------------------


def repeat(x: Array, repeats: Sequence[int]) -> Array:
    """Return x tiled along each axis."""
    return np.tile(x, tuple(repeats))


def repeat_interleave(
    x: Array, repeats: int, dim: int | None = None, output_size: object = None
) -> Array:
    """Return x with each slice of an axis repeated equally often."""
    return np.repeat(x, repeats, dim)


def repeated_positions(repeats: Array, *, output_size: Size | None = None) -> Array:
    """Return each index repeated as `repeats` says; `output_size` must be given."""
    if output_size is None:
        fail("symbolic-size", "the sum of repeats depends on values; give output_size")
    places = np.arange(output_size, dtype=repeats.dtype)
    return np.searchsorted(np.cumsum(repeats, 0), places, "right")


def roll(x: Array, shifts: Size | Sequence[Size], dims: Sequence[int] = ()) -> Array:
    """Return x with elements rotated along axes."""
    listed = list(shifts) if isinstance(shifts, Sequence) else [shifts]
    if not dims:
        return np.roll(x, listed[0])
    return np.roll(x, tuple(listed), tuple(dims))


def flip(x: Array, dims: Sequence[int]) -> Array:
    """Return x reversed along axes."""
    return np.flip(x, tuple(dims)) if dims else x


# ---- padding ------------------------------------------------------------------------


def _widths(x: Array, pad: Sequence[Size]) -> list[tuple[Size, Size]]:
    """Return (before, after) padding for each axis, from torch's reversed list."""
    pairs = [(pad[n], pad[n + 1]) for n in range(0, len(pad), 2)][::-1]
    return [(0, 0)] * (x.ndim - len(pairs)) + pairs


def constant_pad(x: Array, pad: Sequence[Size], value: float = 0) -> Array:
    """Return x padded with a value; negative widths crop."""
    return np.pad(x, _widths(x, pad), constant_values=value)


def padding(mode: str) -> Callable[[Array, Sequence[Size]], Array]:
    """Return a function that pads by reflection or the like; negative widths crop.

    What is cut off is still mirrored or repeated, but not what starts again ("wrap").
    """

    def call(x: Array, pad: Sequence[Size]) -> Array:
        widths = _widths(x, pad)
        more = [(max(a, 0), max(b, 0)) for a, b in widths]
        less = [(min(a, 0), min(b, 0)) for a, b in widths]
        if mode == "wrap":
            return np.pad(np.pad(x, less), more, mode)
        return np.pad(np.pad(x, more, mode), less)

    return call


_pad_reflect, _pad_edge = padding("reflect"), padding("edge")

OPS: dict[str, Callable[..., Any]] = {
    "aten.view": view,
    "aten.view_copy": view,
    "aten._unsafe_view": view,
    "aten.reshape": view,
    "aten.expand": expand,
    "aten.permute": np.transpose,
    "aten.transpose.int": transpose,
    "aten.t": transpose_2d,
    "aten.unsqueeze": np.expand_dims,
    "aten.squeeze": squeeze,
    "aten.cat": concatenate,
    "aten.stack": stack,
    "aten.select.int": select,
    "aten.slice.Tensor": slice_axis,
    "aten.narrow": narrow,
    "aten.split_with_sizes": splitting(narrow),
    "aten.split.Tensor": split,
    "aten.unbind.int": unbind,
    "aten.select_scatter": select_scatter,
    "aten.slice_scatter": slice_scatter,
    "aten.diagonal": diagonal,
    "aten.diagonal_scatter": diagonal_scatter,
    "aten.diag_embed": diagonal_matrix,
    "aten.unfold": unfold,
    "aten.as_strided": as_strided,
    "prims.as_strided_scatter": as_strided_scatter,
    "aten.repeat": repeat,
    "aten.repeat_interleave.self_int": repeat_interleave,
    "aten.repeat_interleave.Tensor": repeated_positions,
    "aten.roll": roll,
    "aten.flip": flip,
    "aten.tril": np.tril,
    "aten.triu": np.triu,
    "aten.constant_pad_nd": constant_pad,
    "aten.reflection_pad1d": _pad_reflect,
    "aten.reflection_pad2d": _pad_reflect,
    "aten.reflection_pad3d": _pad_reflect,
    "aten.replication_pad1d": _pad_edge,
    "aten.replication_pad2d": _pad_edge,
    "aten.replication_pad3d": _pad_edge,
}
