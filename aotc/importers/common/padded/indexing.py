"""Reading and writing at positions, of which masks say how many there are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aotc import debug
from aotc import numpy as np
from aotc.dialects.types import Shape, Size
from aotc.importers.common.padded.op_rules import by_op_rules
from aotc.importers.common.padded.sizes import (
    bounds_of,
    count_of,
    equate,
    is_data_dependent,
    shown_size,
)
from aotc.importers.common.padded.sources import true_positions
from aotc.importers.common.padded.values import Padded, Value, common_sizes
from aotc.tracing.array import Array

Keys = Sequence[Value | None]


def _without_masks(x: Value, keys: Keys) -> list[Value | None]:
    """Return an index for each axis, with boolean masks replaced by positions."""
    found: list[Value | None] = []
    for key in keys:
        if key is not None and key.dtype == "bool":
            found += true_positions(key)
        else:
            found.append(key)
    found += [None] * (len(x.shape) - len(found))
    for key, size in zip(found, x.shape, strict=True):
        _require_inside(key, size)
    return found


def _require_inside(key: Value | None, size: Size) -> None:
    """Check at run time that constant indices lie within a data-dependent axis."""
    if not isinstance(key, Array) or key._data is None or not is_data_dependent(size):
        return
    known, count = np.astype(key, "i64"), count_of(size)
    places = np.where(np.less(known, 0), np.add(known, count), known)
    inside = np.logical_and(np.greater_equal(places, 0), np.less(places, count))
    debug.check(inside, f"indices within {shown_size(size)} elements")


def getitem(x: Value, keys: Keys) -> Value:
    """Return `x[keys]`, where None takes an axis whole."""
    return by_op_rules(np.getitem)(x, _key(_without_masks(x, keys)))  # type: ignore[no-any-return]


def _key(positions: Keys) -> tuple[Any, ...]:
    """Return positions as a tuple to index by, with `slice(None)` for each None."""
    return tuple(slice(None) if k is None else k for k in positions)


def take(x: Value, axis: int, indices: Value) -> Value:
    """Return `x` at indices along an axis; the axes of the indices replace it."""
    axis %= len(x.shape)
    return getitem(x, [*[None] * axis, indices])


def write_at(
    x: Value, keys: Keys, values: Any, write: str, *, counts_alike: bool = False
) -> Value:
    """Return `x` with the values at positions replaced by or combined with others.

    Args:
        x: the value.
        keys: as of `getitem`.
        values: what broadcasts to `x[keys]`.
        write: a method of `x.at[key]`: `set`, `add`, `multiply`, `min` or `max`.
        counts_alike: each call is held to as many values as there are positions, where
            values decide how many these are: masks say anew how often they hold.
    """
    positions = _without_masks(x, keys)
    if counts_alike and isinstance(values, Padded):
        wanted = _indexed_shape(x, positions)
        for own, size in zip(values.shape[::-1], wanted[::-1], strict=False):
            if is_data_dependent(own) and is_data_dependent(size):
                equate(own, size)
    return by_op_rules(_write)(x, _key(positions), values, write)  # type: ignore[no-any-return]


def _write(x: Array, key: tuple[Any, ...], values: Any, write: str) -> Array:
    """Return `x.at[key].write(values)`, with `write` the name of a method."""
    found: Array = getattr(x.at[key], write)(values)
    return found


def _indexed_shape(x: Value, keys: Keys) -> Shape:
    """Return the shape of `x[keys]`."""
    axes = [n for n, key in enumerate(keys) if key is not None]
    shapes = [key.shape for key in keys if key is not None]
    broadcast = np.broadcast_shapes(*(bounds_of(shape) for shape in shapes))
    own = tuple(
        size if wanted is None else wanted
        for size, wanted in zip(broadcast, common_sizes(shapes), strict=True)
    )
    adjacent = axes == list(range(axes[0], axes[-1] + 1))
    place = axes[0] if adjacent else 0
    others = [size for n, size in enumerate(x.shape) if n not in axes]
    return (*others[:place], *own, *others[place:])
