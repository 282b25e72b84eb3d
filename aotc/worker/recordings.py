"""Numbers that keep IREE from recording the launches of an entry once.

IREE 3.13 records what an entry launches when a module is loaded, and replays that in
each call, where all numbers in it are constants or immutable globals: not where they
come from a barrier, or from a global that changes. Else each call of a GPU's code waits
until all launches are recorded anew (2 to 3 µs each) before the first one begins.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

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


def hold_hidden_numbers(module: Any) -> bool:
    """Let immutable globals hold the constants behind barriers; whether any do.

    The code of dispatches is to know them no more than before. Unlike a barrier, the
    load of a global ends no submission of work.

    Args:
        module: what IREE has made of a module up to its phase `global-optimization`.
    """
    from iree.compiler import ir

    barriers = [
        op
        for function in _ops_in(module.operation, "util.func")
        for op in _ops_in(function, _BARRIER)
        if len(op.operands) == 1 and _is_constant(op.operands[0])
    ]
    with module.context, ir.Location.unknown():
        first = ir.InsertionPoint.at_block_begin(module.body)  # before all initializers
        for count, op in enumerate(barriers):
            kind = op.operands[0].type
            number = op.operands[0].owner.attributes["value"]
            # one for each: what starts from two of them is not to be merged
            name = f"$hidden.{count}"
            at = {"global": ir.FlatSymbolRefAttr.get(name)}
            with ir.InsertionPoint(op), op.location:
                load = ir.Operation.create("util.global.load", [kind], attributes=at)
            op.results[0].replace_all_uses_with(load.result)
            op.erase()
            text = _HIDDEN.format(name=name, kind=kind, number=number)
            written = ir.Module.parse(text)  # which holds its ops as long as it lives
            for each in written.body.operations:
                each.operation.clone(ip=first)
    return bool(barriers)


def fix_recorded_numbers(module: Any) -> bool:
    """Let launches know the least size of states that come to lie elsewhere.

    A state that each call writes to memory of its own, as a counter, lies in a larger
    block before the first one, and IREE has a global for how large the block is. What
    is launched reads no more of it than the smallest one has. Returns whether there are
    such states.

    Args:
        module: what IREE has made of a module up to its phase `stream`.
    """
    from iree.compiler import ir

    least = _least_sizes(module)
    changed = False
    with module.context:
        for execution in _ops_in(module.operation, "stream.cmd.execute"):
            sizes: dict[Any, Any] = {}
            for value in {*execution.operands}:
                load = _load_of(value)
                if load in least:
                    with ir.InsertionPoint(execution), execution.location:
                        number = ir.IntegerAttr.get(value.type, least[load])
                        sizes[value] = ir.Operation.create(
                            "arith.constant",
                            [value.type],
                            attributes={"value": number},
                        ).result
            if sizes:
                changed = True
                for op in [execution, *_ops_in(execution)]:
                    for number, value in enumerate(op.operands):
                        if value in sizes:
                            op.operands[number] = sizes[value]
    return changed


def _least_sizes(module: Any) -> dict[str, int]:
    """The least that each mutable index global holds, if it only holds constants."""
    mutable = {
        str(op.attributes["sym_name"].value)
        for op in _ops_in(module.operation, "util.global")
        if "is_mutable" in op.attributes
        and "initial_value" not in op.attributes
        and str(op.attributes["type"]) == "index"
    }
    stored: defaultdict[str, list[Any]] = defaultdict(list)
    for op in _ops_in(module.operation, "util.global.store"):
        stored[str(op.attributes["global"].value)].append(op.operands[0])
    return {
        name: min(int(x.owner.attributes["value"].value) for x in values)
        for name, values in stored.items()
        if name in mutable and all(map(_is_constant, values))
    }


def _load_of(value: Any) -> str:
    """The name of the global that a value was loaded from, or nothing."""
    op = value.owner
    if getattr(op, "name", "") != "util.global.load":
        return ""
    return str(op.attributes["global"].value)


def _is_constant(value: Any) -> bool:
    return getattr(value.owner, "name", "") == "arith.constant"


def _ops_in(op: Any, *names: str) -> Iterator[Any]:
    """Yield the ops in the regions of an op, at any depth: all, or of these names."""
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                if not names or inner.operation.name in names:
                    yield inner.operation
                yield from _ops_in(inner.operation, *names)
