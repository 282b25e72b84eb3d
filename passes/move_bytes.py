"""Quantise the operands of movement first, and move bytes.

    %1 = graph.concatenate(%a, %b)       →   %1 = graph.divide(%a, %s)
    %2 = graph.divide(%1, %s)                %2 = graph.cast(graph.round_even(%1))
    %3 = graph.cast(graph.round_even(%2))    …    the same of %b
                                             %5 = graph.concatenate(%2, %4)

and so of what is padded, repeated, and looked up at places (a nearest neighbour), where
nothing else reads that. Elementwise ops by known numbers give the same, element by
element, before and after. A part whose scale is another one is then quantised where it
is computed, or by a table; one whose scale is the same stays as it
is (`tabulate-bytes`).

Left as they are: places of more elements than there are.

Requires: the arrays of the weights, where scales are weights.
Ensures: no element is computed twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from aotc.core import dtypes
from aotc.dialects.builder import Builder
from aotc.dialects.functions.functions import before, functions_of
from aotc.dialects.functions.fusion import unfused_functions
from aotc.dialects.functions.walking import defining_op
from aotc.dialects.graph import GraphOp, evaluate
from aotc.dialects.ops.indexing import Gather
from aotc.dialects.ops.padding import Pad
from aotc.dialects.ops.shape import Broadcast, Reshape, Transpose
from aotc.dialects.ops.slicing import Concatenate
from aotc.dialects.types import Tensor, element_count
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

_Moving = Concatenate | Pad | Broadcast | Gather


class MoveBytes(Pass):
    """Move quantisation before concatenation, padding, repetition and lookup."""

    name = "move-bytes"
    level = 2
    keeps_graph = True
    requires = (CALLS_INLINED,)

    def run(self, unit: Unit) -> bool:
        """Rewrite the unit's module in place; return whether anything changed."""
        numbers = numbers_of_weights(unit.program)
        functions = unfused_functions(functions_of(unit.module))
        return any([_change(each, numbers) for each in functions])


def _change(function: Function, numbers: Numbers) -> bool:
    """Move quantisations in a function before data movement; return whether any was
    moved.
    """
    weights = weight_values(function)
    rest: list[Any] = [
        op
        for op in function.entry_block.operations
        if is_quantization(op) and op.results[0] not in weights
    ]
    changed = False
    while rest:
        found = _Quantized.by(rest.pop(0), numbers)
        if found is not None:
            rest += found.rewrite()
            changed = True
    return changed


@dataclass(frozen=True)
class _Quantized:
    """A data movement op, and the ops that quantise its result.

    Args:
        moving: the op that moves it.
        path: the ops that quantise its result, in order, and move that in other ways,
            each with the operand that they read; the others are numbers.
        numbers: weights that are one number.
    """

    moving: _Moving
    path: tuple[tuple[GraphOp, Value], ...]
    numbers: Numbers

    @staticmethod
    def by(op: GraphOp, numbers: Numbers) -> _Quantized | None:
        """Match a final quantising cast back to the data movement before it, or
        None.
        """
        path: list[tuple[GraphOp, Value]] = []
        while True:
            read = operand_read(op, numbers)
            if read is None or len([*read.uses]) != 1:
                return None
            path.insert(0, (op, read))
            made = defining_op(read)
            if isinstance(made, _Moving) and _is_apt(made):
                return _Quantized(made, tuple(path), numbers)
            is_passed = isinstance(made, Reshape | Transpose)
            if not isinstance(made, GraphOp) or (moves(made) and not is_passed):
                return None
            if is_quantization(made):  # which is one of its own
                return None
            op = made

    def rewrite(self) -> list[GraphOp]:
        """Emit the quantisation before the movement; return the new final casts."""
        last, _ = self.path[-1]
        with before(last):
            parts = [self._quantized(x) for x in self._parts]
            result = self._moved(parts)
            for op, _ in self.path:
                if moves(op):
                    result = op.rebuild(result)
        last.results[0].replace_all_uses_with(result)
        for op, _ in reversed(self.path):
            op.operation.erase()
        self.moving.operation.erase()
        made = map(defining_op, parts)
        return [op for op in made if isinstance(op, GraphOp)]

    @property
    def _parts(self) -> Sequence[Value]:
        """The operands that the movement op moves: all of a concatenation, else the
        first.
        """
        operands = [*self.moving.operands]
        return operands if isinstance(self.moving, Concatenate) else operands[:1]

    def _moved(self, parts: Sequence[Value]) -> Value:
        """Emit the movement op on quantised operands; return the result."""
        operands = [*parts, *[*self.moving.operands][len(parts) :]]
        is_padded = isinstance(self.moving, Pad)
        changes = {"value": self._quantized_number()} if is_padded else {}
        found: Value = self.moving.rebuild(*operands, **changes)
        return found

    def _quantized(self, value: Value) -> Value:
        """Emit the quantising ops on one moved operand; return the result."""
        b, shape = Builder(), Tensor.of(value).shape
        for op, read in self.path:
            if not moves(op):
                operands = [
                    value
                    if x == read
                    else b.broadcast(_scalar(b, x), shape=shape, axes=())
                    for x in op.operands
                ]
                value = op.rebuild(*operands)
        return value

    def _quantized_number(self) -> float:
        """Return the pad value after quantisation, evaluated now."""
        assert isinstance(self.moving, Pad)
        kind = dtypes.to_numpy(Tensor.of(self.moving.y).dtype)
        found = np.full(1, self.moving.value, kind)
        with np.errstate(all="ignore"):
            for op, _ in self.path:
                if not moves(op):
                    known = [known_number(x, self.numbers) for x in op.operands]
                    given = [found if x is None else x for x in known]
                    (found,) = evaluate(op, given, [])
        return float(found[0])


def _is_apt(op: _Moving) -> bool:
    """Return whether quantising before a movement op surely costs no more than after
    it.

    Gathers that do not clip their indices are refused.
    """
    if isinstance(op, Concatenate | Pad):
        return (
            not isinstance(op, Pad) or min((*_static(op.low), *_static(op.high))) >= 0
        )
    if isinstance(op, Gather) and op.mode != "clip":
        return False
    sizes = [element_count(Tensor.of(x).shape) for x in (op.x, op.y)]
    known = [size for size in sizes if isinstance(size, int)]
    return len(known) == 2 and 0 < known[0] <= known[1]


def _static(sizes: Sequence[object]) -> list[int]:
    """Replace symbolic sizes by -1."""
    return [size if isinstance(size, int) else -1 for size in sizes]


def _scalar(b: Builder, value: Value) -> Value:
    """Emit the number that all elements of a value equal, as a tensor of rank 0."""
    while isinstance(op := defining_op(value), Broadcast | Reshape):
        value = op.x
    kind = Tensor.of(value)
    if not kind.rank:
        return value
    one = (1,) * kind.rank
    return b.reshape(b.cut_to(value, one), shape=())
