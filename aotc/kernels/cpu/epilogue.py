"""Epilogues: the ops of a region beside its anchor, computed in registers.

Ops of the graph are applied to vectors by their own `lower` rules. What else they read
is read in place (`aotc.kernels.operands`).

Values of bf16 and f16 are vectors of f32 as well, which are rounded after each op: the
product, the quotient and the square root of two such numbers, rounded to f32 and then
to their own dtype, are those that are rounded once (Figueroa, "When is double rounding
innocuous?", SIGNUM Newsletter 30 (1995) 21), and so are sum and difference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial

from aotc.core.dtypes import UNSIGNED, is_float
from aotc.dialects.functions.walking import defining_op
from aotc.dialects.graph import GraphOp, as_tuple
from aotc.dialects.lowering import Lowering, approximations, error_functions
from aotc.dialects.lowering.conversion import integer_bounds
from aotc.dialects.lowering.scalars import constant, float_compare
from aotc.dialects.ops.activation import Relu
from aotc.dialects.ops.binary import Maximum, Minimum
from aotc.dialects.ops.creation import Constant
from aotc.dialects.ops.quantization import Lookup
from aotc.dialects.ops.selection import Cast, Clamp, Compare, Select
from aotc.dialects.ops.unary import Abs, Negate
from aotc.dialects.types import Tensor, lowered_element
from aotc.errors import CompileError
from aotc.kernels.cpu import elementary, loops, vectors
from aotc.kernels.cpu.arguments import KernelArguments
from aotc.kernels.cpu.lookup import look_up
from aotc.kernels.cpu.rounding import round_to, round_to_bytes
from aotc.kernels.elementwise import NARROW
from aotc.kernels.machine import Machine
from aotc.kernels.operands import (
    KernelOperand,
    PerColumn,
    PerGroup,
    PerRow,
    ScalarOperand,
    SomeColumns,
    Whole,
    operand_of,
)
from aotc.kernels.planning.tile import split_evenly
from aotc.kernels.quantization import Quantization
from aotc.mlir import Function, Value, arith, ir, math

# whose results are numbers of their operands' dtype, whatever it is, or conditions
_EXACT = (Abs, Clamp, Compare, Maximum, Minimum, Negate, Relu, Select)

# bodies that are faster on vectors, which have no f64
_ON_VECTORS: Mapping[Callable[..., Value], Callable[..., Value]] = {
    approximations.logistic: elementary.logistic,
    approximations.gelu_tanh: elementary.gelu_tanh,
    approximations.tanh: elementary.tanh,
    math.exp: elementary.exp,
    error_functions.erf: elementary.erf,
    error_functions.gelu_exact: elementary.gelu_exact,
}


def takes_vectors(op: GraphOp) -> bool:
    """Return whether `apply_to_vectors` can compute an op of floats."""
    return bool(type(op).on_vectors) or isinstance(op, Cast)


def apply_to_vectors(
    op: GraphOp, operands: Sequence[Value], machine: Machine | None
) -> Value:
    """Emit an elementwise op on vectors of f32, rounded to the op's dtype."""
    if isinstance(op, Cast):
        found = operands[0]
    else:
        (found,) = as_tuple(type(op).lower(VectorLowering(), op, *operands))
    if isinstance(op, _EXACT):
        return found
    return round_to(found, Tensor.of(op.results[0]).dtype, machine)


class VectorLowering(Lowering):
    """A lowering of elementwise ops on vectors of f32, not on tensors."""

    def __init__(self) -> None:
        super().__init__([])

    def pointwise(
        self, inputs: Sequence[Value], result: Tensor, body: Callable[..., Value]
    ) -> Value:
        """Call the body, or a faster one for vectors, on vectors of f32."""
        chosen: Callable[..., Value] = _ON_VECTORS.get(body, body)
        return chosen(*inputs)


