"""Reductions and scans by a function of the user's, on whole slices at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from aotc.core.pytree import PyTree, Structure, flatten
from aotc.dialects.types import Size, SymbolicDim, format_shape
from aotc.numpy.axes import one_axis
from aotc.numpy.broadcasting import broadcast_to
from aotc.numpy.indexing import getitem
from aotc.numpy.joining import concatenate, stack
from aotc.numpy.padding import pad_with
from aotc.numpy.reducing import highest, lowest
from aotc.numpy.reducing import max as largest
from aotc.numpy.reducing import min as smallest
from aotc.numpy.reducing import prod as product
from aotc.numpy.reducing import sum as total
from aotc.numpy.shaping import flip, reshape
from aotc.tracing.array import Array
from aotc.tracing.conversion import ArrayLike, lift
from aotc.tracing.source_locations import fail
from aotc.tracing.tracing import emit

Elements = TypeVar("Elements")
Function = Callable[[Elements, Elements], Elements]
Leaves = list[Array]


class _Combine:
    """The user's combining function, wrapped to take and return lists of leaves."""

    def __init__(self, function: Function[Any], structure: Structure) -> None:
        self.function, self.structure = function, structure

    def __call__(self, earlier: Leaves, later: Leaves) -> Leaves:
        """Return the leaves of `function(earlier, later)`."""
        trees = map(self.structure.unflatten, (earlier, later))
        leaves, structure = flatten(self.function(*trees))
        found = [lift(leaf) for leaf in leaves]
        types = [x.type for x in earlier]
        if structure != self.structure or [x.type for x in found] != types:
            fail(
                "bad-function",
                "expected the function to return what it is given, of type "
                f"{self.structure} with {', '.join(map(str, types))}; got {structure} "
                f"with {', '.join(str(x.type) for x in found)}",
            )
        return found


def _scan_operands(elems: PyTree, axis: int) -> tuple[Leaves, Structure, int, int]:
    """Return the leaves as arrays, their structure, the axis, and their size along
    it.
    """
    leaves, structure = flatten(elems)
    arrays = [lift(leaf) for leaf in leaves]
    if not arrays:
        fail("bad-tree", "expected at least one array")
    number = one_axis(arrays[0], axis)
    sizes = {x.type.shape[number] if number < x.ndim else None for x in arrays}
    (size, *others) = sizes
    if others or isinstance(size, SymbolicDim) or size is None:
        named = ", ".join(format_shape(x.shape) for x in arrays)
        fail(
            "shape-mismatch",
            f"expected arrays of one fixed size along axis {number}; got {named}",
        )
    return arrays, structure, number, size


def _slice(xs: Leaves, axis: int, *ends: int | None) -> Leaves:
    """Return the leaves sliced along an axis."""
    key = (slice(None),) * axis
    return [getitem(x, (*key, slice(*ends))) for x in xs]


def _join(parts: Sequence[Leaves], axis: int) -> Leaves:
    """Concatenate lists of leaves along an axis."""
    return [concatenate(list(leaves), axis) for leaves in zip(*parts, strict=True)]


# ---- scan ---------------------------------------------------------------------------


def associative_scan(
    function: Function[Elements], elems: Elements, reverse: bool = False, axis: int = 0
) -> Elements:
    """Return all prefixes of combining the elements along `axis`, as JAX's function.

    Args:
        function: of two pytrees like `elems`, the earlier elements first; it must be
            associative and is called on whole slices, so it works element by element.
        elems: a pytree of arrays of one fixed size along `axis`.
        reverse: whether to start from the end.
        axis: along which.
    """
    xs, structure, number, size = _scan_operands(elems, axis)
    combine = _Combine(function, structure)
    if reverse:
        turned = [flip(x, number) for x in xs]
        ys = _scan(combine, turned, number, size)
        ys = [flip(y, number) for y in ys]
    else:
        ys = _scan(combine, xs, number, size)
    found: Elements = structure.unflatten(ys)
    return found


