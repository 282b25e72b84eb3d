"""Move transposes past the ops that work in any order of axes, until they meet.

    %1 = graph.transpose(%a) {0, 3, 1, 2}       %1 = graph.relu(%a)
    %2 = graph.relu(%1)                    →    %2 = graph.conv_general(%1, %w)
    %3 = graph.transpose(%2) {0, 2, 3, 1}
    %4 = graph.conv_general(%3, %w)

Ops that have a `reorder` rule and share values must agree on one order of axes. For
each such group the orders that the transposes around it suggest are compared with the
order it has, by the transposes that stay. A group is rewritten if there will be fewer,
or as many of which more follow the group (there they are reduced, or cut, or meet
others). Transposes of what weights decide count nothing: they are computed once. So do
those that move only axes of size 1, and those of broadcasts of such values.

Ensures: no more transposes than before, but for
those that count nothing; `simplify` makes reshapes and broadcasts of these.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import NamedTuple

from aotc.dialects.builder import Builder
from aotc.dialects.functions.functions import before
from aotc.dialects.functions.walking import users_of
from aotc.dialects.graph import GraphOp, has_effect
from aotc.dialects.movement.permutations import Order, inverse, permute
from aotc.dialects.ops.shape import Broadcast, Transpose, moves_nothing
from aotc.dialects.patterns.values import made_by
from aotc.dialects.types import Tensor
from aotc.dialects.weight_values import weight_values
from aotc.mlir import Block, Function, Operation, Value
from aotc.passes.base import FunctionPass
from aotc.passes.disjoint_sets import DisjointSets
from aotc.passes.properties import CALLS_INLINED

SWEEPS = 32  # at most; a group is crossed in one, and after few nothing is left
CANDIDATES = 4  # so many orders are tried for a group, those suggested most often


class SinkTransposes(FunctionPass):
    """Move transposes past ops that work in any axis order, so that they cancel."""

    name = "sink-transposes"
    level = 2
    keeps_graph = True
    requires = (CALLS_INLINED,)

    def change(self, function: Function) -> bool:
        """Rewrite one function in place; return whether anything changed."""
        if not any(isinstance(op, Transpose) for op in function.entry_block.operations):
            return False
        sweeps = takewhile(bool, (_sweep(function) for _ in range(SWEEPS)))
        return any([*sweeps])


def _sweep(function: Function) -> bool:
    """Rewrite op groups to the axis order with fewest transposes; return whether any
    changed.
    """
    weights = weight_values(function)
    changed = False
    for ops in _groups(function.entry_block, weights):
        group = _Group(ops, weights)
        order = group.best_order()
        if order is not None:
            group.rewrite(order)
            changed = True
    return changed


# ---- groups -------------------------------------------------------------------------


def _groups(block: Block, weights: set[Value]) -> list[list[GraphOp]]:
    """Partition a block's ops into groups whose values must share one axis order."""
    sets = DisjointSets[Value]()
    members: list[tuple[GraphOp, Value]] = []
    for op in block.operations:
        tied = _tied_values(op, weights)
        if tied and isinstance(op, GraphOp):
            members.append((op, tied[0]))
            for value in tied[1:]:
                sets.unite(tied[0], value)
    found: dict[Value, list[GraphOp]] = {}
    for op, value in members:
        found.setdefault(sets.root(value), []).append(op)
    return list(found.values())


def _tied_values(op: Operation, weights: set[Value]) -> list[Value]:
    """Return the values of `op` that must share one axis order; empty if it has no such
    rule.
    """
    if not isinstance(op, GraphOp) or not hasattr(op, "reorder") or has_effect(op):
        return []
    rank = Tensor.of(op.operands[0]).rank
    if rank < 2 or all(value in weights for value in op.results):
        return []
    given = [value for value in op.operands if not _has_any_order(value, weights)]
    made = [value for value in op.results if Tensor.of(value).rank == rank]
    return given + made


def _has_any_order(value: Value, weights: set[Value]) -> bool:
    """Return whether a value, or what it transposes, is a weight or a broadcast.

    Each reader may have these in the order of axes that it likes.
    """
    inner = made_by(value, Transpose)
    source = value if inner is None else inner.x
    return source in weights or made_by(source, Broadcast) is not None


class _Cost(NamedTuple):
    """The transposes that a group costs: in total, and those before it."""

    total: int
    before: int