@dataclass(frozen=True)
class VectorPosition:
    """The position of a vector in a result: element offset, column and lanes.

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


@dataclass(frozen=True)
class _SharedValues:
    """A cache of vectors that do not depend on the row, by value and column.

    Args:
        before: where it is read; None for where it is first asked for.
        known: by value and column.
    """

    before: ir.InsertionPoint | None = None
    known: dict[tuple[Value, int], Value] = field(default_factory=dict)

    def find(
        self, value: Value, place: VectorPosition, read: Callable[[], Value]
    ) -> Value:
        """Return a value's cached vector at a column, or emit and cache `read()`."""
        key = value, place.key
        if key not in self.known:
            with self.before or nullcontext():
                self.known[key] = read()
        return self.known[key]


@dataclass(frozen=True)
class Epilogue:
    """An emitter of a region's ops around its anchor, on vectors in registers.

    Args:
        total: the value that the sums are.
        memories: where the arguments of the region lie.
        results: each value that is wanted, and the memory that it goes to.
        lanes: of a vector.
        machine: that computes them; None if that is not known.
    """

    total: Value
    memories: Mapping[Value, Value]
    results: Sequence[tuple[Value, Value]]
    lanes: int
    machine: Machine | None

    @classmethod
    def of(
        cls,
        function: Function,
        anchor: GraphOp,
        arguments: KernelArguments,
        lanes: int,
        *,
        packed: int | None = None,
    ) -> Epilogue:
        """Return the epilogue that writes all results of a region.

        Args:
            function: the region.
            anchor: whose first result the sums are.
            arguments: the arguments of the kernel.
            lanes: of a vector.
            packed: the number of an argument that does not lie as the region has it.
        """
        known = arguments.operands_of(function)
        if packed is not None:
            del known[function.entry_block.arguments[packed]]
        results = arguments.results_of(function)
        return cls(anchor.results[0], known, results, lanes, arguments.machine)

    def write(
        self,
        places: Sequence[VectorPosition],
        sums: Sequence[Value],
        others: Mapping[Value, Sequence[Value]] | None = None,
    ) -> None:
        """Emit the epilogue of some vectors of sums, and the stores of results.

        Args:
            places: where they lie.
            sums: what the sums are there.
            others: values that are other sums, and what these are there.
        """
        self._write(places, {self.total: sums, **(others or {})}, _SharedValues())

    def write_rows(
        self,
        places: Sequence[VectorPosition],
        step: int,
        sums: Sequence[Value],
        others: Mapping[Value, Sequence[Value]] | None = None,
    ) -> None:
        """Emit the epilogue of several rows of sums, in a loop if it is long.

        Code of a row is written once then, and sums go through memory, which is in the
        first cache. What rows share is read before the loop.

        Args:
            places: where the vectors of the first row lie.
            step: elements of a result from a row to the next.
            sums: what they are in all rows, one after the other.
            others: values that are other sums, and what these are there.
        """
        count = len(sums) // len(places)
        if count == 1 or others or not self._quantizes:
            rows = (_advance(places, row * step) for row in range(count))
            self.write([place for row in rows for place in row], sums, others)
            return
        lanes, width = self.lanes, len(places)
        memory = vectors.allocate(len(sums) * lanes, sums[0].type.element_type)
        for number, each in enumerate(sums):
            vectors.store(each, memory, vectors.index(number * lanes), lanes)

        def write_row(row: Value) -> None:
            begin = vectors.scale(row, width * lanes)
            starts = (vectors.add(begin, n * lanes) for n in range(width))
            found = [vectors.load(memory, at, lanes) for at in starts]
            before = ir.InsertionPoint(ir.InsertionPoint.current.block.owner)
            here = _advance(places, vectors.scale(row, step))
            self._write(here, {self.total: found}, _SharedValues(before))

        loops.repeat_for(0, count, 1, write_row)

    def write_run(self, first: Value, last: Value) -> None:
        """Emit elementwise results without sums, over a range of whole vectors.

        Args:
            first: the first element of all results.
            last: the one after the last.
        """

        def write_vector(at: Value) -> None:
            before = ir.InsertionPoint(ir.InsertionPoint.current.block.owner)
            place = VectorPosition(at, at, key=0, count=self.lanes)
            self._write([place], {}, _SharedValues(before))

        loops.repeat_for(first, last, self.lanes, write_vector)

    def write_elements(self, first: Value, count: int) -> None:
        """Emit elementwise results without sums, for less than a vector."""
        self._write(
            [VectorPosition(first, first, key=0, count=count)], {}, _SharedValues()
        )

    @property
    def _quantizes(self) -> bool:
        """Return whether some result is quantised to bytes, whose code is long."""
        return any(Tensor.of(value).dtype in NARROW for value, _ in self.results)

    def _write(
        self,
        places: Sequence[VectorPosition],
        sums: Mapping[Value, Sequence[Value]],
        shared: _SharedValues,
    ) -> None:
        """Emit results for some vectors, given those of sums, a few at a time."""
        first = 0
        together = (self.machine or Machine).together
        for count in split_evenly(len(places), together):
            here = slice(first, first + count)
            known = {
                value: self._round_all(value, found[here])
                for value, found in sums.items()
            }
            some, first = places[here], first + count
            found = [self._value(x, known, some, shared) for x, _ in self.results]
            for place, values in zip(some, zip(*found, strict=True), strict=True):
                for value, (_, memory) in zip(values, self.results, strict=True):
                    vectors.store(value, memory, place.at, self.lanes, place.count)

    def compute(
        self,
        value: Value,
        place: VectorPosition,
        known: Mapping[Value, Sequence[Value]] | None = None,
    ) -> Value:
        """Emit the vector of a value that does not depend on sums, at a position.

        Args:
            value: to be computed.
            place: where it lies.
            known: vectors of other values there, one of each.
        """
        given = {each: [*vector] for each, vector in (known or {}).items()}
        (found,) = self._value(value, given, [place], _SharedValues())
        return found

    def compute_all(
        self, values: Sequence[Value], place: VectorPosition
    ) -> list[Value]:
        """Emit the vectors of several values without sums, at a position.

        Args:
            values: to be computed; what several need is computed once.
            place: where they lie.
        """
        known: dict[Value, list[Value]] = {}
        shared = _SharedValues()
        return [self._value(each, known, [place], shared)[0] for each in values]

    def is_read(self, value: Value) -> bool:
        """Return whether a value is read from memory, not computed."""
        return value in self.memories

    def _value(
        self,
        value: Value,
        known: dict[Value, list[Value]],
        places: Sequence[VectorPosition],
        shared: _SharedValues,
    ) -> list[Value]:
        """Emit a value's vectors at some positions, and record them in `known`."""
        if value in known:
            return known[value]
        read = Whole(value) if value in self.memories else operand_of(value)
        if isinstance(read, ScalarOperand | PerColumn):
            found = [
                shared.find(value, place, partial(self._read, read, place))
                for place in places
            ]
        elif value in self.memories or not isinstance(read, Whole):
            found = [self._read(read, place) for place in places]
        else:
            op = _computing_op(value)
            quantized = Quantization.of(op)
            operands = list(op.operands) if quantized is None else [quantized.source]
            given = [self._value(each, known, places, shared) for each in operands]
            if quantized is None:
                found = self._lower(op, given)
            else:
                found = [round_to_bytes(x, quantized) for x in given[0]]
            if not isinstance(op, _EXACT):
                found = self._round_all(value, found)
        known[value] = found
        return found

    def _round_all(self, value: Value, unrounded: Sequence[Value]) -> list[Value]:
        """Emit vectors rounded to a value's dtype."""
        dtype = Tensor.of(value).dtype
        return [round_to(x, dtype, self.machine) for x in unrounded]

    def _lower(self, op: GraphOp, operands: Sequence[list[Value]]) -> list[Value]:
        """Emit an op on vectors of operands, at each of some positions.

        A long formula is a chain of operations, each of which waits for the one before.
        As one on a long vector, it becomes chains side by side, which do not wait for
        each other.
        """
        if isinstance(op, Cast):
            dtypes = Tensor.of(op.x).dtype, Tensor.of(op.y).dtype
            return [_cast(x, *dtypes) for x in operands[0]]
        if isinstance(op, Lookup):
            return [look_up(x, op.table) for x in operands[0]]
        if type(op).is_approximated and len(operands[0]) > 1:
            long = [vectors.concatenate(each) for each in operands]
            (found,) = as_tuple(type(op).lower(VectorLowering(), op, *long))
            return vectors.split(found, self.lanes)
        found = []
        for each in zip(*operands, strict=True):
            found += as_tuple(type(op).lower(VectorLowering(), op, *each))
        return found

    def _read(self, read: KernelOperand, place: VectorPosition) -> Value:
        """Emit an operand's vector at a position, by its broadcast pattern."""
        memory = self.memories.get(read.source)
        if memory is None:
            return self._splat(_computing_op(read.source))
        at = _place_in(read, place)
        if isinstance(read, ScalarOperand | PerRow):
            return vectors.repeat(vectors.load_element(memory, at), self.lanes)
        return vectors.load(memory, at, self.lanes, place.count)

    def _splat(self, op: GraphOp) -> Value:
        """Emit a constant in all lanes of a vector."""
        assert isinstance(op, Constant)  # as all that do not lie in memory
        dtype = "i32" if Tensor.of(op.y).dtype == "i32" else "f32"
        kind = vectors.vector_type(self.lanes, lowered_element(dtype))
        return constant(kind, float(op.value))


