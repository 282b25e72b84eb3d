"""Multiply a sum by what would scale each of its terms.

    %1 = graph.broadcast(%scale)              %1 = graph.reduce_sum(%dz)
    %2 = graph.multiply(%dz, %1)         →    %2 = graph.multiply(%1, %scale)
    %3 = graph.reduce_sum(%2)

where %scale repeats along the axes that are summed up, as the scale of a batch norm
does in the sums of its derivative. These are then the sums that the gradients of the
scale and the bias are, which `cse` sees.

Sums are rounded at another place, and a sum that overflows is infinite where the scaled
one was not; an infinite scale of terms of both signs gives infinity, not NaN. Nothing
is moved that is narrower than f32, or where the terms would be kept for the sum alone.

Ensures: no sum has a factor of its own but where its terms are nothing but that.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from math import inf
from typing import NamedTuple

from aotc.dialects.builder import Builder
from aotc.dialects.functions.functions import before
from aotc.dialects.functions.walking import has_one_use
from aotc.dialects.ops.binary import Multiply
from aotc.dialects.ops.reduction import ReduceSum
from aotc.dialects.ops.shape import Broadcast, varying_axes
from aotc.dialects.patterns.values import made_by
from aotc.dialects.types import Tensor
from aotc.mlir import Function, Value
from aotc.passes.base import FunctionPass
from aotc.passes.fold_scales import is_wide_float
from aotc.passes.properties import CALLS_INLINED

_DEEPEST = 4  # products of products


class ScaleSums(FunctionPass):
    """Move a constant factor of a sum's terms behind the sum, in every function."""

    name = "scale-sums"
    level = 2
    keeps_graph = True
    requires = (CALLS_INLINED,)

    def change(self, function: Function) -> bool:
        """Rewrite the sums of a function in place; return whether any changed."""
        ops = [*function.entry_block.operations]
        return any([isinstance(op, ReduceSum) and _scale(op) for op in ops])


class _TermFactor(NamedTuple):
    """A factor of the terms of a sum, and how many readers share it.

    Args:
        value: the factor.
        readers: how many of it there are, at the least: one for a factor of the sum's
            own.
    """

    value: Value
    readers: float


def _scale(op: ReduceSum) -> bool:
    """Move factors of a sum's terms behind it; return whether there were any to
    move.
    """
    if not is_wide_float(Tensor.of(op.x).dtype) or not op.axes:
        return False
    factors = [*_factors(op.x, inf, _DEEPEST)]
    scales = [each for each in factors if _repeats(each.value, op)]
    terms = [each for each in factors if each not in scales]
    if not scales or not terms or any(each.readers < 1 for each in terms):
        return False
    with before(op):
        b = Builder()
        total = b.reduce_sum(
            reduce(b.multiply, [each.value for each in terms]), axes=op.axes
        )
        for each in scales:
            total = b.multiply(total, _of_sums(b, each.value, op))
    op.y.replace_all_uses_with(total)
    op.operation.erase()
    return True


def _factors(value: Value, readers: float, depth: int) -> Iterator[_TermFactor]:
    """Yield the factors of a nested product, with a lower bound on their readers.

    A product that others read as well is stored for them; what it is made of then has
    to be read by others, too, or it would be stored for the sum alone.
    """
    made = made_by(value, Multiply)
    if made is None or not depth:
        yield _TermFactor(value, readers)
        return
    shared = not has_one_use(value)
    for operand in made.operands:
        own = float(not has_one_use(operand)) if shared else readers
        yield from _factors(operand, min(readers, own), depth - 1)


def _repeats(value: Value, op: ReduceSum) -> bool:
    """Return whether a factor is constant along all summed axes."""
    made = made_by(value, Broadcast)
    return made is not None and not {*varying_axes(made)} & {*op.axes}


def _of_sums(b: Builder, value: Value, op: ReduceSum) -> Value:
    """Emit a factor of the terms, broadcast to the shape of the sums."""
    made = made_by(value, Broadcast)
    assert made is not None
    x, kept = Tensor.of(made.x), varying_axes(made)
    rest = [axis for axis in range(Tensor.of(value).rank) if axis not in op.axes]
    sizes = [n for n, axis in zip(x.shape, made.axes, strict=True) if axis in kept]
    narrow = b.reshape(made.x, shape=tuple(sizes))
    axes = tuple(rest.index(axis) for axis in made.axes if axis in kept)
    return b.broadcast(narrow, shape=Tensor.of(op.y).shape, axes=axes)
