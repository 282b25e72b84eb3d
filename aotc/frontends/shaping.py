"""Functions of `aotc.numpy` that move elements: shapes, joining and splitting."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from aotc.dialects.types import Shape, Size, element_count, format_shape
from aotc.frontends.array import Array
from aotc.frontends.axes import axis_list, one_axis, rising_axes, without
from aotc.frontends.broadcasting import as_shape, broadcast_to
from aotc.frontends.conversion import ArrayLike, lift, one_dtype
from aotc.frontends.indexing import getitem
from aotc.frontends.places import fail
from aotc.frontends.sizes import describe_contracts
from aotc.frontends.tracing import emit

# ---- one array ----------------------------------------------------------------------


def reshape(a: ArrayLike, shape: Any) -> Array:
    """`a` in another shape, row-major; one size may be -1."""
    x = lift(a)
    wanted = _resolved(x, as_shape(shape))
    return x if wanted == x.shape else emit("reshape", x, shape=wanted)


def _resolved(x: Array, shape: Shape) -> Shape:
    """`shape` with -1 replaced by what the number of elements leaves for it."""
    unknown = [i for i, n in enumerate(shape) if n == -1]
    if not unknown:
        return shape
    known = element_count(tuple(n for n in shape if n != -1))
    total = element_count(x.shape)
    rest = _quotient(x, total, known, shape) if len(unknown) == 1 else None
    if rest is None or rest * known != total:
        promised = describe_contracts()
        fail(
            "shape-mismatch",
            f"cannot reshape {format_shape(x.shape)} to {format_shape(shape)}: "
            f"{total} elements do not provably divide by {known}"
            + (f" (promised: {promised})" if promised else ""),
        )
    return tuple(rest if i in unknown else n for i, n in enumerate(shape))


def _quotient(x: Array, total: Size, known: Size, shape: Shape) -> Size | None:
    """`total / known`; common symbolic sizes cancel."""
    if isinstance(known, int):
        return None if known == 0 else total // known
    rest = list(x.shape)
    for size in shape:
        if size in rest and not isinstance(size, int):
            rest.remove(size)
    fixed = math.prod(n for n in shape if isinstance(n, int) and n != -1)
    return None if fixed == 0 else element_count(tuple(rest)) // fixed


def ravel(a: ArrayLike) -> Array:
    """`a` as one axis."""
    return reshape(a, (-1,))


def transpose(a: ArrayLike, axes: Any = None) -> Array:
    """`a` with its axes permuted; reversed without `axes`."""
    x = lift(a)
    order = range(x.ndim)[::-1] if axes is None else axis_list(x, axes)
    return emit("transpose", x, permutation=tuple(order))


def swapaxes(a: ArrayLike, axis1: int, axis2: int) -> Array:
    """`a` with two axes exchanged."""
    x = lift(a)
    order = list(range(x.ndim))
    first, second = one_axis(x, axis1), one_axis(x, axis2)
    order[first], order[second] = second, first
    return transpose(x, order)


def moveaxis(a: ArrayLike, source: Any, destination: Any) -> Array:
    """`a` with axes moved to other places; the rest keep their order."""
    x = lift(a)
    sources, places = axis_list(x, source), axis_list(x, destination)
    if len(sources) != len(places):
        fail(
            "bad-axis",
            f"expected as many sources as destinations; got {source} and {destination}",
        )
    order = without(x, sources)
    for place, axis in sorted(zip(places, sources, strict=True)):
        order.insert(place, axis)
    return transpose(x, order)


def expand_dims(a: ArrayLike, axis: Any) -> Array:
    """`a` with new axes of size 1, at their places in the result."""
    x = lift(a)
    new = axis_list(x, axis, len(axis) if isinstance(axis, (tuple, list)) else 1)
    sizes = iter(x.shape)
    rank = x.ndim + len(new)
    return reshape(x, [1 if place in new else next(sizes) for place in range(rank)])


def squeeze(a: ArrayLike, axis: Any = None) -> Array:
    """`a` without axes of size 1."""
    x = lift(a)
    units = [number for number, size in enumerate(x.shape) if size == 1]
    axes = units if axis is None else axis_list(x, axis)
    wrong = [number for number in axes if number not in units]
    if wrong:
        fail("shape-mismatch", f"axis {wrong[0]} of {x.type} does not have size 1")
    return reshape(x, [x.shape[number] for number in without(x, axes)])


def flip(m: ArrayLike, axis: Any = None) -> Array:
    """`m` backwards along `axis`."""
    x = lift(m)
    return emit("reverse", x, axes=rising_axes(x, axis))


def roll(a: ArrayLike, shift: int, axis: int | None = None) -> Array:
    """`a` moved along `axis`; what leaves at one end comes back at the other."""
    x = lift(a)
    if axis is None:
        return reshape(roll(ravel(x), shift, 0), x.shape)
    number = one_axis(x, axis)
    size = x.shape[number]
    cut = -shift % size if isinstance(size, int) and size else -shift
    before = (slice(None),) * number
    parts = [getitem(x, (*before, slice(cut, None))), getitem(x, (*before, slice(cut)))]
    return concatenate(parts, number) if cut else x


def repeat(a: ArrayLike, repeats: int, axis: int | None = None) -> Array:
    """Every element along `axis`, `repeats` times in a row."""
    x, number = (ravel(a), 0) if axis is None else (lift(a), axis)
    number = one_axis(x, number)
    before, size, after = x.shape[:number], x.shape[number], x.shape[number + 1 :]
    wide = broadcast_to(expand_dims(x, number + 1), (*before, size, repeats, *after))
    return reshape(wide, (*before, size * repeats, *after))


def tile(A: ArrayLike, reps: Any) -> Array:  # noqa: N803 - NumPy's name
    """The whole of `A`, repeated `reps` times along each axis."""
    x, counts = lift(A), as_shape(reps)
    rank = max(x.ndim, len(counts))
    sizes = (1,) * (rank - x.ndim) + x.shape
    counts = (1,) * (rank - len(counts)) + counts
    x = reshape(x, [n for size in sizes for n in (1, size)])
    pairs = list(zip(counts, sizes, strict=True))
    x = broadcast_to(x, [n for pair in pairs for n in pair])
    return reshape(x, [count * size for count, size in pairs])


def pad(
    array: ArrayLike,
    pad_width: Any,
    mode: str = "constant",
    *,
    constant_values: Any = 0,
) -> Array:
    """`array` with constant elements around, (before, after) per axis."""
    x = lift(array)
    widths = np.broadcast_to(np.asarray(pad_width), (x.ndim, 2)).tolist()
    if mode != "constant" or any(n < 0 for pair in widths for n in pair):
        fail(
            "bad-padding",
            f"expected mode 'constant' and widths of 0 or more; got {mode!r} and "
            f"{pad_width}",
        )
    return emit(
        "pad",
        x,
        low=tuple(low for low, _ in widths),
        high=tuple(high for _, high in widths),
        interior=(0,) * x.ndim,
        value=float(constant_values),
    )


# ---- several arrays -----------------------------------------------------------------


def concatenate(arrays: Sequence[ArrayLike], axis: int | None = 0) -> Array:
    """The arrays one after the other along `axis`; flattened for None."""
    if not len(arrays):
        fail("shape-mismatch", "concatenate needs at least one array")
    parts = one_dtype(*arrays)
    if axis is None:
        return concatenate([ravel(part) for part in parts])
    number = one_axis(parts[0], axis)
    while (
        len(parts) > 1
    ):  # by pairs, so that no element is copied more than log n times
        pairs = [parts[i : i + 2] for i in range(0, len(parts), 2)]
        parts = [_joined(pair, number) for pair in pairs]
    return parts[0]


def _joined(pair: list[Array], axis: int) -> Array:
    return pair[0] if len(pair) == 1 else emit("concatenate", *pair, axis=axis)


def stack(arrays: Sequence[ArrayLike], axis: int = 0) -> Array:
    """The arrays along a new axis."""
    if not len(arrays):
        fail("shape-mismatch", "stack needs at least one array")
    parts = one_dtype(*arrays)
    shapes = list(dict.fromkeys(part.shape for part in parts))
    if len(shapes) > 1:
        named = " and ".join(map(format_shape, shapes))
        fail("shape-mismatch", f"expected arrays of one shape to stack; got {named}")
    return concatenate([expand_dims(part, axis) for part in parts], axis)


def hstack(tup: Sequence[ArrayLike]) -> Array:
    """The arrays side by side: along axis 1, or 0 for vectors."""
    parts = [lift(part) for part in tup]
    parts = [reshape(part, (1,)) if part.ndim == 0 else part for part in parts]
    return concatenate(parts, 0 if parts and parts[0].ndim == 1 else 1)


def vstack(tup: Sequence[ArrayLike]) -> Array:
    """The arrays below each other, vectors as rows."""
    parts = [lift(part) for part in tup]
    return concatenate(
        [reshape(part, (1, -1)) if part.ndim < 2 else part for part in parts], 0
    )


def split(ary: ArrayLike, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """`ary` in equal parts, or cut at indices."""
    x = lift(ary)
    number = one_axis(x, axis)
    if isinstance(indices_or_sections, (tuple, list)):
        cuts = [0, *indices_or_sections, None]
    else:
        cuts = _equal_cuts(x, number, int(indices_or_sections))
    before = (slice(None),) * number
    ends = zip(cuts, cuts[1:], strict=False)
    return [getitem(x, (*before, slice(start, stop))) for start, stop in ends]


def _equal_cuts(x: Array, axis: int, sections: int) -> list[Any]:
    size = x.shape[axis]
    if not isinstance(size, int) or sections < 1 or size % sections:
        fail("shape-mismatch", f"axis {axis} of {x.type} does not divide by {sections}")
    step = size // sections
    return [part * step for part in range(sections + 1)]


def diff(a: ArrayLike, n: int = 1, axis: int = -1) -> Array:
    """Each element along `axis` less the one before it, `n` times over."""
    x = lift(a)
    before = (slice(None),) * one_axis(x, axis)
    for _ in range(n):
        later, earlier = (*before, slice(1, None)), (*before, slice(None, -1))
        x = getitem(x, later) - getitem(x, earlier)
    return x


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