def _scan(combine: _Combine, xs: Leaves, axis: int, size: int) -> Leaves:
    """Scan by halves: combine pairs, scan them, then fill in between (Blelloch
    1990).
    """
    if size < 2:
        return xs
    half = size // 2
    pairs = combine(_slice(xs, axis, 0, 2 * half, 2), _slice(xs, axis, 1, None, 2))
    odd = _scan(combine, pairs, axis, half)
    even = _slice(xs, axis, 0, 1)
    if size > 2:
        before = _slice(odd, axis, 0, (size - 1) // 2)
        rest = combine(before, _slice(xs, axis, 2, None, 2))
        even = _join([even, rest], axis)
    return _interleave(even, odd, axis, half)


def _interleave(even: Leaves, odd: Leaves, axis: int, half: int) -> Leaves:
    """Merge leaves of even and of odd positions along an axis."""
    mixed = []
    for one, other in zip(_slice(even, axis, 0, half), odd, strict=True):
        sizes = list(one.shape)
        sizes[axis] = 2 * half
        mixed.append(reshape(stack([one, other], axis + 1), sizes))
    if even[0].shape[axis] == half:
        return mixed
    return _join([mixed, _slice(even, axis, half, None)], axis)


# ---- reductions ---------------------------------------------------------------------


def reduce(
    function: Function[Elements],
    elems: Elements,
    axis: int = 0,
    initial: PyTree = None,
) -> Elements:
    """Combine all elements along `axis` into one, in their order.

    Args:
        function: as for `associative_scan`.
        elems: a pytree of arrays of one fixed size along `axis`.
        axis: which disappears.
        initial: a pytree of numbers that come before the first element.
    """
    xs, structure, number, size = _scan_operands(elems, axis)
    combine = _Combine(function, structure)
    if initial is not None:
        xs, size = _with_first(xs, structure, number, initial), size + 1
    if size == 0:
        fail("empty-reduction", "there is no element to reduce and no `initial` one")
    while size > 1:
        half = size // 2
        pairs = combine(
            _slice(xs, number, 0, 2 * half, 2),
            _slice(xs, number, 1, 2 * half, 2),
        )
        rest = _slice(xs, number, 2 * half, None)
        xs = _join([pairs, rest], number) if size % 2 else pairs
        size = half + size % 2
    rest_of = [[*x.shape[:number], *x.shape[number + 1 :]] for x in xs]
    ys = [reshape(x, shape) for x, shape in zip(xs, rest_of, strict=True)]
    found: Elements = structure.unflatten(ys)
    return found


def _with_first(xs: Leaves, structure: Structure, axis: int, initial: PyTree) -> Leaves:
    """Prepend the initial value along the axis."""
    values, found = flatten(initial)
    if found != structure:
        fail("bad-tree", f"expected `initial` like {structure}; got {found}")
    first = []
    for x, value in zip(xs, values, strict=True):
        shape = [1 if i == axis else n for i, n in enumerate(x.shape)]
        first.append(broadcast_to(lift(value, x.dtype), shape))
    return _join([first, xs], axis)


_NAMED: dict[str, tuple[Callable[..., Array], Callable[[str], float]]] = {
    "sum": (total, lambda dtype: 0),
    "prod": (product, lambda dtype: 1),
    "max": (largest, lowest),
    "min": (smallest, highest),
}


def reduce_window(
    function: str | Function[Array],
    x: ArrayLike,
    window: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: str | Sequence[tuple[int, int]] = "VALID",
    dilation: Sequence[int] | None = None,
    initial: float | None = None,
) -> Array:
    """Combine the elements of each window into one; windows slide along all axes.

    Args:
        function: "sum", "prod", "max", "min", or as for `reduce`.
        x: an array.
        window: its size along each axis.
        strides: steps between windows along each axis; 1 if it is None.
        padding: "VALID", "SAME" or elements (before, after) each axis.
        dilation: distance between the elements of a window along each axis.
        initial: what the padding is filled with; required by a function that is
            padded, and the neutral element of the others.
    """
    array = lift(x)
    ones = (1,) * array.ndim
    sizes, steps, gaps = tuple(window), tuple(strides or ones), tuple(dilation or ones)
    if {len(sizes), len(steps), len(gaps)} != {array.ndim}:
        fail(
            "bad-window",
            f"expected a window, stride and dilation for each axis of {array.type}; "
            f"got {sizes}, {steps}, {gaps}",
        )
    sides = _padding_per_axis(array, sizes, steps, gaps, padding)
    padded = _pad(array, function, sides, initial)
    every = emit(
        "windows",
        reshape(padded, (1, *padded.shape, 1)),
        window=sizes,
        strides=steps,
        dilation=gaps,
    )
    counts = every.shape[1 : 1 + array.ndim]
    flat = reshape(every, (*counts, math.prod(sizes)))
    if isinstance(function, str):
        return _NAMED[function][0](flat, -1)
    return reduce(function, flat, -1)


def _padding_per_axis(
    x: Array,
    window: Sequence[int],
    strides: Sequence[int],
    dilation: Sequence[int],
    padding: Any,
) -> list[tuple[Size, Size]]:
    """Return the padding before and after each axis for these windows."""
    if padding == "VALID":
        return [(0, 0)] * x.ndim
    if padding != "SAME":
        sides = [tuple(pair) for pair in padding]
        if len(sides) != x.ndim or any(len(pair) != 2 for pair in sides):
            fail("bad-padding", f"expected a pair for each axis of {x.type}")
        return [(low, high) for low, high in sides]
    sides = []
    for n, w, s, d in zip(x.shape, window, strides, dilation, strict=True):
        if isinstance(n, SymbolicDim) and s != 1:
            fail("symbolic-size", f"padding 'SAME' of {x.type} needs stride 1; got {s}")
        covered = d * (w - 1) + 1 - (1 if s == 1 else n - (-(-n // s) - 1) * s)
        whole = max(covered, 0)
        sides.append((whole // 2, whole - whole // 2))
    return sides


def _pad(
    x: Array,
    function: str | Function[Array],
    sides: Sequence[tuple[Size, Size]],
    initial: float | None,
) -> Array:
    """Pad an array with `initial`, or with the neutral element of a named function."""
    if isinstance(function, str) and function not in _NAMED:
        named = ", ".join(_NAMED)
        fail("bad-function", f"expected a function or one of {named}; got {function!r}")
    if all(pair == (0, 0) for pair in sides):
        return x
    if initial is None:
        if not isinstance(function, str):
            fail("bad-padding", "a function of your own needs `initial` to pad with")
        initial = _NAMED[function][1](x.dtype)
    low, high = zip(*sides, strict=True)
    return pad_with(x, initial, low, high, (0,) * x.ndim)
