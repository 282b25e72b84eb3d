"""Makes the terms of regions (`aotc.kernels.terms`): of their ops, by the ops' rules.

An op with `cascade` is that; one with `nests` is a statement for each of them; views
are read through, and elementwise ops applied to what is read. An op after the last nest
is the expression of a statement that combines nothing, and so is what a nest reads
beyond its end, such as the padding of a convolution of what elementwise ops give.
"""

from __future__ import annotations

from dataclasses import replace

from aotc.dialects.builder import replace_op
from aotc.dialects.functions.walking import backward_slice
from aotc.dialects.graph import GraphOp, has_view, view_of_result
from aotc.dialects.movement.nests import COPY, Access, Nest
from aotc.dialects.movement.views import View
from aotc.dialects.ops.indexing import Gather, IndexMap
from aotc.dialects.types import Tensor
from aotc.kernels.terms import Apply, Expression, Read, Statement, Term, op_of
from aotc.mlir import Function, Module, Value, func, ir


def term_of(function: Function) -> Term | None:
    """Return the term (nests of loops over memory) of a region; None if it has none.

    None if it has an op that is no nest, no cascade, no view and not elementwise, or a
    nest that reads no view of its operand, as no region of `FAMILIES` has; and for a
    loop, which is the call of a function.
    """
    function, module = _with_cascades(function)
    writer = _Statements()
    *ops, end = function.entry_block.operations
    if not all(isinstance(op, GraphOp) for op in ops):
        return None
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
    """Return the expression of an op's operand, given its number; None if no view.

    None where the nest reads no view of it. An op that is not elementwise has no
    operands there.
    """
    (nest,) = type(op).nests(op)
    try:
        return _Statements().expression(op.operands[operand], nest.reads[operand])
    except _NoViewError:
        return None


def _has_other_ops(expression: Expression) -> bool:
    """Return whether an expression has an op that is not elementwise."""
    return any(isinstance(x, Apply) and not x.operands for x in expression.nodes())


def _with_cascades(function: Function) -> tuple[Function, Module | None]:
    """Return a region with ops expanded to cascades, and its module; else itself, None.

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
    """A signal that a nest reads no view of its operand."""


class _Statements:
    """A builder of a term's statements, from the ops of a region."""

    def __init__(self) -> None:
        self.found: list[Statement] = []
        self._given: set[Value] = set()
        self._known: dict[object, Expression] = {}

    def add_nests(self, op: GraphOp) -> None:
        """Append a statement for each loop nest of an op; none if it has no nests."""
        for nest in type(op).nests(op):
            operands = list(op.operands)[nest.first : nest.first + len(nest.reads)]
            factors = tuple(map(self.expression, operands, nest.reads))
            self._add(Statement(nest, factors, op.results[0]))

    def _add(self, statement: Statement) -> None:
        """Append a statement, or fold it into earlier ones if it only copies."""
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
        """Return the statements whose value only a copy reads, whole; [] if none.

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
        """Append a statement that computes a value, unless one has been appended."""
        if value in self._given:
            return
        kind = Tensor.of(value)
        nest = Nest(kind.shape, 0, (lambda x: x,), COPY, dtype=kind.dtype)
        factor = self.expression(value, nest.reads[0])
        self._add(Statement(nest, (factor,), value))

    def expression(self, value: Value, access: Access) -> Expression:
        """Return how elements of a value are computed from memory, as an expression.

        Args:
            value: of the region.
            access: from the view that it is to that which has the loops as its axes.
        """
        return self._expression(value, value, access, ())

    def _operand(
        self, value: Value, access: Access, outer: tuple[View, ...]
    ) -> Expression:
        """Return the expression of an elementwise op's operand, cached by identity."""
        key = value, access, outer
        if key not in self._known:
            self._known[key] = self._expression(value, value, access, outer)
        return self._known[key]

    def _expression(
        self, value: Value, source: Value, access: Access, outer: tuple[View, ...]
    ) -> Expression:
        """Return the expression of a value, read through its view ops."""
        op = None if source in self._given else op_of(source)
        if op is not None and has_view(op):
            operand, through = op.operands[0], _through(op, access)
            if _view(operand, through) is None:  # the two make no single view
                through = _through(op, lambda x: x)
                outer = (*outer, _require_view(source, access))
            return self._expression(value, operand, through, outer)
        if op is None or not op.operands:
            return Read(value, source, (*outer, _require_view(source, access)))
        if not _is_elementwise(op) and not isinstance(op, Gather):
            return Apply(value, op, ())
        views = (*outer, _require_view(source, access))
        if any(view.fill is not None for view in views):  # which no op is applied to
            self.require(source)
            return Read(value, source, views)
        if isinstance(op, Gather):
            return Apply(value, op, self._gather_operands(op, access, outer))
        operands = (self._operand(x, access, outer) for x in op.operands)
        return Apply(value, op, tuple(operands))

    def _gather_operands(
        self, op: Gather, access: Access, outer: tuple[View, ...]
    ) -> tuple[Expression, ...]:
        """Return a gather's table, read at index 0, and its index expressions."""
        at, table, shape = IndexMap.of(op), op.x, Tensor.of(op.y).shape
        if table not in self._given and op_of(table) is not None:
            raise _NoViewError

        def first(x: View) -> View | None:
            found = x.at_first(at.axes).broadcast(shape, at.kept)
            return access(found)

        def spread(x: View) -> View | None:
            return access(x.broadcast(shape, at.along))

        read = Read(table, table, (*outer, _require_view(table, first)))
        return (read, *(self._operand(x, spread, outer) for x in op.indices))


def _is_elementwise(op: GraphOp) -> bool:
    """Return whether an op computes elements from its operands' at the same index."""
    return type(op).on_scalars and len(op.operands) > 0 and not has_view(op)


def _through(op: GraphOp, access: Access) -> Access:
    """Return an access function for a view op's source: its view, then `access`."""

    def read(x: View) -> View | None:
        found = view_of_result(op, x)
        return None if found is None else access(found)

    return read


def _within(outer: Nest, inner: Nest) -> Access:
    """Return the place function of `inner`'s part inside of `outer`'s part."""

    def place(whole: View) -> View | None:
        assert outer.place is not None
        assert inner.place is not None
        part = outer.place(whole)
        return None if part is None else inner.place(part)

    return place


def _view(value: Value, access: Access) -> View | None:
    """Return the view that an access makes of a value; None if it is no single view."""
    return access(View.identity(Tensor.of(value).shape))


def _require_view(value: Value, access: Access) -> View:
    """Return the view that an access makes of a value, or raise if it is no view."""
    view = _view(value, access)
    if view is None:
        raise _NoViewError
    return view
