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
    """Return the results of the branch with a number; of the last if it is out of
    range.
    """
    chosen = number(index)
    last = len(op.regions) - 1
    if isinstance(chosen, int):
        return op.regions[chosen if 0 <= chosen <= last else last]()
    position = array(index)
    outside = np.logical_or(position < 0, position > last)
    return _switch(op.regions, np.where(outside, last, position))


def if_(op: Op, condition: Value) -> object:
    """Return the results of one of two branches, chosen by a condition."""
    holds = number(condition)
    if isinstance(holds, bool):
        return op.regions[0 if holds else 1]()
    return _switch(op.regions[::-1], np.astype(array(condition), "i32"))


def _switch(regions: Sequence[Region], index: Array) -> object:
    """Emit a switch over regions by a run-time index; return its results."""
    return control.switch(index, [_returning_arrays(region) for region in regions])


def _returning_arrays(region: Region) -> Region:
    """Wrap a region to return arrays in the place of known sizes."""
    return lambda *operands: [materialize(value) for value in region(*operands)]


# ---- loops --------------------------------------------------------------------------


@dataclass(frozen=True)
class _WhileLoop:
    """A while loop in which only the values that the body changes are carried."""

    op: Op
    initial: Sequence[Value]

    @property
    def carried_positions(self) -> list[int]:
        """Positions of the loop operands that the body changes."""
        block = self.op.op.regions[1].blocks[0]
        returned = list(block.operations)[-1].operation.operands
        return [
            n
            for n, argument in enumerate(block.arguments)
            if returned[n] != argument and not isinstance(self.initial[n], Token)
        ]

    def all_values(self, values: Sequence[Value]) -> list[Value]:
        """Return all loop operands, with the carried values in their positions."""
        full: list[Value] = list(self.initial)
        for position, value in zip(self.carried_positions, values, strict=True):
            full[position] = value
        return full

    def carried_values(self, values: Sequence[Value]) -> list[Value]:
        """Return the carried values out of all loop operands."""
        return [materialize(values[position]) for position in self.carried_positions]

    def condition(self, values: Sequence[Value]) -> Array:
        """Return the loop's condition for carried values."""
        return array(self.op.regions[0](*self.all_values(values))[0])

    def step(self, values: Sequence[Value]) -> list[Value]:
        """Return the carried values after one iteration."""
        return self.carried_values(self.op.regions[1](*self.all_values(values)))


def while_(op: Op, *initial: Value) -> object:
    """Run or emit a while loop; return the final values of its operands.

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
    """Return the trip count of a loop like `for i in range(first, limit, step)`, or
    None.
    """
    condition, body = (region.blocks[0] for region in op.op.regions)
    test, *_ = (
        _defining_op(v) for v in list(condition.operations)[-1].operation.operands
    )
    if test is None or test.name != "stablehlo.compare":
        return None
    if Op(test).word("comparison_direction") != "LT":
        return None
    position = _argument_number(test.operands[0], condition)
    if position is None:
        return None
    limit = _loop_invariant_number(test.operands[1], condition, op, initial)
    added = _defining_op(list(body.operations)[-1].operation.operands[position])
    if added is None or added.name != "stablehlo.add":
        return None
    if _argument_number(added.operands[0], body) != position:
        return None
    step = _loop_invariant_number(added.operands[1], body, op, initial)
    first = number(initial[position])
    if not isinstance(step, int) or step < 1:
        return None
    if not isinstance(first, int | SymbolicDim) or not isinstance(
        limit, int | SymbolicDim
    ):
        return None
    return maximum(ceil_divide(limit - first, step), 0)


def _defining_op(value: ir.Value) -> ir.Operation | None:
    """Return the op that defines a value; None for a block argument."""
    owner = value.owner
    return None if isinstance(owner, ir.Block) else owner.operation


def _argument_number(value: ir.Value, block: ir.Block) -> int | None:
    """Return the number of a block argument; None for other values."""
    found = [n for n, argument in enumerate(block.arguments) if argument == value]
    return found[0] if found else None


def _loop_invariant_number(
    value: ir.Value, block: ir.Block, op: Op, initial: Sequence[Value]
) -> Any | None:
    """Return the constant that a value is in every iteration; None if it may change."""
    position = _argument_number(value, block)
    if position is not None:
        body = op.op.regions[1].blocks[0]
        returned = list(body.operations)[-1].operation.operands[position]
        same = returned == body.arguments[position]
        return number(initial[position]) if same else None
    maker = _defining_op(value)
    if maker is not None and maker.name == "stablehlo.constant":
        return number(make_constant(Op(maker)))
    return number(op.outer[value]) if value in op.outer else None


def map_(op: Op, *xs: Value) -> object:
    """Apply a region of scalars to each element."""
    require_elementwise(op)
    return op.regions[0](*xs)


OPS: dict[str, Callable[..., Any]] = {
    "stablehlo.case": case,
    "stablehlo.if": if_,
    "stablehlo.map": map_,
    "stablehlo.while": while_,
}
