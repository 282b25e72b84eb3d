"""Functions of `aotc.numpy` that move the elements of one array."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aotc.dialects.types import (
    Shape,
    Size,
    SymbolicDim,
    element_count,
    format_shape,
    maximum,
    quotient,
    same_count,
)
from aotc.errors import InputError
from aotc.numpy.axes import Axes, axis_list, one_axis, other_axes, rising_axes
from aotc.numpy.broadcasting import ShapeLike, as_shape, broadcast_to
from aotc.numpy.cutting import cut
from aotc.numpy.elementwise import remainder, subtract
from aotc.numpy.gathering import take
from aotc.numpy.positions import integers, known_integers
from aotc.tracing.array import Array
from aotc.tracing.call_sizes import compiler_size
from aotc.tracing.conversion import ArrayLike, astype, lift
from aotc.tracing.sizes import describe_contracts
from aotc.tracing.source_locations import fail
from aotc.tracing.tracing import emit

__all__ = [
    "atleast_1d", "atleast_2d", "atleast_3d", "expand_dims", "flip", "fliplr", "flipud",
    "matrix_transpose", "moveaxis", "ndim", "ravel", "repeat", "reshape", "resize",
    "roll", "rollaxis", "rot90", "shape", "size", "squeeze", "swapaxes", "tile",
    "transpose",
]  # fmt: skip

# ---- shapes -------------------------------------------------------------------------


def reshape(a: ArrayLike, shape: ShapeLike) -> Array:
    """`a` in another shape, row-major, with the same number of elements.

    Args:
        a: any shape and dtype.
        shape: an int or a tuple of sizes, which may be symbolic; one of them may be -1,
            and is then what is left.

    Raises:
        InputError: `shape-mismatch` if the number of elements is not provably the same.
    """
    x = lift(a)
    wanted = _resolved_shape(x, as_shape(shape))
    return x if wanted == x.type.shape else emit("reshape", x, shape=wanted)


def _resolved_shape(x: Array, shape: Shape) -> Shape:
    """Return `shape` with -1 replaced by the remaining size."""
    known = tuple(n for n in shape if n != -1)
    rest: Size | None = 1
    if len(known) < len(shape):
        rest = quotient(x.type.shape, known) if len(known) == len(shape) - 1 else None
    elif not same_count(x.type.shape, known):
        rest = None
    if rest is None:
        promised = describe_contracts()
        fail(
            "shape-mismatch",
            f"cannot reshape {format_shape(x.shape)} to {format_shape(shape)}: "
            f"{element_count(x.type.shape)} elements do not provably "
            + ("make" if known == shape else "divide by")
            + f" {element_count(known)}"
            + (f" (promised: {promised})" if promised else ""),
            "promise what the size divides by, such as aotc.Dim('n', multiple_of=4)"
            if promised
            else None,
        )
    return tuple(rest if n == -1 else n for n in shape)


def ravel(a: ArrayLike) -> Array:
    """`a` as one axis."""
    return reshape(a, (-1,))


def expand_dims(a: ArrayLike, axis: Axes) -> Array:
    """`a` with new axes of size 1, at their places in the result."""
    x = lift(a)
    new = axis_list(x, axis, len(axis) if isinstance(axis, (tuple, list)) else 1)
    sizes = iter(x.shape)
    rank = x.ndim + len(new)
    return reshape(x, [1 if place in new else next(sizes) for place in range(rank)])


def squeeze(a: ArrayLike, axis: Axes = None) -> Array:
    """Remove all axes of size 1, or those that `axis` names.

    Raises:
        InputError: `shape-mismatch` if one of these is not provably of size 1;
            `symbolic-size` if without `axis` only a call decides which are.
    """
    x = lift(a)
    axes = _unit_axes(x) if axis is None else axis_list(x, axis)
    wrong = [number for number in axes if x.type.shape[number] != 1]
    if wrong:
        fail("shape-mismatch", f"axis {wrong[0]} of {x.type} does not have size 1")
    return reshape(x, [x.shape[number] for number in other_axes(x, axes)])


def _unit_axes(x: Array) -> list[int]:
    """Return the axes of size 1; raise if a symbol may be 1."""
    try:
        return [number for number, size in enumerate(x.shape) if size == 1]
    except InputError as error:
        error.hint = "name the axes that go, squeeze(x, axis), or promise min=2"
        raise


def atleast_1d(*arys: ArrayLike) -> Any:
    """View scalars as vectors; return a list for several arrays."""
    return _map_each(arys, lambda x: reshape(x, (1,)) if x.ndim < 1 else x)


def atleast_2d(*arys: ArrayLike) -> Any:
    """View vectors as rows; return a list for several arrays."""
    return _map_each(arys, lambda x: reshape(x, (1, -1)) if x.ndim < 2 else x)


def atleast_3d(*arys: ArrayLike) -> Any:
    """View vectors as (1, n, 1), matrices as (n, m, 1); list several arrays."""

    def wide(x: Array) -> Array:
        return expand_dims(atleast_2d(x), -1) if x.ndim < 3 else x

    return _map_each(arys, wide)


def _map_each(arys: Sequence[ArrayLike], change: Callable[[Array], Array]) -> Any:
    """Apply `change` to each array; return a list, or the only result."""
    changed = [change(lift(x)) for x in arys]
    return changed[0] if len(changed) == 1 else changed


def resize(a: ArrayLike, new_shape: ShapeLike) -> Array:
    """Repeat the elements of `a` cyclically to fill a new shape."""
    x, shape = ravel(a), as_shape(new_shape)
    count, have = element_count(shape), x.type.shape[0]
    if (
        isinstance(count, SymbolicDim)
        or isinstance(have, SymbolicDim)
        or min(shape, default=0) < 0
    ):
        fail(
            "shape-mismatch",
            f"expected fixed sizes, 0 or more; got {x.type} for {format_shape(shape)}",
        )
    if count and not have:
        return broadcast_to(astype(0, x.dtype), shape)
    times = -(-count // have) if have else 1
    return reshape(cut(tile(x, times), 0, 0, count), shape)


def shape(a: ArrayLike) -> Shape:
    """The sizes of `a`."""
    return lift(a).shape


def ndim(a: ArrayLike) -> int:
    """The number of axes of `a`."""
    return lift(a).ndim


def size(a: ArrayLike, axis: int | None = None) -> Size:
    """The number of elements of `a`, or the size of one axis."""
    x = lift(a)
    return x.size if axis is None else x.shape[one_axis(x, axis)]


# ---- the order of axes --------------------------------------------------------------


def transpose(a: ArrayLike, axes: Axes = None) -> Array:
    """`a` with its axes permuted; reversed without `axes`."""
    x = lift(a)
    order = range(x.ndim)[::-1] if axes is None else axis_list(x, axes)
    return emit("transpose", x, permutation=tuple(order))


def matrix_transpose(x: ArrayLike, /) -> Array:
    """`x` with its last two axes exchanged."""
    return swapaxes(x, -1, -2)


def swapaxes(a: ArrayLike, axis1: int, axis2: int) -> Array:
    """`a` with two axes exchanged."""
    x = lift(a)
    order = list(range(x.ndim))
    first, second = one_axis(x, axis1), one_axis(x, axis2)
    order[first], order[second] = second, first
    return transpose(x, order)


def moveaxis(a: ArrayLike, source: Axes, destination: Axes) -> Array:
    """`a` with axes moved to other places; the rest keep their order."""
    x = lift(a)
    sources, places = axis_list(x, source), axis_list(x, destination)
    if len(sources) != len(places):
        fail(
            "bad-axis",
            f"expected as many sources as destinations; got {source} and {destination}",
        )
    order = other_axes(x, sources)
    for place, axis in sorted(zip(places, sources, strict=True)):
        order.insert(place, axis)
    return transpose(x, order)


def rollaxis(a: ArrayLike, axis: int, start: int = 0) -> Array:
    """`a` with an axis moved to stand before the axis `start`, or behind all of them.

    A negative `start` counts from the number of axes, as in NumPy: -1 is the last one.
    """
    x = lift(a)
    source = one_axis(x, axis)
    place = x.ndim if start == x.ndim else one_axis(x, start)
    return moveaxis(x, source, place - 1 if source < place else place)


# ---- the order of elements ----------------------------------------------------------


def flip(m: ArrayLike, axis: Axes = None) -> Array:
    """`m` backwards along `axis`."""
    x = lift(m)
    return emit("reverse", x, axes=rising_axes(x, axis))


def fliplr(m: ArrayLike) -> Array:
    """`m` backwards along axis 1."""
    return flip(m, 1)


def flipud(m: ArrayLike) -> Array:
    """`m` backwards along axis 0."""
    return flip(m, 0)


def rot90(m: ArrayLike, k: int = 1, axes: Sequence[int] = (0, 1)) -> Array:
    """`m` turned by k quarters, from the first axis towards the second."""
    x = lift(m)
    pair = axis_list(x, tuple(axes))
    if len(pair) != 2:
        fail("bad-axis", f"expected two axes to turn; got {tuple(axes)}")
    first, second = pair
    if k % 4 == 0:
        return x
    if k % 4 == 2:
        return flip(x, pair)
    if k % 4 == 1:
        return swapaxes(flip(x, second), first, second)
    return flip(swapaxes(x, first, second), second)


def roll(a: ArrayLike, shift: ArrayLike, axis: Axes = None) -> Array:
    """Roll `a` cyclically along `axis`.

    Shifts may be numbers, sizes, or an integer scalar that the model computes; one for
    each axis, or one for all.
    """
    x = lift(a)
    if axis is None:
        return reshape(roll(ravel(x), shift, 0), x.shape)
    axes: list[Any] = list(axis) if isinstance(axis, (tuple, list)) else [axis]
    shifts: list[Any] = list(shift) if isinstance(shift, (tuple, list)) else [shift]
    count = max(len(axes), len(shifts))
    if {len(axes), len(shifts)} - {1, count}:
        fail("bad-axis", f"expected one shift per axis; got {shift!r} for {axis}")
    axes, shifts = axes * (count // len(axes)), shifts * (count // len(shifts))
    for number, by in zip(axes, shifts, strict=True):
        x = _roll_axis(x, by, one_axis(x, number))
    return x


def _roll_axis(x: Array, shift: ArrayLike, axis: int) -> Array:
    """Roll an array along one axis by a number or a traced integer."""
    size = x.type.shape[axis]
    by = compiler_size(shift) if isinstance(shift, SymbolicDim) else _shift(shift)
    if isinstance(by, Array):
        line = emit("iota", shape=(size,), axis=0, dtype="i32")
        wide = astype(size, "i32") if isinstance(size, SymbolicDim) else max(size, 1)
        return take(x, remainder(subtract(line, astype(by, "i32")), wide), axis)
    start = -by % maximum(size, 1)
    if start == 0:
        return x
    parts = cut(x, axis, start, size - start), cut(x, axis, 0, start)
    return emit("concatenate", *parts, axis=axis)


def _shift(shift: ArrayLike) -> int | Array:
    """Return a shift as an int; as an array if only a call decides it."""
    by = integers(shift)
    if by.ndim:
        fail("bad-index", f"expected a shift that is an integer; got {by.type}")
    return by if by._data is None else int(by)


# ---- repetition ---------------------------------------------------------------------


def repeat(a: ArrayLike, repeats: ArrayLike, axis: int | None = None) -> Array:
    """Repeat every element along `axis` `repeats` times in a row; or a number for
    each.
    """
    x, number = (ravel(a), 0) if axis is None else (lift(a), axis)
    number = one_axis(x, number)
    counts = repeats if isinstance(repeats, SymbolicDim) else _counts(repeats)
    if isinstance(counts, list):
        return _repeat_by_counts(x, counts, number)
    before, size, after = x.shape[:number], x.shape[number], x.shape[number + 1 :]
    wide = broadcast_to(expand_dims(x, number + 1), (*before, size, counts, *after))
    return reshape(wide, (*before, size * counts, *after))


def _counts(repeats: ArrayLike) -> int | list[int]:
    """Return the number of repeats, or a list of them; raise for negative ones."""
    numbers = known_integers(repeats)
    if numbers.ndim > 1 or (numbers < 0).any():
        fail("bad-repeats", f"expected integers of 0 or more; got {repeats}")
    listed: list[int] = numbers.ravel().tolist()
    return listed[0] if len(listed) == 1 else listed


def _repeat_by_counts(x: Array, counts: list[int], axis: int) -> Array:
    """Repeat each element along an axis by its own count."""
    size = x.type.shape[axis]
    if size != len(counts):
        fail(
            "shape-mismatch",
            f"expected one number of repeats for each of the {size} elements along "
            f"axis {axis} of {x.type}; got {len(counts)}",
        )
    return take(x, np.repeat(np.arange(len(counts), dtype="i4"), counts), axis)


def tile(A: ArrayLike, reps: ShapeLike) -> Array:  # noqa: N803 - NumPy's name
    """The whole of `A`, repeated `reps` times along each axis."""
    x, counts = lift(A), as_shape(reps)
    if any(isinstance(count, int) and count < 0 for count in counts):
        fail("bad-repeats", f"expected integers of 0 or more; got {reps}")
    rank = max(x.ndim, len(counts))
    sizes = (1,) * (rank - x.ndim) + x.shape
    counts = (1,) * (rank - len(counts)) + counts
    x = reshape(x, [n for size in sizes for n in (1, size)])
    pairs = list(zip(counts, sizes, strict=True))
    x = broadcast_to(x, [n for pair in pairs for n in pair])
    return reshape(x, [count * size for count, size in pairs])
