"""Let the derivative of a loop read what its steps have computed.

    %h, %hs, %saved = call @f.scan(%h0, %xs, %w)    each step: tanh(%h @ %w + %x)
    %dh = call @f.back.scan(%d, %saved, %xs, %w)    each step: the same again, and more
    →
    %h, %hs, %saved = call @f.scan(%h0, %xs, %w)
    %dh = call @f.back.scan_1(%d, %saved, %hs)

The steps of a derivative compute those of the loop again, from what these began with.
Products among that are read from memory instead:

- a value that the loop stacks anyway, such as a state after each step,
- a sum of a product and what both loops go through, of which the derivative reads
  nothing else: the sum takes the place of that, and no more memory,
- what the derivative reads of other products, such as the gates of a GRU, where all of
  that is at most four times as large as what it goes through anyway. What is cheap to
  compute of it is computed again.

Ensures: an operand that is read no more is left to `prune`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from aotc.dialects.control import Scan, control_of, invoke
from aotc.dialects.functions.function_table import Functions
from aotc.dialects.functions.functions import before, callee_of
from aotc.dialects.functions.walking import backward_slice, defining_op, has_one_use
from aotc.dialects.graph import GraphOp, has_effect
from aotc.dialects.ops.binary import Add
from aotc.dialects.ops.contraction import DotGeneral
from aotc.mlir import Operation, Value, func
from aotc.passes.base import Pass, Unit
from aotc.passes.scan_calls import (
    ScanCall,
    can_stack,
    change_scans,
    define_returning,
    define_scanning,
)


class ShareSteps(Pass):
    """Let the scan of a derivative read values that the forward scan has computed."""

    name = "share-steps"
    level = 2
    keeps_graph = True

    def run(self, unit: Unit) -> bool:
        """Rewrite the unit's module in place; return whether anything changed."""
        return change_scans(unit, _share)


def _share(op: func.CallOp, functions: Functions) -> bool:
    """Replace recomputed values in the scan `op` by an earlier scan's; return whether
    any.
    """
    again = ScanCall.of(op, functions)
    first = _source_of(again, functions)
    if first is None:
        return False
    pair = _Pair(first, again, _equal_values(first, again))
    moving = list(pair.stacked())
    moving += pair.sums(moving)
    moving += pair.saved(moving)
    if not moving:
        return False
    more = [pair.same[x] for x in moving if pair.stack_of(x) is None]
    if more:
        with before(first.call):
            name = define_returning(first, more)
            longer = replace(first.scan, functions=(name,))
            results = invoke(longer, list(first.call.operands))
        count = len(first.call.results)
        added = dict(zip(more, results[count:], strict=True))
        first.replace(results[:count], results[0].owner)
    else:
        added = {}
    with before(again.call):
        given = []
        for value in moving:
            number = pair.stack_of(value)
            if number is None:
                given.append(added[pair.same[value]])
            else:
                given.append(first.call.results[number])
        name = define_scanning(again, moving)
        operands = list(again.call.operands)
        place = again.scan.first_capture
        operands[place:place] = given
        count = again.scan.scanned + len(given)
        results = invoke(
            replace(again.scan, functions=(name,), scanned=count), operands
        )
    again.replace(results, results[0].owner)
    return True


def _source_of(scan: ScanCall, functions: Functions) -> ScanCall | None:
    """Return the scan of equal length whose stacked results `scan` goes through, or
    None.
    """
    for value in map(scan.whole, scan.scanned):
        op = defining_op(value)
        if not isinstance(op, func.CallOp):
            continue
        control = control_of(functions[callee_of(op)])
        if isinstance(control, Scan) and control.length == scan.scan.length:
            number = list(op.results).index(value)
            if number >= control.carries:
                return ScanCall.of(op, functions)
    return None


