"""Recordings of an entry's launches, replayed in other calls.

IREE 3.13 records what an entry launches when a module is loaded, and replays that in
each call, where all numbers in it are constants or immutable globals: not where they
come from a barrier, from sizes of the call, or from where a state lies, which a call
may change. Else each call of a GPU's code waits until all launches are recorded anew
(2 to 3 µs each) before the first one begins.

The numbers of barriers are therefore made immutable globals. Where others are left, the
module keeps the last recording with the numbers in it, and replays it in the next call
if these are the same.

A replay launches one kernel after the other. IREE 3.13's CUDA driver makes graphs only
of recordings that are not replayed (docs/gpu.md, CUDA graphs).
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from aotc.worker.ops import insert, make, ops_in

if TYPE_CHECKING:
    from iree.compiler import ir

_BARRIER = "util.optimization_barrier"

# Names begin with what none of a user's does.
_HIDDEN = """
util.global private @"{name}" : {kind}
util.initializer {{
  %number = arith.constant {number}
  %hidden = util.optimization_barrier %number : {kind}
  util.global.store %hidden, @"{name}" : {kind}
  util.return
}}
"""

_RECORDING = "!hal.command_buffer"
_EQUAL = 0  # predicate of arith.cmpi
_KEPT = """
util.global private mutable @"{name}" : {kind}
"""
_IS_KEPT = """
util.global private mutable @"{name}" = false
"""


def hold_hidden_numbers(module: ir.Module) -> bool:
    """Replace constants behind barriers by immutable globals; return whether there are
    any.

    The code of dispatches is to know them no more than before. Unlike a barrier, the
    load of a global ends no submission of work.

    Args:
        module: what IREE has made of a module up to its phase `global-optimization`.
    """
    from iree.compiler import ir

    barriers = [
        op
        for function in ops_in(module.operation, "util.func")
        for op in ops_in(function, _BARRIER)
        if len(op.operands) == 1 and _is_constant_number(op.operands[0])
    ]
    with module.context, ir.Location.unknown():
        first = ir.InsertionPoint.at_block_begin(module.body)  # before all initializers
        for count, op in enumerate(barriers):
            kind = op.operands[0].type
            number = op.operands[0].owner.attributes["value"]
            # one for each: what starts from two of them is not to be merged
            name = f"$hidden.{count}"
            with ir.InsertionPoint(op), op.location:
                op.results[0].replace_all_uses_with(_load(name, kind))
            op.erase()
            text = _HIDDEN.format(name=name, kind=kind, number=number)
            insert(text, first)
    return bool(barriers)


def keep_recordings(module: ir.Module) -> bool:
    """Reuse command buffers until a number in them changes; return whether there are
    any.

    Returns whether there are such recordings.

    Args:
        module: what IREE has made of a module up to its phase `hal`, told to record
            with a function whatever numbers there are.
    """
    calls = [
        call
        for function in ops_in(module.operation, "util.func")
        for call in ops_in(function, "util.call")
        if [str(each.type) for each in call.results] == [_RECORDING]
        and len(call.operands)
        and all(_is_number(each.type) for each in call.operands)
    ]
    with module.context:
        for count, call in enumerate(calls):
            _keep_recording(module, call, f"$recording.{count}")
    return bool(calls)


def _keep_recording(module: ir.Module, call: ir.Operation, name: str) -> None:
    """Guard a call that records a command buffer by a comparison with the last numbers.

    Args:
        module: that the call is in.
        call: which returns the recording.
        name: of the global that is to keep it; those of its numbers begin with it.
    """
    from iree.compiler import ir

    first, kind = ir.InsertionPoint.at_block_begin(module.body), call.results[0].type
    numbers = {f"{name}.{n}": each for n, each in enumerate(call.operands)}
    with ir.Location.unknown():
        insert(_IS_KEPT.format(name=f"{name}.is_kept"), first)
        insert(_KEPT.format(name=name, kind=kind), first)
        for each, number in numbers.items():
            insert(_KEPT.format(name=each, kind=number.type), first)
    flag = ir.IntegerType.get_signless(1)
    equal = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), _EQUAL)
    with ir.InsertionPoint(call), call.location:
        same = [_load(f"{name}.is_kept", flag)]
        # One more than each: IREE takes a global that only ever holds what another one
        # held for the other one, whatever that holds meanwhile.
        numbers = {each: _one_more(x) for each, x in numbers.items()}
        same += [
            make("arith.cmpi", flag, _load(each, x.type), x, predicate=equal)
            for each, x in numbers.items()
        ]
        is_kept = reduce(lambda x, y: make("arith.andi", flag, x, y), same)
        choice = ir.Operation.create("scf.if", [kind], [is_kept], regions=2)
    call.results[0].replace_all_uses_with(choice.results[0])
    kept, new = (region.blocks.append() for region in choice.regions)
    with ir.InsertionPoint(kept), call.location:
        ir.Operation.create("scf.yield", operands=[_load(name, kind)])
    with ir.InsertionPoint(new), call.location:
        yes = make("arith.constant", flag, value=ir.IntegerAttr.get(flag, 1))
        end = ir.Operation.create("scf.yield", operands=[call.results[0]])
    call.move_before(end)
    with ir.InsertionPoint(end), call.location:
        for each, x in numbers.items():
            _store(x, each)
        _store(call.results[0], name)
        _store(yes, f"{name}.is_kept")


def _one_more(number: ir.Value) -> ir.Value:
    """Emit the addition of 1 to a number; return the result."""
    from iree.compiler import ir

    one = ir.IntegerAttr.get(number.type, 1)
    return make(
        "arith.addi",
        number.type,
        number,
        make("arith.constant", number.type, value=one),
    )


def _is_number(kind: ir.Type) -> bool:
    """Return whether a type is an integer or index."""
    from iree.compiler import ir

    return isinstance(kind, ir.IntegerType | ir.IndexType)


def _load(name: str, kind: ir.Type) -> ir.Value:
    """Emit the load of a global; return its value."""
    from iree.compiler import ir

    at = {"global": ir.FlatSymbolRefAttr.get(name)}
    return make("util.global.load", kind, **at)


def _store(value: ir.Value, name: str) -> None:
    """Emit the store of a value in a global."""
    from iree.compiler import ir

    at = {"global": ir.FlatSymbolRefAttr.get(name)}
    ir.Operation.create("util.global.store", operands=[value], attributes=at)


def _is_constant_number(value: ir.Value) -> bool:
    """Return whether a value is a scalar constant."""
    from iree.compiler import ir

    is_constant = getattr(value.owner, "name", "") == "arith.constant"
    return is_constant and (
        _is_number(value.type) or isinstance(value.type, ir.FloatType)
    )
