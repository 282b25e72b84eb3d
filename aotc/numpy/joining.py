"""Functions of `aotc.numpy` that join arrays, and that cut them into parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aotc.dialects.types import Shape, Size, format_shape, minimum
from aotc.numpy.axes import one_axis
from aotc.numpy.broadcasting import broadcast_to
from aotc.numpy.cutting import cut, slice_axis
from aotc.numpy.gathering import take
from aotc.numpy.positions import known_integers
from aotc.numpy.shaping import (
    atleast_1d,
    atleast_2d,
    atleast_3d,
    expand_dims,
    moveaxis,
    ravel,
    reshape,
    squeeze,
    transpose,
)
from aotc.tracing.array import Array
from aotc.tracing.conversion import ArrayLike, lift, one_dtype
from aotc.tracing.source_locations import fail
from aotc.tracing.tracing import emit

__all__ = [
    "append", "array_split", "block", "column_stack", "concatenate", "delete", "dsplit",
    "dstack", "hsplit", "hstack", "insert", "split", "stack", "unstack", "vsplit",
    "vstack",
]  # fmt: skip

# ---- joining ------------------------------------------------------------------------


def concatenate(arrays: Sequence[ArrayLike], axis: int | None = 0) -> Array:
    """The arrays one after the other along `axis`; flattened for None."""
    parts = _parts(arrays, "concatenate")
    if axis is None:
        return concatenate([ravel(part) for part in parts])
    number = one_axis(parts[0], axis)
    # by pairs, so that no element is copied more than log n times
    while len(parts) > 1:
        pairs = [parts[i : i + 2] for i in range(0, len(parts), 2)]
        parts = [_concatenate_pair(pair, number) for pair in pairs]
    return parts[0]


def _parts(arrays: Sequence[ArrayLike], function: str) -> list[Array]:
    """Return the arrays in one dtype; raise if there is none."""
    if not isinstance(arrays, Sequence) or not len(arrays):
        got = "none" if isinstance(arrays, Sequence) else type(arrays).__name__
        fail("shape-mismatch", f"{function} needs a list of arrays; got {got}")
    return one_dtype(*arrays)


def _concatenate_pair(pair: list[Array], axis: int) -> Array:
    """Concatenate two arrays, or return a single one."""
    return pair[0] if len(pair) == 1 else emit("concatenate", *pair, axis=axis)


def stack(arrays: Sequence[ArrayLike], axis: int = 0) -> Array:
    """The arrays, all of one shape and dtype, along a new axis of the result.

    Raises:
        InputError: `shape-mismatch`, also of no arrays; `dtype-mismatch`.
    """
    parts = _parts(arrays, "stack")
    shapes = list(dict.fromkeys(part.type.shape for part in parts))
    if len(shapes) > 1:
        named = " and ".join(map(format_shape, shapes))
        fail("shape-mismatch", f"expected arrays of one shape to stack; got {named}")
    return concatenate([expand_dims(part, axis) for part in parts], axis)


def hstack(tup: Sequence[ArrayLike]) -> Array:
    """The arrays side by side: along axis 1, or 0 for vectors."""
    parts = [atleast_1d(part) for part in _parts(tup, "hstack")]
    return concatenate(parts, 0 if parts[0].ndim == 1 else 1)


def vstack(tup: Sequence[ArrayLike]) -> Array:
    """The arrays below each other, vectors as rows."""
    return concatenate([atleast_2d(part) for part in _parts(tup, "vstack")], 0)


def dstack(tup: Sequence[ArrayLike]) -> Array:
    """The arrays behind each other: along axis 2."""
    return concatenate([atleast_3d(part) for part in _parts(tup, "dstack")], 2)


def column_stack(tup: Sequence[ArrayLike]) -> Array:
    """The arrays side by side, vectors as columns."""
    parts = _parts(tup, "column_stack")
    columns = [transpose(atleast_2d(x)) if x.ndim < 2 else x for x in parts]
    return concatenate(columns, 1)


def block(arrays: object) -> Array:
    """Join nested lists of arrays: the innermost ones along the last axis."""
    depth = _depth(arrays)
    leaves = _parts(_leaves(arrays), "block")
    rank = max(depth, *(leaf.ndim for leaf in leaves))
    parts = iter([reshape(x, (1,) * (rank - x.ndim) + x.shape) for x in leaves])

    def join(nested: object, level: int) -> Array:
        if not isinstance(nested, list):
            return next(parts)
        inner = [join(part, level + 1) for part in nested]
        return concatenate(inner, rank - depth + level)

    return join(arrays, 0)


def _depth(nested: object) -> int:
    """Return the nesting depth of lists; raise if it varies."""
    if not isinstance(nested, list):
        return 0
    depths = {_depth(part) for part in nested}
    if len(depths) != 1:
        fail("shape-mismatch", "block needs lists that are nested equally deep")
    return 1 + depths.pop()


def _leaves(nested: object) -> list[Any]:
    """Return the leaves of nested lists."""
    if not isinstance(nested, list):
        return [nested]
    return [leaf for part in nested for leaf in _leaves(part)]


def append(arr: ArrayLike, values: ArrayLike, axis: int | None = None) -> Array:
    """`values` behind `arr`; both flattened without `axis`."""
    return concatenate([arr, values], axis)


# ---- cutting into parts -------------------------------------------------------------

Cuts = int | Sequence[Size]  # a number of parts, or where they end


def split(ary: ArrayLike, indices_or_sections: Cuts, axis: int = 0) -> list[Array]:
    """`ary` in equal parts, or cut at indices."""
    x = lift(ary)
    number = one_axis(x, axis)
    if not isinstance(indices_or_sections, int):
        return _cut_at(x, number, indices_or_sections)
    sections = _sections(indices_or_sections)
    size = x.type.shape[number]
    part = size // sections
    if part * sections != size:
        fail(
            "shape-mismatch",
            f"axis {axis} of {x.type} does not provably divide by {sections}",
            "use array_split, or promise multiple_of of the size",
        )
    return [cut(x, number, part * i, part) for i in range(sections)]


def unstack(x: ArrayLike, /, *, axis: int = 0) -> tuple[Array, ...]:
    """The slices along an axis of fixed size, without that axis."""
    array = lift(x)
    number = one_axis(array, axis)
    size = array.shape[number]
    if not isinstance(size, int):
        fail("symbolic-size", f"cannot unstack axis {axis} of {array.type}: no number")
    parts = (slice_axis(array, number, slice(i, i + 1)) for i in range(size))
    return tuple(squeeze(part, number) for part in parts)


def array_split(
    ary: ArrayLike, indices_or_sections: Cuts, axis: int = 0
) -> list[Array]:
    """`ary` in parts of nearly equal size (the first are larger), or cut at indices."""
    x = lift(ary)
    number = one_axis(x, axis)
    if not isinstance(indices_or_sections, int):
        return _cut_at(x, number, indices_or_sections)
    sections = _sections(indices_or_sections)
    size = x.type.shape[number]
    part, larger = size // sections, size % sections
    starts = [part * i + minimum(larger, i) for i in range(sections + 1)]
    ends = zip(starts, starts[1:], strict=False)
    return [cut(x, number, start, stop - start) for start, stop in ends]


def _sections(count: int) -> int:
    """Return a number of sections; raise if it is less than 1."""
    if count < 1:
        fail("shape-mismatch", f"expected 1 section or more; got {count}")
    return count


def _cut_at(x: Array, axis: int, indices: Sequence[Size]) -> list[Array]:
    """Split an axis at indices; return the parts."""
    cuts = [0, *indices, None]
    ends = zip(cuts, cuts[1:], strict=False)
    return [slice_axis(x, axis, slice(start, stop)) for start, stop in ends]


def _split_along(axis: int, least: int) -> Callable[[ArrayLike, Cuts], list[Array]]:
    """Return `split` with a fixed axis, for arrays of at least `least` axes."""

    def along(ary: ArrayLike, indices_or_sections: Cuts) -> list[Array]:
        x = lift(ary)
        if x.ndim < least:
            fail("shape-mismatch", f"expected {least} axes or more; got {x.type}")
        return split(x, indices_or_sections, axis)

    along.__doc__ = f"aotc.numpy.split along axis {axis}, of {least} or more."
    return along


vsplit, dsplit = _split_along(0, least=2), _split_along(2, least=3)


def hsplit(ary: ArrayLike, indices_or_sections: Cuts) -> list[Array]:
    """Split along axis 1, or 0 for vectors, as `aotc.numpy.split` does."""
    x = lift(ary)
    return split(x, indices_or_sections, 0 if x.ndim == 1 else 1)


# ---- at fixed positions -------------------------------------------------------------


def delete(arr: ArrayLike, obj: ArrayLike | slice, axis: int | None = None) -> Array:
    """`arr` without the elements at fixed positions along `axis`."""
    x, number = (ravel(arr), 0) if axis is None else (lift(arr), axis)
    number = one_axis(x, number)
    if isinstance(obj, (int, np.integer)):
        return _without_one(x, number, int(obj))
    size = _static_size(x, number)
    places = _known_positions(obj, size)
    _require_positions(x, number, places, size)
    kept = np.delete(np.arange(size), places.astype("i8"))
    return take(x, kept.astype("i4"), number)


def _without_one(x: Array, axis: int, position: int) -> Array:
    """Return an array without the element at an index along an axis."""
    slice_axis(x, axis, position)  # it must be there
    after = position + 1 if position != -1 else x.shape[axis]
    parts = [
        slice_axis(x, axis, slice(position)),
        slice_axis(x, axis, slice(after, None)),
    ]
    return concatenate(parts, axis)


def insert(
    arr: ArrayLike, obj: ArrayLike | slice, values: ArrayLike, axis: int | None = None
) -> Array:
    """`values` before fixed positions of `arr` along `axis`."""
    x, number = (ravel(arr), 0) if axis is None else (lift(arr), axis)
    number = one_axis(x, number)
    x, new = one_dtype(x, values)
    known = obj if isinstance(obj, slice) else known_integers(obj)
    if isinstance(known, np.ndarray) and known.size == 1 and known.ndim < 2:
        new = reshape(new, (1,) * (x.ndim - new.ndim) + new.shape)
        new = new if known.ndim else moveaxis(new, 0, number)
        new = broadcast_to(new, _with_size(x, number, new.shape[number]))
        start = int(known.item())
        size = x.type.shape[number]
        if isinstance(size, int):
            _require_positions(x, number, known, size + 1)
        parts = (slice(start), slice(start, None))
        before, after = (slice_axis(x, number, part) for part in parts)
        return concatenate([before, new, after], number)
    count = _static_size(x, number)
    places = _known_positions(known, count)
    _require_positions(x, number, places, count + 1)
    new = broadcast_to(new, _with_size(x, number, places.size))
    order = np.insert(np.arange(count), places, count + np.arange(places.size))
    return take(concatenate([x, new], number), order.astype("i4"), number)


def _with_size(x: Array, axis: int, size: Size) -> Shape:
    """Return the shape of `x` with another size at an axis."""
    return (*x.shape[:axis], size, *x.shape[axis + 1 :])


def _static_size(x: Array, axis: int) -> int:
    """Return the size of an axis; raise if it is symbolic."""
    size = x.shape[axis]
    if not isinstance(size, int):
        fail(
            "symbolic-size",
            f"several positions along axis {axis} of {x.type} need its size fixed",
        )
    return size


def _known_positions(obj: ArrayLike | slice, size: int) -> np.ndarray:
    """Return the indices that a slice or an array of known integers selects."""
    return np.arange(size)[obj] if isinstance(obj, slice) else known_integers(obj)


def _require_positions(x: Array, axis: int, places: np.ndarray, end: int) -> None:
    """Raise for indices that are no integers from -size up to `end`."""
    size = x.shape[axis]
    if places.ndim > 1 or ((places < -size) | (places >= end)).any():
        fail(
            "bad-index",
            f"expected positions of axis {axis} of {x.type}; got {places.tolist()}",
        )
