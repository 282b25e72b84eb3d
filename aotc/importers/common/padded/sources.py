"""Origins of sizes that depend on values: true elements, and distinct ones.

Of arrays whose values are known, nothing is padded: these functions compute at once.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy

from aotc import debug
from aotc import numpy as np
from aotc.core import dtypes
from aotc.dialects.types import Size
from aotc.importers.common.padded.sizes import bound_of, made_once, new_size
from aotc.importers.common.padded.values import (
    Padded,
    Value,
    as_padded,
    data_of,
    from_first,
    inside,
    mask_padding_gradient,
    repeating_first,
)
from aotc.mlir import ir
from aotc.tracing.array import Array
from aotc.tracing.survey import note_decomposition


def chosen_size(count: Array, natural: Size | None) -> Size:
    """Return a new data-dependent size, and note it for `aotc explain`."""
    size = new_size(count, natural)
    note_decomposition(
        f"how many results it has depends on values: computed for {bound_of(size)}, "
        "the most that there can be"
    )
    return size


def where_true(mask: Value) -> Array:
    """Return a mask as bool, with False in padding."""
    data = np.astype(data_of(mask), "bool")
    return (
        np.logical_and(data, inside(mask.shape)) if isinstance(mask, Padded) else data
    )


def true_positions(x: Value) -> list[Value]:
    """Return the indices (i64) of nonzero elements, a vector for each axis.

    Those of one mask are as many each time, also where it is computed twice.
    """
    if isinstance(x, Array) and x._data is not None:
        return [Array(data=places) for places in numpy.nonzero(x._data)]
    key = (structure_of(data_of(x)), x.shape if isinstance(x, Padded) else None)
    return made_once(("true", key), lambda: _true_positions(x))


def _true_positions(x: Value) -> list[Value]:
    """Return the indices of nonzero elements, as vectors of a new
    data-dependent size.
    """
    mask = where_true(x)
    size = chosen_size(np.sum(np.astype(mask, "i32")), mask.size)
    places = np.nonzero(mask, size=bound_of(size))
    return [from_first(np.astype(place, "i64"), (size,)) for place in places]


def repeated_positions(repeats: Value, natural: Size | None = None) -> Value:
    """Return each index of a vector repeated as often as its element says, as i64."""
    if isinstance(repeats, Array) and repeats._data is not None:
        each = numpy.arange(repeats._data.size, dtype=numpy.int64)
        return Array(data=numpy.repeat(each, repeats._data))
    if isinstance(repeats, Padded):
        counts = np.where(inside(repeats.shape), repeats.data, 0)
    else:
        counts = repeats
    ends = np.cumsum(np.astype(counts, "i32"), 0)
    debug.check(np.greater_equal(counts, 0), "repeats of 0 and more")
    size = chosen_size(np.sum(np.astype(counts, "i32")), natural)
    line = np.arange(bound_of(size), dtype="i32")
    return from_first(np.astype(np.searchsorted(ends, line, "right"), "i64"), (size,))


def counts_of_each(x: Value, weights: Value | None, least: int) -> Value:
    """Count the occurrences of 0, 1, … in a vector, or sum their weights.

    Args:
        x: integers of 0 and more.
        weights: one for each of them, or None.
        least: of how many numbers at least.
    """
    if isinstance(x, Array) and x._data is not None:
        return np.bincount(x, None if weights is None else data_of(weights), least)
    own, numbers = _element_mask(x), np.astype(data_of(x), "i32")
    numbers = np.where(own, numbers, -1)  # padding is none of them
    debug.check(
        np.logical_or(numbers >= 0, np.logical_not(own)), "numbers of 0 or more"
    )
    most = np.max(numbers, initial=-1)
    size = chosen_size(np.maximum(np.add(most, 1), least), None)
    given = None if weights is None else np.where(own, data_of(weights), 0)
    return as_padded(np.bincount(numbers, given, length=bound_of(size)), (size,))


def prefix_size(x: Array) -> Size:
    """Return the value of an integer scalar as a new data-dependent size."""
    number = np.reshape(x, ())
    debug.check(np.greater_equal(number, 0), "a size of 0 or more")
    return new_size(number, None)


def distinct(x: Value, equal_nan: bool = True) -> tuple[Value, Value, Value, Value]:
    """Return the distinct elements in ascending order, with positions and counts.

    Returns:
        them; where each comes first; for each element of `x` the number of its own, in
        the shape of `x`; how often each comes.
    """
    if isinstance(x, Array) and x._data is not None:
        return _known_distinct(x._data, equal_nan)
    whole = repeating_first(data_of(x), x.shape)  # padding adds no other element
    flat, own = np.ravel(whole), np.ravel(_element_mask(x))
    order = np.argsort(flat)
    ordered = np.take(flat, order, 0)
    # of equal elements padding is never the first; NaN, which none equals, is left out
    starts = np.logical_and(_starts_of_runs(ordered, equal_nan), np.take(own, order, 0))
    group = np.subtract(np.cumsum(np.astype(starts, "i32"), 0), 1)
    size = chosen_size(np.sum(np.astype(starts, "i32")), flat.shape[0])
    (first,) = np.nonzero(starts, size=bound_of(size))
    values = from_first(np.take(ordered, first, 0), (size,))
    places = mask_padding_gradient(np.astype(np.take(order, first, 0), "i64"), (size,))
    inverse = np.take(group, np.argsort(order), 0)
    counts = np.zeros((bound_of(size),), "i64")
    counts = counts.at[inverse].add(np.astype(own, "i64"), mode="drop")
    numbers = np.reshape(np.astype(inverse, "i64"), data_of(x).shape)
    return values, places, as_padded(numbers, x.shape), as_padded(counts, (size,))


def _known_distinct(data: Any, equal_nan: bool) -> tuple[Value, Value, Value, Value]:
    """Return NumPy's unique elements, positions, inverse and counts as constants."""
    values, places, inverse, counts = numpy.unique(
        data,
        return_index=True,
        return_inverse=True,
        return_counts=True,
        equal_nan=equal_nan,
    )
    found = (places, inverse.reshape(data.shape), counts)
    whole = [Array(data=numpy.asarray(part, numpy.int64)) for part in found]
    return Array(data=values), whole[0], whole[1], whole[2]


