"""Rules of functions that rearrange axes: shapes decide where padding goes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from aotc import numpy as np
from aotc.dialects.movement.permutations import permute
from aotc.dialects.movement.reshaping import reshape_groups, squeezed
from aotc.dialects.types import Shape, Size, quotient, same_count
from aotc.importers.common.padded.sizes import (
    bound_of,
    bounds_of,
    canonical,
    count_of,
    has_data_dependent,
    is_data_dependent,
    is_equal,
    shown_shape,
)
from aotc.importers.common.padded.values import (
    Padded,
    Value,
    as_padded,
    data_of,
    mask_padding_gradient,
    refuse,
    require_whole,
)
from aotc.tracing.array import Array

# ---- the order of axes --------------------------------------------------------------


def transpose(x: Value, axes: Sequence[int] | None = None) -> Value:
    """The axes in another order; in reverse order if none is given."""
    rank = len(x.shape)
    order = range(rank)[::-1] if axes is None else [axis % rank for axis in axes]
    data = np.transpose(data_of(x), tuple(order))
    return as_padded(data, [x.shape[axis] for axis in order])


def swap_axes(x: Value, one: int, other: int) -> Value:
    """Swap two axes."""
    rank = len(x.shape)
    order = list(range(rank))
    a, b = one % rank, other % rank
    order[a], order[b] = b, a
    return transpose(x, order)


def unsqueeze(x: Value, axes: int | Sequence[int]) -> Value:
    """Insert axes of size 1, at these places of the result."""
    listed = [axes] if isinstance(axes, int) else list(axes)
    rank = len(x.shape) + len(listed)
    new = {axis % rank for axis in listed}
    sizes = iter(x.shape)
    return reshape(x, [1 if axis in new else next(sizes) for axis in range(rank)])


def squeeze(x: Value, axes: int | Sequence[int] | None = None) -> Value:
    """Remove axes of size 1: all, or those among the given ones."""
    rank = len(x.shape)
    listed = range(rank) if axes is None else [axes] if isinstance(axes, int) else axes
    gone = {axis % rank for axis in listed}
    kept = [n for n, size in enumerate(x.shape) if n not in gone or size != 1]
    return reshape(x, [x.shape[n] for n in kept])


# ---- other shapes -------------------------------------------------------------------


def reshape(x: Value, sizes: Sequence[Size]) -> Value:
    """Reshape `x`; a size of -1 is computed from the others.

    Axes may join and part as long as the one that is padded is the first of them: then
    the elements of the value still come before the padding.
    """
    shape = _resolved_shape(x.shape, sizes)
    if not has_data_dependent((*x.shape, *shape)):
        return np.reshape(data_of(x), shape)
    sides = squeezed(x.shape), squeezed(shape)
    known = [tuple(map(canonical, sizes)) for sizes in sides]
    if not same_count(*known):
        refuse(
            f"{shown_shape(x.shape)} and {shown_shape(shape)} do not have equally many "
            "elements",
            "give sizes that multiply to the same",
        )
    for group in reshape_groups(*known):
        if not all(map(_is_padded_first, map(permute, sides, group))):
            refuse(
                f"{shown_shape(x.shape)} cannot become {shown_shape(shape)}: where "
                "sizes depend on values, axes join with those after them only",
                "move the axis to the front first",
            )
    return as_padded(np.reshape(data_of(x), bounds_of(shape)), shape)


def _resolved_shape(shape: Shape, sizes: Sequence[Size]) -> Shape:
    """Return the sizes with the remaining one in the place of -1."""
    if -1 not in sizes:
        return tuple(sizes)
    known = tuple(canonical(size) for size in sizes if size != -1)
    rest = quotient(tuple(map(canonical, shape)), known)
    if rest is None:
        refuse(
            f"nothing says what remains of {shown_shape(shape)} for -1 in "
            f"{shown_shape(tuple(sizes))}",
            "give the size",
        )
    return tuple(rest if size == -1 else size for size in sizes)


def _is_padded_first(sizes: Sequence[Size]) -> bool:
    """Return whether at most the first of these sizes depends on values."""
    return not has_data_dependent(sizes[1:])


def expand(x: Value, sizes: Sequence[Size]) -> Value:
    """`x` repeated to a shape, in which -1 keeps a size."""
    new = len(sizes) - len(x.shape)
    shape = tuple(
        x.shape[axis - new] if size == -1 else size for axis, size in enumerate(sizes)
    )
    for own, wanted in zip(x.shape, shape[new:], strict=True):
        if has_data_dependent((own, wanted)) and own != 1 and not is_equal(own, wanted):
            refuse(
                f"{shown_shape(x.shape)} does not broadcast to {shown_shape(shape)}",
                "give equal sizes",
            )
    return mask_padding_gradient(np.broadcast_to(data_of(x), bounds_of(shape)), shape)


def create_padded(function: Callable[[Shape], Array], sizes: Sequence[Size]) -> Value:
    """Create an array of a shape that depends on values by a function of the shape."""
    return as_padded(function(bounds_of(tuple(sizes))), sizes)


# ---- along other axes ---------------------------------------------------------------


def along_others(
    function: Callable[..., Any], axes: Callable[..., Sequence[int]]
) -> Callable[..., Any]:
    """The rule of a function of one value that keeps all axes but some as they are.

    Args:
        function: of the value and other arguments; it may change sizes along `axes`.
        axes: which ones, for the same arguments.
    """

    @wraps(function)
    def rule(x: Padded, *args: Any, **named: Any) -> Any:
        require_whole(x, axes(x, *args, **named))
        found = function(x.data, *args, **named)
        if isinstance(found, (list, tuple)):
            return [as_padded(y, _kept_sizes(x, y)) for y in found]
        return as_padded(found, _kept_sizes(x, found))

    return rule


def _kept_sizes(x: Padded, y: Array) -> list[Size]:
    return [x.shape[n] if n in x.axes else size for n, size in enumerate(y.shape)]


# ---- joining ------------------------------------------------------------------------


def concatenate(parts: Sequence[Value], axis: int) -> Value:
    """The values one after the other."""
    rank = len(parts[0].shape)
    axis %= rank
    _require_alike(parts, axis)
    data = np.concatenate([data_of(part) for part in parts], axis)
    lengths = [part.shape[axis] for part in parts]
    shape = list(_merged_shape(parts))
    shape[axis] = sum(lengths[1:], start=lengths[0])
    if not has_data_dependent(lengths[:-1]):
        return as_padded(data, shape)
    data = np.take(data, _packed_positions(lengths, data.shape[axis]), axis)
    return mask_padding_gradient(data, shape)


def _merged_shape(parts: Sequence[Value]) -> Shape:
    """The shape of the first part, with each size that any of them has padded."""
    return tuple(
        next(filter(is_data_dependent, sizes), sizes[0])
        for sizes in zip(*(part.shape for part in parts), strict=True)
    )


def _require_alike(parts: Sequence[Value], axis: int) -> None:
    for part in parts:
        for n, (own, size) in enumerate(
            zip(part.shape, _merged_shape(parts), strict=True)
        ):
            if n != axis and not is_equal(own, size):
                shown = " and ".join(shown_shape(each.shape) for each in parts)
                refuse(
                    f"values of these shapes do not join along axis {axis}: {shown}",
                    "take them from the same positions",
                )


def _packed_positions(lengths: Sequence[Size], bound: Size) -> Array:
    """Return the position of each element of parts with padding between them."""
    places = np.arange(bound, dtype="i32")
    gaps, end = np.zeros((), "i32"), np.zeros((), "i32")
    for length in lengths[:-1]:
        count = count_of(length, "i32")
        end = np.add(end, count)
        gap = np.subtract(count_of(bound_of(length), "i32"), count)
        gaps = np.add(gaps, np.where(np.greater_equal(places, end), gap, 0))
    return np.minimum(np.add(places, gaps), np.subtract(count_of(bound, "i32"), 1))


def stack(parts: Sequence[Value], axis: int) -> Value:
    """The values along a new axis."""
    rank = len(parts[0].shape) + 1
    return concatenate([unsqueeze(part, axis % rank) for part in parts], axis % rank)
