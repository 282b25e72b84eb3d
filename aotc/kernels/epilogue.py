"""What a region computes beside its anchor, while that is in registers.

Ops of the graph are applied to vectors by their own `lower` rules. What else they read
is read in place: a tensor of the shape of the result, some columns of a wider one, a
vector along its last axis, an element for each row, or a number.

Values of bf16 and f16 are vectors of f32 as well, which are rounded after each op: the
product, the quotient and the square root of two such numbers, rounded to f32 and then
to their own dtype, are those that are rounded once (Figueroa, "When is double rounding
innocuous?", SIGNUM Newsletter 30 (1995) 21), and so are sum and difference.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass

from aotc.dialects.graph import GraphOp, as_tuple
from aotc.dialects.lowering import Lowering, approximations
from aotc.dialects.lowering.scalars import constant_of
from aotc.dialects.ops.activation import Relu
from aotc.dialects.ops.binary import Add, Maximum, Minimum, Multiply, Subtract
from aotc.dialects.ops.creation import Constant
from aotc.dialects.ops.selection import Cast, Clamp
from aotc.dialects.ops.shape import Broadcast
from aotc.dialects.ops.slicing import Slice
from aotc.dialects.ops.unary import Abs, Negate
from aotc.dialects.types import Tensor, element_count
from aotc.dialects.views import Stride, View
from aotc.dtypes import is_float
from aotc.errors import CompileError
from aotc.kernels import elementary, vectors
from aotc.kernels.arguments import Arguments
from aotc.kernels.machine import Machine
from aotc.kernels.rounding import round_to
from aotc.kernels.tile import split_evenly
from aotc.mlir import Function, Operation, Value, arith, func, ir

# whose results are numbers of their operands' dtype, whatever it is
_EXACT = (Abs, Clamp, Maximum, Minimum, Negate, Relu)
_OF_INTEGERS = (Add, Clamp, Maximum, Minimum, Multiply, Subtract)

# bodies that are faster on vectors, which have no f64
_ON_VECTORS: Mapping[Callable[..., Value], Callable[..., Value]] = {
    approximations.logistic: elementary.logistic,
    approximations.gelu_tanh: elementary.gelu_tanh,
}


class VectorLowering(Lowering):
    """Lowers elementwise ops on vectors, as others on tensors."""

    def __init__(self) -> None:
        super().__init__([])

    def pointwise(
        self, inputs: Sequence[Value], result: Tensor, body: Callable[..., Value]
    ) -> Value:
        """The body, on vectors of f32."""
        chosen: Callable[..., Value] = _ON_VECTORS.get(body, body)
        return chosen(*inputs)


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


@dataclass(frozen=True)
class Epilogue:
    """Computes the values of a region from the sums, and stores them.

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
        given: Arguments,
        lanes: int,
        *,
        packed: int | None = None,
    ) -> Epilogue:
        """Return that of all results of a region.

        Args:
            function: the region.
            anchor: whose first result the sums are.
            given: the arguments of the kernel.
            lanes: of a vector.
            packed: the number of an argument that does not lie as the region has it.
        """
        known = given.operands_of(function)
        if packed is not None:
            del known[function.entry_block.arguments[packed]]
        results = given.results_of(function)
        return cls(anchor.results[0], known, results, lanes, given.machine)

    def write(
        self,
        places: Sequence[Place],
        sums: Sequence[Value],
        others: Mapping[Value, Sequence[Value]] | None = None,
    ) -> None:
        """Write the results at some places.

        Args:
            places: where they lie.
            sums: what the sums are there.
            others: values that are other sums, and what these are there.
        """
        shared: dict[tuple[Value, int], Value] = {}
        every = {self.total: sums, **(others or {})}
        first = 0
        together = (self.machine or Machine).together
        for count in split_evenly(len(places), together):
            here = slice(first, first + count)
            known = {
                value: [round_to(x, Tensor.of(value).dtype) for x in found[here]]
                for value, found in every.items()
            }
            some, first = places[here], first + count
            found = [self._value(x, known, some, shared) for x, _ in self.results]
            for place, values in zip(some, zip(*found, strict=True), strict=True):
                for value, (_, memory) in zip(values, self.results, strict=True):
                    vectors.store(value, memory, place.at, self.lanes, place.count)

    def compute(
        self,
        value: Value,
        place: Place,
        known: Mapping[Value, Sequence[Value]] | None = None,
    ) -> Value:
        """The vector of a value that does not depend on the sums.

        Args:
            value: to be computed.
            place: where it lies.
            known: vectors of other values there, one of each.
        """
        given = {each: [*vector] for each, vector in (known or {}).items()}
        (found,) = self._value(value, given, [place], {})
        return found

    def is_read(self, value: Value) -> bool:
        """Whether a value is read from memory, not computed."""
        return value in self.memories

    def _value(
        self,
        value: Value,
        known: dict[Value, list[Value]],
        places: Sequence[Place],
        shared: dict[tuple[Value, int], Value],
    ) -> list[Value]:
        if value not in known:
            known[value] = self._compute(value, known, places, shared)
        return known[value]

    def _compute(
        self,
        value: Value,
        known: dict[Value, list[Value]],
        places: Sequence[Place],
        shared: dict[tuple[Value, int], Value],
    ) -> list[Value]:
        if value in self.memories:
            memory, lanes = self.memories[value], self.lanes
            return [vectors.load(memory, p.at, lanes, p.count) for p in places]
        op = _computing_op(value)
        if isinstance(op, Slice):
            return [self._read_columns(op, place) for place in places]
        if isinstance(op, Constant):  # a tensor without axes, like the result
            return [self._splat(op)] * len(places)
        if isinstance(op, Broadcast):
            length = _length_of_rows(op)
            if length is not None:
                return [self._read_of_row(op.x, place, length) for place in places]
            group = _group_of_rows(op)
            if group is not None:
                return [self._read_of_group(op.x, place, group) for place in places]
            for place in places:
                key = value, place.key
                if key not in shared:
                    shared[key] = self._read_repeated(op.operands[0], place)
            return [shared[value, place.key] for place in places]
        given = [self._value(each, known, places, shared) for each in op.operands]
        return self._round(op, self._lower(op, given))

    def _round(self, op: GraphOp, found: list[Value]) -> list[Value]:
        """What an op has made of vectors, as numbers of its dtype."""
        if isinstance(op, _EXACT):
            return found
        dtype = Tensor.of(op.results[0]).dtype
        return [round_to(x, dtype) for x in found]

    def _lower(self, op: GraphOp, given: Sequence[list[Value]]) -> list[Value]:
        """What an op makes of vectors, at each of some places.

        A long formula is a chain of operations, each of which waits for the one before.
        As one on a long vector, it becomes chains side by side, which do not wait for
        each other.
        """
        if isinstance(op, Cast):
            return [self._as_float(x) for x in given[0]]
        if type(op).is_approximated and len(given[0]) > 1:
            long = [vectors.concatenate(each) for each in given]
            (found,) = as_tuple(type(op).lower(VectorLowering(), op, *long))
            return vectors.split(found, self.lanes)
        found = []
        for each in zip(*given, strict=True):
            found += as_tuple(type(op).lower(VectorLowering(), op, *each))
        return found

    def _read_columns(self, op: Slice, place: Place) -> Value:
        """What lies at a place in some columns of a tensor that has more of them."""
        first, count, wide = op.start[-1], op.sizes[-1], Tensor.of(op.x).shape[-1]
        assert isinstance(first, int)  # as `sliced_source` has it, like the others
        assert isinstance(count, int)
        assert isinstance(wide, int)
        row = arith.divui(arith.subi(place.at, place.column), vectors.index(count))
        at = vectors.add(vectors.scale(row, wide), vectors.add(place.column, first))
        return vectors.load(self.memories[op.x], at, self.lanes, place.count)

    def _read_of_row(self, source: Value, place: Place, length: int) -> Value:
        """What is the same in all of a row of so many elements."""
        row = arith.divui(arith.subi(place.at, place.column), vectors.index(length))
        element = vectors.load_element(self.memories[source], row)
        return vectors.repeat(element, self.lanes)

    def _read_of_group(self, source: Value, place: Place, group: _Group) -> Value:
        """What is the same at a place in all rows of a group."""
        length = vectors.index(group.rows * group.width)
        index = arith.divui(arith.subi(place.at, place.column), length)
        at = vectors.add(vectors.scale(index, group.width), place.column)
        return vectors.load(self.memories[source], at, self.lanes, place.count)

    def _as_float(self, x: Value) -> Value:
        """A vector as f32; between floats, all there is to a cast is rounding."""
        kind = vectors.vector_type(x.type.shape[0])
        return x if x.type == kind else arith.sitofp(kind, x)

    def _splat(self, op: Constant) -> Value:
        """A constant without axes in all lanes."""
        if Tensor.of(op.results[0]).dtype != "i32":
            return vectors.splat(float(op.value), self.lanes)
        element = ir.IntegerType.get_signless(32)
        number = ir.IntegerAttr.get(element, int(op.value))
        kind = vectors.vector_type(self.lanes, element)
        return constant_of(ir.DenseElementsAttr.get_splat(kind, number))

    def _read_repeated(self, source: Value, place: Place) -> Value:
        """What is the same in all rows."""
        if source in self.memories:
            memory = self.memories[source]
            if all(size == 1 for size in Tensor.of(source).shape):
                element = vectors.load_element(memory, vectors.index(0))
                return vectors.repeat(element, self.lanes)
            return vectors.load(memory, place.column, self.lanes, place.count)
        op = _computing_op(source)
        assert isinstance(op, Constant)
        return self._splat(op)


