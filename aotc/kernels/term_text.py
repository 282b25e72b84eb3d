"""The text of a term: a line for each statement.

    contraction(a0: bf16[n, 64], a1: bf16[64, 32], a2: bf16[32])
      t0[i, j]: bf16 = add.f32(a0[i, k] * a1[k, j]), i < n, j < 32, k < 64
      r0[i, j]: bf16 = relu(add(t0[i, j], a2[j])), i < n, j < 32

Arguments of the region are a0, a1, …, what it returns r0, …, and other values t0, ….
The dtype behind the name of what combines is that of the accumulators, to which factors
are converted; loops that the left side does not name are combined. Outside of a source
that is read stands what `else` says.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from aotc.dialects.function_table import name_of
from aotc.dialects.graph import GraphOp
from aotc.dialects.nests import COPY
from aotc.dialects.ops.creation import Constant
from aotc.dialects.ops.selection import Cast
from aotc.dialects.symbols import contracts_of, known_contracts
from aotc.dialects.types import Tensor
from aotc.dialects.views import View
from aotc.kernels.terms import Expression, Read, Statement, Term
from aotc.mlir import Value


def text_of(term: Term) -> str:
    """Return the text of a term."""
    with term.function.context, known_contracts(contracts_of(term.function)):
        return _Printer(term).text()


class _Printer:
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
        """Return all of it."""
        arguments = (
            f"{self._names[value]}: {Tensor.of(value)}"
            for value in self._term.arguments
        )
        head = f"{name_of(self._term.function)}({', '.join(arguments)})"
        return "\n  ".join([head, *map(self._statement, self._term.statements)])

    def _statement(self, statement: Statement) -> str:
        nest, place = statement.nest, statement.place()
        letters = iter("ijklmnopqrstuvwxyz")
        loops = ["0" if size == 1 else next(letters) for size in nest.sizes]
        kept = loops[: len(nest.kept)]
        indices = kept if place is None else place.indices(kept)
        left = f"{self._names[statement.value]}[{', '.join(indices)}]"
        factors = " * ".join(self._expression(x, loops) for x in statement.factors)
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
        return ", ".join([f"{left}: {kind} = {factors}", *extents])

    def _expression(self, expression: Expression, loops: Sequence[str]) -> str:
        if isinstance(expression, Read):
            return self._read(expression, loops)
        operands = [self._expression(x, loops) for x in expression.operands]
        if isinstance(expression.op, Cast):
            return f"{Tensor.of(expression.value).dtype}({operands[0]})"
        return f"{_name_of(expression.op)}({', '.join(operands)})"

    def _read(self, read: Read, loops: Sequence[str]) -> str:
        op = None if read.source in self._names else read.op
        if isinstance(op, Constant) and np.size(op.value) == 1:
            return f"{np.asarray(op.value).reshape(())[()]:g}"
        found, indices = "", [*loops]
        for view in read.views:
            indices = view.indices(indices)
            found += _filled(view)
        name = self._names[read.source] if op is None else _name_of(op)
        return f"{name}[{', '.join(indices)}]{found}"


def _filled(view: View) -> str:
    return "" if view.fill is None else f" else {view.fill:g}"


def _name_of(op: GraphOp) -> str:
    """Return the name of an op, and what else its attributes say of an element."""
    attributes = type(op).attributes_of(op).values()
    told = [str(x) for x in attributes if isinstance(x, (str, int, float)) and x]
    return ".".join([op.OPERATION_NAME.removeprefix("graph."), *told])
