"""A call of a kernel that gives new states, which it may write over the old ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeGuard

from aotc.dialects.functions.walking import defining_op, latest_op
from aotc.dialects.graph import GraphOp
from aotc.dialects.lowering.regions import Ties, readers_of
from aotc.kernels.in_place import InPlaceKernels, tensors_of
from aotc.mlir import Operation, Value, func, ir


@dataclass
class TiedCall:
    """A kernel call whose new states may overwrite the old ones' buffers.

    Args:
        op: the call.
        kernels: those of the module.
        ties: the old state of each new one that it gives.
        after: what is computed before it is run.
    """

    op: func.CallOp
    kernels: InPlaceKernels
    ties: Ties
    after: list[Value] = field(default_factory=list)

    @classmethod
    def of(
        cls, op: Operation, kernels: InPlaceKernels, updates: Mapping[Value, Value]
    ) -> TiedCall | None:
        """Return `op` as a kernel call that may overwrite old states; None if it may
        not.

        Args:
            op: of a function.
            kernels: those of the module.
            updates: the old state of each new one that the function returns.
        """
        kernel = kernels.kernel_of(op)
        if kernel is None or kernel.parts is None:
            return None
        assert isinstance(op, func.CallOp)
        given, (read, made) = tensors_of(op), kernel.parts
        times, places = Counter(given), {x: place for place, x in enumerate(given)}
        ties, viewed = {}, _viewed(op)
        for new, part in zip(op.results, made, strict=True):
            old = updates.get(new)
            if old is None or times[old] != 1 or old.type != new.type:
                continue
            if read[places[old]] == part and old not in viewed:
                ties[new] = old
        return cls(op, kernels, ties) if ties else None

    def with_ties(self, ties: Ties) -> TiedCall:
        """Return the call with a subset of the states tied to old ones."""
        return TiedCall(self.op, self.kernels, ties)

    @property
    def computed_inputs(self) -> list[Value]:
        """The tensor operands that other ops compute, without arguments."""
        given = tensors_of(self.op)
        return [value for value in given if not isinstance(value.owner, ir.Block)]

    def readers(self) -> list[Operation]:
        """Return the other ops of the block that read the tied old states."""
        block = self.op.operation.block
        return readers_of([*self.ties.values()], block, lambda op: op == self.op)

    def wait_for(self, values: Sequence[Value]) -> None:
        """Set the values to compute before the call, so that it depends on them."""
        self.after = [value for value in values if value not in self.op.results]

    def is_closed(self) -> bool:
        """Return whether the call can be placed before all uses of its results."""
        anchor = self._anchor()
        users = [use.owner for value in self.op.results for use in value.uses]
        return anchor is None or all(map(anchor.operation.is_before_in_block, users))

    def _anchor(self) -> Operation | None:
        """Return the latest op that computes an operand or awaited value; None if none
        does.
        """
        return latest_op([*self.op.operands, *self.after])

    def outline(self) -> list[Value]:
        """Replace the call by one tied to the old states; return the overwritten
        states.

        Returns:
            The new states that are written over old ones.
        """
        given, anchor = tensors_of(self.op), self._anchor()
        tied = [
            given.index(self.ties[new]) if new in self.ties else -1
            for new in self.op.results
        ]
        point = ir.InsertionPoint(self.op)
        if anchor is not None and self.op.operation.is_before_in_block(
            anchor.operation
        ):
            point = ir.InsertionPoint.after(anchor)
        with point, self.op.location:
            made = self.kernels.call(self.op, tied, self.after)
        written = []
        for old, new in zip(self.op.results, made, strict=True):
            old.replace_all_uses_with(new)
            if old in self.ties:
                written.append(new)
        self.op.operation.erase()
        self.op = made[0].owner.opview
        return written


def _viewed(op: Operation) -> set[Value]:
    """Return the values that a call's tensor operands may be views of.

    What other ops than those that move elements compute is stored before the call, in
    memory of its own.
    """
    rest, found = tensors_of(op), set[Value]()
    while rest:
        made = defining_op(rest.pop())
        new = [x for x in made.operands if x not in found] if _is_moved(made) else []
        found.update(new)
        rest += new
    return found


def _is_moved(op: Operation | None) -> TypeGuard[GraphOp]:
    """Return whether an op only moves elements, so that its result may be a view."""
    return isinstance(op, GraphOp) and (type(op).rearranges or type(op).selects)
