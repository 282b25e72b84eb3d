"""Terms: the computation of a region's kernel, as nests of loops over memory.

    region → term → code

A term is a sequence of statements, each of which gives the elements of one value: loops
(`aotc.dialects.movement.nests`), how those that are no axes of the value are combined,
and of each factor an expression, the elementwise ops by which it is made of what is
read. That is read where it lies: an argument of the region, a constant, or what a
statement before has given, through views (`aotc.dialects.movement.views`). What packs
an operand is undone by views, so a packed argument is read through some. Elementwise
ops after the anchor are the expression of a statement that combines nothing.

    rows(a0: f32[n, 8])
      t0[i]: f32 = maximum.f32(a0[i, j]), i < n, j < 8
      t1[i]: f32 = add.f32(exp(subtract(a0[i, j], t0[i]))), i < n, j < 8, rescaled by t0
      r0[i, j]: f32 = divide(exp(subtract(a0[i, j], t0[i])), t1[i]), i < n, j < 8

So a product and what follows it are two statements; a softmax, a norm or an attention
is what is known as a cascade of reductions (of Einsums: Nayak et al., "FuseMax", MICRO
2024), which the op writes itself (`cascade`); a concatenation is a statement for each
part, with its place in the result. `rescaled_by` says which sums of a cascade can be
made in one pass with the maximum that they are shifted by: the online softmax.

All that code has to do stands in a term: extents (static or symbolic), the dtypes of
memory and of accumulators, which elements are read and written, and how they are
combined. `aotc.kernels.reference` computes it as it is; emitters for processors, which
are written by families, are tested beside it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, cast

import numpy as np

from aotc.dialects.functions.function_table import name_of
from aotc.dialects.functions.walking import defining_op
from aotc.dialects.graph import GraphOp
from aotc.dialects.lowering.conversion import accumulator
from aotc.dialects.movement.nests import COPY, Nest
from aotc.dialects.movement.views import Strides, View
from aotc.dialects.ops.binary import Subtract
from aotc.dialects.ops.creation import Constant
from aotc.dialects.ops.selection import Cast
from aotc.dialects.ops.unary import Exp
from aotc.dialects.sizes.symbols import contracts_of, known_contracts
from aotc.dialects.types import Tensor
from aotc.mlir import Function, Module, Value


@dataclass(frozen=True)
class Read:
    """An expression that reads an element of memory, for each index of the loops.

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
        """The op that defines the source; None for an argument of the region."""
        return op_of(self.source)

    @property
    def is_argument(self) -> bool:
        """Return whether the source is an argument of the region."""
        return self.op is None

    @property
    def view(self) -> View | None:
        """The view of the source; None if it takes several."""
        return self.views[0] if len(self.views) == 1 else None

    @property
    def is_number(self) -> bool:
        """Return whether the source has one element."""
        return all(size == 1 for size in Tensor.of(self.source).shape)

    def nodes(self) -> Iterator[Expression]:
        """Yield the read itself."""
        yield self

    def reads(self) -> Iterator[Read]:
        """Yield the read itself."""
        yield self


@dataclass(frozen=True, eq=False)
class Apply:
    """An expression that applies an elementwise op (or a gather) to operands.

    Args:
        value: of the region, that an element of is wanted.
        op: which gives that, or what it is a view of.
        operands: of the op; () for an op that is neither elementwise nor a gather, in
            IR that was read. The first one of a gather is the element that is read
            where all indices are 0.
    """

    value: Value
    op: GraphOp
    operands: tuple[Expression, ...]

    @property
    def is_argument(self) -> bool:
        """Return False, as the element is computed, not read."""
        return False

    def nodes(self) -> Iterator[Expression]:
        """Yield the expression and all its subexpressions, each once."""
        rest, seen = [cast(Expression, self)], set[int]()
        while rest:
            node = rest.pop()
            if id(node) not in seen:
                seen.add(id(node))
                yield node
                rest += [] if isinstance(node, Read) else node.operands[::-1]

    def reads(self) -> Iterator[Read]:
        """Yield the reads among the subexpressions."""
        return (node for node in self.nodes() if isinstance(node, Read))


Expression: TypeAlias = Read | Apply


