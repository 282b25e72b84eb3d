"""Rearrangements: reshapes, transposes and padding of a value, which can be undone.

One chain says how a weight is brought into the order in which a kernel reads it, and
how it is brought back.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from aotc.dialects.builder import Builder
from aotc.dialects.movement.permutations import inverse, permute
from aotc.dialects.types import Shape
from aotc.mlir import Value

Write = Callable[[Builder, Value], Value]


@dataclass(frozen=True)
class Rearrangement:
    """A chain of reshapes, transposes and pads to emit, and its inverse.

    Args:
        shape: of the result; that of what is rearranged, to begin with.
        apply: writes the ops, and returns what they give.
        undo: writes the ops that give back what was rearranged, and returns that.
    """

    shape: Shape
    apply: Write = lambda b, x: x
    undo: Write = lambda b, x: x

    def _then(self, shape: Shape, emit: Write, invert: Write) -> "Rearrangement":
        """Return the rearrangement followed by an op, undone by its inverse."""
        return Rearrangement(
            shape,
            lambda b, x: emit(b, self.apply(b, x)),
            lambda b, x: self.undo(b, invert(b, x)),
        )

    def reshape(self, shape: Shape) -> "Rearrangement":
        """Return the rearrangement followed by a reshape."""
        return self._then(
            shape,
            lambda b, x: b.to_shape(x, shape),
            lambda b, x: b.to_shape(x, self.shape),
        )

    def transpose(self, order: Sequence[int]) -> "Rearrangement":
        """Return the rearrangement followed by a transpose."""
        return self._then(
            permute(self.shape, order),
            lambda b, x: b.to_order(x, tuple(order)),
            lambda b, x: b.to_order(x, inverse(order)),
        )

    def pad(self, shape: Shape) -> "Rearrangement":
        """Return the rearrangement followed by zero padding at the end of axes."""
        if shape == self.shape:
            return self
        return self._then(
            shape,
            lambda b, x: b.pad_to(x, shape),
            lambda b, x: b.cut_to(x, self.shape),
        )