def readable_source(
    value: Value,
    columns: Sequence[int],
    dtypes: Container[str] = ("f32",),
    *,
    by_rows: bool = False,
) -> Value | None:
    """What a kernel reads for an operand of the shape of its rows; None if it cannot.

    That is the operand, or what is repeated in it: a number, a vector along the
    columns, in all rows or in those of a group, or an element for each row, in all
    columns.

    Args:
        value: the operand.
        columns: the axes of the shape along which rows share vectors.
        dtypes: of elements that the kernel reads.
        by_rows: whether the kernel can read what differs from row to row, an element
            for each, or a vector for so many of them.
    """
    if Tensor.of(value).dtype not in dtypes:
        return None
    op = defining_op(value)
    if not isinstance(op, Broadcast):
        return value
    if all(size == 1 for size in Tensor.of(op.x).shape):
        return op.x
    view = _repeated_view(op)
    own_rows, own_columns = (
        {stride.repeats for stride in view.group(axes)}
        for axes in (sorted({*range(len(op.shape))} - {*columns}), columns)
    )
    if own_columns <= {False} and own_rows <= {True}:
        return op.x
    if by_rows and own_rows == {False} and _length_of_rows(op) is not None:
        return op.x if own_columns == {True} else value
    if by_rows and own_columns == {False}:
        group = _group_of_rows(op)
        width = element_count(tuple(op.shape[axis] for axis in columns))
        return op.x if group is not None and group.width == width else value
    return value


