"""Plans of transposes, and their loops."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from aotc.core.dtypes import bits
from aotc.dialects.functions.walking import defining_op, has_one_use
from aotc.dialects.graph import GraphOp
from aotc.dialects.movement.views import StridedLoop, View, common_loops
from aotc.dialects.ops.selection import Cast
from aotc.dialects.ops.shape import Reshape, Transpose
from aotc.dialects.patterns.values import made_by
from aotc.dialects.types import (
    Size,
    Tensor,
    ceil_divide,
    element_count,
    static_size,
)
from aotc.kernels import grain
from aotc.kernels.machine import Machine
from aotc.kernels.planning.movement import FEW_ROWS, MovementBlocks, moves
from aotc.kernels.planning.views import view_through
from aotc.mlir import Function, Operation, Value, func

_NARROW = ("i8", "u8", "i16")  # of which words are moved
_FEW = 4  # vectors that are mixed
_SQUARES = 4  # beside each other in the result


@dataclass(frozen=True)
class TransposeLoops:
    """The loops of a transpose, with strides in the operand and the result.

    Args:
        outer: loops that workgroups go through; steps are those in the operand and in
            the result.
        long: that a workgroup goes through a block of.
        last: that lies side by side in the result; if that is `long`, in the operand.
        together: narrow elements that are moved as one of 32 bits, in which sizes and
            steps are.
    """

    outer: Sequence[StridedLoop]
    long: StridedLoop
    last: StridedLoop
    together: int = 1

    @property
    def is_of_runs(self) -> bool:
        """Return whether contiguous elements stay so."""
        return self.last.steps == (1, 1)

    @property
    def is_of_few(self) -> bool:
        """Return whether it interleaves, or separates, a few contiguous elements."""
        few = self.last.size
        return isinstance(few, int) and few <= _FEW and few in self.long.steps

    def rows(self, lanes: int) -> int:
        """Return how many elements along `last` one workgroup moves."""
        assert isinstance(self.last.size, int)
        whole = self.is_of_runs or self.is_of_few
        return self.last.size if whole else lanes * _SQUARES

    def workgroups(self, schedule: MovementBlocks) -> tuple[Size, Size]:
        """Return the numbers of workgroups: blocks of the long axis, and the rest."""
        blocks = ceil_divide(self.long.size, schedule.block)
        parts = ceil_divide(self.last.size, self.rows(schedule.lanes))
        return blocks, element_count((*(axis.size for axis in self.outer), parts))


def plan(op: Transpose, machine: Machine) -> MovementBlocks | None:
    """Return the schedule of a transpose; None if it gets no kernel.

    What is before and after it is in memory anyway, but for a cast to fewer bits, which
    the kernel does: IREE makes one dispatch of a transpose and what it computes around
    it. Of narrow integers that is no gain: it moves them one by one.
    """
    source = Tensor.of(op.x)
    size = element_count(source.shape)
    is_small = isinstance(size, int) and size < grain.elements(grain.LEAST)
    if not (moves(source.dtype, machine) or source.dtype in _NARROW) or is_small:
        return None
    nest, lanes = loops_of(op), machine.lanes
    if nest is None or not _is_dispatched(op, nest):
        return None
    assert isinstance(nest.last.size, int)
    block = grain.elements(grain.MOVEMENT)
    if nest.is_of_runs:
        outer = element_count(tuple(axis.size for axis in (*nest.outer, nest.long)))
        is_long = nest.last.size > block
        is_for_one = is_long and (not isinstance(outer, int) or outer < FEW_ROWS)
        if is_for_one or not machine.half_fills(nest.last.size):
            return None
        return MovementBlocks(lanes, max(1, block // nest.last.size))
    assert isinstance(nest.long.size, int)
    shorter = min(nest.last.size, nest.long.size)
    if not nest.is_of_few and not machine.half_fills(shorter):
        return None
    squares = max(1, block // (lanes * nest.rows(lanes)))
    return MovementBlocks(lanes, lanes * squares)


def _is_dispatched(op: Transpose, nest: TransposeLoops) -> bool:
    """Return whether a transpose is better a dispatch of its own."""
    dtype = Tensor.of(op.x).dtype
    if nest.together == 1 and dtype in _NARROW:
        return nest.is_of_few and bits(dtype) == 8  # the channels of an image
    return (dtype in _NARROW or is_in_memory(read_by(op))) and _is_for_memory(op.y)


def read_by(op: Transpose) -> Value:
    """Return the value that a transpose's kernel reads, before a rounding cast."""
    made = made_by(op.x, Cast)
    is_own = made is not None and rounds(made) and has_one_use(op.x)
    return made.x if made is not None and is_own else op.x