def _equal_values(first: ScanCall, again: ScanCall) -> dict[Value, Value]:
    """Map values of the body of the scan `again` to equal values of that of `first`."""
    known: dict[Value, Value] = {}
    stacks = dict(
        zip(
            list(first.call.results)[first.scan.carries :],
            first.returned[first.scan.carries :],
            strict=True,
        )
    )
    both = dict(zip(first.call.operands, first.arguments, strict=True))
    carried = {*first.arguments[: first.scan.carries]}
    scanned = {*first.scanned}
    for value in again.scanned:
        whole = again.whole(value)
        other = stacks.get(whole, both.get(whole))
        if other is not None and (whole in stacks or other in scanned):
            known[value] = other
    for value in again.arguments[again.scan.first_capture :]:
        other = both.get(again.whole(value))
        if other is not None and other not in scanned | carried:
            known[value] = other
    made = {
        _key(op, list(op.operands)): op
        for op in first.body.entry_block.operations
        if _is_pure(op)
    }
    for op in again.body.entry_block.operations:
        if _is_pure(op) and all(x in known for x in op.operands):
            same = made.get(_key(op, [known[x] for x in op.operands]))
            if same is not None:
                known.update(zip(op.results, same.results, strict=True))
    return known


def _is_pure(op: Operation) -> bool:
    """Return whether an op is of the graph dialect, without side effects."""
    return isinstance(op, GraphOp) and not has_effect(op)


def _key(op: Operation, operands: list[Value]) -> tuple[object, ...]:
    """Return a key that is equal for ops that compute the same from `operands`."""
    attributes = sorted((x, str(op.attributes[x])) for x in op.attributes)
    return op.operation.name, tuple(attributes), tuple(operands)


@dataclass(frozen=True)
class _Pair:
    """A forward scan, and a later scan that recomputes some of its values.

    Args:
        first: the loop.
        again: the other one.
        same: values of the first by those of the other.
    """

    first: ScanCall
    again: ScanCall
    same: Mapping[Value, Value]

    def stack_of(self, value: Value) -> int | None:
        """Return the index of the first scan's result that stacks a value; None if none
        does.
        """
        own = self.same[value]
        carries = self.first.scan.carries
        for number, each in enumerate(self.first.returned):
            if number >= carries and each == own:
                return number
        return None

    def stacked(self) -> Iterator[Value]:
        """Yield recomputed values, made by matrix products, that the first scan stacks
        already.
        """
        for op in self.again.body.entry_block.operations:
            for value in op.results:
                if self._is_stacked(value) and _needs_product(value):
                    yield value

    def _is_stacked(self, value: Value) -> bool:
        """Return whether a recomputed value that is needed is stacked by the first
        scan.
        """
        if value not in self.same or self.stack_of(value) is None:
            return False
        return self._is_wanted(value)

    def sums(self, stacked: list[Value]) -> list[Value]:
        """Return recomputed sums of matrix products that may be stacked in place of a
        scanned input.
        """
        needed = {
            *backward_slice(self.again.returned, lambda value: value not in stacked)
        }
        found: list[Value] = []
        for op in self.again.body.entry_block.operations:
            if not isinstance(op, Add) or op.y not in self.same:
                continue
            if op.y not in needed or op.y in stacked or not _needs_product(op.y):
                continue
            read = [x for x in op.operands if x in self.again.scanned]
            if len(read) == 1 and has_one_use(read[0]):
                found.append(op.y)
        return found

    def saved(self, stacked: Sequence[Value]) -> list[Value]:
        """Return values for the first scan to stack, lest products are recomputed.

        They are what the derivative reads of products. There are none if they are large
        beside the scanned inputs.

        Args:
            stacked: values that are stacked already.
        """
        needed = {
            *backward_slice(self.again.returned, lambda value: value not in stacked)
        }
        found: list[Value] = []

        def makes_product(value: Value) -> bool:
            def is_made(value: Value) -> bool:
                return value not in stacked and value not in found

            behind = filter(is_made, backward_slice([value], is_made))
            return any(map(_is_product, behind))

        for op in self.again.body.entry_block.operations:
            for value in op.results:
                is_read = value in needed and value in self.same
                if is_read and self._is_wanted(value) and makes_product(value):
                    found.append(value)
        return found if can_stack(self.again, found) else []

    def _is_wanted(self, value: Value) -> bool:
        """Return whether a user of a value computes what the first scan does not."""
        users = [use.owner for use in value.uses]
        return any(not all(y in self.same for y in user.results) for user in users)


def _needs_product(value: Value) -> bool:
    """Return whether a value of a scan's body depends on a matrix product in it."""
    return any(map(_is_product, backward_slice([value])))


def _is_product(value: Value) -> bool:
    """Return whether a matrix product computes a value."""
    return isinstance(defining_op(value), DotGeneral)