@dataclass(frozen=True, eq=False)
class Statement:
    """A loop nest of a term, which computes some or all elements of one value.

    Args:
        nest: the loops, and how they are combined.
        factors: the operands of the nest.
        value: of the region.
    """

    nest: Nest
    factors: tuple[Expression, ...]
    value: Value

    @property
    def dtype(self) -> str:
        """The dtype of accumulators, to which factors are converted."""
        return self.nest.dtype or accumulator(Tensor.of(self.value).dtype)

    def reads(self) -> Iterator[Read]:
        """Yield the reads of all factors."""
        for factor in self.factors:
            yield from factor.reads()

    def place(self) -> View | None:
        """Return the view through which the nest writes the value; None if unknown.

        It is unknown where loops are not provably axes of the value, or parts of them.
        """
        whole = View.identity(Tensor.of(self.value).shape)
        if self.nest.place is not None:
            return self.nest.place(whole)
        return whole.reshape(
            tuple(self.nest.sizes[loop] for loop in self.nest.result_loops)
        )


@dataclass(frozen=True)
class Term:
    """The computation of a region's kernel: a sequence of loop nests over memory.

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
        """The arguments of the region."""
        return [*self.function.entry_block.arguments]

    @property
    def results(self) -> list[Value]:
        """The values that the region returns, each written by a statement."""
        *_, end = self.function.entry_block.operations
        return [*end.operands]

    def rescaled_by(self, statement: Statement) -> Statement | None:
        """Return the maximum by which an online softmax rescales a sum; else None.

        Such a sum can be made in the same pass: what there is of it, under a maximum so
        far, is multiplied by exp(the old - the new one), and is 0 as long as that is
        -infinity. (Milakov and Gimelshein, 2018, arXiv:1805.02867.) None for another
        statement.
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
                if len(found) == 1 and _is_constant(
                    shift, statement.nest.combined_loops
                ):
                    highest = maxima[found.pop()]
                    (factor,) = highest.factors
                    is_same = x.value == factor.value
                    if is_same and _strides_along(x, statement) == _strides_along(
                        factor, highest
                    ):
                        return highest
        return None

    def __str__(self) -> str:
        """Return the term's text, a line for each statement (Note [text of terms])."""
        contracts = contracts_of(self.function)
        with self.function.context, known_contracts(contracts):
            return _TermPrinter(self).text()


def _behind_cast(factor: Expression) -> Expression:
    """Return the operand of the outermost casts of an expression, or itself."""
    while isinstance(factor, Apply) and isinstance(factor.op, Cast):
        (factor,) = factor.operands
    return factor


def _strides_along(
    x: Expression, statement: Statement
) -> list[tuple[Value, list[Strides]]]:
    """Return the strides of an expression's reads along the combined loops."""
    return [
        (
            read.source,
            [read.views[0].axes[loop] for loop in statement.nest.combined_loops],
        )
        for read in x.reads()
    ]


def _is_constant(expression: Expression, loops: Sequence[int]) -> bool:
    """Return whether an expression's reads do not vary along some loops."""
    return all(
        stride.repeats
        for read in expression.reads()
        for loop in loops
        for stride in read.views[0].axes[loop]
    )


def op_of(value: Value) -> GraphOp | None:
    """Return the op that defines a value of a region; None for an argument."""
    op = defining_op(value)
    assert op is None or isinstance(op, GraphOp)
    return op


# Note [text of terms]
#
#     contraction(a0: bf16[n, 64], a1: bf16[64, 32], a2: bf16[32])
#       t0[i, j]: bf16 = add.f32(a0[i, k] * a1[k, j]), i < n, j < 32, k < 64
#       r0[i, j]: bf16 = relu(add(t0[i, j], a2[j])), i < n, j < 32
#
# Arguments of the region are a0, a1, …, what it returns r0, …, other values t0, …. The
# dtype behind the name of what combines is that of the accumulators, to which factors
# are converted; loops that the left side does not name are combined. Outside of a
# source that is read stands what `else` says. What an expression has twice is u0, ….


