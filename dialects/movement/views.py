"""Views: where the elements of a value lie in another value, as an index map.

    y[i, j, …] = x[begin + steps * (i, j, …)]

Each axis of a view is some strides, one inside the other; each stride goes along one
axis of the source, backwards too, or repeats one element. Transposes, reshapes that
merge or split axes, slices, reversals, repeats, windows and padding make views of
views, so a chain of them is one view: what `GraphOp.view` says of an op, composed. (The
strides of one axis are the modes of a hierarchical layout, as in CuTe; source indices
outside of the source are the mask of a padded view.)

`flat` gives the view of a source as it lies in memory, row-major: its one axis has all
elements, so that steps are distances, and strides of several axes of the source merge.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from aotc.dialects.types import (
    Shape,
    Size,
    SymbolicDim,
    compare_sizes,
    element_count,
    quotient,
    same_count,
    static_size,
)
from aotc.mlir import Value

if TYPE_CHECKING:
    from aotc.dialects.builder import Builder


@dataclass(frozen=True)
class Stride:
    """One loop of an axis of a view: size, axis of the source, and step.

    Args:
        size: how many there are.
        axis: of the source, along which they lie; None where all are one element.
        step: indices of that axis from one to the next; 0 where all are one element.
    """

    size: Size
    axis: int | None
    step: Size = 1

    @property
    def repeats(self) -> bool:
        """Return whether the loop repeats one element of the source."""
        return self.axis is None

    @property
    def is_backwards(self) -> bool:
        """Return whether the loop goes to lower indices of the source."""
        return compare_sizes(self.step, "<", 0) is True


Strides = tuple[Stride, ...]  # of one axis, the outermost first; none of size 1


@dataclass(frozen=True)
class StridedLoop:
    """One loop that several views share, with a step in each view.

    Args:
        size: how many there are.
        steps: of each view, from one to the next.
    """

    size: Size
    steps: tuple[Size, ...]


@dataclass(frozen=True)
class View:
    """A strided view (an index map): where a value's elements lie in a source.

    Args:
        source: the shape of the source.
        axes: the strides of each axis of the value, as few as they can be.
        begin: the index in the source of the first element, along each axis.
        fill: the elements whose indices are outside of the source; None if none are.
    """

    source: Shape
    axes: tuple[Strides, ...]
    begin: tuple[Size, ...]
    fill: float | None = None

    @staticmethod
    def identity(shape: Shape) -> "View":
        """Return the view of a source of a shape that is the source itself."""
        axes = tuple(merge([Stride(n, axis)]) for axis, n in enumerate(shape))
        return View(shape, axes, (0,) * len(shape))

    @staticmethod
    def of_memory(shape: Shape) -> "View":
        """Return the view of row-major memory that a tensor of this shape is."""
        return View.identity(shape).flat()

    # ---- what it is like ------------------------------------------------------------

    @property
    def shape(self) -> Shape:
        """The sizes of the view's axes."""
        return tuple(map(size_of, self.axes))

    @property
    def is_identity(self) -> bool:
        """Return whether every element keeps its position in the source."""
        return self == View.identity(self.source)

    @property
    def has_repeats(self) -> bool:
        """Return whether an axis repeats elements of the source."""
        return any(stride.repeats for axis in self.axes for stride in axis)

    def group(self, axes: Sequence[int]) -> Strides:
        """Return the strides of some axes merged into one axis, in this order."""
        return merge(stride for axis in axes for stride in self.axes[axis])

    def run(self, first: int) -> int:
        """Return how many elements are contiguous from axis `first` on, or 1."""
        strides = self.group(range(first, len(self.axes)))
        size, step = (strides[-1].size, strides[-1].step) if strides else (1, 1)
        return size if step == 1 and isinstance(size, int) else 1

    # ---- views of it ----------------------------------------------------------------

    def with_axes(self, axes: Iterable[Strides]) -> "View":
        """Return the view of the same source and first element with other axes."""
        return replace(self, axes=tuple(axes))

    def transpose(self, permutation: Sequence[int]) -> "View":
        """Return the view whose axis i is axis `permutation[i]` of this one."""
        return self.with_axes(self.axes[axis] for axis in permutation)

    def reshape(self, shape: Shape) -> "View | None":
        """Return the view in another shape; None if that would divide a stride.

        None where an axis would begin or end between the strides that there are.
        """
        axes = split(self.group(range(len(self.axes))), shape)
        return None if axes is None else self.with_axes(axes)

    def split_axis(self, axis: int, shape: Shape) -> "View | None":
        """Return the view with one axis split into axes of a shape; or None.

        None where one of them would begin or end between the strides that there are.
        """
        parts = split(self.axes[axis], shape)
        if parts is None:
            return None
        return self.with_axes([*self.axes[:axis], *parts, *self.axes[axis + 1 :]])

    def broadcast(self, shape: Shape, axes: Sequence[int]) -> "View":
        """Return the view broadcast to `shape`, where axis i becomes `axes[i]`.

        Args:
            shape: the sizes.
            axes: rising.
        """
        found = [merge([Stride(n, None, 0)]) for n in shape]
        for strides, axis in zip(self.axes, axes, strict=True):
            if strides:
                found[axis] = strides
        return self.with_axes(found)

    def at_first(self, axes: Sequence[int]) -> "View":
        """Return the view without some axes, at index 0 along them."""
        rest = (own for axis, own in enumerate(self.axes) if axis not in axes)
        return self.with_axes(rest)

    def slice(
        self, start: Shape, sizes: Shape, strides: Sequence[int]
    ) -> "View | None":
        """Return the strided slice of the view; None if it would cut a merged axis.

        None where an axis is cut that is several strides.
        """
        axes, begin = [], [*self.begin]
        for own, first, size, stride in zip(
            self.axes, start, sizes, strides, strict=True
        ):
            if size == size_of(own):
                axes.append(own)
                continue
            if len(own) > 1:
                return None
            (whole,) = own or (Stride(1, None, 0),)
            if whole.axis is not None:
                begin[whole.axis] += first * whole.step
            axes.append(merge([replace(whole, size=size, step=whole.step * stride)]))
        return replace(self, axes=tuple(axes), begin=tuple(begin))

    def reverse(self, axes: Sequence[int]) -> "View":
        """Return the view with some axes reversed."""
        found, begin = [*self.axes], [*self.begin]
        for axis in axes:
            for stride in self.axes[axis]:
                if stride.axis is not None:
                    begin[stride.axis] += (stride.size - 1) * stride.step
            found[axis] = tuple(replace(s, step=-s.step) for s in self.axes[axis])
        return replace(self, axes=tuple(found), begin=tuple(begin))

    def pad(self, low: Shape, high: Shape, fill: float) -> "View | None":
        """Return the view with `fill` around each axis; None if not representable.

        None where what is there would not be outside of the source, or not provably.
        """
        found: View | None = replace(self, fill=fill)
        if self.fill not in (None, fill):
            return None
        for axis, counts in enumerate(zip(low, high, strict=True)):
            if found is not None and counts != (0, 0):
                found = found._pad_axis(axis, *counts)
        return found

    def _pad_axis(self, axis: int, before: Size, after: Size) -> "View | None":
        """Return the view with one axis padded; None if not representable."""
        own = self._only_stride(axis)
        if own is None or own.axis is None or self._strides_along(own.axis)[1:]:
            return None
        first = self.begin[own.axis]
        end = first + (own.size - 1) * own.step
        if not (
            all(compare_sizes(n, ">=", 0) for n in (before, after, own.step))
            and (before == 0 or compare_sizes(first - own.step, "<", 0))
            and (
                after == 0 or compare_sizes(end + own.step, ">=", self.source[own.axis])
            )
        ):
            return None
        axes, begin = [*self.axes], [*self.begin]
        axes[axis] = merge([replace(own, size=own.size + before + after)])
        begin[own.axis] = first - before * own.step
        return replace(self, axes=tuple(axes), begin=tuple(begin))

    def windows(
        self,
        counts: Shape,
        window: Sequence[int],
        strides: Sequence[int],
        dilation: Sequence[int],
    ) -> "View | None":
        """Return the view of sliding windows over the spatial axes, or None.

        Its axes are the first, the places of windows, those in a window, and the last.

        Args:
            counts: of places.
            window: sizes of a window.
            strides: from one place to the next.
            dilation: from one element of a window to the next.
        """
        places, inside = [], []
        cuts = zip(counts, window, strides, dilation, strict=True)
        for axis, (count, size, stride, step) in enumerate(cuts, 1):
            if (own := self._only_stride(axis)) is None:
                return None
            places.append(merge([replace(own, size=count, step=own.step * stride)]))
            inside.append(merge([replace(own, size=size, step=own.step * step)]))
        return self.with_axes([self.axes[0], *places, *inside, self.axes[-1]])

    def with_sizes(self, number_of: Callable[[Size], int]) -> "View":
        """Return the view with every size replaced by `number_of(size)`."""
        axes = (
            merge(Stride(number_of(s.size), s.axis, number_of(s.step)) for s in strides)
            for strides in self.axes
        )
        source, begin = (
            tuple(map(number_of, sizes)) for sizes in (self.source, self.begin)
        )
        return View(source, tuple(axes), begin, self.fill)

    def flat(self) -> "View":
        """Return the view of the source flattened to one row-major axis.

        What was outside of the source cannot be said of one.
        """
        assert self.fill is None
        distances = [
            element_count(self.source[a + 1 :]) for a in range(len(self.begin))
        ]
        axes = (
            merge(
                s if s.axis is None else Stride(s.size, 0, s.step * distances[s.axis])
                for s in axis
            )
            for axis in self.axes
        )
        begin = sum(
            (n * d for n, d in zip(self.begin, distances, strict=True)), start=0
        )
        return View((element_count(self.source),), tuple(axes), (begin,))

    def _only_stride(self, axis: int) -> Stride | None:
        """Return the single stride of an axis; None if it has several.

        One element is a stride along any axis of the source that has one element, too.
        """
        strides = self.axes[axis]
        if strides:
            return strides[0] if len(strides) == 1 else None
        free = (a for a, n in enumerate(self.source) if n == 1 and self._is_free(a))
        return Stride(1, next(free, None), 1)

    def _is_free(self, axis: int) -> bool:
        """Return whether a source axis has no stride, and is read at index 0."""
        return not self._strides_along(axis) and self.begin[axis] == 0

    def _strides_along(self, axis: int) -> list[Stride]:
        """Return the strides that go along an axis of the source."""
        return [s for strides in self.axes for s in strides if s.axis == axis]

    def _ordered_strides(self, axis: int) -> Strides:
        """Return the strides along a source axis, outermost first; () if incomplete.

        None of them, unless they reach every index of it once.
        """
        rest, first = self._strides_along(axis), self.begin[axis]
        found: list[Stride] = []
        reached: Size = 1
        while rest:
            inner = next((s for s in rest if _is_distance(s, reached)), None)
            if inner is None:
                return ()
            if inner.is_backwards:
                first -= (inner.size - 1) * reached
            rest.remove(inner)
            found.insert(0, inner)
            reached = reached * inner.size
        is_whole = same_count((reached,), (self.source[axis],))
        return tuple(found) if is_whole and first == 0 else ()

    # ---- what it means --------------------------------------------------------------

    def read(self, x: np.ndarray) -> np.ndarray:
        """Return the elements of the view as a NumPy array of its shape.

        Args:
            x: of the shape of the source.
        """
        shape = tuple(map(static_size, self.shape))
        return np.broadcast_to(self.elements(x), shape)

    def elements(self, x: np.ndarray) -> np.ndarray:
        """Return the view's elements in NumPy, with size 1 along repeating axes."""
        axes = [
            () if all(s.repeats for s in strides) else strides for strides in self.axes
        ]
        flat = [stride for strides in axes for stride in strides]
        indices = [np.full([1] * len(flat), static_size(n)) for n in self.begin]
        for place, stride in enumerate(flat):
            if stride.axis is not None:
                along = np.arange(static_size(stride.size)) * static_size(stride.step)
                behind = len(flat) - place - 1
                added = indices[stride.axis] + along.reshape(-1, *[1] * behind)
                indices[stride.axis] = added
        found = self._take(x, indices, tuple(static_size(s.size) for s in flat))
        return found.reshape(tuple(static_size(size_of(strides)) for strides in axes))

    def _take(
        self, x: np.ndarray, indices: list[np.ndarray], sizes: tuple[int, ...]
    ) -> np.ndarray:
        """Return the elements of an array at indices, `fill` for those outside."""
        if self.fill is None:
            return np.broadcast_to(x[tuple(indices)], sizes)
        if x.size == 0:
            return np.full(sizes, self.fill, x.dtype)
        inside, within = np.full([1] * len(sizes), True), []
        for at, size in zip(indices, x.shape, strict=True):
            inside = inside & (at >= 0) & (at < size)
            within.append(np.clip(at, 0, size - 1))
        found = np.where(inside, x[tuple(within)], np.asarray(self.fill, x.dtype))
        return np.broadcast_to(found, sizes)

    def indices(self, names: Sequence[str]) -> list[str]:
        """Return the index expression along each source axis as text.

        Args:
            names: of the index along each axis of the view.
        """
        found: list[list[str]] = [[] for _ in self.begin]
        for name, strides in zip(names, self.axes, strict=True):
            inner: Size = 1
            for place, stride in reversed([*enumerate(strides)]):
                index = name if inner == 1 else f"{_atom(name)} floordiv {inner!r}"
                index = index if place == 0 else f"{_atom(index)} mod {stride.size!r}"
                inner = inner * stride.size
                if stride.axis is not None:
                    times = f"{_atom(index)} * {_atom(repr(stride.step))}"
                    found[stride.axis].append(index if stride.step == 1 else times)
        for terms, begin in zip(found, self.begin, strict=True):
            terms += [] if begin == 0 else [repr(begin)]
        return [" + ".join(terms).replace("+ -", "- ") or "0" for terms in found]

    def is_inside(self) -> bool:
        """Return whether all indices are within the source, or there is a `fill`."""
        if self.fill is not None or 0 in self.shape:
            return True
        for axis, (size, begin) in enumerate(zip(self.source, self.begin, strict=True)):
            spans = [
                static_size(s.size - 1) * s.step for s in self._strides_along(axis)
            ]
            first = begin + sum(min(0, static_size(n)) for n in spans)
            last = begin + sum(max(0, static_size(n)) for n in spans)
            if not 0 <= static_size(first) <= static_size(last) < static_size(size):
                return False
        return True

    def write(self, b: "Builder", source: Value) -> Value:
        """Emit the transposes and reshapes that make the view of `source`; return it.

        Args:
            b: writes them.
            source: of the shape of the source; every element of it is in the view once.
        """
        if (axes := self._permutation()) is not None:
            return b.to_order(source, axes)
        order = [stride for strides in self.axes for stride in strides]
        lying = [
            stride
            for axis in range(len(self.source))
            for stride in self._ordered_strides(axis)
        ]
        value = b.to_shape(source, tuple(stride.size for stride in lying))
        value = b.to_order(value, tuple(lying.index(stride) for stride in order))
        return b.to_shape(value, self.shape)

    def _permutation(self) -> tuple[int, ...] | None:
        """Return the permutation that the view is of its source; None if it is none."""
        whole = View.identity(self.source).axes
        ones = (axis for axis, size in enumerate(self.source) if size == 1)
        if len(self.axes) != len(whole) or any(x and x not in whole for x in self.axes):
            return None
        return tuple(whole.index(x) if x else next(ones) for x in self.axes)


