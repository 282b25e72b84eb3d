"""Statements of a term as loops over memory, in their order.

Neighbouring statements of the same loops, which combine nothing, share them: what one
gives, the next one has in a register. The last loop over elements of a result, or else
the last one that is combined, goes along vectors where floats lie side by side in all
that is read or written, and all is computed by ops that take vectors; else element by
element, in the ops' own dtypes. Several vectors of sums are made together, so that no
addition waits for the one before it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from aotc.dialects.graph import GraphOp, as_tuple
from aotc.dialects.lowering.conversion import conversion
from aotc.dialects.lowering.numbers import ScalarLowering
from aotc.dialects.movement.nests import COPY
from aotc.dialects.movement.views import Strides, View
from aotc.dialects.types import Size, Tensor, element_count
from aotc.kernels.cpu import loops, vectors
from aotc.kernels.cpu.arguments import KernelArguments
from aotc.kernels.cpu.epilogue import apply_to_vectors, takes_vectors
from aotc.kernels.cpu.room import Room
from aotc.kernels.cpu.rounding import round_to
from aotc.kernels.cpu.vectors import add, index
from aotc.kernels.elementwise import FLOATS
from aotc.kernels.planning.nests import (
    NestSchedule,
    applied_in,
    block_of,
    number_of,
    temporaries_of,
)
from aotc.kernels.term_builder import term_of
from aotc.kernels.terms import Expression, Read, Statement
from aotc.mlir import Function, Value, arith

_NARROWEST = 4  # elements that are worth a vector
_SUMS = 4  # vectors of sums that are made together

_COMBINE: Mapping[str, Callable[[Value, Value], Value]] = {
    "add": arith.addf,
    "multiply": arith.mulf,
    "maximum": arith.maximumf,
    "minimum": arith.minimumf,
}


class _Elements(ScalarLowering):
    """A lowering of elementwise ops on single elements, not on tensors."""

    def pointwise(
        self, inputs: Sequence[Value], result: Tensor, body: Callable[..., Value]
    ) -> Value:
        """Call the body on the elements themselves."""
        return body(*inputs)


@dataclass(frozen=True)
class _MemoryOffset:
    """A memref with the offset at which a value begins in it."""

    memory: Value
    begin: Value | int = 0


def write(
    function: Function,
    anchor: GraphOp,
    schedule: NestSchedule,
    kernel_arguments: KernelArguments,
) -> None:
    """Emit the body of a kernel whose term is written as plain loops."""
    term = term_of(function)
    assert term is not None
    values = [*term.arguments, *term.results]
    pairs = zip(values, kernel_arguments.memories, strict=True)
    memories = {value: _MemoryOffset(memory) for value, memory in pairs}
    room = Room(kernel_arguments)
    for value in temporaries_of(term):
        memories[value] = _MemoryOffset(*room.take(value))
    for group in _groups(term.statements):
        _NestWriter.of(group, memories, schedule.lanes, kernel_arguments).write()


def _groups(statements: Sequence[Statement]) -> list[list[Statement]]:
    """Group consecutive statements that can share their loops."""
    found: list[list[Statement]] = []
    for statement in statements:
        if found and _can_join(statement, found[-1]):
            found[-1].append(statement)
        else:
            found.append([statement])
    return found


def _can_join(statement: Statement, group: Sequence[Statement]) -> bool:
    """Return whether a statement can share the loops of those before it."""
    nests = [each.nest for each in (*group, statement)]
    if any(x.combine != COPY or x.sizes != nests[0].sizes for x in nests):
        return False
    if _takes_vectors(statement) != _takes_vectors(group[0]):
        return False
    given = {each.value: each.nest.place is None for each in group}
    if statement.value in given:
        return False
    return all(
        read.views[0].is_identity and given[read.source]
        for read in statement.reads()
        if read.source in given
    )


def _takes_vectors(statement: Statement) -> bool:
    """Return whether a statement can be computed on vectors of f32."""
    kinds = [Tensor.of(statement.value).dtype]
    kinds += [Tensor.of(factor.value).dtype for factor in statement.factors]
    kinds += [Tensor.of(read.source).dtype for read in statement.reads()]
    return all(kind in FLOATS for kind in kinds) and all(
        takes_vectors(each.op) for each in applied_in(statement)
    )


@dataclass(frozen=True)
class _StridedAccess:
    """A strided access to memory: base, first offset and strides along each loop.

    Args:
        memory: where the first of them lies; None for a constant.
        begin: elements from there to the first that is accessed.
        axes: the strides along each loop.
    """

    memory: _MemoryOffset | None
    begin: Size
    axes: tuple[Strides, ...]

    @classmethod
    def of(cls, memory: _MemoryOffset | None, view: View) -> _StridedAccess:
        """Return the access to memory through a view."""
        flat = view.flat()
        return cls(memory, flat.begin[0], flat.axes)

    def merged(self, count: int) -> _StridedAccess | None:
        """Return the access with its first loops merged to one; None if it cannot."""
        flat = View((0,), self.axes, (0,))
        first = flat.group(range(count))
        if len(first) > 1:
            return None
        return replace(self, axes=(first, *self.axes[count:]))

    def goes_along(self, loop: int) -> bool:
        """Return whether a loop can be vectorised: unit stride or a broadcast."""
        return self.is_along(loop) or self.repeats_along(loop)

    def is_along(self, loop: int) -> bool:
        """Return whether the stride along a loop is 1."""
        strides = self.axes[loop]
        return len(strides) == 1 and not strides[0].repeats and strides[0].step == 1

    def repeats_along(self, loop: int) -> bool:
        """Return whether the access does not vary along a loop."""
        return all(stride.repeats for stride in self.axes[loop])


@dataclass
class _NestWriter:
    """An emitter of the loops that a group of statements shares.

    Args:
        statements: in order.
        sizes: of the loops; merged ones are one.
        kept: how many of them are over elements of results.
        places: where results are written.
        reads: where each source is read.
        lanes: of a vector; 1 for elements by themselves.
        given: the arguments of the kernel.
        axis: the loop that goes along vectors, if there are any.
    """

    statements: Sequence[Statement]
    sizes: Sequence[Size]
    kept: int
    places: Sequence[_StridedAccess]
    reads: Mapping[Read, _StridedAccess]
    lanes: int
    given: KernelArguments
    axis: int = 0

    @classmethod
    def of(
        cls,
        statements: Sequence[Statement],
        memories: Mapping[Value, _MemoryOffset],
        lanes: int,
        arguments: KernelArguments,
    ) -> _NestWriter:
        """Return the emitter of statements that share loops, merging what it can."""
        nest = statements[0].nest
        places = []
        for each in statements:
            place = each.place()
            assert place is not None
            places.append(_StridedAccess.of(memories[each.value], place))
        reads = {
            read: _StridedAccess.of(memories.get(read.source), read.views[0])
            for each in statements
            for read in each.reads()
        }
        sizes, kept = [*nest.sizes], len(nest.result_loops)
        whole = [x.merged(kept) for x in (*places, *reads.values())]
        known = [x for x in whole if x is not None]
        if kept > 1 and len(known) == len(whole):
            sizes = [element_count(nest.sizes[:kept]), *sizes[kept:]]
            kept = 1
            places = known[: len(places)]
            reads = dict(zip(reads, known[len(places) :], strict=True))
        found = cls(statements, sizes, kept, places, reads, lanes, arguments)
        axes = (kept - 1, len(sizes) - 1)
        axis = next(filter(found._has_vectors, axes), None)
        if axis is None:
            return replace(found, lanes=1)
        return replace(found, axis=axis)

    def _has_vectors(self, axis: int) -> bool:
        """Return whether a loop can be vectorised for all statements."""
        if axis < 0 or not all(map(_takes_vectors, self.statements)):
            return False
        size, is_kept = self.sizes[axis], axis < self.kept
        if size < _NARROWEST if isinstance(size, int) else not is_kept:
            return False
        return all(each.is_along(axis) for each in self.places if is_kept) and all(
            each.goes_along(axis) for each in self.reads.values()
        )

    @property
    def has_vectors_of_results(self) -> bool:
        """Return whether the vectorised loop is one over results."""
        return self.lanes > 1 and self.axis < self.kept

    def write(self) -> None:
        """Emit the loops with the statements inside."""
        self._visit([])

    def _visit(self, outer: list[Value]) -> None:
        """Emit the loops inside of some outer ones, given the indices of these."""
        loop = len(outer)
        if loop == self.kept:
            self._write_elements([outer], None)
        elif loop == self.kept - 1 and self.has_vectors_of_results:
            self._visit_vectors(outer)
        else:
            end = self.given.size(self.sizes[loop])
            loops.repeat_for(0, end, 1, lambda at: self._visit([*outer, at]))

    @property
    def _waits_for_sums(self) -> bool:
        """Return whether an addition of a vector would wait for the one before it.

        It does not where terms are long formulas, whose constants fill registers.
        """
        (first, *_) = self.statements
        if first.nest.combine == COPY:
            return False
        return not any(type(each.op).is_approximated for each in applied_in(first))

    def _visit_vectors(self, outer: list[Value]) -> None:
        """Emit the last result loop in whole vectors, and a masked rest."""
        size, lanes = self.sizes[self.kept - 1], self.lanes
        end = self.given.size(size)

        def visit(at: Value, several: int, count: int | Value | None) -> None:
            places = [[*outer, add(at, n * lanes)] for n in range(several)]
            self._write_elements(places, count)

        together = 1
        if isinstance(size, int):
            whole: Value | int = size // lanes * lanes
            rest: Value | int = size % lanes
            if self._waits_for_sums:
                counts = range(_SUMS, 0, -1)
                together = next(n for n in counts if size // lanes % n == 0)
        else:
            rest = arith.remui(end, index(lanes))
            whole = arith.subi(end, rest)
        if not isinstance(size, int) or size >= lanes:
            step = lanes * together
            loops.repeat_for(0, whole, step, lambda at: visit(at, together, None))
        if isinstance(rest, int):
            if rest:
                visit(index(size - rest if isinstance(size, int) else 0), 1, rest)
        else:
            first = arith.subi(end, rest)
            loops.repeat_for(first, end, lanes, lambda at: visit(at, 1, rest))

    def _write_elements(
        self, places: Sequence[Sequence[Value]], count: int | Value | None
    ) -> None:
        """Emit the statements' elements for some indices, and their stores.

        Args:
            places: the numbers of the loops over results, of each element or vector.
            count: how many lanes there are of vectors of results; None for all.
        """
        known: list[dict[Value, Value]] = [{} for _ in places]
        bodies = [_Body(self, count, each) for each in known]
        for statement, home in zip(self.statements, self.places, strict=True):
            if statement.nest.combine == COPY:
                (factor,) = statement.factors
                made = [
                    body.value(factor, kept)
                    for body, kept in zip(bodies, places, strict=True)
                ]
            else:
                made = _Combination(self, statement, places, count).write()
            for found, kept, values in zip(made, places, known, strict=True):
                values[statement.value] = found
                assert home.memory is not None
                memory, at = home.memory.memory, self.address(home, kept)
                if self.has_vectors_of_results:
                    vectors.store(found, memory, at, self.lanes, count)
                else:
                    vectors.store_element(found, memory, at)

    def address(self, access: _StridedAccess, numbers: Sequence[Value]) -> Value:
        """Emit the offset of an access for the indices of the loops."""
        assert access.memory is not None
        found = self.given.size(access.begin)
        found = add(found, access.memory.begin)
        for number, strides in zip(numbers, access.axes, strict=False):
            rest = number
            for place, stride in reversed([*enumerate(strides)]):
                digit = rest
                if place:
                    rest, digit = self.given.divide(rest, stride.size)
                if not stride.repeats:
                    found = arith.addi(found, self.given.scale(digit, stride.step))
        return found


@dataclass(frozen=True)
class _Combination:
    """An emitter of a statement's combined loops, for some elements of its result.

    Args:
        writer: of the loops.
        statement: that combines.
        places: the numbers of the loops over results, of each element or vector.
        count: how many lanes there are of vectors of results; None for all.
    """

    writer: _NestWriter
    statement: Statement
    places: Sequence[Sequence[Value]]
    count: int | Value | None

    def write(self) -> list[Value]:
        """Emit the combined loops; return the result at each place."""
        writer, dtype = self.writer, self.statement.dtype
        start = ScalarLowering([]).scalar(dtype, self.statement.nest.start)
        if writer.lanes > 1:
            start = vectors.repeat(start, writer.lanes)
        totals = self._visit_first([start for _ in self.places])
        kind = Tensor.of(self.statement.value).dtype
        if writer.has_vectors_of_results:
            return [round_to(total, kind, writer.given.machine) for total in totals]
        if writer.lanes > 1:
            lanes = [vectors.reduce_lanes([x], self._combine) for x in totals]
            totals = [vectors.first_of(each) for each in lanes]
        if dtype == kind:
            return [*totals]
        return [conversion(dtype, kind)(total) for total in totals]

    @property
    def _combine(self) -> Callable[[Value, Value], Value]:
        """The function that emits the combination of two elements."""
        return _COMBINE[self.statement.nest.combine]

    def _visit_first(self, start: Sequence[Value]) -> Sequence[Value]:
        """Emit all combined loops, the first in blocks if its size is symbolic."""
        count = block_of(self.statement)
        if count is None:
            return self._visit([], start)
        end = self.writer.given.size(self.writer.sizes[self.writer.kept])

        def add_block(first: Value, totals: Sequence[Value]) -> Sequence[Value]:
            last = arith.minui(arith.addi(first, index(count)), end)
            found = loops.loop(
                first, last, 1, start, lambda at, x: self._visit([at], x)
            )
            return [*map(self._combine, totals, found)]

        return loops.loop(0, end, count, start, add_block)

    def _visit(self, numbers: list[Value], totals: Sequence[Value]) -> Sequence[Value]:
        """Emit the combined loops inside of some outer ones; return the totals."""
        writer = self.writer
        loop = writer.kept + len(numbers)
        if loop == len(writer.sizes):
            return self._add(numbers, totals, self.count)
        size = writer.sizes[loop]
        assert isinstance(size, int)  # others are written in blocks
        step = writer.lanes if loop == writer.axis else 1
        rest = size % step
        if size >= step:
            totals = loops.loop(
                0,
                size - rest,
                step,
                totals,
                lambda at, x: self._visit([*numbers, at], x),
            )
        if rest:
            totals = self._add([*numbers, index(size - rest)], totals, rest)
        return totals

    def _add(
        self,
        numbers: Sequence[Value],
        totals: Sequence[Value],
        count: int | Value | None,
    ) -> list[Value]:
        """Emit totals combined with the factors of one iteration."""
        body = _Body(self.writer, count, {})
        found = []
        for kept, total in zip(self.places, totals, strict=True):
            product = body.product(self.statement, [*kept, *numbers])
            if not self.writer.has_vectors_of_results and isinstance(count, int):
                start = self.statement.nest.start
                product = vectors.select_first(product, count, start)
            found.append(self._combine(total, product))
        return found


@dataclass(frozen=True)
class _Body:
    """An emitter of expressions for the indices of one element or vector.

    Args:
        writer: of the loops.
        count: how many lanes there are, of a vector; None for all of them.
        known: what other statements give at the place.
    """

    writer: _NestWriter
    count: int | Value | None
    known: Mapping[Value, Value]

    def product(self, statement: Statement, numbers: Sequence[Value]) -> Value:
        """Emit the product of a statement's factors."""
        made = [self._factor(x, numbers, statement.dtype) for x in statement.factors]
        product = made[0]
        for each in made[1:]:
            product = arith.mulf(product, each)
        return product

    def _factor(
        self, expression: Expression, numbers: Sequence[Value], dtype: str
    ) -> Value:
        """Emit a factor, converted to the dtype of accumulators."""
        found = self.value(expression, numbers)
        kind = Tensor.of(expression.value).dtype
        if self.writer.lanes > 1 or kind == dtype:
            return found
        return conversion(kind, dtype)(found)

    def value(self, expression: Expression, numbers: Sequence[Value]) -> Value:
        """Emit an expression, shared subexpressions once."""
        made: dict[int, Value] = {}

        def visit(node: Expression) -> Value:
            if id(node) not in made:
                if isinstance(node, Read):
                    made[id(node)] = self._read(node, numbers)
                else:
                    operands = [visit(x) for x in node.operands]
                    made[id(node)] = self._apply(node.op, operands)
            return made[id(node)]

        return visit(expression)

    def _apply(self, op: GraphOp, operands: Sequence[Value]) -> Value:
        """Emit an elementwise op on vectors or elements."""
        if self.writer.lanes > 1:
            return apply_to_vectors(op, operands, self.writer.given.machine)
        numbers = _Elements([*self.writer.given.symbols])
        found: Value
        (found,) = as_tuple(type(op).lower(numbers, op, *operands))
        return found

    def _read(self, read: Read, numbers: Sequence[Value]) -> Value:
        """Emit a read: a value in registers, a constant or a load."""
        if read.source in self.known:
            return self.known[read.source]
        lanes, number = self.writer.lanes, number_of(read)
        kind = Tensor.of(read.source).dtype
        if number is not None:
            if lanes > 1:
                return vectors.splat(float(number), lanes)
            return ScalarLowering([]).scalar(kind, number)
        access = self.writer.reads[read]
        assert access.memory is not None
        memory, at = access.memory.memory, self.writer.address(access, numbers)
        if lanes == 1:
            return vectors.load_element_as_is(memory, at)
        if access.is_along(self.writer.axis):
            return vectors.load(memory, at, lanes, self.count)
        return vectors.repeat(vectors.load_element(memory, at), lanes)
