"""Code of programs on a tile: expressions of values in memory or in registers.

Elements of bool lie in memory as bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from aotc.core.dtypes import SIGNED, bits
from aotc.dialects.lowering.conversion import conversion
from aotc.dialects.lowering.scalars import int_compare
from aotc.dialects.movement.views import Strides, View
from aotc.dialects.ops.creation import Constant, Dimension, Iota
from aotc.dialects.ops.indexing import Gather
from aotc.dialects.types import (
    Size,
    SymbolicDim,
    Tensor,
    element_count,
    lowered_element,
    same_count,
)
from aotc.kernels.gpu import ops
from aotc.kernels.gpu.frames import Frame, KernelSizes, Offset, Reindexing
from aotc.kernels.gpu.lifting import CannotLiftError, apply, lift
from aotc.kernels.terms import Apply, Expression, Read, Statement
from aotc.mlir import Type, Value, arith, ir

_INDEX_BITS = 32  # in which narrower indices are compared


@dataclass(frozen=True)
class KernelPointers:
    """The pointer arguments of a GPU kernel, by the values they stand for.

    Args:
        read: that of each argument.
        written: the results in order, each with its own.
    """

    read: Mapping[Value, Value]
    written: Sequence[tuple[Value, Value]]


@dataclass(frozen=True)
class Held:
    """A tile in registers, with the strides of its elements in their value.

    Args:
        tile: of it.
        strides: where its elements lie in the value along each axis of the frame.
    """

    tile: Value
    strides: Sequence[Strides]


@dataclass
class TileEvaluator:
    """An emitter of a term's expressions for the elements of a program's tile.

    Args:
        frame: of it.
        memories: what the kernel is given.
        held: values that are in registers.
        loops: brings views of other loops to those of the frame.
    """

    frame: Frame
    memories: KernelPointers
    held: dict[Value, Held]
    loops: Reindexing
    _known: dict[Expression, Value] = field(default_factory=dict)

    def value(self, expression: Expression) -> Value:
        """Emit an expression's elements, once: a scalar, or a tile to broadcast.

        Raises:
            CannotLiftError: there is no code for it.
        """
        if expression not in self._known:
            self._known[expression] = self._value(expression)
        return self._known[expression]

    def _value(self, expression: Expression) -> Value:
        """Emit an expression's elements: a read, a gather or an elementwise op."""
        if isinstance(expression, Read):
            return self._read(expression)
        if not expression.operands:
            raise CannotLiftError(expression.op.OPERATION_NAME)
        if isinstance(expression.op, Gather):
            return self._look_up(expression, expression.op)
        return apply(expression.op, [self.value(x) for x in expression.operands])

    def view_of(self, views: Sequence[View]) -> View:
        """Return a read's view over the loops of the frame.

        Raises:
            CannotLiftError: it takes several, or is of other loops.
        """
        if len(views) != 1:
            raise CannotLiftError("several views of one source")
        found = self.loops.view(views[0])
        if found is None:
            raise CannotLiftError("loops that are no parts of others")
        return found

    def _read(self, read: Read) -> Value:
        """Emit a read: from registers, from memory or as a constant."""
        held = self.held.get(read.source)
        if held is not None:
            return self._from_registers(read, held)
        if read.source not in self.memories.read:
            return self._constant(read)
        fills = {each.fill for each in read.views if each.fill is not None}
        if len(fills) > 1:
            raise CannotLiftError("elements outside of several sources")
        return self._load(read, self._offset(read), fills.pop() if fills else 0)

    def _offset(self, read: Read) -> Offset:
        """Emit the offsets at which a read finds its elements."""
        first, *inner = read.views
        return self.frame.offset(self.view_of([first]), *inner)

    def _load(self, read: Read, offset: Offset, other: float = 0) -> Value:
        """Emit the load of a read's elements, with `other` where masks are not set."""
        dtype = Tensor.of(read.source).dtype
        base = self.memories.read[read.source]
        pointers = ops.move_pointers(base, offset.number, offset.along)
        if dtype == "bool":
            other = bool(other)
        found = ops.load(pointers, memory_element(dtype), ops.both(offset.masks), other)
        if dtype != "bool":
            return found
        shape = ops.shape_of(found)
        zero = ops.spread(ops.constant(ir.IntegerType.get_signless(8), 0), shape)
        return arith.cmpi(arith.CmpIPredicate.ne, found, zero)

    def _look_up(self, expression: Apply, op: Gather) -> Value:
        """Emit a gather: a load at computed indices, clamped to the table.

        Lanes without an element read at 0: no lane reads outside of the source.
        """
        first, *indices = expression.operands
        assert isinstance(first, Read)
        if first.source not in self.memories.read:
            raise CannotLiftError("a table that lies nowhere")
        offset, masks = self._offset(first), list[Value]()
        number, along, shape = offset.number, offset.along, Tensor.of(op.x).shape
        sizes = self.frame.sizes
        integers = sizes.integers
        for axis, index in zip(op.axes, indices, strict=True):
            dtype, size = Tensor.of(index.value).dtype, shape[axis]
            at, inside = nearest_index(sizes, self.value(index), dtype, size)
            moved = integers.multiply(at, sizes.of(element_count(shape[axis + 1 :])))
            if ops.is_tile(at):
                along = integers.add(along, moved)
            else:
                number = integers.add(number, moved)
            if op.mode == "drop":
                masks.append(inside)
            elif isinstance(size, SymbolicDim):  # of no elements, none is the nearest
                masks.append(integers.is_less(0, sizes.of(size)))
        return self._load(first, Offset(number, along, (*offset.masks, *masks)))

    def _from_registers(self, read: Read, held: Held) -> Value:
        """Return the tile in registers that a read takes; raise if not all of it."""
        view = self.view_of(read.views)
        wanted = self.frame.strides(view) if view.fill is None else None
        begins = view.flat().begin if view.fill is None else None
        if wanted is None or begins != (0,):
            raise CannotLiftError("a part of what is in registers")
        for mine, theirs in zip(wanted, held.strides, strict=True):
            is_one = not theirs and all(stride.repeats for stride in mine)
            if mine != theirs and not is_one:
                raise CannotLiftError("another order of what is in registers")
        return held.tile

    def _constant(self, read: Read) -> Value:
        """Emit a read of a constant, an iota or a dimension's size."""
        op = read.op
        if isinstance(op, Iota):
            return self._position(read, op)
        if isinstance(op, Dimension):
            integers = self.frame.sizes.integers
            size = integers.value(self.frame.sizes.of(op.size[0]))
            return cast(size, f"i{integers.kind.width}", op.dtype)
        if not isinstance(op, Constant) or np.size(op.value) != 1:
            name = "what no statement gives" if op is None else op.OPERATION_NAME
            raise CannotLiftError(name)
        value = np.asarray(op.value).reshape(())[()]
        element = lowered_element(Tensor.of(op.y).dtype)
        is_whole = isinstance(element, ir.IntegerType)
        return ops.constant(element, int(value) if is_whole else float(value))

    def _position(self, read: Read, op: Iota) -> Value:
        """Emit an iota's elements: the index along its axis."""
        view = self.view_of(read.views)
        if view.fill is not None:
            raise CannotLiftError("positions beyond the end")
        index = self.frame.index(view, op.axis)
        source = f"i{self.frame.sizes.integers.kind.width}"
        return cast(index, source, Tensor.of(op.y).dtype)

    def store(self, statement: Statement, elements: Value) -> None:
        """Emit the store of a statement's elements, if its value is a result."""
        value, shape = statement.value, self.frame.shape
        if Tensor.of(value).dtype == "bool":
            byte = memory_element("bool")
            elements = lift(lambda each: arith.extui(byte, each), [elements])
        for result, base in self.memories.written:
            if result == value:
                offset = self.frame.offset(self.place(statement))
                pointers = ops.move_pointers(base, offset.number, offset.along)
                mask = ops.both(self.frame.inside)
                ops.store(ops.spread(pointers, shape), elements, mask)

    def place(self, statement: Statement) -> View:
        """Return the view through which a statement's tile writes its value.

        Raises:
            CannotLiftError: that is no view of the loops of the frame.
        """
        place = statement.place()
        return self.view_of([] if place is None else [place])

    def finish(self, statement: Statement, elements: Value) -> None:
        """Keep a statement's tile in registers; emit its store if it is a result."""
        self.held[statement.value] = self.hold(statement, elements)
        self.store(statement, elements)

    def hold(self, statement: Statement, elements: Value) -> Held:
        """Pair a statement's tile with the strides of its elements in the value."""
        return Held(elements, self.frame.strides(self.place(statement)))


