"""What programs compute on a tile: expressions of what lies in memory or in registers.

Elements of bool lie in memory as bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from aotc.dialects.lowering.conversion import conversion
from aotc.dialects.ops.creation import Constant
from aotc.dialects.types import Shape, Tensor, lowered_element
from aotc.dialects.views import Strides, View
from aotc.kernels.gpu import ops
from aotc.kernels.gpu.frames import Frame
from aotc.kernels.gpu.lifting import CannotLiftError, apply, lift
from aotc.kernels.terms import Expression, Read, Statement
from aotc.mlir import Type, Value, arith, ir


@dataclass(frozen=True)
class Memories:
    """The pointers that a kernel is given.

    Args:
        read: that of each argument.
        written: the results in order, each with its own.
    """

    read: Mapping[Value, Value]
    written: Sequence[tuple[Value, Value]]


@dataclass(frozen=True)
class Held:
    """A value that a program has in registers.

    Args:
        tile: of it.
        strides: where its elements lie in the value along each axis of the frame.
    """

    tile: Value
    strides: Sequence[Strides]


@dataclass
class Tile:
    """Computes expressions for the indices of a frame.

    Args:
        frame: of it.
        memories: what the kernel is given.
        held: values that are in registers.
        shape: the sizes of the loops, for views of others that are as many elements.
    """

    frame: Frame
    memories: Memories
    held: dict[Value, Held]
    shape: Shape
    _known: dict[Expression, Value] = field(default_factory=dict)

    def value(self, expression: Expression) -> Value:
        """Return an expression: a number, or a tile, of which an axis may be 1.

        Raises:
            CannotLiftError: there is no code for it.
        """
        if expression not in self._known:
            self._known[expression] = self._value(expression)
        return self._known[expression]

    def _value(self, expression: Expression) -> Value:
        if isinstance(expression, Read):
            return self._read(expression)
        if not expression.operands:
            raise CannotLiftError(expression.op.OPERATION_NAME)
        return apply(expression.op, [self.value(x) for x in expression.operands])

    def view_of(self, views: Sequence[View]) -> View:
        """Return the view that has the loops of the frame as its axes.

        Raises:
            CannotLiftError: it takes several, or is of other loops.
        """
        if len(views) != 1:
            raise CannotLiftError("several views of one source")
        (view,) = views
        found = view if view.shape == self.shape else view.reshape(self.shape)
        if found is None:
            raise CannotLiftError("loops that are no parts of others")
        return found

    def _read(self, read: Read) -> Value:
        held = self.held.get(read.source)
        if held is not None:
            return self._from_registers(read, held)
        if read.source not in self.memories.read:
            return self._constant(read)
        kind = Tensor.of(read.source)
        view = self.view_of(read.views)
        offset = self.frame.offset(view)
        pointers = ops.move_pointers(
            self.memories.read[read.source], offset.number, offset.along
        )
        other = view.fill or 0
        if kind.dtype == "bool":
            other = bool(other)
        mask = ops.both(offset.masks)
        found = ops.load(pointers, memory_element(kind.dtype), mask, other)
        if kind.dtype != "bool":
            return found
        shape = ops.shape_of(found)
        zero = ops.spread(ops.constant(ir.IntegerType.get_signless(8), 0), shape)
        return arith.cmpi(arith.CmpIPredicate.ne, found, zero)

    def _from_registers(self, read: Read, held: Held) -> Value:
        """Return what is read of a value in registers, where its elements are."""
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
        op = read.op
        if not isinstance(op, Constant) or np.size(op.value) != 1:
            name = "what no statement gives" if op is None else op.OPERATION_NAME
            raise CannotLiftError(name)
        value = np.asarray(op.value).reshape(())[()]
        element = lowered_element(Tensor.of(op.y).dtype)
        is_whole = isinstance(element, ir.IntegerType)
        return ops.constant(element, int(value) if is_whole else float(value))

    def store(self, statement: Statement, elements: Value) -> None:
        """Write the elements of a statement, if its value is a result."""
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
        """Return where the elements of a statement lie in its value.

        Raises:
            CannotLiftError: that is no view of the loops of the frame.
        """
        place = statement.place()
        return self.view_of([] if place is None else [place])

    def hold(self, statement: Statement, elements: Value) -> Held:
        """Return the elements of a statement as a value in registers."""
        return Held(elements, self.frame.strides(self.place(statement)))


def cast(x: Value, source: str, target: str) -> Value:
    """Return elements of one dtype in another."""
    if source == target:
        return x
    return lift(conversion(source, target), [x])


def memory_element(dtype: str) -> Type:
    """Return the type of the elements of a dtype in memory."""
    found: Type = lowered_element("u8" if dtype == "bool" else dtype)
    return found
