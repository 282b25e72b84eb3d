"""Broadcasting by NumPy's rules, made explicit: ops below take equal shapes only."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeAlias

from aotc.dialects.types import Shape, Size, SymbolicDim, format_shape
from aotc.tracing.array import Array
from aotc.tracing.call_sizes import call_shape, compiler_size, in_compiler_sizes
from aotc.tracing.conversion import ArrayLike, lift, one_dtype
from aotc.tracing.source_locations import fail
from aotc.tracing.tracing import emit

__all__ = ["broadcast_arrays", "broadcast_shapes", "broadcast_to"]

if TYPE_CHECKING:
    # a size alone, or one for each axis
    ShapeLike: TypeAlias = Size | SupportsIndex | Sequence[Size | SupportsIndex]
else:  # `as_shape` refuses the rest, and says what it got
    ShapeLike = Any


def broadcast_shapes(*shapes: Shape) -> Shape:
    """The shape that all of `shapes` broadcast to."""
    found = common_shape(*(in_compiler_sizes(tuple(shape)) for shape in shapes))
    return call_shape(found)


def common_shape(*shapes: Shape) -> Shape:
    """Return the shape that these shapes broadcast to, in compiler sizes."""
    if shapes and all(shape == shapes[0] for shape in shapes):  # most often
        found = tuple(shapes[0])
    else:
        rank = max(map(len, shapes), default=0)
        padded = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
        found = tuple(_common_size(n, shapes) for n in zip(*padded, strict=True))
    if any(isinstance(size, int) and size < 0 for size in found):
        fail("bad-shape", f"expected sizes of 0 or more; got {format_shape(found)}")
    return found


def _common_size(sizes: tuple[Size, ...], shapes: tuple[Shape, ...]) -> Size:
    """Return the size of one axis that these sizes broadcast to, or raise."""
    distinct = list(dict.fromkeys(size for size in sizes if size != 1))
    if len(distinct) > 1:
        one, other = distinct[:2]
        symbolic = isinstance(one, SymbolicDim) or isinstance(other, SymbolicDim)
        fail(
            "shape-mismatch",
            f"cannot broadcast shapes {' and '.join(map(format_shape, shapes))}: "
            f"sizes {one} and {other} are "
            + ("not provably equal" if symbolic else "neither equal nor 1"),
            "sizes are equal when the Specs give them the same name and the model does "
            "the same to both"
            if symbolic
            else None,
        )
    return distinct[0] if distinct else 1


def broadcast_to(array: ArrayLike, shape: ShapeLike) -> Array:
    """Broadcast `array` to `shape`, of as many axes or more; sizes may be symbolic.

    Raises:
        InputError: `shape-mismatch` if a size is neither 1 nor provably that of
            `shape`.
    """
    return _broadcast(lift(array), new_shape(shape))


def _broadcast(x: Array, wanted: Shape) -> Array:
    """Broadcast an array to a shape in compiler sizes."""
    if x.type.shape == wanted:
        return x
    if x.ndim > len(wanted):
        fail(
            "shape-mismatch",
            f"cannot broadcast {format_shape(x.shape)} to {format_shape(wanted)}",
        )
    axes = tuple(range(len(wanted) - x.ndim, len(wanted)))
    return emit("broadcast", x, shape=wanted, axes=axes)


def broadcast_arrays(*args: ArrayLike) -> list[Array]:
    """Return the arrays, all broadcast to their common shape."""
    arrays = [lift(x) for x in args]
    shape = common_shape(*(x.type.shape for x in arrays))
    return [_broadcast(x, shape) for x in arrays]


def common(*xs: ArrayLike) -> list[Array]:
    """Convert operands to one dtype and broadcast them to one shape."""
    return broadcast_arrays(*one_dtype(*xs))


def as_shape(shape: ShapeLike) -> Shape:
    """Return a tuple, a list or a single size as a tuple of compiler sizes."""
    sizes: tuple[Any, ...] = (
        tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    )
    return tuple(_as_size(size) for size in sizes)


def _as_size(size: Size | SupportsIndex) -> Size:
    """Return a size as an int or compiler symbol; raise for others."""
    if isinstance(size, SymbolicDim):
        return compiler_size(size)
    try:
        return operator.index(size)
    except TypeError:
        hint = (
            "read the size from an array that has it: x.shape[0], which may be symbolic"
        )
        fail("bad-shape", f"expected sizes that are integers; got {size!r}", hint)


def new_shape(shape: ShapeLike) -> Shape:
    """Return a shape in compiler sizes; raise if a size is negative."""
    sizes = as_shape(shape)
    if any(isinstance(size, int) and size < 0 for size in sizes):
        fail("bad-shape", f"expected sizes of 0 or more; got {format_shape(sizes)}")
    return sizes