class _TermPrinter:
    """A printer of a term as text, with names for its values (Note [text of terms])."""

    def __init__(self, term: Term) -> None:
        self._term, self._names = term, dict[Value, str]()
        for number, value in enumerate(term.arguments):
            self._names[value] = f"a{number}"
        for number, value in enumerate(term.results):
            self._names.setdefault(value, f"r{number}")
        given = dict.fromkeys(each.value for each in term.statements)
        others = [value for value in given if value not in self._names]
        for number, value in enumerate(others):
            self._names[value] = f"t{number}"

    def text(self) -> str:
        """Return the text of the whole term."""
        arguments = (
            f"{self._names[value]}: {Tensor.of(value)}"
            for value in self._term.arguments
        )
        head = f"{name_of(self._term.function)}({', '.join(arguments)})"
        return "\n  ".join([head, *map(self._statement, self._term.statements)])

    def _statement(self, statement: Statement) -> str:
        """Return the line of text of a statement."""
        nest, place = statement.nest, statement.place()
        letters = iter("ijklmnopqrstuvwxyz")
        loops = ["0" if size == 1 else next(letters) for size in nest.sizes]
        kept = loops[: len(nest.result_loops)]
        indices = kept if place is None else place.indices(kept)
        left = f"{self._names[statement.value]}[{', '.join(indices)}]"
        shared = _SharedExpressions(self, statement, loops)
        factors = " * ".join(map(shared.text, statement.factors))
        if nest.combine != COPY:
            factors = f"{nest.combine}.{statement.dtype}({factors})"
        kind = Tensor.of(statement.value).dtype
        extents = [
            f"{loop} < {size!r}"
            for loop, size in zip(loops, nest.sizes, strict=True)
            if size != 1
        ]
        highest = self._term.rescaled_by(statement)
        if highest is not None:
            extents.append(f"rescaled by {self._names[highest.value]}")
        return ", ".join([f"{left}: {kind} = {factors}", *shared.lines, *extents])

    def read(self, read: Read, loops: Sequence[str]) -> str:
        """Return the text of a read, such as `a0[i, j]`, or of a scalar constant."""
        op = None if read.source in self._names else read.op
        if isinstance(op, Constant) and np.size(op.value) == 1:
            return f"{np.asarray(op.value).reshape(())[()]:g}"
        found, indices = "", [*loops]
        for view in read.views:
            indices = view.indices(indices)
            found += _fill_text(view)
        name = self._names[read.source] if op is None else _name_of(op)
        return f"{name}[{', '.join(indices)}]{found}"


class _SharedExpressions:
    """A printer of a statement's expressions, with names u0, … for repeated ones.

    Args:
        printer: of the term.
        statement: of it.
        loops: their names.
    """

    def __init__(
        self, printer: _TermPrinter, statement: Statement, loops: Sequence[str]
    ) -> None:
        self._printer, self._loops = printer, loops
        nodes = {id(x): x for factor in statement.factors for x in factor.nodes()}
        operands = (x.operands for x in nodes.values() if isinstance(x, Apply))
        self._times = Counter(id(x) for each in operands for x in each)
        self._known: dict[int, str] = {}
        self.lines: list[str] = []  # what the names stand for

    def text(self, expression: Expression) -> str:
        """Return an expression's text; append a line to `lines` if it repeats."""
        if isinstance(expression, Read):
            return self._printer.read(expression, self._loops)
        known = self._known.get(id(expression))
        if known is not None:
            return known
        operands = ", ".join(map(self.text, expression.operands))
        op = expression.op
        kind = Tensor.of(expression.value).dtype
        found = f"{kind if isinstance(op, Cast) else _name_of(op)}({operands})"
        if self._times[id(expression)] > 1:
            self.lines.append(f"u{len(self.lines)} = {found}")
            found = self._known[id(expression)] = f"u{len(self.lines) - 1}"
        return found


def _fill_text(view: View) -> str:
    """Return the text ` else …` of what a view reads outside of its source, if any."""
    return "" if view.fill is None else f" else {view.fill:g}"


def _name_of(op: GraphOp) -> str:
    """Return the name of an op with its attributes that apply to each element."""
    attributes = type(op).attributes_of(op).values()
    told = [str(x) for x in attributes if isinstance(x, (str, int, float)) and x]
    return ".".join([op.OPERATION_NAME.removeprefix("graph."), *told])