class _Group:
    """Ops of a block whose values share one axis order, with their inputs and outputs.

    An order is that of the values that will stand in the place of the group's own. A
    transpose counts for the group that reads it and for nobody else.
    """

    def __init__(self, ops: Sequence[GraphOp], weights: set[Value]) -> None:
        self.ops = ops
        self.weights = weights
        self.made = {value for op in ops for value in op.results}
        operands = (value for op in ops for value in op.operands)
        self.read = dict.fromkeys(x for x in operands if x not in self.made)

    def best_order(self) -> Order | None:
        """Return the axis order with fewest transposes; None if the present one is
        best.
        """
        candidates = self._candidates()
        if not candidates:
            return None
        best, order = self._cost(None), None
        for candidate in candidates:
            cost = self._cost(candidate)
            if cost < best:
                best, order = cost, candidate
        return order

    def _candidates(self) -> list[Order]:
        """Return the axis orders that adjacent transposes suggest, most frequent
        first.
        """
        found: Counter[Order] = Counter()
        for value in self.read:
            given = made_by(value, Transpose)
            if given is None or given.x in self.made:
                continue
            if self._count(given.x, given.permutation):
                found[given.permutation] += 1
        for value in self.made:
            for permutation in self._wanted_after(value):
                if self._count(value, permutation):
                    found[inverse(permutation)] += 1
        rank = Tensor.of(self.ops[0].operands[0]).rank
        ranked = sorted(found.items(), key=lambda each: (-each[1], each[0]))
        return [order for order, _ in ranked if len(order) == rank][:CANDIDATES]

    def _cost(self, order: Order | None) -> _Cost:
        """Count the transposes needed if the group's values are in `order` (None:
        unchanged).
        """
        given = sum(self._count_before(value, order) for value in self.read)
        after = sum(
            self._count_after(value, moved) for value, moved in self._results(order)
        )
        return _Cost(given + after, given)

    def _results(self, order: Order | None) -> Iterator[tuple[Value, Order | None]]:
        """Yield each result of the group with its axis order, given the group's
        `order`.
        """
        for op in self.ops:
            orders: Sequence[Order | None] = [None] * len(op.results)
            if order is not None:
                orders = type(op).result_orders(op, order)
            yield from zip(op.results, orders, strict=True)

    def _count_before(self, value: Value, order: Order | None) -> int:
        """Return how many transposes an operand needs if the group is in `order`."""
        given = made_by(value, Transpose)
        now = 0 if given is None else self._count(given.x, given.permutation)
        if order is None:
            return now
        kept = now if now and self._is_read_elsewhere(value) else 0
        if given is not None and given.x in self.made:  # within, it is one in any order
            return kept + now
        return kept + self._count(*_source_in_order(value, order))

    def _count_after(self, value: Value, order: Order | None) -> int:
        """Return how many transposes a result needs if the group is in `order`."""
        permutations = self._wanted_after(value)
        if order is None:
            return sum(self._count(value, each) for each in permutations)
        wanted = {permute(order, each) for each in permutations}
        if self._is_read_as_it_is(value):
            wanted.add(order)
        return sum(self._count_of(value, order, each) for each in wanted)

    def _count_of(self, value: Value, order: Order, permutation: Order) -> int:
        """Return 1 if a permutation of a value moved to `order` moves elements, else
        0.
        """
        given = permute(Tensor.of(value).shape, inverse(order))
        return 0 if moves_nothing(given, permutation) else 1

    def _count(self, source: Value, permutation: Order) -> int:
        """Return 1 if a transpose moves elements at run time; 0 for weights or size-1
        axes.
        """
        if source in self.weights:
            return 0
        if moves_nothing(Tensor.of(source).shape, permutation):
            return 0
        inner = made_by(source, Broadcast)
        if inner is None:
            return 1
        axes = permute(inverse(permutation), inner.axes)
        return self._count(inner.x, inverse(axes))

    # ---- readers

    def _outer_readers(self, value: Value) -> list[Operation]:
        """Return the users of a value outside the group."""
        return users_of([value], self.made)

    def _transposes_of(self, value: Value) -> list[Transpose]:
        """Return the transposes of a value outside the group."""
        readers = self._outer_readers(value)
        return [each for each in readers if isinstance(each, Transpose)]

    def _wanted_after(self, value: Value) -> set[Order]:
        """Return the orders to which readers outside the group transpose a result."""
        transposes = self._transposes_of(value)
        return {each.permutation for each in transposes if each.y not in self.read}

    def _is_read_as_it_is(self, value: Value) -> bool:
        """Return whether a user outside the group, not a transpose, reads a value."""
        readers = self._outer_readers(value)
        return any(not isinstance(each, Transpose) for each in readers)

    def _is_read_elsewhere(self, value: Value) -> bool:
        """Return whether a value has users outside the group."""
        return bool(self._outer_readers(value))

    # ---- rewriting

    def rewrite(self, order: Order) -> None:
        """Replace the group's ops by ones on values in axis order `order`."""
        build = Builder()
        moved: dict[Value, Value] = {}
        for op in self.ops:
            with before(op):
                for value in op.operands:
                    if value not in moved:
                        moved[value] = build.to_order(*_source_in_order(value, order))
                operands = [moved[value] for value in op.operands]
                moved.update(
                    zip(
                        op.results,
                        type(op).reorder(build, op, operands, order),
                        strict=True,
                    )
                )
        for value, result_order in list(self._results(order)):
            assert result_order is not None
            self._replace_outside(build, value, moved[value], result_order)
        self._erase()

    def _replace_outside(
        self, build: Builder, value: Value, moved: Value, order: Order
    ) -> None:
        """Make users outside the group read `moved`, whose axes are in `order`."""
        for reader in self._transposes_of(value):
            permutation = permute(order, reader.permutation)
            with before(reader):
                found = build.to_order(moved, permutation)
            reader.y.replace_all_uses_with(found)
            self.read.pop(reader.y, None)
            self.read[found] = None  # perhaps for the ops that go, which read it
            reader.operation.erase()
        if self._is_read_elsewhere(value):
            with before(value.owner):
                found = build.to_order(moved, order)
            value.replace_all_uses_with(found)

    def _erase(self) -> None:
        """Erase the group's ops, and transposes that only they read."""
        for op in reversed(self.ops):
            op.operation.erase()
        for value in self.read:
            given = made_by(value, Transpose)
            if given is None or value in self.weights or list(value.uses):
                continue
            given.operation.erase()


def _source_in_order(value: Value, order: Order) -> tuple[Value, Order]:
    """Return a source and the permutation of it that yields `value` moved to
    `order`.
    """
    given = made_by(value, Transpose)
    if given is None:
        return value, inverse(order)
    return given.x, permute(given.permutation, inverse(order))
