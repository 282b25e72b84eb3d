"""Terms: what the kernel of a region computes, as nests of loops over memory.

    region → term → code

A term is a sequence of statements, each of which gives the elements of one value: loops
(`aotc.dialects.nests`), how those that are no axes of the value are combined, and of
each factor an expression, the elementwise ops by which it is made of what is read. That
is read where it lies: an argument of the region, a constant, or what a statement before
has given, through views (`aotc.dialects.views`). What packs an operand is undone by
views, so a packed argument is read through some. Elementwise ops after the anchor are
the expression of a statement that combines nothing.

    rows(a0: f32[n, 8])
      t0[i]: f32 = maximum.f32(a0[i, j]), i < n, j < 8
      t1[i]: f32 = add.f32(exp(subtract(a0[i, j], t0[i]))), i < n, j < 8, rescaled by t0
      r0[i, j]: f32 = divide(exp(subtract(a0[i, j], t0[i])), t1[i]), i < n, j < 8

So a product and what follows it are two statements; a softmax, a norm or an attention
is what is known as a cascade of reductions (of Einsums: Nayak et al., "FuseMax", MICRO
2024), which the op writes itself (`cascade`); a concatenation is a statement for each
part, with its place in the result. `rescaled_by` says which sums of a cascade can be
made in one pass with the maximum that they are shifted by: the online softmax.

Everything that code is made of stands in a term: extents (static or symbolic), the
dtypes of memory and of accumulators, which elements are read and written, and how they
are combined. `aotc.kernels.reference` computes it as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from aotc.dialects.graph import GraphOp, has_view, view_of_result
from aotc.dialects.lowering.conversion import accumulator
from aotc.dialects.nests import COPY, Access, Nest
from aotc.dialects.ops.binary import Subtract
from aotc.dialects.ops.selection import Cast
from aotc.dialects.ops.unary import Exp
from aotc.dialects.types import Tensor
from aotc.dialects.views import Strides, View
from aotc.dialects.walking import backward_slice, defining_op, replace_op
from aotc.mlir import Function, Module, Value, func, ir


@dataclass(frozen=True)
class Read:
    """An element of what lies in memory, for each index of the loops.

    Args:
        value: of the region, which elementwise ops take.
        source: what it is a view of: an argument of the region, a constant or another
            op without operands, or what a statement gives.
        views: from the one that has the loops as its axes to that of the source, each
            of what the next one gives; there is one, unless they make no single view.
    """

    value: Value
    source: Value
    views: tuple[View, ...]

    @property
    def op(self) -> GraphOp | None:
        """The op that gives the source; None for an argument of the region."""
        return _op_of(self.source)

    @property
    def view(self) -> View | None:
        """The view of the source; None if it takes several."""
        return self.views[0] if len(self.views) == 1 else None

    @property
    def is_number(self) -> bool:
        """Whether the source has one element."""
        return all(size == 1 for size in Tensor.of(self.source).shape)

    def reads(self) -> Iterator[Read]:
        """Yield itself."""
        yield self


@dataclass(frozen=True)
class Apply:
    """What an elementwise op makes of elements.

    Args:
        value: of the region, that an element of is wanted.
        op: which gives that, or what it is a view of.
        operands: of the op; () for an op that is not elementwise, in IR that was read.
    """

    value: Value
    op: GraphOp
    operands: tuple[Expression, ...]

    def reads(self) -> Iterator[Read]:
        """Yield what it is made of."""
        for operand in self.operands:
            yield from operand.reads()


Expression: TypeAlias = Read | Apply


@dataclass(frozen=True)
class Statement:
    """What gives the elements of a value, or some of them.

    Args:
        op: of the region, that it is of.
        nest: the loops, and how they are combined.
        factors: the operands of the nest.
        value: of the region.
    """

    op: GraphOp
    nest: Nest
    factors: tuple[Expression, ...]
    value: Value

    @property
    def dtype(self) -> str:
        """The dtype that factors are converted to and accumulators have."""
        return self.nest.dtype or accumulator(Tensor.of(self.value).dtype)

    def reads(self) -> Iterator[Read]:
        """Yield all that is read."""
        for factor in self.factors:
            yield from factor.reads()

    def place(self) -> View | None:
        """Return the view of the value that has the loops over it as its axes.

        None where loops are not provably axes of the value, or parts of them.
        """
        whole = View.identity(Tensor.of(self.value).shape)
        if self.nest.place is not None:
            return self.nest.place(whole)
        return whole.reshape(tuple(self.nest.sizes[loop] for loop in self.nest.kept))


@dataclass(frozen=True)
class Term:
    """What a kernel computes.

    Args:
        function: the region, with cascades in the place of the ops that have them.
        statements: in order; each reads what those before it give.
        module: that the function is in.
    """

    function: Function
    statements: tuple[Statement, ...]
    module: Module | None = field(default=None, repr=False)

    @property
    def arguments(self) -> list[Value]:
        """What the kernel is given, in memory."""
        return [*self.function.entry_block.arguments]

    @property
    def results(self) -> list[Value]:
        """What it gives, in memory; a statement writes each."""
        *_, end = self.function.entry_block.operations
        return [*end.operands]

    def rescaled_by(self, statement: Statement) -> Statement | None:
        """Return the maximum that the exponentials of a sum are shifted by.

        Such a sum can be made in the same pass: what there is of it, under a maximum so
        far, is multiplied by exp(the old - the new one). (Milakov and Gimelshein, 2018,
        arXiv:1805.02867.) None for another statement.
        """
        if statement.nest.combine != "add":
            return None
        maxima = {
            each.value: each
            for each in self.statements
            if each.nest.combine == "maximum"
        }
        for factor in statement.factors:
            power = _behind_cast(factor)
            if not (isinstance(power, Apply) and isinstance(power.op, Exp)):
                continue
            (shifted,) = power.operands
            if isinstance(shifted, Apply) and isinstance(shifted.op, Subtract):
                x, shift = shifted.operands
                found = {r.source for r in shift.reads() if r.source in maxima}
                if len(found) == 1 and _is_constant(shift, statement.nest.combined):
                    highest = maxima[found.pop()]
                    (factor,) = highest.factors
                    is_same = x.value == factor.value
                    if is_same and _along(x, statement) == _along(factor, highest):
                        return highest
        return None

    def __str__(self) -> str:
        """Return its text, a line for each statement."""
        from aotc.kernels.term_text import text_of

        return text_of(self)


def _behind_cast(factor: Expression) -> Expression:
    """Return what an expression rounds, or itself."""
    while isinstance(factor, Apply) and isinstance(factor.op, Cast):
        (factor,) = factor.operands
    return factor


def _along(x: Expression, statement: Statement) -> list[tuple[Value, list[Strides]]]:
    """Return how what makes an expression goes along the combined loops."""
    return [
        (read.source, [read.views[0].axes[loop] for loop in statement.nest.combined])
        for read in x.reads()
    ]


def _is_constant(expression: Expression, loops: Sequence[int]) -> bool:
    """Whether all that it reads is the same for all indices of some loops."""
    return all(
        stride.repeats
        for read in expression.reads()
        for loop in loops
        for stride in read.views[0].axes[loop]
    )


def term_of(function: Function) -> Term | None:
    """Return the term of a region.

    None if it has an op that is no nest, no cascade, no view and not elementwise, or a
    nest that reads no view of its operand, as no region of `FAMILIES` has.
    """
    function, module = _with_cascades(function)
    writer = _Statements()
    *ops, end = function.entry_block.operations
    needed = set(backward_slice(end.operands))
    try:
        for op in ops:
            if isinstance(op, GraphOp) and op.results[0] in needed:
                writer.add_nests(op)
        for value in end.operands:
            writer.require(value)
    except _NoViewError:
        return None
    found = Term(function, tuple(writer.found), module)
    factors = (factor for each in found.statements for factor in each.factors)
    return None if any(map(_has_other_ops, factors)) else found


def expression_of(op: GraphOp, operand: int) -> Expression | None:
    """Return how an operand of the nest of an op comes out of arguments and constants.

    None where the nest reads no view of it. An op that is not elementwise has no
    operands there.
    """
    (nest,) = type(op).nests(op)
    try:
        return _Statements().expression(op.operands[operand], nest.reads[operand])
    except _NoViewError:
        return None


def _has_other_ops(expression: Expression) -> bool:
    """Whether an op of an expression is not elementwise."""
    if isinstance(expression, Read):
        return False
    return not expression.operands or any(map(_has_other_ops, expression.operands))


def _with_cascades(function: Function) -> tuple[Function, Module | None]:
    """Return a region whose ops that have cascades are those: a copy, if there are any.

    With it the module that it is in.
    """

    def composed(function: Function) -> list[GraphOp]:
        ops = function.entry_block.operations
        return [
            op for op in ops if isinstance(op, GraphOp) and type(op).cascade is not None
        ]

    if not composed(function):
        return function, None
    module = ir.Module.create(function.location)
    copy = function.operation.clone(ir.InsertionPoint(module.body)).opview
    assert isinstance(copy, func.FuncOp)
    for op in composed(copy):
        replace_op(op, type(op).cascade)
    return copy, module


class _NoViewError(Exception):
    """That a nest reads no view of its operand."""


class _Statements:
    """Writes the statements of a term."""

    def __init__(self) -> None:
        self.found: list[Statement] = []
        self._given: set[Value] = set()

    def add_nests(self, op: GraphOp) -> None:
        """Add those of an op; none if it is no nest."""
        for nest in type(op).nests(op):
            operands = list(op.operands)[nest.first : nest.first + len(nest.reads)]
            factors = tuple(map(self.expression, operands, nest.reads))
            self._add(Statement(op, nest, factors, op.results[0]))

    def _add(self, statement: Statement) -> None:
        """Add a statement, or, of what is moved again, those that it is moved by."""
        inner = self._only_moved(statement)
        if not inner:
            self.found.append(statement)
        for each in inner:
            self.found.remove(each)
            place = _within(statement.nest, each.nest)
            nest = replace(each.nest, place=place)
            self.found.append(replace(each, nest=nest, value=statement.value))
        self._given.add(statement.value)

    def _only_moved(self, statement: Statement) -> list[Statement]:
        """Return the statements of parts of a value that a statement only moves.

        None of them if anything else reads it.
        """
        if statement.nest.combine != COPY or statement.nest.place is None:
            return []
        (factor,) = statement.factors
        is_whole = isinstance(factor, Read) and [v.is_identity for v in factor.views]
        if is_whole != [True] or len([*factor.value.uses]) != 1:
            return []
        own = [each for each in self.found if each.value == factor.value]
        return own if all(each.nest.place is not None for each in own) else []

    def require(self, value: Value) -> None:
        """Add a statement of a value, if there is none: its elements, by themselves."""
        if value in self._given:
            return
        kind = Tensor.of(value)
        nest = Nest(kind.shape, 0, (lambda x: x,), COPY, dtype=kind.dtype)
        factor = self.expression(value, nest.reads[0])
        op = _op_of(value)
        assert op is not None
        self._add(Statement(op, nest, (factor,), value))

    def expression(self, value: Value, access: Access) -> Expression:
        """Return how elements of a value come out of memory.

        Args:
            value: of the region.
            access: from the view that it is to that which has the loops as its axes.
        """
        return self._expression(value, value, access, ())

    def _expression(
        self, value: Value, source: Value, access: Access, outer: tuple[View, ...]
    ) -> Expression:
        """The same of what a value is a view of, with the views of it before that."""
        op = None if source in self._given else _op_of(source)
        if op is not None and has_view(op):
            operand, through = op.operands[0], _through(op, access)
            if _view(operand, through) is None:  # the two make no single view
                through = _through(op, lambda x: x)
                outer = (*outer, _require_view(source, access))
            return self._expression(value, operand, through, outer)
        if op is None or not op.operands:
            return Read(value, source, (*outer, _require_view(source, access)))
        if not type(op).on_scalars:
            return Apply(value, op, ())
        views = (*outer, _require_view(source, access))
        if any(view.fill is not None for view in views):  # which no op is applied to
            self.require(source)
            return Read(value, source, views)
        operands = (self._expression(x, x, access, outer) for x in op.operands)
        return Apply(value, op, tuple(operands))


def _through(op: GraphOp, access: Access) -> Access:
    """Return an access to the result of an op as one to what that is a view of."""

    def read(x: View) -> View | None:
        found = view_of_result(op, x)
        return None if found is None else access(found)

    return read


def _within(outer: Nest, inner: Nest) -> Access:
    """Return where a part of a part lies in the whole."""

    def place(whole: View) -> View | None:
        assert outer.place is not None
        assert inner.place is not None
        part = outer.place(whole)
        return None if part is None else inner.place(part)

    return place


def _view(value: Value, access: Access) -> View | None:
    return access(View.identity(Tensor.of(value).shape))


def _require_view(value: Value, access: Access) -> View:
    view = _view(value, access)
    if view is None:
        raise _NoViewError
    return view


def _op_of(value: Value) -> GraphOp | None:
    """Return the op that gives a value of a region; None for an argument."""
    op = defining_op(value)
    assert op is None or isinstance(op, GraphOp)
    return op
