"""Origins of a value's elements, through ops that only move or repeat them.

A chain of reshapes, transposes and broadcasts says no more than one view of what the
chain begins with. Written from that, it is one reshape, one transpose and one reshape
at most.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isfinite

from aotc.dialects.graph import view_of_result
from aotc.dialects.movement.views import View
from aotc.dialects.ops.binary import Divide, Multiply
from aotc.dialects.ops.shape import Broadcast, Reshape, Transpose
from aotc.dialects.patterns.values import made_by
from aotc.dialects.types import Tensor
from aotc.mlir import Value, ir
from aotc.passes.recovery.labels import SplatValues


@dataclass(frozen=True)
class ScaledView:
    """A value as `factor` times a strided view of another value.

    Args:
        source: the other.
        view: of it.
        factor: a number.
        inside: the values between, and the value itself if it is not the source.
    """

    source: Value
    view: View
    factor: float = 1.0
    inside: tuple[Value, ...] = ()

    @staticmethod
    def identity(value: Value) -> ScaledView:
        """Return a value as the identity view of itself."""
        return ScaledView(value, View.identity(Tensor.of(value).shape))


def scaled_view_of(value: Value, numbers: SplatValues | None = None) -> ScaledView:
    """Trace a value back through movement ops; return it as a view of the earliest
    source.

    Args:
        value: what is looked at.
        numbers: knows by which numbers it is multiplied on the way; None if it is not
            to be looked through multiplications.
    """
    op = None if isinstance(value.owner, ir.Block) else value.owner.opview
    if not isinstance(op, (Broadcast, Reshape, Transpose)):
        return _scaled(value, numbers) if numbers else ScaledView.identity(value)
    before = scaled_view_of(op.x, numbers)
    view = view_of_result(op, before.view)
    if view is None:
        return ScaledView.identity(value)
    return replace(before, view=view, inside=(*before.inside, value))


def _scaled(value: Value, numbers: SplatValues) -> ScaledView:
    """Trace a value back through a product or quotient with a number; else the
    identity.
    """
    op = made_by(value, Multiply) or made_by(value, Divide)
    if op is None:
        return ScaledView.identity(value)
    is_division = isinstance(op, Divide)
    pairs = [(op.lhs, op.rhs)] if is_division else [(op.lhs, op.rhs), (op.rhs, op.lhs)]
    for x, other in pairs:
        number = numbers.find(other)
        if number and isfinite(number):  # sums of infinite terms are NaN
            before = scaled_view_of(x, numbers)
            factor = before.factor / number if is_division else before.factor * number
            return replace(before, factor=factor, inside=(*before.inside, value))
    return ScaledView.identity(value)
