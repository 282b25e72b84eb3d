"""`x[key]`: integers, slices, `...`, None, arrays of positions and fixed masks.

A key is read in two steps. What is fixed (slices and integers) cuts a part out of x,
then the arrays pick positions from that part:

    x[1:, 0, i, j]  =  part[:, i, j]   of   part = x[1:, 0]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from aotc.dialects.types import Size, SymbolicDim
from aotc.numpy.cutting import slice_axis
from aotc.numpy.positions import (
    broadcast_positions,
    gather_at,
    integers_or_mask,
    true_positions,
)
from aotc.tracing.array import Array
from aotc.tracing.conversion import ArrayLike, lift
from aotc.tracing.source_locations import fail
from aotc.tracing.tracing import emit

__all__ = ["getitem"]


def getitem(x: ArrayLike, key: object) -> Array:
    """`x[key]`, as in NumPy.

    Positions out of bounds are an error where they are known, and clipped to the
    nearest element where the model computes them. Masks must be known.
    """
    return elements_at(lift(x), read_key(lift(x), key), mode="raise")


@dataclass(frozen=True)
class Key:
    """A parsed index: slices and integers first, then index arrays on what they select.

    Args:
        fixed: a slice or an integer for each axis of x, and None for new axes.
        axes: those of the part that are indexed by arrays.
        arrays: positions along them, of one dtype and shape.
        place: where the axes of the arrays go among the others of the part.
    """

    fixed: tuple[Any, ...]
    axes: tuple[int, ...]
    arrays: tuple[Array, ...]
    place: int


def read_key(x: Array, key: object) -> Key:
    """Parse an index `key` of `x`: its slices and integers, and its index arrays."""
    keys = _expand_ellipsis(
        x, _without_masks(x, key if isinstance(key, tuple) else (key,))
    )
    listed = [number for number, part in enumerate(keys) if _is_array(part)]
    fixed = tuple(
        slice(None) if number in listed else part for number, part in enumerate(keys)
    )
    kept = [n for n, part in enumerate(keys) if n in listed or not _is_number(part)]
    advanced = [n for n, part in enumerate(keys) if n in listed or _is_number(part)]
    others = [n for n in kept if n not in listed]
    axes = tuple(kept.index(number) for number in listed)
    place = 0
    if listed and advanced == list(range(advanced[0], advanced[-1] + 1)):
        place = len([n for n in others if n < advanced[0]])
    return Key(
        fixed, axes, broadcast_positions([keys[number] for number in listed]), place
    )


def cut_out(x: Array, fixed: Sequence[Any]) -> Array:
    """Apply the slices and integers of an index to `x`; drop and insert axes."""
    axis = 0
    sizes: list[Size] = []
    for key in fixed:
        if key is None:
            sizes.append(1)
            continue
        x = slice_axis(x, axis, key)
        if isinstance(key, slice):
            sizes.append(x.type.shape[axis])
        axis += 1
    same = tuple(sizes) == x.type.shape
    return x if same else emit("reshape", x, shape=tuple(sizes))


def elements_at(x: Array, key: Key, mode: str, fill: ArrayLike | None = None) -> Array:
    """Return the elements that a parsed index selects; `mode` is for indices out of
    bounds.
    """
    part = cut_out(x, key.fixed)
    if not key.axes:
        return part
    return gather_at(part, key.arrays, key.axes, key.place, mode, fill)


# ---- the parts of a key -------------------------------------------------------------


def _is_number(part: object) -> bool:
    """Return whether an index component is an integer or symbolic size."""
    return isinstance(part, (int, np.integer, SymbolicDim)) and not isinstance(
        part, bool
    )


def _is_array(part: object) -> bool:
    """Return whether an index component is an array, a list or a mask."""
    simple = part is None or part is Ellipsis or isinstance(part, slice)
    return not simple and (isinstance(part, bool) or not _is_number(part))


def _without_masks(x: Array, keys: tuple[Any, ...]) -> list[Any]:
    """Replace each mask of an index by the indices where it is true."""
    parts = [integers_or_mask(part) if _is_array(part) else part for part in keys]
    found: list[Any] = []
    for number, part in enumerate(parts):
        if not isinstance(part, Array) or part.dtype != "bool":
            found.append(part)
            continue
        if Ellipsis in [each for each in parts[:number] if not isinstance(each, Array)]:
            axis = x.ndim - sum(map(_axis_count, parts[number:]))
        else:
            axis = sum(map(_axis_count, parts[:number]))
        found += true_positions(x, axis, part)
    return found


def _axis_count(part: object) -> int:
    """Return the number of axes of x that an index component consumes."""
    if part is None or part is Ellipsis:
        return 0
    return part.ndim if isinstance(part, Array) and part.dtype == "bool" else 1


def _expand_ellipsis(x: Array, keys: list[object]) -> list[Any]:
    """Return one key per axis and new axis, with `...` filled in."""
    dots = [number for number, part in enumerate(keys) if part is Ellipsis]
    used = len([part for part in keys if part is not None and part is not Ellipsis])
    if used > x.ndim or len(dots) > 1:
        fail("bad-index", f"{len(keys)} indices for the {x.ndim} axes of {x.type}")
    missing = [slice(None)] * (x.ndim - used)
    place = dots[0] if dots else len(keys)
    return [*keys[:place], *missing, *keys[place + 1 :]]