def _advance(
    places: Sequence[VectorPosition], distance: Value | int
) -> list[VectorPosition]:
    """Return positions moved on by a number of elements, in the same columns."""
    return [replace(each, at=vectors.add(each.at, distance)) for each in places]


def _place_in(read: KernelOperand, place: VectorPosition) -> Value:
    """Emit the offset at which an operand is read for a position of the result."""
    match read:
        case Whole():
            return place.at
        case PerColumn():
            return place.column
        case PerRow(width=width):
            return _row_of(place, width)
        case PerGroup(rows=rows, width=width):
            length = vectors.index(rows * width)
            group = arith.divui(arith.subi(place.at, place.column), length)
            return vectors.add(vectors.scale(group, width), place.column)
        case SomeColumns(width=width, stride=stride, first=first):
            begin = vectors.scale(_row_of(place, width), stride)
            return vectors.add(begin, vectors.add(place.column, first))
    return vectors.index(0)


def _row_of(place: VectorPosition, width: int) -> Value:
    """Emit the row number of a position, for rows of `width` elements."""
    begin = arith.subi(place.at, place.column)
    return arith.divui(begin, vectors.index(width))


def convert_to_floats(x: Value, value: Value) -> Value:
    """Emit the conversion of a vector of `value`'s dtype to f32."""
    return _cast(x, Tensor.of(value).dtype, "f32")


