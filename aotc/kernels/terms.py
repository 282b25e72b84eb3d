"""Terms: what the kernel of a region computes, as loops over what lies in memory.

    region → term → code

A term is the nest of the region's anchor (`aotc.dialects.nests`) and, for each operand,
how its elements come out of the arguments of the region: through views, and through the
elementwise ops between, its prologue. What packs an operand is undone by views, so a
packed argument is read through one. `aotc.kernels.reference` computes a term as it is,
which shows what code for it has to do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from aotc.dialects.graph import GraphOp, has_view, view_of_result
from aotc.dialects.nests import Access, Nest
from aotc.dialects.types import Tensor
from aotc.dialects.views import View
from aotc.dialects.walking import defining_op
from aotc.mlir import Function, Value


@dataclass(frozen=True)
class Factor:
    """An operand of a nest.

    Args:
        value: the operand.
        access: from the view that it is to that which has the loops as its axes.
    """

    value: Value
    access: Access

    @property
    def op(self) -> GraphOp | None:
        """The op that computes the operand; None for an argument of the region."""
        op = defining_op(self.value)
        assert op is None or isinstance(op, GraphOp)
        return op

    @property
    def is_number(self) -> bool:
        """Whether it has one element."""
        return all(size == 1 for size in Tensor.of(self.value).shape)

    def behind_views(self) -> Factor:
        """Return what the operand is a view of, as the nest reads that."""
        factor = self
        while (op := factor.op) is not None and has_view(op):
            factor = Factor(op.operands[0], _through(op, factor.access))
        return factor

    def operands(self) -> list[Factor]:
        """Return the operands of the elementwise op that computes this one."""
        assert self.op is not None
        return [Factor(value, self.access) for value in self.op.operands]

    def view(self) -> View | None:
        """Return the view of the value that the nest reads; None if it is no view."""
        return self.access(View.identity(Tensor.of(self.value).shape))

    def reads(self) -> Iterator[Read]:
        """Yield what elements of it are computed of: arguments, and constants."""
        source = self.behind_views()
        if source.op is None or not source.op.operands:
            yield Read(self.value, source)
            return
        for operand in source.operands():
            yield from operand.reads()


@dataclass(frozen=True)
class Read:
    """What an operand of a nest is computed of.

    Args:
        value: of the region, which elementwise ops take.
        source: the argument of the region or the constant that it is a view of.
    """

    value: Value
    source: Factor


def _through(op: GraphOp, access: Access) -> Access:
    def read(x: View) -> View | None:
        found = view_of_result(op, x)
        return None if found is None else access(found)

    return read


@dataclass(frozen=True)
class Term:
    """What a kernel computes.

    Args:
        nest: the loops, and how they are combined.
        factors: the operands of the nest.
        total: the value of the region that the nest gives.
        results: what the region returns, which elementwise ops compute of the total.
    """

    nest: Nest
    factors: tuple[Factor, ...]
    total: Value
    results: tuple[Value, ...]


def term_of(function: Function, anchor: GraphOp) -> Term | None:
    """Return the term of a region; None if its anchor is no nest.

    Args:
        function: the region.
        anchor: the op that its kernel is for.
    """
    nest = type(anchor).nest(anchor)
    if nest is None:
        return None
    pairs = zip(anchor.operands, nest.reads, strict=True)
    factors = tuple(Factor(value, access) for value, access in pairs)
    *_, end = function.entry_block.operations
    return Term(nest, factors, anchor.results[0], tuple(end.operands))
