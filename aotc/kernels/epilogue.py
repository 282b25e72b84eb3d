"""What a region computes beside its anchor, while that is in registers.

Ops of the graph are applied to vectors by their own `lower` rules. What else they read
is read in place: a tensor of the shape of the result, a vector along its last axis, or
a number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from aotc.dialects.graph import GraphOp, as_tuple
from aotc.dialects.lowering import Lowering
from aotc.dialects.ops.creation import Constant
from aotc.dialects.ops.shape import Broadcast
from aotc.dialects.types import Tensor
from aotc.errors import CompileError
from aotc.kernels import vectors
from aotc.mlir import Operation, Value, ir


class VectorLowering(Lowering):
    """Lowers elementwise ops on vectors, as others on tensors."""

    def __init__(self) -> None:
        super().__init__([])

    def pointwise(
        self, inputs: Sequence[Value], result: Tensor, body: Callable[..., Value]
    ) -> Value:
        """The body, on vectors."""
        return body(*inputs)


@dataclass(frozen=True)
class Place:
    """Where a vector of results lies.

    Args:
        at: its first element, of all results.
        column: the same, in its row.
        key: of the column, to read what it shares with other rows once.
        count: how many of its lanes there are.
    """

    at: Value
    column: Value
    key: int
    count: int


class Epilogue:
    """Computes the values of a region from the sums.

    Args:
        total: the value that the sums are.
        memories: where the arguments of the region lie.
        lanes: of a vector.
    """

    def __init__(
        self, total: Value, memories: Mapping[Value, Value], lanes: int
    ) -> None:
        self._total = total
        self._memories = memories
        self._lanes = lanes
        self._lowering = VectorLowering()

    def apply(
        self, wanted: Sequence[Value], sums: Sequence[tuple[Place, Value]]
    ) -> list[list[Value]]:
        """The vectors of the values that are wanted, at each of some places."""
        shared: dict[tuple[Value, int], Value] = {}
        return [
            [self._value(each, {self._total: total}, place, shared) for each in wanted]
            for place, total in sums
        ]

    def compute(self, value: Value, place: Place) -> Value:
        """The vector of a value that does not depend on the sums."""
        return self._value(value, {}, place, {})

    def is_read(self, value: Value) -> bool:
        """Whether a value is read from memory, not computed."""
        return value in self._memories

    def _value(
        self,
        value: Value,
        known: dict[Value, Value],
        place: Place,
        shared: dict[tuple[Value, int], Value],
    ) -> Value:
        if value not in known:
            known[value] = self._compute(value, known, place, shared)
        return known[value]

    def _compute(
        self,
        value: Value,
        known: dict[Value, Value],
        place: Place,
        shared: dict[tuple[Value, int], Value],
    ) -> Value:
        if value in self._memories:
            memory = self._memories[value]
            return vectors.load(memory, place.at, self._lanes, place.count)
        op = _computing_op(value)
        if isinstance(op, Constant):  # a tensor without axes, like the result
            return vectors.splat(float(op.value), self._lanes)
        if isinstance(op, Broadcast):
            key = value, place.key
            if key not in shared:
                shared[key] = self._read_repeated(op.operands[0], place)
            return shared[key]
        given = [self._value(each, known, place, shared) for each in op.operands]
        found: Value
        (found,) = as_tuple(type(op).lower(self._lowering, op, *given))
        return found

    def _read_repeated(self, source: Value, place: Place) -> Value:
        """What is the same in all rows."""
        if source in self._memories:
            memory = self._memories[source]
            if all(size == 1 for size in Tensor.of(source).shape):
                element = vectors.load_element(memory, vectors.index(0))
                return vectors.repeat(element, self._lanes)
            return vectors.load(memory, place.column, self._lanes, place.count)
        op = _computing_op(source)
        assert isinstance(op, Constant)
        return vectors.splat(float(op.value), self._lanes)


def readable_source(value: Value, columns: Sequence[int]) -> Value | None:
    """What a kernel reads for an operand of the shape of its rows; None if it cannot.

    That is the operand, or what is repeated in it: a number, or a vector along the
    columns, in all rows.

    Args:
        value: the operand.
        columns: the axes of the shape along which rows share vectors.
    """
    if Tensor.of(value).dtype != "f32":
        return None
    op = defining_op(value)
    if not isinstance(op, Broadcast):
        return value
    source = Tensor.of(op.x)
    if all(size == 1 for size in source.shape):
        return op.x
    axes = {a for a, n in zip(op.axes, source.shape, strict=True) if n != 1}
    shape = Tensor.of(value).shape
    needed = {axis for axis in columns if shape[axis] != 1}
    return op.x if axes == needed else value


def defining_op(value: Value) -> Operation | None:
    """The op that computes a value; None if it is an argument."""
    return None if isinstance(value.owner, ir.Block) else value.owner.opview


def _computing_op(value: Value) -> GraphOp:
    op = defining_op(value)
    if not isinstance(op, GraphOp):
        raise CompileError("not-lowered", f"a kernel cannot compute {op}")
    return op
