"""Rearrangements: reshapes, transposes and padding of a value, which can be undone.

One chain says how a weight is brought into the order in which a kernel reads it, and
how it is brought back.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from aotc.dialects.builder import Builder
from aotc.dialects.permutations import inverse, permute
from aotc.dialects.types import Shape
from aotc.mlir import Value


@dataclass(frozen=True)
class _Step:
    """One op of a chain.

    Args:
        before: the shape of what it takes.
        after: the shape of what it gives.
        order: of the axes, if it is a transpose.
        is_padding: whether zeros are added after the elements, else it is a reshape.
    """

    before: Shape
    after: Shape
    order: tuple[int, ...] = ()
    is_padding: bool = False

    def apply(self, b: Builder, value: Value) -> Value:
        """Write the op."""
        if self.order:
            return b.to_order(value, self.order)
        if not self.is_padding or self.before == self.after:
            return b.to_shape(value, self.after)
        none = (0,) * len(self.after)
        high = tuple(m - n for n, m in zip(self.before, self.after, strict=True))
        return b.pad(value, low=none, high=high, interior=none, value=0.0)

    def undo(self, b: Builder, value: Value) -> Value:
        """Write its inverse."""
        if self.order:
            return b.to_order(value, inverse(self.order))
        if not self.is_padding or self.before == self.after:
            return b.to_shape(value, self.before)
        none, ones = (0,) * len(self.after), (1,) * len(self.after)
        return b.slice(value, start=none, sizes=self.before, strides=ones)


@dataclass(frozen=True)
class Rearrangement:
    """A chain of such ops.

    Args:
        start: the shape of what is rearranged.
        steps: of the chain.
    """

    start: Shape
    steps: tuple[_Step, ...] = ()

    @property
    def shape(self) -> Shape:
        """The shape of the result."""
        return self.steps[-1].after if self.steps else self.start

    def reshape(self, shape: Shape) -> "Rearrangement":
        """Return the chain that then gives the elements another shape."""
        return self._then(_Step(self.shape, shape))

    def transpose(self, order: Sequence[int]) -> "Rearrangement":
        """Return the chain that then gives the axes another order."""
        after = permute(self.shape, order)
        return self._then(_Step(self.shape, after, tuple(order)))

    def pad(self, shape: Shape) -> "Rearrangement":
        """Return the chain that then adds zeros after the elements, up to a shape."""
        return self._then(_Step(self.shape, shape, is_padding=True))

    def _then(self, step: _Step) -> "Rearrangement":
        return replace(self, steps=(*self.steps, step))

    def apply(self, b: Builder, value: Value) -> Value:
        """Write the ops, and return what they give."""
        for step in self.steps:
            value = step.apply(b, value)
        return value

    def undo(self, b: Builder, value: Value) -> Value:
        """Write the ops that give back what was rearranged, and return that."""
        for step in reversed(self.steps):
            value = step.undo(b, value)
        return value