def _atom(text: str) -> str:
    """Return text, in parentheses unless it is one word."""
    return f"({text})" if " " in text else text


def size_of(strides: Sequence[Stride]) -> Size:
    """Return the number of elements of an axis, the product of its strides' sizes."""
    return element_count(tuple(stride.size for stride in strides))


def merge(strides: Iterable[Stride]) -> Strides:
    """Return the strides of an axis, adjacent ones merged where they continue."""
    found: list[Stride] = []
    for inner in strides:
        outer = found[-1] if found else None
        if inner.size == 1:
            continue
        if outer is not None and _continues(outer, inner):
            found[-1] = replace(inner, size=outer.size * inner.size)
        else:
            found.append(inner)
    return tuple(found)


def _continues(outer: Stride, inner: Stride) -> bool:
    """Return whether the outer stride continues the inner one, so both are one."""
    beside = same_count((outer.step,), (inner.size, inner.step))
    return outer.axis == inner.axis and beside


def _is_distance(stride: Stride, distance: Size) -> bool:
    """Return whether a stride's step is this distance, in either direction."""
    return any(same_count((distance,), (n,)) for n in (stride.step, -stride.step))


def split(strides: Strides, shape: Shape) -> list[Strides] | None:
    """Return strides divided into axes of a shape; None if one would end in a stride.

    Args:
        strides: as few as they can be, of as many elements as the shape.
        shape: the sizes.
    """
    rest, found = [*strides], []
    for size in reversed(shape):
        axis = _take_inner(rest, size)
        if axis is None:
            return None
        found.append(axis)
    return None if rest else found[::-1]


