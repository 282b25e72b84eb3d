"""A region as a function, and a call of it in the place of its ops."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass

from aotc.dialects.builder import Builder
from aotc.dialects.functions.function_table import erase
from aotc.dialects.functions.functions import call, define, find
from aotc.dialects.functions.fusion import Fused, mark_fused
from aotc.dialects.functions.walking import (
    clone,
    copy_value,
    defining_op,
    in_order,
    is_before,
)
from aotc.dialects.ops.effects import Effect
from aotc.dialects.types import Tensor
from aotc.kernels.family import Packing
from aotc.mlir import Block, Operation, Value, ir
from aotc.passes.regions import Region


class Outlining:
    """The functions outlined so far by a pass; equal bodies share one function.

    Nothing else may make, erase or reorder ops with effects meanwhile.
    """

    def __init__(self) -> None:
        self._by_text: dict[str, str] = {}
        self._effects: dict[Block, list[Operation]] = {}

    @property
    def is_empty(self) -> bool:
        """Return whether no function has been outlined."""
        return not self._by_text

    def outline(self, region: Region, fused: Fused) -> None:
        """Outline the ops of a region into a function, and replace them by a call of
        it.

        Args:
            region: the ops.
            fused: how they are computed.
        """
        anchor, place = region.anchor, _place_of_call(region)
        results = region.results()
        late = self.readers_between(anchor, place, region.ops)
        with ir.InsertionPoint(place), anchor.location:
            name, given = define_region(region, fused)
            made = call(self.share_function(name), given)
        replace_by_call(region.ops, results, made, late)
        _erase_unread(region.views)

    def forget(self, names: Container[str]) -> None:
        """Drop functions, erased by the caller, from those that may be shared."""
        known = self._by_text.items()
        self._by_text = {text: name for text, name in known if name not in names}

    def share_function(self, name: str) -> str:
        """Return an earlier outlined function equal to `name`, erasing `name`; else
        `name`.

        A function that is like an earlier one is erased; it has no readers yet.
        """
        function = find(name)
        # by itself: aliases are looked for in the whole module, a hundred times as long
        text = function.operation.get_asm(use_local_scope=True, assume_verified=True)
        text = text.replace(f"@{name}(", "@(", 1)
        if text in self._by_text:
            erase(function)
        return self._by_text.setdefault(text, name)

    def readers_between(
        self, first: Operation, last: Operation, own: Sequence[Operation]
    ) -> list[Operation]:
        """Return ops between `first` and `last` that depend on the ops in `own`, in
        order.

        What has an effect and comes after one of these is among them: effects keep
        their order.

        Args:
            first: of the ops.
            last: of them, in the same block.
            own: all of them.
        """
        computed = {value for op in own for value in op.results}
        found, rest = set[Operation](), [*computed]
        while rest:
            for use in rest.pop().uses:
                op = use.owner.opview
                is_own = any(value in computed for value in op.results)
                if op in found or is_own or not is_before(op, last):
                    continue
                found.add(op)
                rest += op.results
        late = in_order([*found])
        effect = next((op for op in late if isinstance(op, Effect)), None)
        if effect is None:
            return late
        return in_order([*late, *self._effects_between(effect, last)])

    def _effects_between(self, first: Operation, last: Operation) -> list[Operation]:
        """Return the ops with side effects from `first` to `last` of one block."""
        block = first.operation.block
        if block not in self._effects:
            ops = block.operations
            self._effects[block] = [op for op in ops if isinstance(op, Effect)]
        effects = self._effects[block]
        start, end = (
            bisect_left(effects, True, key=lambda op: not is_before(op, each))
            for each in (first, last)
        )
        return effects[start:end]


def _place_of_call(region: Region) -> Operation:
    """Return the op to write the call at: the first that all operands dominate.

    It is the anchor or an op after it. The last one may be far away, as in a
    derivative, with most of a program between them that reads the others.
    """
    made = [value.owner for value in region.operands() if defining_op(value)]
    candidates = [region.anchor, *region.members]
    return next(op for op in candidates if all(is_before(each, op) for each in made))


def _erase_unread(views: Mapping[Value, Value]) -> None:
    """Erase the ops that make views which nothing reads any more."""
    made: dict[Value, None] = {}
    for value, source in views.items():
        while value != source:
            made[value] = None
            value, *_ = value.owner.operands
    for op in reversed(in_order([value.owner for value in made])):
        if not any(True for _ in op.results[0].uses):
            op.operation.erase()


def replace_by_call(
    ops: Sequence[Operation],
    results: Sequence[Value],
    call_results: Sequence[Value],
    late: Sequence[Operation],
) -> None:
    """Erase ops, use a call's results for theirs, and move dependent ops behind it.

    Args:
        ops: in order.
        results: of them, as far as others read them.
        call_results: what the call gives in their place.
        late: what has to come after the call, in order; see
            `Outlining.readers_between`.
    """
    for old, new in zip(results, call_results, strict=True):
        old.replace_all_uses_with(new)
    after = call_results[0].owner
    for op in late:
        op.operation.move_after(after)
        after = op.operation
    for op in reversed(ops):
        op.operation.erase()


@dataclass(frozen=True)
class _BlockOperands:
    """The per-block values (scales, offsets) of a region's dequantised second operand.

    Args:
        region: that reads it.
        packing: how; None where it reads no such.
    """

    region: Region
    packing: Packing | None

    def _rows(self) -> Iterator[tuple[int, Value, Packing]]:
        """Yield operand index, value and packing of each block value."""
        operands = self.region.operands()
        for value in self.region.blocks:
            assert self.packing is not None
            yield operands.index(value), value, self.packing

    def pack(self, operands: list[Value]) -> None:
        """Replace the block values in a call's list of operands by packed ones, in
        place.
        """
        for place, value, packing in self._rows():
            operands[place] = packing.pack(Builder(), self.region.anchor, value)

    def unpacked(self, arguments: Sequence[Value]) -> dict[Value, Value]:
        """Emit the unpacking of block values inside the region; return them by original
        value.
        """
        b, anchor = Builder(), self.region.anchor
        return {
            value: packing.unpack(b, anchor, arguments[place], Tensor.of(value))
            for place, value, packing in self._rows()
        }


def define_region(region: Region, fused: Fused) -> tuple[str, list[Value]]:
    """Define a region's function, with packed operands; return its name and call
    operands.

    Args:
        region: its ops.
        fused: how it is computed.
    """
    anchor, operands, results = region.anchor, region.operands(), region.results()
    given = [*operands]
    packing = region.family.packing_of(fused)
    # the weight is the anchor's second operand; it is the first argument where the
    # region computes the first operand itself
    packed = int(anchor.operands[0] not in region.values)
    second = region.second
    if packing is not None and second is not None:
        given[packed] = packing.pack(Builder(), anchor, second)
    blocks = _BlockOperands(region, None if packing is None else packing.blocks)
    blocks.pack(given)

    def body(arguments: list[Value]) -> list[Value]:
        # what is there twice is the anchor's: the first is as it is, the second packed
        pairs = zip(reversed(operands), reversed(arguments), strict=True)
        values, unpacked = dict(pairs), None
        if packing is not None and second is not None:
            kind = Tensor.of(second)
            unpacked = packing.unpack(Builder(), anchor, arguments[packed], kind)
        if unpacked and second and anchor.operands[1] in region.values:
            values[second] = unpacked
            values.update(blocks.unpacked(arguments))
        for op in region.ops:
            taken = [copy_value(value, values) for value in op.operands]
            if unpacked is not None and op is anchor and op.operands[1] == second:
                taken = [taken[0], unpacked]
            copied = clone(op, taken)
            values.update(zip(op.results, copied, strict=True))
        return [values[each] for each in results]

    name = define(fused.kernel, [Tensor.of(value) for value in given], body)
    mark_fused(find(name), fused)
    return name, given
