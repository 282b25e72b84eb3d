"""Sums that one kernel of a GPU computes, of what it reads once.

    %s = graph.reduce_sum(%dy)            %t = graph.reduce_sum(%x)
    %p = graph.multiply(%dy, %y)          %m = graph.broadcast(graph.divide(%t, %n))
    %t = graph.reduce_sum(%p)             %d = graph.subtract(%x, %m)
                                          %v = graph.reduce_sum(graph.square(%d))

Those of a derivative read the same elements; a variance is a sum of what is left
without the mean, which is one, too. All go over the same axes of equal shapes.
"""

from __future__ import annotations

from collections.abc import Iterator

from aotc.dialects.functions.walking import (
    backward_slice,
    defining_op,
    has_one_use,
    in_order,
    is_before,
    users_of,
)
from aotc.dialects.graph import GraphOp
from aotc.dialects.ops.reduction import ReduceSum
from aotc.dialects.ops.shape import Broadcast
from aotc.dialects.types import Tensor
from aotc.kernels.gpu.lifting import can_lift
from aotc.mlir import Value, func

_MOST = 3  # sums of a kernel
_MOST_READ = 8  # tensors that it reads
_DTYPES = ("f32", "bf16", "f16", "i32", "bool")


def sums_before(op: ReduceSum) -> list[GraphOp]:
    """Return the ops before a sum, other sums among them, that its kernel computes too.

    Those are other sums, and the elementwise ops of all of them whose results nothing
    else reads but what has one element for each sum. None where it computes no other.
    """
    for follows in (True, False):
        found = SumGroup(op, follows=follows)
        if found.sums[1:] and not found.is_circular:
            return in_order([x for x in found.ops if x != op])
    return []


class SumGroup:
    """A group of sums, and elementwise ops between, that one kernel computes.

    Args:
        op: the last of them.
        follows: whether sums are among them that others are made of.
    """

    def __init__(self, op: ReduceSum, *, follows: bool) -> None:
        self._last, self._follows = op, follows
        self.sums: list[ReduceSum] = []
        self.ops: list[GraphOp] = []
        self._computed: set[Value] = set()
        self._add_sum(op)
        for other in self._siblings():
            known = [*self.sums], [*self.ops], {*self._computed}
            self._add_sum(other)
            if self.is_circular or len({*self._reads()}) > _MOST_READ:
                self.sums, self.ops, self._computed = known

    @property
    def is_circular(self) -> bool:
        """Return whether an input of the kernel depends on one of its outputs."""
        (first, *_), computed = in_order(self.ops), self._computed

        def is_after(value: Value) -> bool:
            made = defining_op(value)
            return made is not None and is_before(first, made)

        behind = backward_slice(self._reads(), is_after)
        return any(value in computed for value in behind)

    def _reads(self) -> list[Value]:
        """Return the operands of the group's ops that it does not compute."""
        read = (value for op in self.ops for value in op.operands)
        return [value for value in read if value not in self._computed]

    def _is_alike(self, op: object) -> bool:
        """Return whether an op is a sum over the same axes of an equal shape."""
        if not isinstance(op, ReduceSum) or op.axes != self._last.axes:
            return False
        return Tensor.of(op.x).shape == Tensor.of(self._last.x).shape

    def _is_wide(self, value: Value) -> bool:
        """Return whether a value has the shape of the sums' operands."""
        return Tensor.of(value).shape == Tensor.of(self._last.x).shape

    def _add_sum(self, op: ReduceSum) -> None:
        """Add a sum to the group, with the ops that make its operand."""
        rest = self._add_op(op)
        while rest:
            value = rest.pop()
            made = defining_op(value)
            if value in self._computed or not isinstance(made, GraphOp):
                continue
            if self._takes(value, made):
                rest += self._add_op(made)

    def _add_op(self, op: GraphOp) -> list[Value]:
        """Add an op to the group; return its operands."""
        self.ops.append(op)
        self._computed.update(op.results)
        if isinstance(op, ReduceSum):
            self.sums.append(op)
        return [*op.operands]

    def _takes(self, value: Value, made: GraphOp) -> bool:
        """Return whether the group can add the op that makes a value which it reads."""
        if not self._is_wide(value):
            return self._follows and self._is_of_sums(value)
        readers = (use.owner for use in value.uses)
        if not all(x in self._computed for op in readers for x in op.results):
            return False
        if isinstance(made, Broadcast):
            return self._follows and self._is_of_sums(made.x)
        return _is_computed(made)

    def _is_of_sums(self, value: Value) -> bool:
        """Return whether a value is computed from sums, with their shape."""

        def is_narrow(value: Value) -> bool:
            made = defining_op(value)
            return isinstance(made, GraphOp) and _is_computed(made)

        if Tensor.of(value).shape != Tensor.of(self._last.y).shape:
            return False
        behind = [defining_op(x) for x in backward_slice([value], is_narrow)]
        return len(self.sums) < _MOST and any(map(self._is_alike, behind))

    def _siblings(self) -> Iterator[ReduceSum]:
        """Yield earlier sums whose operands derive from what the group reads."""
        rest = [x for x in self._reads() if self._is_wide(x)]
        rest = [*dict.fromkeys(other for x in rest for other in _beside(x))]
        known = {*rest}
        while rest:
            for user in users_of([rest.pop()]):
                if not isinstance(user, GraphOp) or not is_before(user, self._last):
                    continue
                if isinstance(user, ReduceSum):
                    is_new = self._is_alike(user) and user not in self.sums
                    if is_new and len(self.sums) < _MOST:
                        yield user
                elif _is_computed(user):
                    (value,) = user.results
                    is_own = self._is_wide(value) and has_one_use(value)
                    if is_own and value not in known:
                        known.add(value)
                        rest.append(value)


def _is_computed(op: GraphOp) -> bool:
    """Return whether kernels compute an elementwise op, in few instructions."""
    kinds = (Tensor.of(x).dtype for x in (*op.operands, *op.results))
    if isinstance(op, Broadcast) or type(op).is_approximated:
        return False
    return all(kind in _DTYPES for kind in kinds) and can_lift(op)


def _beside(value: Value) -> list[Value]:
    """Return a value together with other results of the kernel that makes it."""
    made = defining_op(value)
    if isinstance(made, func.CallOp):
        return [*made.results]
    if isinstance(made, ReduceSum):
        return [value, *(x.y for x in sums_before(made) if isinstance(x, ReduceSum))]
    return [value]
