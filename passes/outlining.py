"""A region as a function, and a call of it in the place of its ops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aotc.dialects.builder import Builder
from aotc.dialects.function_table import erase
from aotc.dialects.functions import call, define, find
from aotc.dialects.fusion import Fused, mark_fused
from aotc.dialects.ops.effects import Effect
from aotc.dialects.types import Tensor
from aotc.dialects.walking import clone, copy_value, in_order
from aotc.mlir import Operation, Value, ir
from aotc.passes.regions import Region


def outline(region: Region, fused: Fused, known: dict[str, str]) -> None:
    """Put a call of a region in the place of its ops.

    Args:
        region: the ops.
        fused: how they are computed.
        known: the functions so far, by their text.
    """
    anchor = region.anchor
    results = region.results()
    late = readers_between(anchor, region.last, region.ops)
    with ir.InsertionPoint(region.last), anchor.location:
        name, given = define_region(region, fused)
        made = call(share_function(name, known), given)
    replace_by_call(region.ops, results, made, late)
    _erase_unread(region.views)


def _erase_unread(views: Mapping[Value, Value]) -> None:
    """Erase the ops that views are made by, where nothing reads them any more."""
    made: dict[Value, None] = {}
    for value, source in views.items():
        while value != source:
            made[value] = None
            (value,) = value.owner.operands
    for op in reversed(in_order([value.owner for value in made])):
        if not any(True for _ in op.results[0].uses):
            op.operation.erase()


def replace_by_call(
    ops: Sequence[Operation],
    results: Sequence[Value],
    made: Sequence[Value],
    late: Sequence[Operation],
) -> None:
    """Erase ops whose results a call gives.

    Args:
        ops: in order.
        results: of them, as far as others read them.
        made: what the call gives in their place, where the last of them is.
        late: what has to come after the call, in order; see `readers_between`.
    """
    for old, new in zip(results, made, strict=True):
        old.replace_all_uses_with(new)
    after = made[0].owner
    for op in late:
        op.operation.move_after(after)
        after = op.operation
    for op in reversed(ops):
        op.operation.erase()


def readers_between(
    first: Operation, last: Operation, own: Sequence[Operation]
) -> list[Operation]:
    """What others compute from results of some ops between two of these, in order.

    What has an effect and comes after one of these is among them: effects keep their
    order.

    Args:
        first: of the ops.
        last: of them, in the same block.
        own: all of them.
    """
    computed = {value for op in own for value in op.results}
    found: list[Operation] = []
    known, after_effect = {*computed}, False
    for op in _ops_between(first, last):
        if any(value in computed for value in op.results):
            continue
        is_effect = isinstance(op, Effect)
        if any(x in known for x in op.operands) or (is_effect and after_effect):
            found.append(op)
            known.update(op.results)
            after_effect = after_effect or is_effect
    return found


def _ops_between(first: Operation, last: Operation) -> list[Operation]:
    """The ops of a block after one and before another."""
    if first == last:
        return []
    ops: list[Operation] = list(first.operation.block.operations)
    places = [ops.index(each) for each in (first, last)]
    return ops[places[0] + 1 : places[1]]


def define_region(region: Region, fused: Fused) -> tuple[str, list[Value]]:
    """The function of a region, and what to call it with at the insertion point.

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

    def body(arguments: list[Value]) -> list[Value]:
        # what is there twice is the anchor's: the first is as it is, the second packed
        pairs = zip(reversed(operands), reversed(arguments), strict=True)
        values, unpacked = dict(pairs), None
        if packing is not None and second is not None:
            kind = Tensor.of(second)
            unpacked = packing.unpack(Builder(), anchor, arguments[packed], kind)
        if unpacked and second and anchor.operands[1] in region.values:
            values[second] = unpacked
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


def share_function(name: str, known: dict[str, str]) -> str:
    """A function like the one called `name`, which goes if there is an earlier one.

    Args:
        name: of a function without readers.
        known: the functions so far, by their text.
    """
    function = find(name)
    # by itself: aliases are looked for in the whole module, a hundred times as long
    text = function.operation.get_asm(use_local_scope=True)
    text = text.replace(f"@{name}(", "@(", 1)
    if text in known:
        erase(function)
    return known.setdefault(text, name)