def write_followers(tile: TileEvaluator, statements: Sequence[Statement]) -> None:
    """Emit a tile's epilogue: copy statements, with the stores of results.

    Their loops may have another order than those of a value in registers that they
    read, such as that of a transpose.

    Raises:
        CannotLiftError: there is no code for them.
    """
    for statement in statements:
        (factor,) = statement.factors
        loops = _loops_of(tile, statement)
        here = TileEvaluator(tile.frame, tile.memories, tile.held, loops)
        elements = ops.spread(here.value(factor), tile.frame.shape)
        here.finish(statement, elements)


def _loops_of(tile: TileEvaluator, statement: Statement) -> Reindexing:
    """Return the reindexing of a statement's loops to those of a tile."""
    shape, sizes = tile.loops.shape, statement.nest.sizes
    if not same_count(sizes, shape):
        raise CannotLiftError("elements of other loops")
    for read in statement.reads():
        kind = Tensor.of(read.source)
        if read.source in tile.held and same_count((kind.elements,), shape):
            if len(read.views) != 1 or read.views[0].fill is not None:
                break
            found = Reindexing.of(shape, read.views[0])
            if found is not None and found.order != tuple(range(len(found.order))):
                return found
    return Reindexing(shape)


def cast(x: Value, source: str, target: str) -> Value:
    """Emit the conversion of elements between dtypes; nothing for equal ones."""
    if source == target:
        return x
    return lift(conversion(source, target), [x])