def _cast(x: Value, source: str, target: str) -> Value:
    """Emit the conversion of a vector between dtypes, floats being f32.

    Integers that memory has in fewer bits are i32, unless they were just loaded.
    """
    if is_float(source):
        return x if is_float(target) else _saturate(x, target)
    lanes, i32 = x.type.shape[0], ir.IntegerType.get_signless(32)
    is_loaded = x.type.element_type != i32
    is_unsigned = source in UNSIGNED and is_loaded
    if is_float(target):
        convert = arith.uitofp if is_unsigned else arith.sitofp
        return convert(vectors.vector_type(lanes), x)
    extend = arith.extui if is_unsigned else arith.extsi
    return extend(vectors.vector_type(lanes, i32), x) if is_loaded else x


def _saturate(x: Value, target: str) -> Value:
    """Emit f32 rounded towards zero and clamped to an integer dtype, as i32."""
    low, high = (vectors.splat(n, x.type.shape[0]) for n in integer_bounds(target))
    zero = vectors.splat(0.0, x.type.shape[0])
    number = arith.select(float_compare("UNO", x, x), zero, x)
    inside = arith.minimumf(arith.maximumf(number, low), high)
    i32 = ir.IntegerType.get_signless(32)
    return arith.fptosi(vectors.vector_type(x.type.shape[0], i32), inside)


def _computing_op(value: Value) -> GraphOp:
    """Return the graph op that defines a value, or raise."""
    op = defining_op(value)
    if not isinstance(op, GraphOp):
        raise CompileError("not-lowered", f"a kernel cannot compute {op}")
    return op