def _take_inner(strides: list[Stride], size: Size) -> Strides | None:
    """Pop an axis of `size` off the end of `strides`; None if it ends within one."""
    found: list[Stride] = []
    while size != 1:
        if not strides:
            return None
        last = strides.pop()
        outer = quotient((last.size,), (size,))
        if outer is not None:
            if outer != 1:
                strides.append(replace(last, size=outer, step=last.step * size))
            return (replace(last, size=size), *found)
        left = quotient((size,), (last.size,))
        if left is None:
            return None
        found.insert(0, last)
        size = left
    return tuple(found)


def common_loops(
    views: Sequence[View], axes: Sequence[Sequence[int]], *, only_static: bool = False
) -> list[StridedLoop]:
    """Return the fewest loops that cover some axes of several views, outermost first.

    Args:
        views: of one source axis each (`View.flat`).
        axes: of each view, as many; none is several strides.
        only_static: whether an axis whose size a call decides stays a loop of its own.
    """
    found: list[StridedLoop] = []
    for own in zip(*axes, strict=True):
        strides = [v.axes[axis] for v, axis in zip(views, own, strict=True)]
        if not (sizes := [s.size for each in strides for s in each]):
            continue
        size = sizes[0]  # all are as many, though products may be written otherwise
        inner = StridedLoop(
            size, tuple(each[0].step if each else 0 for each in strides)
        )
        outer = found[-1] if found else None
        if (
            outer is not None
            and outer.steps == tuple(size * step for step in inner.steps)
            and not (only_static and SymbolicDim in map(type, (outer.size, size)))
        ):
            found[-1] = StridedLoop(outer.size * size, inner.steps)
        else:
            found.append(inner)
    return found
