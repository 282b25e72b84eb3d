"""Runs: neighbouring ops of a step of a loop that one region computes.

    %a = tanh(multiply(%x, %w))          a run: it stores %a, which several ops read
    %s = reduce_sum(%a)                  another one: it reads %a from memory, and
    %b = subtract(1, multiply(%a, %a))   stores %s and %b

A region computes an expression for each op that combines its elements, and once more
for its results. So an op that combines what is stored begins another run, and reads it
from memory: a costly function is computed once.

Views, numbers and conditions are not stored: a run that reads some of another run
computes them itself.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

import numpy as np

from aotc.dialects.builder import Builder
from aotc.dialects.functions.walking import (
    backward_slice,
    clone,
    defining_op,
    in_order,
)
from aotc.dialects.graph import GraphOp, has_view
from aotc.dialects.ops.contraction import (
    DotGeneral,
    has_single_terms,
    product_of_repeated,
)
from aotc.dialects.ops.creation import Constant
from aotc.dialects.ops.shape import Broadcast
from aotc.dialects.ops.slicing import Slice
from aotc.dialects.patterns.values import number_in
from aotc.dialects.types import Tensor, same_count
from aotc.mlir import Operation, Value, func


def split_into_runs(ops: Sequence[Operation]) -> list[list[Operation]]:
    """Split a step's ops into runs: lists of neighbours that one region is to compute.

    Calls are by themselves, and so are ops that keep elements where they are, of what
    lies in memory.
    """
    runs: list[list[Operation]] = []
    is_open = False
    for op in ops:
        alone = isinstance(op, func.CallOp) or (keeps_order(op) and _is_of_memory(op))
        if alone or not is_open:
            runs.append([op])
        else:
            run = runs.pop()
            first = _first_after_stored(op, run)
            runs += [run[:first], [*run[first:], op]] if first else [[*run, op]]
        is_open = not alone
    return runs


def _is_of_memory(op: Operation) -> bool:
    """Return whether an op reads what lies in memory: an argument, a call's result, a
    view.
    """
    made_by = defining_op(op.operands[0])
    return not isinstance(made_by, GraphOp) or keeps_order(made_by)


def _first_after_stored(op: Operation, run: Sequence[Operation]) -> int:
    """Return how many leading ops of a run to cut off, as `op` reads stored results of
    them.

    If that combines elements, those are all up to the last one that computes what is
    stored and goes into it, not as sums.
    """
    if not _combines(op):
        return 0
    places = {value: n for n, each in enumerate(run) for value in each.results}

    def is_computed(value: Value) -> bool:
        return value in places and not _combines(value.owner.opview)

    return max(
        (
            places[value] + 1
            for value in backward_slice(op.operands, is_computed)
            if is_computed(value) and _is_worth_storing(value) and _is_read_often(value)
        ),
        default=0,
    )


def _combines(op: Operation) -> bool:
    """Return whether an op has loops of its own, and is not elementwise."""
    if isinstance(op, DotGeneral) and has_single_terms(op):
        return False
    return isinstance(op, GraphOp) and bool(type(op).nests(op))


# ---- what is stored -----------------------------------------------------------------


def stored_values(run: Sequence[Operation], returned: Container[Value]) -> list[Value]:
    """Return the values that a run stores, in order.

    That is what others read, and numbers that several ops read, or one as often as it
    repeats them.

    Args:
        run: of a step.
        returned: what the step returns.
    """
    own = _results(run)

    def is_stored(value: Value) -> bool:
        if value in returned:
            return True
        if _is_made_again(value.owner.opview):
            users = [use.owner.opview for use in value.uses]
            return any(isinstance(user, func.CallOp) for user in users)
        if any(own.isdisjoint(reader.results) for reader in _readers(value)):
            return True
        return _is_worth_storing(value) and _is_read_often(value)

    return [value for op in run for value in op.results if is_stored(value)]


def _readers(value: Value) -> Iterator[Operation]:
    """Yield the ops that read a value, or what readers recompute from it."""
    for use in value.uses:
        user = use.owner.opview
        yield user
        if _is_made_again(user):
            yield from _readers(user.results[0])


def _is_read_often(value: Value) -> bool:
    """Return whether several ops read a value, or one that repeats its elements."""
    users = [use.owner.opview for use in value.uses]
    return len(users) > 1 or any(map(_repeats, users))


def _repeats(op: Operation) -> bool:
    """Return whether an op reads elements of its operands more than once."""
    if isinstance(op, DotGeneral) and not _combines(op):
        return True
    return isinstance(op, Broadcast) and not same_count(
        Tensor.of(op.results[0]).shape, Tensor.of(op.operands[0]).shape
    )


def _is_worth_storing(value: Value) -> bool:
    """Return whether a value is the result of arithmetic: no constant, view, copy or
    bool.
    """
    op = value.owner.opview
    if not isinstance(op, GraphOp) or not op.operands or has_view(op):
        return False
    return not type(op).rearranges and Tensor.of(value).dtype != "bool"


# ---- what is made again -------------------------------------------------------------


def ops_made_again(
    run: Sequence[Operation], known: Container[Value]
) -> list[Operation]:
    """Return the ops of other runs that a run recomputes, as `known` lacks their
    results.

    Args:
        run: of a step.
        known: the values that are in memory.
    """
    own = _results(run)

    def is_missing(value: Value) -> bool:
        return value not in known and value not in own

    reads = [x for op in run for x in op.operands if is_missing(x)]
    behind = backward_slice(reads, is_missing)
    return in_order([x.owner.opview for x in behind if is_missing(x)])


def _is_made_again(op: Operation) -> bool:
    """Return whether every run that reads an op's result recomputes it: it is not
    stored.

    A reshape may be of no view of what another view is of: it reads that from memory.
    """
    if not isinstance(op, GraphOp) or len(op.results) != 1:
        return False
    if isinstance(op, Constant):
        return not is_table(op)
    if Tensor.of(op.results[0]).dtype == "bool":
        return bool(type(op).on_scalars)
    is_view = isinstance(op, Broadcast) or (
        isinstance(op, Slice) and all(stride == 1 for stride in op.strides)
    )
    return is_view and not any(map(keeps_order, _readers_through_views(op)))


def _readers_through_views(op: GraphOp) -> Iterator[Operation]:
    """Yield the ops that read the result of an op, or a view of it."""
    for use in op.results[0].uses:
        user = use.owner.opview
        yield user
        if isinstance(user, GraphOp) and has_view(user):
            yield from _readers_through_views(user)


# ---- ops ----------------------------------------------------------------------------


def written(op: Operation, operands: Sequence[Value]) -> list[Value]:
    """Copy an op of a run to the insertion point; return its results.

    A product of one term each is written as a multiplication, which is no loop of its
    own.
    """
    if isinstance(op, DotGeneral) and not _combines(op):
        return [product_of_repeated(Builder(), op, operands)]
    return clone(op, operands)


def keeps_order(op: Operation) -> bool:
    """Return whether an op gives the elements of its operand in their order."""
    return isinstance(op, GraphOp) and bool(type(op).keeps_order)


def is_table(op: Operation) -> bool:
    """Return whether an op without operands gives a tensor of different numbers."""
    if not isinstance(op, GraphOp) or op.operands or len(op.results) != 1:
        return False
    if not isinstance(op, Constant):
        return True
    return number_in(np.asarray(op.value)) is None


def _results(run: Sequence[Operation]) -> set[Value]:
    return {value for op in run for value in op.results}
