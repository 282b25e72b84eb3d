"""Spatial axes of images (N, spatial…, C): one number for each of them, and padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from aotc.dialects.types import Size, SymbolicDim
from aotc.numpy.padding import pad_with
from aotc.tracing.array import Array
from aotc.tracing.sizes import bounds
from aotc.tracing.source_locations import fail

Window = int | Sequence[int]
Padding = str | int | Sequence[Any]
Sides = tuple[Size, ...]


def spatial_rank(x: Array) -> int:
    """Return the number of spatial axes of an image: 1 to 3."""
    if x.ndim not in (3, 4, 5):
        fail("shape-mismatch", f"expected x as N, 1 to 3 spatial axes, C; got {x.type}")
    return x.ndim - 2


def each(value: Window, spatial: int, what: str = "number") -> tuple[int, ...]:
    """Return one integer of at least 1 per spatial axis; raise for others."""
    numbers = (value,) * spatial if isinstance(value, int) else tuple(value)
    if len(numbers) != spatial:
        fail(
            "shape-mismatch",
            f"expected one {what}, or one per spatial axis ({spatial}); got {value}",
        )
    if not all(isinstance(number, int) and number >= 1 for number in numbers):
        fail("bad-window", f"expected a {what} of at least 1 per axis; got {value}")
    return numbers


def static_size(size: Size, what: str) -> int:
    """Return `size`; raise if it is symbolic, naming `what` it is of."""
    if not isinstance(size, int):
        article = "an" if what[0] in "aeiou" else "a"
        fail("symbolic-size", f"expected {article} {what} of fixed size; got {size!r}")
    return size


def sides_of(
    padding: Padding,
    sizes: Sequence[Size],
    window: Sequence[int],
    strides: Sequence[int],
    dilation: Sequence[int],
) -> Sides:
    """Return the padding of spatial axes as a flat tuple: low, high, low, high, ….

    "SAME" gives as many windows as size / stride, rounded up; what is odd goes to the
    end, for "SAME_LOWER" to the start.
    """
    if not isinstance(padding, str):
        return _explicit(padding, len(window))
    kind = padding.upper()
    if kind == "VALID":
        return (0,) * (2 * len(window))
    if kind not in ("SAME", "SAME_LOWER"):
        fail_padding(padding)
    sides: list[Size] = []
    for size, w, s, d in zip(sizes, window, strides, dilation, strict=True):
        total = _same_total(size, d * (w - 1), s)
        less, more = total // 2, total - total // 2
        sides += [more, less] if kind == "SAME_LOWER" else [less, more]
    return tuple(sides)


def _same_total(size: Size, reach: int, stride: int) -> Size:
    """Return the total padding of one axis for ceil(size / stride) windows."""
    total = ((size + (stride - 1)) // stride - 1) * stride + reach + 1 - size
    if isinstance(total, int):
        return max(total, 0)
    if bounds(total)[0] < 0 and reach + 1 < stride:
        fail(
            "symbolic-size",
            "padding 'SAME' with strides larger than the window needs an image of "
            f"fixed size; got {size!r}",
        )
    return total


def _explicit(padding: int | Sequence[Any], spatial: int) -> Sides:
    """Return padding given as numbers or pairs as a flat tuple: low, high, low, …."""
    sides = [padding] * spatial if isinstance(padding, int) else list(padding)
    pairs = [
        (side, side) if isinstance(side, int | SymbolicDim) else side for side in sides
    ]
    if len(pairs) != spatial or not all(map(_is_pair, pairs)):
        fail_padding(padding)
    return tuple(number for pair in pairs for number in pair)


def _is_pair(sides: Any) -> bool:
    """Return whether explicit padding of an axis is a (low, high) pair."""
    listed = isinstance(sides, (list, tuple)) and len(sides) == 2
    return listed and all(isinstance(side, int | SymbolicDim) for side in sides)


def fail_padding(padding: Padding) -> NoReturn:
    """Raise `InputError` for an invalid padding."""
    fail(
        "bad-padding",
        "expected padding 'SAME', 'SAME_LOWER', 'VALID', an int, or an int or "
        f"(low, high) per spatial axis; got {padding!r}",
    )


def pad_spatial(
    x: Array, sides: Sides, value: float = 0.0, interior: Sequence[int] | None = None
) -> Array:
    """Pad the spatial axes of `x` by `sides`; negative numbers crop."""
    between = (0, *(interior or (0,) * (x.ndim - 2)), 0)
    low, high = (0, *sides[::2], 0), (0, *sides[1::2], 0)
    if not any(map(_is_some, (*low, *high, *between))):
        return x
    return pad_with(x, value, low, high, between)


def _is_some(size: Size) -> bool:
    """Return whether a size is not the constant 0."""
    return not (isinstance(size, int) and size == 0)


def pad_for_op(
    x: Array, sides: Sides, value: float = 0.0
) -> tuple[Array, tuple[int, ...]]:
    """Pad `x` where the op cannot; return it and the padding left to the op.

    Any other padding is done here, and none is left to the op.
    """
    numbers = tuple(side for side in sides if isinstance(side, int) and side >= 0)
    if len(numbers) == len(sides):
        return x, numbers
    return pad_spatial(x, sides, value), (0,) * len(sides)
