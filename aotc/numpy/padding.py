"""`aotc.numpy.pad`: elements around an array."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aotc.core import dtypes
from aotc.dialects.lowering.conversion import integer_bounds
from aotc.dialects.types import Shape, Size, SymbolicDim, bounds
from aotc.numpy.broadcasting import broadcast_to
from aotc.numpy.cutting import cut
from aotc.numpy.elementwise import where
from aotc.numpy.gathering import take
from aotc.numpy.joining import concatenate
from aotc.numpy.shaping import flip
from aotc.tracing.array import Array
from aotc.tracing.conversion import ArrayLike, astype, lift
from aotc.tracing.sizes import describe_contracts
from aotc.tracing.source_locations import fail
from aotc.tracing.tracing import emit

__all__ = ["pad"]

Pair = tuple[Size, Size]


def pad(
    array: ArrayLike,
    pad_width: Any,
    mode: str = "constant",
    *,
    constant_values: ArrayLike = 0,
) -> Array:
    """`array` with elements around it, (before, after) per axis.

    Modes are "constant", "edge", "reflect", "symmetric" and "wrap". Beyond NumPy,
    widths may be symbolic sizes, and with "constant" negative ones cut elements off and
    the constant, which is one for all axes, may be a scalar that the model computes.
    """
    x = lift(array)
    widths = _widths(x, pad_width)
    if mode == "constant":
        before, after = (tuple(pair[side] for pair in widths) for side in (0, 1))
        return pad_with(x, constant_values, before, after, (0,) * x.ndim)
    if mode not in _MODES:
        known = ", ".join(["constant", *_MODES])
        fail("bad-padding", f"expected a mode of {known}; got {mode!r}")
    for axis, (low, high) in enumerate(widths):
        if (low, high) != (0, 0):
            x = _pad_axis(x, axis, low, high, mode)
    return x


def _widths(x: Array, pad_width: object) -> list[Pair]:
    """Return (before, after) per axis, from a number, a pair, or a pair per axis."""
    given = np.asarray(pad_width, object)
    try:
        pairs = np.broadcast_to(given, (x.ndim, 2)).tolist()
    except ValueError:
        pairs = [("", "")]
    if not all(_is_size(n) for pair in pairs for n in pair):
        fail(
            "bad-padding",
            f"expected integers (before, after) for each of the {x.ndim} axes; got "
            f"{pad_width}",
        )
    return [(low, high) for low, high in pairs]


def _is_size(n: object) -> bool:
    """Return whether something is an integer or symbolic size."""
    return isinstance(n, (int, np.integer, SymbolicDim)) and not isinstance(n, bool)


def pad_with(
    x: Array, value: ArrayLike, low: Shape, high: Shape, interior: Sequence[int]
) -> Array:
    """Return x padded around and between its elements; negative widths crop.

    Args:
        x: the array.
        value: a number, or a scalar that a call computes; is cast to the dtype of x.
        low: elements before each axis.
        high: elements after each axis.
        interior: elements between those of each axis.
    """
    number = lift(value, x.dtype)
    if number.ndim:
        fail("bad-argument", f"expected one number to pad {x.type} by; got {number}")
    widths: dict[str, Any] = {"low": low, "high": high, "interior": tuple(interior)}
    known = None if number._data is None else number._data.item()
    if known is not None and x.dtype in dtypes.INTEGERS:
        known = _as_integer(known, x.dtype)
    # The op has the value as an f64, which would round large integers.
    is_rounded = isinstance(known, int) and int(float(known)) != known
    if known is not None and not is_rounded:
        return emit("pad", x, **widths, value=float(known))
    filled = emit("pad", x, **widths, value=0.0)
    inside = emit("pad", broadcast_to(lift(True), x.shape), **widths, value=0.0)
    return where(inside, filled, astype(number, x.dtype))


def _as_integer(number: float, dtype: str) -> int:
    """Return a number cast to an integer dtype as `astype` does: toward zero and
    saturating, NaN as 0.
    """
    if math.isnan(number):
        return 0
    low, high = integer_bounds(dtype)
    return int(min(max(number, low), high))


# ---- elements of the array itself ---------------------------------------------------


def _pad_axis(x: Array, axis: int, low: Size, high: Size, mode: str) -> Array:
    """Pad one axis by its own elements, as `mode` says."""
    size = x.shape[axis]
    parts, beyond = _MODES[mode]
    if min(bounds(low)[0], bounds(high)[0]) < 0:
        fail(
            "bad-padding",
            f"expected widths of 0 or more for mode '{mode}'; got {(low, high)}",
        )
    if all(bounds(size - beyond - width)[0] >= 0 for width in (low, high)):
        return concatenate(parts(x, axis, low, high), axis)
    if (
        isinstance(size, SymbolicDim)
        or isinstance(low, SymbolicDim)
        or isinstance(high, SymbolicDim)
    ):
        fail(
            "symbolic-size",
            f"axis {axis} of {x.type} is not provably long enough to be padded by "
            f"{(low, high)} with mode '{mode}'; promised: {describe_contracts()}",
            f"promise a min of the size of at least {max(low, high) + beyond}"
            if isinstance(low, int) and isinstance(high, int)
            else None,
        )
    if not size:
        fail("bad-padding", f"mode '{mode}' has nothing to repeat in {x.type}")
    order = np.pad(np.arange(size, dtype="i4"), (low, high), mode)  # type: ignore[call-overload]
    return take(x, order, axis)


def _edge_parts(x: Array, axis: int, low: Size, high: Size) -> list[Array]:
    """Return the edge element repeated, `x`, and the other edge repeated."""

    def repeat(position: Size, count: Size) -> Array:
        shape = list(x.shape)
        shape[axis] = count
        return broadcast_to(cut(x, axis, position, 1), shape)

    return [repeat(0, low), x, repeat(x.shape[axis] - 1, high)]


def _mirror_parts(skipped: int) -> Callable[[Array, int, Size, Size], list[Array]]:
    """Return a function that gives `x` between mirror images, less `skipped` edge
    elements.
    """

    def parts(x: Array, axis: int, low: Size, high: Size) -> list[Array]:
        before = cut(x, axis, skipped, low)
        after = cut(x, axis, x.shape[axis] - skipped - high, high)
        return [flip(before, axis), x, flip(after, axis)]

    return parts


def _wrap_parts(x: Array, axis: int, low: Size, high: Size) -> list[Array]:
    """Return the end of `x`, `x`, and its start, for periodic padding."""
    return [cut(x, axis, x.shape[axis] - low, low), x, cut(x, axis, 0, high)]


# mode → (the parts to join, by how much an axis must be longer than a width)
_MODES: dict[str, tuple[Callable[[Array, int, Size, Size], list[Array]], int]] = {
    "edge": (_edge_parts, 0),
    "reflect": (_mirror_parts(1), 1),
    "symmetric": (_mirror_parts(0), 0),
    "wrap": (_wrap_parts, 0),
}
