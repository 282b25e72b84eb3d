"""Where the elements of a value come from, through ops that only move or repeat them.

A chain of reshapes, transposes and broadcasts says no more than this: each axis of the
value is made of parts of axes of what the chain begins with, or of repeats. Written
from that, it is one reshape, one transpose and one reshape at most.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import isfinite

from aotc.dialects.builder import Builder
from aotc.dialects.ops.binary import Divide, Multiply
from aotc.dialects.ops.shape import Broadcast, Reshape, Transpose
from aotc.dialects.patterns.values import made_by
from aotc.dialects.types import Shape, Size, Tensor, element_count
from aotc.mlir import Value
from aotc.passes.recovery.views import Numbers


@dataclass(frozen=True)
class Part:
    """A part of an axis.

    Args:
        size: how many elements it has along it.
        axis: of the source; None for repeats.
        step: elements of that axis from one to the next.
    """

    size: Size
    axis: int | None
    step: int = 1


Parts = tuple[Part, ...]


@dataclass(frozen=True)
class Movement:
    """A value as `factor` times elements of another.

    Args:
        source: the other.
        axes: the parts of each axis of the value, the outermost first; none of size 1.
        factor: a number.
        inside: the values between, and the value itself if it is not the source.
    """

    source: Value
    axes: tuple[Parts, ...]
    factor: float = 1.0
    inside: tuple[Value, ...] = ()

    @staticmethod
    def none(value: Value) -> Movement:
        """The value as it is."""
        shape = Tensor.of(value).shape
        return Movement(value, tuple(map(_whole_axis, shape, range(len(shape)))))

    @property
    def moves(self) -> bool:
        """Whether any element changes its place."""
        return self.axes != Movement.none(self.source).axes

    def group(self, axes: Sequence[int]) -> Parts:
        """Some axes as one, in this order."""
        return _merge(part for axis in axes for part in self.axes[axis])


def movement_of(value: Value, numbers: Numbers | None = None) -> Movement:
    """How a value is moved from as far back as that can be said.

    Args:
        value: what is looked at.
        numbers: knows by which numbers it is multiplied on the way; None if it is not
            to be looked through multiplications.
    """
    moved = made_by(value, Transpose) or made_by(value, Reshape)
    op = moved or made_by(value, Broadcast)
    if op is None:
        return _scaled(value, numbers) if numbers else Movement.none(value)
    before = movement_of(op.x, numbers)
    axes: Sequence[Parts] | None
    if isinstance(op, Transpose):
        axes = [before.axes[axis] for axis in op.permutation]
    elif isinstance(op, Reshape):
        axes = split(before.group(range(len(before.axes))), Tensor.of(value).shape)
    else:
        axes = _repeated(before.axes, op.axes, Tensor.of(op.x), Tensor.of(value))
    if axes is None:
        return Movement.none(value)
    return replace(before, axes=tuple(axes), inside=(*before.inside, value))


def _scaled(value: Value, numbers: Numbers) -> Movement:
    """Through a multiplication with a number, or a division by one."""
    op = made_by(value, Multiply) or made_by(value, Divide)
    if op is None:
        return Movement.none(value)
    is_division = isinstance(op, Divide)
    pairs = [(op.lhs, op.rhs)] if is_division else [(op.lhs, op.rhs), (op.rhs, op.lhs)]
    for x, other in pairs:
        number = numbers.find(other)
        if number and isfinite(number):  # sums of infinite terms are NaN
            before = movement_of(x, numbers)
            factor = before.factor / number if is_division else before.factor * number
            return replace(before, factor=factor, inside=(*before.inside, value))
    return Movement.none(value)


def split(parts: Parts, shape: Shape) -> list[Parts] | None:
    """Parts as axes of some sizes; None if those do not end where parts can."""
    rest, found = list(reversed(parts)), []
    for size in shape:
        axis: list[Part] = []
        while (count := element_count(tuple(part.size for part in axis))) != size:
            if not rest:
                return None
            outer, inner = _divide(rest.pop(), size, count)
            axis.append(outer)
            rest += inner
        found.append(_merge(axis))
    return None if rest else found


def _divide(part: Part, size: Size, count: Size) -> tuple[Part, list[Part]]:
    """What an axis of `size` takes of a part if it has `count`, and what is left."""
    whole = part.size
    if not (
        isinstance(whole, int) and isinstance(size, int) and isinstance(count, int)
    ):
        return part, []
    wanted = size // count if count else 0
    if wanted * count != size or wanted == 0 or whole <= wanted or whole % wanted:
        return part, []
    step = whole // wanted
    outer = replace(part, size=wanted, step=part.step * step)
    return outer, [replace(part, size=step)]


def _whole_axis(size: Size, axis: int) -> Parts:
    return () if size == 1 else (Part(size, axis),)


def _repeated(
    axes: Sequence[Parts], kept: Sequence[int], before: Tensor, after: Tensor
) -> list[Parts]:
    """The axes of a broadcast."""
    found: list[Parts] = [() if n == 1 else (Part(n, None),) for n in after.shape]
    for parts, axis, size in zip(axes, kept, before.shape, strict=True):
        if size == after.shape[axis]:
            found[axis] = parts
    return found


def _merge(parts: Iterable[Part]) -> Parts:
    """Parts of one axis that follow each other as one."""
    found: list[Part] = []
    for part in parts:
        if found and _follows(part, found[-1]):
            found[-1] = replace(part, size=found[-1].size * part.size)
        else:
            found.append(part)
    return tuple(found)


def _follows(part: Part, outer: Part) -> bool:
    """Whether both are one part of an axis."""
    is_one_axis = part.axis is not None and part.axis == outer.axis
    return is_one_axis and outer.step == part.size * part.step


def write_moved(
    b: Builder, movement: Movement, groups: Sequence[Parts], shape: Shape
) -> Value:
    """The source with other axes, without its factor.

    Args:
        b: writes the ops.
        movement: from the source.
        groups: the parts of each axis; every part of the source is in one of them.
        shape: the sizes of the axes.
    """
    if (axes := _permutation(movement, groups)) is not None:
        return b.to_order(movement.source, axes)
    order = [part for group in groups for part in group]
    lying = sorted(order, key=lambda part: (part.axis or 0, -part.step))
    value = b.to_shape(movement.source, tuple(part.size for part in lying))
    value = b.to_order(value, tuple(lying.index(part) for part in order))
    return b.to_shape(value, shape)


def _permutation(movement: Movement, groups: Sequence[Parts]) -> tuple[int, ...] | None:
    """The axes of the source in another order, if they are no more than that."""
    sizes = Tensor.of(movement.source).shape
    ones = (axis for axis, size in enumerate(sizes) if size == 1)
    whole = [_whole_axis(size, axis) for axis, size in enumerate(sizes)]
    if len(groups) != len(sizes) or any(x and x not in whole for x in groups):
        return None
    return tuple(whole.index(parts) if parts else next(ones) for parts in groups)