def nearest_index(
    sizes: KernelSizes, x: Value, dtype: str, size: Size
) -> tuple[Value, Value]:
    """Emit an index clamped to an axis, and the mask where clamping changed nothing.

    It is compared in as many bits as indices, or sizes, have.
    """
    if bits(dtype) < _INDEX_BITS:
        x, dtype = cast(x, dtype, "i32"), "i32"
    integers, is_signed = sizes.integers, dtype in SIGNED
    own, width = integers.kind.width, max(integers.kind.width, bits(dtype))
    kind = ir.IntegerType.get_signless(width)
    if width > bits(dtype):
        x = lift(
            lambda each: (arith.extsi if is_signed else arith.extui)(kind, each), [x]
        )
    count = integers.value(sizes.of(size))
    if width > own:
        count = arith.extsi(kind, count)
    one, zero = ops.constant(kind, 1), ops.constant(kind, 0)
    last = arith.subi(count, one)
    if isinstance(size, SymbolicDim):
        last = arith.maxsi(last, zero)
    inside = int_compare("ult", *ops.together(x, count))
    if is_signed:
        x = arith.maxsi(*ops.together(zero, arith.minsi(*ops.together(x, last))))
    else:
        x = arith.minui(*ops.together(x, last))
    if width > own:
        x = lift(lambda each: arith.trunci(integers.kind, each), [x])
    return x, inside


def memory_element(dtype: str) -> Type:
    """Return the element type that a dtype has in memory: a byte for bool."""
    found: Type = lowered_element("u8" if dtype == "bool" else dtype)
    return found
