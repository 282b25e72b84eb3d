"""Counts of elements by value: histograms."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from aotc.core import dtypes
from aotc.dialects.types import Size
from aotc.numpy.broadcasting import broadcast_to
from aotc.numpy.elementwise import (
    add,
    divide,
    equal,
    greater_equal,
    less,
    less_equal,
    logical_and,
    multiply,
    subtract,
    where,
)
from aotc.numpy.joining import concatenate
from aotc.numpy.reducing import max as largest
from aotc.numpy.reducing import min as smallest
from aotc.numpy.reducing import sum as total
from aotc.numpy.shaping import expand_dims, ravel
from aotc.tracing.array import Array
from aotc.tracing.conversion import ArrayLike, as_float, astype, lift
from aotc.tracing.source_locations import fail
from aotc.tracing.tracing import emit

__all__ = ["bincount", "histogram", "histogram_bin_edges"]


def bincount(
    x: ArrayLike,
    weights: ArrayLike | None = None,
    minlength: int = 0,
    *,
    length: Size | None = None,
) -> Array:
    """Count each of 0 … length - 1 in the vector `x`, or sum its weights.

    Without `length`, the values must be known: it is one more than the largest of them,
    and at least `minlength`. Others are not counted.
    """
    values = lift(x)
    if values.ndim != 1 or values.dtype not in dtypes.INTEGERS:
        fail("dtype-mismatch", f"expected a vector of integers; got {values.type}")
    if length is None:
        length = _length(values, minlength)
    if dtypes.bits(values.dtype) < 32:  # whose counter could wrap
        values = astype(values, "i32")
    shape = (length, *values.shape)
    numbers = emit("iota", shape=shape, axis=0, dtype=values.dtype)
    return _weighted_count(equal(numbers, broadcast_to(values, shape)), weights)


def _length(values: Array, minlength: int) -> int:
    """Return the number of bins of `bincount`; raise if only a call decides it."""
    if values._data is None:
        fail(
            "symbolic-size",
            "how many numbers there are to count depends on values that only a call "
            "decides",
            "give `length`; larger numbers are then not counted",
        )
    if values._data.size and values._data.min() < 0:
        fail("bad-range", "expected numbers of 0 or more to count")
    if minlength < 0:
        fail("bad-range", f"expected a minlength of 0 or more; got {minlength}")
    largest = int(values._data.max()) if values._data.size else -1
    return builtins.max(largest + 1, minlength)


def _weighted_count(hits: Array, weights: ArrayLike | None) -> Array:
    """Return the count of true elements along the last axis, or the sum of weights."""
    if weights is None:
        return total(hits, -1)
    w = as_float(weights)
    if w.type.shape != hits.type.shape[-1:]:
        fail("shape-mismatch", f"expected one weight for each element; got {w.type}")
    return total(where(hits, w, 0.0), -1)


def histogram(
    a: ArrayLike,
    bins: int | ArrayLike = 10,
    range: tuple[float, float] | None = None,  # noqa: A002 - NumPy's name
    density: bool = False,
    weights: ArrayLike | None = None,
) -> tuple[Array, Array]:
    """Count the elements in each bin, or sum their weights; return also the bins'
    edges.

    Bins hold their lower edge; the last one holds its upper edge too. A number of bins
    divides `range` evenly, or the span of the elements.
    """
    x = ravel(as_float(a))
    edges = histogram_bin_edges(x, bins, range)
    lower, upper = expand_dims(edges[:-1], -1), expand_dims(edges[1:], -1)
    count = edges.shape[0] - 1
    is_last = emit("iota", shape=(count, 1), axis=0, dtype="i32") == count - 1
    inside = where(is_last, less_equal(x, upper), less(x, upper))
    hits = logical_and(greater_equal(x, lower), inside)
    counts = _weighted_count(hits, None if weights is None else ravel(weights))
    if not density:
        return counts, edges
    widths = subtract(edges[1:], edges[:-1])
    counts = astype(counts, edges.dtype)
    return divide(divide(counts, total(counts)), widths), edges


def histogram_bin_edges(
    a: ArrayLike,
    bins: int | ArrayLike = 10,
    range: tuple[float, float] | None = None,  # noqa: A002 - NumPy's name
) -> Array:
    """The edges of the bins of `histogram`."""
    x = ravel(as_float(a))
    if not isinstance(bins, (int, np.integer)):
        edges = astype(bins, x.dtype)
        if edges.ndim != 1 or edges.type.shape[0] == 1:
            fail("shape-mismatch", f"expected a vector of edges; got {edges.type}")
        return edges
    if bins < 1:
        fail("bad-count", f"expected at least one bin; got {bins}")
    first, last = _span(x, range)
    steps = emit("iota", shape=(int(bins),), axis=0, dtype=x.dtype)
    inner = add(first, multiply(steps, divide(subtract(last, first), bins)))
    return concatenate([inner, expand_dims(last, 0)])


def _span(x: Array, limits: Any) -> tuple[Array, Array]:
    """Return the ends of a histogram's range; equal ones are moved 1 apart."""
    if limits is not None:
        first, last = (lift(float(end), x.dtype) for end in limits)
    elif x.type.shape[0] == 0:
        first, last = lift(0.0, x.dtype), lift(1.0, x.dtype)
    else:
        first, last = smallest(x), largest(x)
    same = equal(first, last)
    return where(same, first - 0.5, first), where(same, last + 0.5, last)
