"""Rules of reading and writing at positions: padding reads anything, writes nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from aotc import debug
from aotc import numpy as np
from aotc.dialects.types import Shape, Size
from aotc.importers.common.padded.sizes import (
    bounds_of,
    count_of,
    equate,
    has_data_dependent,
    is_data_dependent,
    is_equal,
    shown_size,
)
from aotc.importers.common.padded.sources import true_positions
from aotc.importers.common.padded.values import (
    Padded,
    Value,
    as_padded,
    common_sizes,
    data_of,
    inside,
    mask_padding_gradient,
    refuse,
)
from aotc.tracing.array import Array

Keys = Sequence[Value | None]


def _positions(x: Value, keys: Keys) -> list[Value | None]:
    """Return keys for all axes, with the positions where masks hold in their place."""
    found: list[Value | None] = []
    for key in keys:
        if key is not None and key.dtype == "bool":
            found += true_positions(key)
        else:
            found.append(key)
    found += [None] * (len(x.shape) - len(found))
    return [
        key if key is None else _from_front(key, x.shape[axis])
        for axis, key in enumerate(found)
    ]


def _from_front(key: Value, size: Size) -> Value:
    """Count positions along a padded axis from its front; require that they are
    within its elements.
    """
    if not is_data_dependent(size):
        return key
    data = np.astype(data_of(key), "i64")
    count = count_of(size)
    places = np.where(np.less(data, 0), np.add(data, count), data)
    if data._data is not None:  # an index out of bounds is refused where it is known
        inside_axis = np.logical_and(
            np.greater_equal(places, 0), np.less(places, count)
        )
        debug.check(inside_axis, f"indices within {shown_size(size)} elements")
    nearest = np.maximum(np.minimum(places, np.subtract(count, 1)), 0)
    return as_padded(nearest, key.shape)


def _indexed_shape(x: Value, keys: Sequence[Value | None]) -> tuple[Shape, Shape, int]:
    """Return the shape of `x[keys]`, the keys' own part, and the place of that part."""
    axes = [n for n, key in enumerate(keys) if key is not None]
    shapes = [key.shape for key in keys if key is not None]
    broadcast = np.broadcast_shapes(*(bounds_of(shape) for shape in shapes))
    sizes = common_sizes(shapes)
    own = tuple(
        size if wanted is None else wanted
        for size, wanted in zip(broadcast, sizes, strict=True)
    )
    adjacent = axes == list(range(axes[0], axes[-1] + 1))
    place = axes[0] if adjacent else 0
    others = [size for n, size in enumerate(x.shape) if n not in axes]
    return (*others[:place], *own, *others[place:]), own, place


def getitem(x: Value, keys: Keys) -> Value:
    """`x[keys]`, with None for an axis that is taken whole."""
    positions = _positions(x, keys)
    key = tuple(slice(None) if k is None else data_of(k) for k in positions)
    shape, _, _ = _indexed_shape(x, positions)
    return mask_padding_gradient(np.getitem(data_of(x), key), shape)


def take(x: Value, axis: int, indices: Value) -> Value:
    """`x` at indices along an axis, whose axes take its place."""
    axis %= len(x.shape)
    return getitem(x, [*[None] * axis, indices])


# ---- writing ------------------------------------------------------------------------


def write_at(
    x: Value, keys: Keys, values: Any, write: str, *, counts_alike: bool = False
) -> Value:
    """Return `x` with values at positions set, or combined with the old ones.

    Args:
        x: the value.
        keys: as of `getitem`.
        values: what broadcasts to `x[keys]`.
        write: a method of `x.at[key]`: `set`, `add`, `multiply`, `min` or `max`.
        counts_alike: each call is held to as many values as there are positions, where
            values decide how many these are: masks say anew how often they hold.
    """
    positions = _positions(x, keys)
    shape, own, _ = _indexed_shape(x, positions)
    if isinstance(values, Padded):
        values = _align_to_positions(values, shape, counts_alike)
    key: list[Any] = [slice(None) if k is None else data_of(k) for k in positions]
    mode = None
    if has_data_dependent(own):
        axis = next(n for n, k in enumerate(positions) if k is not None)
        key[axis] = _padding_out_of_bounds(key[axis], own, data_of(x).shape[axis])
        mode = "drop"
    place = data_of(x).at[tuple(key)]
    found = getattr(place, write)(data_of(values), mode=mode)
    return mask_padding_gradient(found, x.shape)


def _align_to_positions(values: Padded, shape: Shape, counts_alike: bool) -> Padded:
    """Move the padding of values to where that of the positions is."""
    if counts_alike:
        for own, wanted in zip(values.shape[::-1], shape[::-1], strict=False):
            if is_data_dependent(own) and is_data_dependent(wanted):
                equate(own, wanted)
    sizes = common_sizes([shape, values.shape])
    if len(values.shape) > len(shape) or any(
        own is not None and not is_data_dependent(size)
        for own, size in zip(sizes, shape, strict=True)
    ):
        refuse(
            f"{values} is written to positions whose number does not depend on values",
            "take positions and values from the same mask",
        )
    return values


def _padding_out_of_bounds(key: Array, own: Shape, size: Size) -> Array:
    """Move positions that are padding out of bounds, where nothing is written."""
    whole = np.broadcast_to(key, bounds_of(own))
    wide = np.astype(whole, "i64")
    return np.where(inside(own), wide, count_of(size, "i64"))


# ---- one index per element ----------------------------------------------------------


def gather(
    function: Callable[[Array, Array], Array], x: Value, axis: int, indices: Value
) -> Value:
    """Gather elements along an axis by index, at their own place on the other axes."""
    axis %= len(x.shape)
    _require_same_places(x, axis, indices)
    places = _from_front(indices, x.shape[axis])
    return mask_padding_gradient(function(data_of(x), data_of(places)), indices.shape)


def scatter(
    function: Callable[[Array, Array, Any], Array],
    x: Value,
    axis: int,
    indices: Value,
    values: Any,
) -> Value:
    """`x` with values at indices along an axis, each at its place on the others.

    Args:
        function: of arrays; it leaves out what is out of bounds.
        x: the value.
        axis: of `x`.
        indices: a position for each value.
        values: of the shape of the indices, or a number.
    """
    axis %= len(x.shape)
    _require_same_places(x, axis, indices)
    if isinstance(values, Padded):
        common_sizes([values.shape, indices.shape])
    places = data_of(_from_front(indices, x.shape[axis]))
    if isinstance(indices, Padded):
        size = count_of(data_of(x).shape[axis], "i64")
        wide = np.astype(places, "i64")
        places = np.where(inside(indices.shape), wide, size)
    return mask_padding_gradient(function(data_of(x), places, data_of(values)), x.shape)


def _require_same_places(x: Value, axis: int, indices: Value) -> None:
    """Refuse indices that are padded along another axis, where x is not as well."""
    for n, (own, size) in enumerate(zip(x.shape, indices.shape, strict=True)):
        if n != axis and has_data_dependent((own, size)) and not is_equal(own, size):
            refuse(
                f"positions along axis {axis} whose axis {n} depends on values, unlike "
                "that of the array",
                "take both from the same positions",
            )
