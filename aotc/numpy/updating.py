"""`x.at[key].add(…)`: arrays with some elements changed, in the form that JAX has.

What is fixed in a key (slices and integers) cuts out a part, which is changed and put
back. Arrays of positions scatter into the part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from aotc.dialects.types import Shape
from aotc.numpy.broadcasting import broadcast_to
from aotc.numpy.elementwise import add, maximum, minimum, multiply, where
from aotc.numpy.indexing import Key, cut_out, elements_at, read_key
from aotc.numpy.positions import broadcast_positions, index_maps, nonnegative_positions
from aotc.tracing.array import Array
from aotc.tracing.conversion import ArrayLike, lift, one_dtype
from aotc.tracing.sizes import StridedRange, position_of, slice_span
from aotc.tracing.source_locations import fail
from aotc.tracing.tracing import emit

_MODES = {None: "drop", "drop": "drop", "fill": "drop", "clip": "clip"}


@dataclass(frozen=True)
class At:
    """The object `x.at`; indexing it selects elements to update or get."""

    array: Array

    def __getitem__(self, key: object) -> IndexedElements:
        """Return the elements that `array[key]` selects, to be updated."""
        return IndexedElements(self.array, key)


@dataclass(frozen=True)
class IndexedElements:
    """Elements of an array that an index selects; methods return updated arrays.

    Each method gives a new array. Positions out of bounds are left out, and refused
    where they are known; mode "drop" leaves these out too, "clip" moves all of them to
    the nearest element. Several updates of one element are all made; of `set` the last
    one counts.
    """

    array: Array
    key: Any

    def get(
        self, *, mode: str | None = None, fill_value: ArrayLike | None = None
    ) -> Array:
        """Return the elements; mode "fill" gives `fill_value` out of bounds."""
        modes = {None: "raise", "clip": "clip", "fill": "fill", "wrap": "wrap"}
        if mode not in modes:
            _fail_mode(mode, modes)
        return elements_at(
            self.array, read_key(self.array, self.key), modes[mode], fill_value
        )

    def set(self, values: ArrayLike, *, mode: str | None = None) -> Array:
        """Return the array with `values` in place of the selected elements."""
        return self._update("scatter", lambda _, new: new, values, mode)

    def add(self, values: ArrayLike, *, mode: str | None = None) -> Array:
        """Return the array with `values` added to the selected elements."""
        return self._update("scatter_add", add, values, mode)

    def multiply(self, values: ArrayLike, *, mode: str | None = None) -> Array:
        """Return the array with the selected elements multiplied by `values`."""
        return self._update("scatter_mul", multiply, values, mode)

    def min(self, values: ArrayLike, *, mode: str | None = None) -> Array:
        """Return the array with the elements replaced by their minimum with
        `values`.
        """
        return self._update("scatter_min", minimum, values, mode)

    def max(self, values: ArrayLike, *, mode: str | None = None) -> Array:
        """Return the array with the elements replaced by their maximum with
        `values`.
        """
        return self._update("scatter_max", maximum, values, mode)

    def _update(
        self,
        op: str,
        function: Callable[[Array, Array], Array],
        values: ArrayLike,
        mode: str | None,
    ) -> Array:
        """Return the array updated by scatter `op`, or without index arrays by
        `function`.
        """
        if mode not in _MODES:
            _fail_mode(mode, _MODES)
        x, new = one_dtype(self.array, values)
        key = read_key(x, self.key)
        part = cut_out(x, key.fixed)
        if key.axes:
            return _put_back(x, key.fixed, _scatter(op, part, key, new, mode))
        return _put_back(x, key.fixed, function(part, broadcast_to(new, part.shape)))


def _fail_mode(mode: object, known: dict[str | None, str]) -> None:
    """Raise `InputError` for an unknown mode."""
    words = ", ".join(repr(name) for name in known if name is not None)
    fail("bad-index", f"expected a mode out of {words}; got {mode!r}")


def _scatter(op: str, part: Array, key: Key, new: Array, mode: str | None) -> Array:
    """Scatter `new` into the sliced part at the index arrays of a parsed index."""
    rule = "raise" if mode is None else mode
    arrays = broadcast_positions(
        [
            nonnegative_positions(part, a, p, rule)
            for a, p in zip(key.axes, key.arrays, strict=True)
        ]
    )
    maps = index_maps(part.ndim, key.axes, arrays[0].ndim, key.place)
    others = [n for axis, n in enumerate(part.shape) if axis not in key.axes]
    shape = (*others[: key.place], *arrays[0].shape, *others[key.place :])
    updates = broadcast_to(new, shape)
    return emit(op, part, updates, *arrays, **maps, mode=_MODES[mode])


# ---- the inverse of a cut -----------------------------------------------------------


def _put_back(x: Array, fixed: Sequence[object], part: Array) -> Array:
    """Return `x` with what slices and integers select replaced by `part`."""
    spans = [
        _span(key, size)
        for key, size in zip(
            [key for key in fixed if key is not None], x.type.shape, strict=True
        )
    ]
    counts = tuple(span.count for span in spans)
    part = part if part.type.shape == counts else emit("reshape", part, shape=counts)
    if counts == x.type.shape and not any(span.backwards for span in spans):
        return part
    if 0 in counts:
        return x
    backwards = tuple(axis for axis, span in enumerate(spans) if span.backwards)
    x = emit("reverse", x, axes=backwards) if backwards else x
    everywhere = emit("broadcast", lift(True), shape=counts, axes=())
    mask, new = (_pad_to_spans(each, spans, x.shape) for each in (everywhere, part))
    y = where(mask, new, x)
    return emit("reverse", y, axes=backwards) if backwards else y


def _span(key: Any, size: Any) -> StridedRange:
    """Return a slice or integer as a strided range of an axis."""
    if isinstance(key, slice):
        return slice_span(key, size)
    return StridedRange(position_of(key, size), 1, 1)


def _pad_to_spans(part: Array, spans: Sequence[StridedRange], shape: Shape) -> Array:
    """Place the part at strided ranges of a larger array of zeros."""
    after = tuple(
        size - span.start - 1 - (span.count - 1) * span.step
        for span, size in zip(spans, shape, strict=True)
    )
    return emit(
        "pad",
        part,
        low=tuple(span.start for span in spans),
        high=after,
        interior=tuple(span.step - 1 for span in spans),
        value=0.0,
    )
