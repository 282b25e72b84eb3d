"""`batch` rules: what an op does to operands that carry one more axis, in front.

    batch(b, op, operands, batched, size) -> its results, each with the leading axis

`operands` stand in the place of the op's own; those that `batched` marks have the
leading axis, of `size`, and at least one does. Most ops need no more than the axis on
every operand and attributes that make room for it: `leading` makes that rule.
"""

from collections.abc import Callable, Sequence
from typing import Any

from aotc.dialects.builder import Builder
from aotc.dialects.graph import GraphOp, Reason
from aotc.dialects.types import Shape, Size, Tensor
from aotc.mlir import Value

NO_OPERANDS = Reason("not-batched", "it has no operands, so it is the same for all")

Change = Callable[[Any, Size], Any]  # of an attribute, for an axis of this size
BatchRule = Callable[..., Value | Sequence[Value]]


def add_leading_axis(b: Builder, value: Value, size: Size) -> Value:
    """Emit a broadcast of `value` along a new leading axis."""
    shape = Tensor.of(value).shape
    axes = tuple(range(1, len(shape) + 1))
    return b.broadcast(value, shape=(size, *shape), axes=axes)


def add_leading_axes(
    b: Builder, operands: Sequence[Value], batched: Sequence[bool], size: Size
) -> list[Value]:
    """Emit the broadcasts that give every operand the leading axis; return all."""
    return [
        x if has else add_leading_axis(b, x, size)
        for x, has in zip(operands, batched, strict=True)
    ]


def leading(**changes: Change) -> BatchRule:
    """Return the `batch` rule of an op that treats a further axis like any other.

    Args:
        changes: what becomes of the attributes that speak of axes, by name:
            `shift_axes`, `prepend_size` or `before(…)`.
    """

    def batch(
        b: Builder,
        op: GraphOp,
        operands: Sequence[Value],
        batched: Sequence[bool],
        size: Size,
    ) -> Any:
        """Emit the op with one more leading axis."""
        changed = {n: change(getattr(op, n), size) for n, change in changes.items()}
        return op.rebuild(*add_leading_axes(b, operands, batched, size), **changed)

    return staticmethod(batch)


def shift_axes(axes: int | Sequence[int], _: Size) -> Any:
    """Return an axis, or each of several, shifted by one."""
    return axes + 1 if isinstance(axes, int) else tuple(axis + 1 for axis in axes)


def after_leading(axes: Sequence[int], _: Size) -> tuple[int, ...]:
    """Return 0 for the new axis, then the axes shifted by one."""
    return (0, *(axis + 1 for axis in axes))


def prepend_size(shape: Shape, size: Size) -> Shape:
    """Return a shape with the size of the new axis in front."""
    return (size, *shape)


def before(value: int) -> Change:
    """Return an attribute change that prepends `value` for the new axis."""
    return lambda values, _: (value, *values)


def fold_leading_axis(
    b: Builder,
    op: GraphOp,
    operands: Sequence[Value],
    batched: Sequence[bool],
    size: Size,
) -> Value:
    """Emit the op with the first operand's leading axis merged into its batch axis.
    No other operand may be batched.
    """
    x, *others = operands
    shape = Tensor.of(x).shape
    flat = b.reshape(x, shape=(shape[0] * shape[1], *shape[2:]))
    y = op.rebuild(flat, *others)
    rest = Tensor.of(y).shape[1:]
    return b.reshape(y, shape=(*shape[:2], *rest))