def sliced_source(value: Value) -> Value | None:
    """What lies in memory and has a value as columns side by side; None if none does.

    What is computed of such a value alone would have to be computed whole.
    """
    op = defining_op(value)
    if not isinstance(op, Slice):
        return None
    source = defining_op(op.x)
    if source is not None and not isinstance(source, func.CallOp):
        return None
    *rows, columns = Tensor.of(op.x).shape
    are_static = all(isinstance(n, int) for n in (columns, op.start[-1], op.sizes[-1]))
    is_whole = op.sizes[:-1] == tuple(rows) and not any(op.start[:-1])
    return op.x if are_static and is_whole and op.strides[-1] == 1 else None


def _repeated_view(op: Broadcast) -> View:
    """What a broadcast gives, as a view of the memory of what it repeats."""
    return View.of_memory(Tensor.of(op.x).shape).broadcast(op.shape, op.axes)


def _length_of_rows(op: Broadcast) -> int | None:
    """How often in a row a broadcast repeats each element; None if it does not."""
    view = _repeated_view(op)
    match view.group(range(len(view.axes))):
        case (Stride(axis=0, step=1), Stride(size=int(length), axis=None)):
            return length
    return None


@dataclass(frozen=True)
class _Group:
    """So many rows of so many elements each, which are the same."""

    rows: int
    width: int


def _group_of_rows(op: Broadcast) -> _Group | None:
    """The rows that are one vector of the source of a broadcast; None if none are.

    There is a vector for each index of the first axes, and axes between those and the
    columns repeat it.
    """
    view = _repeated_view(op)
    match view.group(range(len(view.axes))):
        case (
            Stride(axis=0),
            Stride(size=int(rows), axis=None),
            Stride(size=int(width), axis=0, step=1),
        ):
            return _Group(rows, width)
    return None


def is_elementwise(op: GraphOp, dtypes: Container[str]) -> bool:
    """Whether an op can be applied to the vectors of a kernel of such elements."""
    kinds = {Tensor.of(value).dtype for value in (*op.operands, *op.results)}
    if not all(kind in dtypes for kind in kinds):
        return False
    if isinstance(op, Cast):
        return is_float(Tensor.of(op.y).dtype)
    if kinds == {"i32"}:
        return isinstance(op, _OF_INTEGERS)
    return type(op).on_vectors


def defining_op(value: Value) -> Operation | None:
    """The op that computes a value; None if it is an argument."""
    return None if isinstance(value.owner, ir.Block) else value.owner.opview


def _computing_op(value: Value) -> GraphOp:
    op = defining_op(value)
    if not isinstance(op, GraphOp):
        raise CompileError("not-lowered", f"a kernel cannot compute {op}")
    return op
