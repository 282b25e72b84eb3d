"""`reorder` rules: an op on operands whose axes come in another order.

    reorder(b, op, operands, order) -> its results, their axes in the orders that
                                       `result_orders(op, order)` says

An `order` says where each axis is: axis i of what the op reads or gives is axis
`order[i]` of the value that stands in its place, so `transpose(value, order)` is the
op's own. All operands come in one order. Most ops need no more than attributes that
name the axes anew: `in_any_order` makes that rule. An op that has none computes in the
order of axes that it was written in.
"""

from collections.abc import Callable, Sequence
from typing import Any

from aotc.dialects.builder import Builder
from aotc.dialects.graph import GraphOp, as_tuple
from aotc.dialects.movement.permutations import Order, inverse, permute
from aotc.mlir import Value

Change = Callable[[Any, Order], Any]  # of an attribute, for axes in this order
ReorderRule = Callable[..., tuple[Value, ...]]


def in_any_order(**changes: Change) -> ReorderRule:
    """Return the `reorder` rule of an op that treats axes alike but for attributes.

    Args:
        changes: what becomes of the attributes that speak of axes, by name:
            `rename_axes` or `reorder_sizes`.
    """

    def reorder(
        b: Builder, op: GraphOp, operands: Sequence[Value], order: Order
    ) -> tuple[Value, ...]:
        """Emit the op on operands in this order, with axes renumbered."""
        changed = {n: change(getattr(op, n), order) for n, change in changes.items()}
        return as_tuple(op.rebuild(*operands, **changed))

    return staticmethod(reorder)


def rename_axes(axes: int | Sequence[int], order: Order) -> Any:
    """Return the new index of an axis, or the sorted ones of several."""
    if isinstance(axes, int):
        return order[axes]
    return tuple(sorted(order[axis] for axis in axes))


def reorder_sizes(sizes: Sequence[object], order: Order) -> tuple[Any, ...]:
    """Return one entry per axis, each moved to the new index of its axis."""
    return permute(sizes, inverse(order))


def order_without(axes: Sequence[int], order: Order) -> Order:
    """Return the order of the axes that remain when `axes` are reduced away."""
    kept = [at for axis, at in enumerate(order) if axis not in axes]
    return tuple(sorted(kept).index(at) for at in kept)