def _element_mask(x: Value) -> Array:
    """Return a mask that is true for elements and false for padding."""
    if isinstance(x, Padded):
        return np.broadcast_to(inside(x.shape), x.data.shape)
    return np.ones(x.shape, "bool")


def _starts_of_runs(ordered: Array, equal_nan: bool) -> Array:
    """Return a mask of the elements of a sorted vector that differ from the one
    before.
    """
    before = np.roll(ordered, 1)
    differs = np.not_equal(ordered, before)
    if equal_nan and dtypes.is_float(ordered.dtype):
        both = np.logical_and(np.isnan(ordered), np.isnan(before))
        differs = np.logical_and(differs, np.logical_not(both))
    return np.logical_or(differs, np.equal(np.arange(ordered.shape[0]), 0))


# ---- what is computed twice ---------------------------------------------------------

_DEPTH = 6  # of what is compared; arrays are apart that differ further from their ends


def structure_of(x: Array) -> Hashable:
    """Return a hashable key of the ops that compute an array; equal keys, equal
    arrays.
    """
    return _structure(x._value, _DEPTH)


def _structure(value: Any, depth: int) -> Hashable:
    """Return a hashable key of the ops that compute a value, to a depth."""
    owner = value.owner
    if not depth or not isinstance(owner, ir.Operation | ir.OpView):
        found: Hashable = value
        return found
    op = owner.operation
    attributes = tuple((name, op.attributes[name]) for name in op.attributes)
    number = next(n for n, result in enumerate(op.results) if result == value)
    operands = tuple(_structure(each, depth - 1) for each in op.operands)
    return (op.name, number, attributes, operands, str(value.type))
