"""Move bytes in the place of numbers that are dequantised and quantised as they were.

    %1 = graph.multiply(graph.cast(%q), %s)
    %2 = graph.transpose(%1)                      →    %4 = graph.transpose(%q)
    %3 = graph.divide(%2, %s)
    %4 = graph.cast(graph.round_even(%3))

Exporters quantise the results of ops that only move elements with the scale and the
zero point of their operands. What lies between two tensors of bytes are elementwise ops
of one tensor and numbers that are known when the model is built, beside movement. All
256 bytes are taken through these ops by the reference evaluator: where each comes out
as it went in, nothing is left of them. Elementwise ops round alike on all targets, so
that this is exact.

Requires: the arrays of the weights, where scales are weights.
Ensures: no op is added.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from aotc import dtypes
from aotc.dialects.functions import before, functions_of
from aotc.dialects.fusion import has_unfused_body
from aotc.dialects.graph import GraphOp, evaluate
from aotc.dialects.ops.contraction import BYTES
from aotc.dialects.ops.indexing import Gather
from aotc.dialects.types import Tensor
from aotc.dialects.walking import defining_op
from aotc.dialects.weight_values import weight_values
from aotc.mlir import Function, Value
from aotc.passes.base import Pass, Unit
from aotc.passes.properties import CALLS_INLINED
from aotc.passes.quantized.numbers import (
    Numbers,
    is_quantization,
    known_number,
    numbers_of_weights,
)
from aotc.passes.quantized.reading import moves, operand_read

Array = np.ndarray[Any, Any]


class DropRequantization(Pass):
    """Drop what dequantises bytes and quantises them again as they were."""

    name = "drop-requantization"
    level = 2
    keeps_graph = True
    requires = (CALLS_INLINED,)

    def run(self, unit: Unit) -> bool:
        """Whether anything changed."""
        numbers = numbers_of_weights(unit.program)
        functions = functions_of(unit.module).values()
        return any([_change(x, numbers) for x in functions if has_unfused_body(x)])


def _change(function: Function, numbers: Numbers) -> bool:
    weights = weight_values(function)
    changed = False
    for op in [*function.entry_block.operations]:
        if not is_quantization(op) or op.results[0] in weights:
            continue
        found = _Requantization.before(op.results[0], numbers)
        if found is not None and found.changes_nothing(numbers):
            with before(op):
                moved = found.move()
            op.results[0].replace_all_uses_with(moved)
            found.erase()
            changed = True
    return changed


@dataclass(frozen=True)
class _Requantization:
    """What is between two tensors of bytes.

    Args:
        source: the first of them.
        path: the ops that make the second one of it, in order, each with the operand
            that is made of the first one; the others are numbers.
    """

    source: Value
    path: tuple[tuple[GraphOp, Value], ...]

    @staticmethod
    def before(value: Value, numbers: Numbers) -> _Requantization | None:
        """Return how a tensor of bytes is made of another one, if it is.

        Args:
            value: that tensor.
            numbers: weights that are one number.
        """
        path: list[tuple[GraphOp, Value]] = []
        while True:
            op = defining_op(value)
            read = operand_read(op, numbers) if isinstance(op, GraphOp) else None
            if read is None:
                return None
            assert isinstance(op, GraphOp)
            path.insert(0, (op, read))
            if Tensor.of(read).dtype in BYTES:
                return _Requantization(read, tuple(path))
            value = read

    def changes_nothing(self, numbers: Numbers) -> bool:
        """Return whether each byte comes out as it goes in.

        What is read of an axis that is empty in a call is 0, of floats as of bytes.
        """
        kind = dtypes.to_numpy(Tensor.of(self.source).dtype)
        every: Array = np.arange(256).astype(np.uint8).view(kind)
        if not _is_same(self._take_through(every, 0, numbers), every):
            return False
        for number, (op, _) in enumerate(self.path, 1):
            if _may_read_nothing(op):
                dtype = dtypes.to_numpy(Tensor.of(op.results[0]).dtype)
                zero = self._take_through(np.zeros(1, dtype), number, numbers)
                if not _is_same(zero, np.zeros(1, kind)):
                    return False
        return True

    def _take_through(self, found: Array, first: int, numbers: Numbers) -> Array:
        """Return what the ops of the path from one on make of numbers."""
        with np.errstate(all="ignore"):
            for op, _ in self.path[first:]:
                if not moves(op):
                    known = [known_number(x, numbers) for x in op.operands]
                    given = [found if x is None else x for x in known]
                    (found,) = evaluate(op, given, [])
        return found

    def move(self) -> Value:
        """Write the ops that move elements, for the bytes; return what they give."""
        value = self.source
        for op, read in self.path:
            if moves(op):
                operands = [value if x == read else x for x in op.operands]
                value = op.rebuild(*operands)
        return value

    def erase(self) -> None:
        """Erase what nothing reads any more, so that it moves no other ops."""
        for op, _ in reversed(self.path):
            if next(iter(op.results[0].uses), None) is not None:
                return
            op.operation.erase()


def _may_read_nothing(op: GraphOp) -> bool:
    """Return whether an op reads along axes of which a call may have no elements."""
    if not isinstance(op, Gather):
        return False
    shape = Tensor.of(op.x).shape
    return not all(isinstance(shape[axis], int) and shape[axis] for axis in op.axes)


def _is_same(found: Array, expected: Array) -> bool:
    return found.dtype == expected.dtype and bool((found == expected).all())