def rounds(op: Cast) -> bool:
    """Return whether a cast rounds f32 to bf16 or f16."""
    source, kind = Tensor.of(op.x).dtype, Tensor.of(op.y).dtype
    return source == "f32" and kind in ("bf16", "f16")


def is_in_memory(value: Value) -> bool:
    """Return whether a value is written to memory before a transpose reads it."""
    made = defining_op(value)
    if isinstance(made, Reshape):
        return is_in_memory(made.x)
    if isinstance(made, Transpose):
        return is_in_memory(made.x) and _is_for_memory(made.y)
    return made is None or isinstance(made, func.CallOp)


def _is_for_memory(value: Value) -> bool:
    """Return whether only kernels or callers read a value.

    Some may transpose it again, where others have it written to memory.
    """
    others = [op for op in _readers(value) if not isinstance(op, Transpose)]
    return bool(others) and all(
        isinstance(reader, (func.CallOp, func.ReturnOp)) for reader in others
    )


def _readers(value: Value) -> Iterator[Operation]:
    """Yield the ops that read a value, directly or through reshapes."""
    for use in value.uses:
        reader = use.owner.opview
        if isinstance(reader, Reshape):
            yield from _readers(reader.y)
        else:
            yield reader


def loops_of(op: Transpose) -> TransposeLoops | None:
    """Return the loops of a transpose; None if sizes or strides are not static."""
    found = view_through(op.x, [op])
    if found is None or 0 in Tensor.of(op.y).shape:
        return None
    every = range(len(found.view.axes))
    if len(found.view.group(every)) < 2:
        return None
    written = View.of_memory(Tensor.of(op.y).shape)
    views = [found.view, written]
    loops = common_loops(views, [every, every], only_static=True)
    together = 32 // bits(Tensor.of(op.y).dtype)
    words = _in_words(loops, together)
    if words is None:
        words, together = loops, 1
    *others, last = words
    if not isinstance(last.size, int):
        return None
    if last.steps[0] == 1:
        return TransposeLoops(others[:-1], others[-1], last, together)
    (beside,) = (axis for axis in others if axis.steps[0] == 1)
    others.remove(beside)
    if not isinstance(beside.size, int):
        return None
    if beside.size <= _FEW < last.size and last.steps[0] == beside.size:
        return TransposeLoops(others, last, beside, together)
    return TransposeLoops(others, beside, last, together)


def _in_words(loops: Sequence[StridedLoop], together: int) -> list[StridedLoop] | None:
    """Return loops over words of `together` elements; None where words do not fit."""
    *others, last = loops
    steps = [step for loop in others for step in loop.steps]
    if last.steps != (1, 1) or not isinstance(last.size, int):
        return None
    if last.size == together and len(others) < 2:
        return None
    if any(not isinstance(x, int) or x % together for x in (*steps, last.size)):
        return None
    found = [
        StridedLoop(loop.size, tuple(static_size(x) // together for x in loop.steps))
        for loop in others
    ]
    runs = last.size // together
    return [*found, StridedLoop(runs, (1, 1))] if runs > 1 else found


def workgroups(op: GraphOp, schedule: MovementBlocks) -> tuple[Size, Size]:
    """Return the numbers of workgroups of a transpose."""
    assert isinstance(op, Transpose)
    nest = loops_of(op)
    assert nest is not None
    return nest.workgroups(schedule)


def why_misread(function: Function, anchor: Transpose, schedule: MovementBlocks) -> str:
    """Return why a region is no transpose (with a rounding cast) alone; "" if it is."""
    *ops, end = function.entry_block.operations
    arguments = [*function.entry_block.arguments]
    read = read_by(anchor)
    before = [] if read == anchor.x else [anchor.x.owner.opview]
    reads = arguments == [read] and [*end.operands] == [*anchor.results]
    is_right = ops == [*before, anchor] and reads
    return "" if is_right else "expected a transpose of its argument alone"
