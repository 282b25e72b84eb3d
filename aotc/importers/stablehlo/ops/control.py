"""Control flow: branches, loops and functions of elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from aotc import control
from aotc import numpy as np
from aotc.dialects.types import Size, SymbolicDim, ceil_divide, maximum
from aotc.importers.stablehlo.operation import Op, Region
from aotc.importers.stablehlo.ops.reductions import require_elementwise
from aotc.importers.stablehlo.ops.shapes import make_constant
from aotc.importers.stablehlo.values import Token, Value, array, materialize, number
from aotc.mlir import ir
from aotc.tracing.array import Array


def case(op: Op, index: Value) -> Any:
    """Run the branch with a number, or the last branch where there is none."""
    chosen = number(index)
    last = len(op.regions) - 1
    if isinstance(chosen, int):
        return op.regions[chosen if 0 <= chosen <= last else last]()
    position = array(index)
    outside = np.logical_or(position < 0, position > last)
    return _switch(op.regions, np.where(outside, last, position))


def if_(op: Op, condition: Value) -> object:
    """Return the result of one branch or the other."""
    holds = number(condition)
    if isinstance(holds, bool):
        return op.regions[0 if holds else 1]()
    return _switch(op.regions[::-1], np.astype(array(condition), "i32"))


def _switch(regions: Sequence[Region], index: Array) -> object:
    """`regions[index]()`, decided when the model runs."""
    return control.switch(index, [_settling(region) for region in regions])


def _settling(region: Region) -> Region:
    return lambda *operands: [materialize(value) for value in region(*operands)]


# ---- loops --------------------------------------------------------------------------


@dataclass(frozen=True)
class _WhileLoop:
    """A while loop, less the carried values that it never changes."""

    op: Op
    initial: Sequence[Value]

    @property
    def carried_positions(self) -> list[int]:
        """The positions of the values that the body gives anew."""
        block = self.op.op.regions[1].blocks[0]
        returned = list(block.operations)[-1].operation.operands
        return [
            n
            for n, argument in enumerate(block.arguments)
            if returned[n] != argument and not isinstance(self.initial[n], Token)
        ]

    def all_values(self, values: Sequence[Value]) -> list[Value]:
        """Return all values that the regions take."""
        full: list[Value] = list(self.initial)
        for position, value in zip(self.carried_positions, values, strict=True):
            full[position] = value
        return full

    def carried_values(self, values: Sequence[Value]) -> list[Value]:
        """Return the carried values."""
        return [materialize(values[position]) for position in self.carried_positions]

    def condition(self, values: Sequence[Value]) -> Array:
        """Evaluate the condition."""
        return array(self.op.regions[0](*self.all_values(values))[0])

    def step(self, values: Sequence[Value]) -> list[Value]:
        """Evaluate the body."""
        return self.carried_values(self.op.regions[1](*self.all_values(values)))


def while_(op: Op, *initial: Value) -> object:
    """Repeat the body on the carried values for as long as the condition holds.

    With a number of steps that is known beforehand it has derivatives of both modes.
    """
    loop = _WhileLoop(op, initial)
    start = loop.carried_values(initial)
    count = _step_count(op, initial)
    if count == 0:
        return list(initial)
    if count is None:
        found = control.while_loop(loop.condition, loop.step, start)
    else:
        found = control.fori_loop(0, count, lambda _, xs: loop.step(xs), start)
    return loop.all_values(found)


def _step_count(op: Op, initial: Sequence[Value]) -> Size | None:
    """Return the number of steps of a loop like `for i in range(first, limit,
    step)`.
    """
    condition, body = (region.blocks[0] for region in op.op.regions)
    test, *_ = (_maker(v) for v in list(condition.operations)[-1].operation.operands)
    if test is None or test.name != "stablehlo.compare":
        return None
    if Op(test).word("comparison_direction") != "LT":
        return None
    position = _argument(test.operands[0], condition)
    if position is None:
        return None
    limit = _constant(test.operands[1], condition, op, initial)
    added = _maker(list(body.operations)[-1].operation.operands[position])
    if added is None or added.name != "stablehlo.add":
        return None
    if _argument(added.operands[0], body) != position:
        return None
    step = _constant(added.operands[1], body, op, initial)
    first = number(initial[position])
    if not isinstance(step, int) or step < 1:
        return None
    if not isinstance(first, int | SymbolicDim) or not isinstance(
        limit, int | SymbolicDim
    ):
        return None
    return maximum(ceil_divide(limit - first, step), 0)


def _maker(value: ir.Value) -> ir.Operation | None:
    """The op that makes a value; None of an argument."""
    owner = value.owner
    return None if isinstance(owner, ir.Block) else owner.operation


def _argument(value: ir.Value, block: ir.Block) -> int | None:
    """The number of the block's argument that a value is."""
    found = [n for n, argument in enumerate(block.arguments) if argument == value]
    return found[0] if found else None


def _constant(
    value: ir.Value, block: ir.Block, op: Op, initial: Sequence[Value]
) -> Any | None:
    """Return the number that a value is at every step: a literal, or never changed."""
    position = _argument(value, block)
    if position is not None:
        body = op.op.regions[1].blocks[0]
        returned = list(body.operations)[-1].operation.operands[position]
        same = returned == body.arguments[position]
        return number(initial[position]) if same else None
    maker = _maker(value)
    if maker is not None and maker.name == "stablehlo.constant":
        return number(make_constant(Op(maker)))
    return number(op.outer[value]) if value in op.outer else None


def map_(op: Op, *xs: Value) -> object:
    """Apply a function of scalars to each element."""
    require_elementwise(op)
    return op.regions[0](*xs)


OPS: dict[str, Callable[..., Any]] = {
    "stablehlo.case": case,
    "stablehlo.if": if_,
    "stablehlo.map": map_,
    "stablehlo.while": while_,
}
