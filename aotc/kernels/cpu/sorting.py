"""Order along the last axis by a heap, which holds the first positions so far.

One workgroup has a row. Its heap (Williams, "Algorithm 232: Heapsort", Communications
of the ACM 7 (1964) 347) lies where the result does, the last of the positions in it at
the top. Every other position takes the place of the top if it comes before that. Then
the top goes to the end and the heap becomes shorter, until it is in order. Of a few
positions that are wanted, most elements are compared with the top alone, and a whole
row takes no memory beside the result.

Elements are compared by keys without sign (Note [sorting] of `dialects.lowering`), and
equal ones by their positions, so that the order is stable.
"""

from __future__ import annotations

from typing import NamedTuple

from aotc.dialects.lowering.scalars import constant, int_compare
from aotc.dialects.lowering.sorting import key
from aotc.dialects.ops.ordering import Argsort
from aotc.dialects.types import Tensor
from aotc.kernels.cpu import loops, vectors
from aotc.kernels.cpu.arguments import KernelArguments
from aotc.kernels.cpu.vectors import Values, add, index, narrow, scale
from aotc.kernels.schedule import Schedule
from aotc.mlir import Function, Value, arith, ir, scf

_SIDE_BY_SIDE = 8  # elements that are compared with the top at once


def write(
    function: Function, anchor: Argsort, schedule: Schedule, arguments: KernelArguments
) -> None:
    """Emit the body of an argsort's kernel, for one row."""
    source, result = arguments.memories
    _Heap(anchor, arguments, source, result).write(arguments.workgroup[0])


class _Item(NamedTuple):
    """An element's sort key, with its position in the row."""

    key: Value
    position: Value


class _Heap:
    """An emitter of one row's argsort by a heap of positions in the result.

    Args:
        op: what is computed.
        given: the sizes.
        source: memory of the elements.
        result: memory of the positions.
    """

    def __init__(
        self, op: Argsort, given: KernelArguments, source: Value, result: Value
    ) -> None:
        self._op, self._source, self._result = op, source, result
        kind = Tensor.of(op.x)
        self._dtype, self._size = kind.dtype, kind.shape[-1]
        (self._count,) = op.count
        self._given = given

    def write(self, row: Value) -> None:
        """Emit the row's argsort: build the heap, scan the rest, sort the heap.

        Args:
            row: its number.
        """
        count, half = self._count, self._count // 2
        self._row = self._given.scale(row, self._size)
        self._heap = self._given.scale(row, count)
        end, last_parent = self._given.size(count), self._given.size(half - 1)
        loops.repeat_for(0, end, 1, lambda n: self._put(n, narrow(n)))

        def order_below(step: Value) -> None:
            top = arith.subi(last_parent, step)
            self._sift(self._item_at(top), top, end)

        loops.repeat_for(0, self._given.size(half), 1, order_below)
        if self._size != count:
            self._take_others(end)

        def move_top(step: Value) -> None:
            place = arith.subi(add(end, -1), step)
            last = self._item_at(place)
            self._put(place, self._position_at(index(0)))
            self._sift(last, index(0), place)

        loops.repeat_for(0, add(end, -1), 1, move_top)

    def _take_others(self, first: Value) -> None:
        """Emit the scan of the row's rest: items that precede the top replace it."""
        size = self._given.size(self._size)
        rest = arith.subi(size, first)
        some = arith.subi(rest, arith.remui(rest, index(_SIDE_BY_SIDE)))
        whole = add(first, some)
        key_of_top = self._item_at(index(0)).key

        def take_some(number: Value, carried: Values) -> Values:
            (top,) = carried
            items = [self._item(narrow(add(number, n))) for n in range(_SIDE_BY_SIDE)]
            # positions that are equal to the top come after it
            before = [int_compare("ult", item.key, top) for item in items]
            while len(before) > 1:
                pairs = zip(before[::2], before[1::2], strict=True)
                before = [arith.ori(x, y) for x, y in pairs]

            def take_one_by_one() -> Values:
                end = add(number, _SIDE_BY_SIDE)
                return loops.loop(number, end, 1, [top], take)

            return loops.choose(before[0], [top.type], take_one_by_one, lambda: [top])

        def take(number: Value, carried: Values) -> Values:
            (top,) = carried
            item = self._item(narrow(number))
            is_before = int_compare("ult", item.key, top)

            def put() -> Values:
                self._sift(item, index(0), first)
                return [self._item_at(index(0)).key]

            return loops.choose(is_before, [top.type], put, lambda: [top])

        found = loops.loop(first, whole, _SIDE_BY_SIDE, [key_of_top], take_some)
        loops.loop(whole, size, 1, found, take)

    def _sift(self, item: _Item, place: Value, end: Value) -> None:
        """Emit the sifting of an item down the heap from a free place.

        Args:
            item: to be put there.
            place: that is free.
            end: the size of the heap.
        """
        kinds = [place.type] * 2
        loop = scf.WhileOp(kinds, [place, place])
        places = [ir.Location.current] * len(kinds)
        before = loop.before.blocks.append(*kinds, arg_locs=places)
        with ir.InsertionPoint(before):
            free, next_one = before.arguments
            has_child = int_compare("ult", add(scale(next_one, 2), 1), end)
            scf.ConditionOp(has_child, [free, next_one])
        after = loop.after.blocks.append(*kinds, arg_locs=places)
        with ir.InsertionPoint(after):
            free = after.arguments[1]
            child, later = self._later_child(free, end)
            goes_on = _precedes(item, later)
            moved = arith.select(goes_on, later.position, item.position)
            self._put(free, moved)
            # of a heap that ends there, the end has no child
            scf.YieldOp([arith.select(goes_on, child, x) for x in (free, end)])
        self._put(loop.results[0], item.position)

    def _later_child(self, place: Value, end: Value) -> tuple[Value, _Item]:
        """Emit the place and item of that child which comes later in the order."""
        first = add(scale(place, 2), 1)
        second = arith.minui(add(first, 1), add(end, -1))
        one, other = self._item_at(first), self._item_at(second)
        is_second = _precedes(one, other)
        pairs = zip((first, *one), (second, *other), strict=True)
        at, *found = (arith.select(is_second, y, x) for x, y in pairs)
        return at, _Item(*found)

    def _item_at(self, place: Value) -> _Item:
        """Emit the load of the item at a place of the heap."""
        return self._item(self._position_at(place))

    def _item(self, position: Value) -> _Item:
        """Emit the sort key of the element at a position of the row, as an item."""
        wide = arith.index_cast(ir.IndexType.get(), position)
        element = vectors.load_element_as_is(self._source, arith.addi(self._row, wide))
        found = key(element, self._dtype)
        if self._op.descending:
            found = arith.xori(found, constant(found.type, -1))
        return _Item(found, position)

    def _position_at(self, place: Value) -> Value:
        """Emit the load of the position at a place of the heap."""
        return vectors.load_element_as_is(self._result, arith.addi(self._heap, place))

    def _put(self, place: Value, position: Value) -> None:
        """Emit the store of a position to a place of the heap."""
        at = arith.addi(self._heap, place)
        ir.Operation.create("memref.store", operands=[position, self._result, at])


def _precedes(one: _Item, other: _Item) -> Value:
    """Emit whether an item comes before another one in the order."""
    if one.key.type.width == 32:  # one comparison of both parts
        return int_compare("ult", _word(one), _word(other))
    is_less = int_compare("ult", one.key, other.key)
    is_equal = int_compare("eq", one.key, other.key)
    is_before = int_compare("ult", one.position, other.position)
    return arith.ori(is_less, arith.andi(is_equal, is_before))


def _word(item: _Item) -> Value:
    """Emit an item as one i64, the key above the position."""
    kind = ir.IntegerType.get_signless(64)
    high, low = (arith.extui(kind, each) for each in item)
    return arith.ori(arith.shli(high, constant(kind, 32)), low)
