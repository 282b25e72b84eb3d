"""Compute the invariants of a loop once, before it.

    %h = call @f.scan(%h0, %xs, %w)         (its body multiplies with transpose(%w))
    →
    %t = graph.transpose(%w)
    %h = call @f.scan_1(%h0, %xs, %w, %t)

What depends on nothing but captures moves, if it is no larger than twice what it is
made of: a loop that reads a value from memory is no faster than one that repeats a
number. Loops that never run compute it, too: nothing moves that could end a program.
What is dequantised stays where a kernel may read what it is made of.

Ensures: a capture that is read no more is left to `prune`.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import replace

from aotc.core import dtypes
from aotc.dialects.control import Scan, While, control_of, invoke
from aotc.dialects.functions.function_table import Functions, index_functions
from aotc.dialects.functions.functions import (
    before,
    callee_of,
    define,
    find,
    is_private,
    signature,
)
from aotc.dialects.functions.fusion import is_region
from aotc.dialects.functions.walking import backward_slice, clone, copy_value, walk
from aotc.dialects.graph import GraphOp, has_effect
from aotc.dialects.ops.binary import Add, Subtract
from aotc.dialects.ops.bits import Bitcast, Bitwise
from aotc.dialects.ops.creation import Constant
from aotc.dialects.ops.selection import Clamp
from aotc.dialects.ops.shape import Broadcast, Reshape
from aotc.dialects.types import Tensor, element_count, same_count
from aotc.mlir import Function, Operation, Value, func, ir
from aotc.passes.base import Pass, Unit

_FREE = (Broadcast, Constant, Reshape)  # which a loop has for nothing
_HARMLESS = (Add, Bitcast, Bitwise, Clamp, Subtract)  # of integers, too
_GROWTH = 2


class HoistInvariants(Pass):
    """Hoist loop-invariant values out of the loops of every entry, innermost first."""

    name = "hoist-invariants"
    level = 2
    keeps_graph = True

    def run(self, unit: Unit) -> bool:
        """Rewrite the unit's module in place; return whether anything changed."""
        with index_functions(unit.module) as functions:
            entries = [each for each in functions.values() if not is_private(each)]
            return any([_hoist_all(each, functions) for each in entries])


def _hoist_all(function: Function, functions: Functions) -> bool:
    """Hoist invariants of all loops in a function, nested ones first; return whether
    any did.
    """
    changed = False
    if function.is_external:
        return False
    for op in list(function.entry_block.operations):
        control = _loop_of(op, functions)
        if isinstance(op, func.CallOp) and control is not None:
            bodies = [functions[name] for name in control.functions]
            changed |= any([_hoist_all(body, functions) for body in bodies])
            changed |= _hoist(op, control, functions)
    return changed


def _loop_of(op: Operation, functions: Functions) -> Scan | While | None:
    """Return the scan or while that a call's callee declares; None for other ops."""
    if not isinstance(op, func.CallOp):
        return None
    control = control_of(functions[callee_of(op)])
    return control if isinstance(control, Scan | While) else None


def _hoist(op: func.CallOp, control: Scan | While, functions: Functions) -> bool:
    """Compute a loop's invariants before it and pass them as captures; return whether
    any did.
    """
    bodies = [functions[name] for name in control.functions]
    found = [
        list(_invariants(each, control.first_capture, functions)) for each in bodies
    ]
    moving = [value for each in found for value in each]
    if not moving:
        return False
    with before(op):
        values: dict[Value, Value] = {}
        for body in bodies:
            arguments = body.entry_block.arguments
            captured = range(control.first_capture, len(arguments))
            values |= {arguments[n]: op.operands[n] for n in captured}
        given = [copy_value(value, values) for value in moving]
        names = tuple(_define_with_hoisted(name, moving) for name in control.functions)
        loop = replace(control, functions=names)
        results = invoke(loop, [*op.operands, *given])
    for old, new in zip(op.results, results, strict=True):
        old.replace_all_uses_with(new)
    op.operation.erase()
    return True


def _invariants(
    body: Function, first_capture: int, functions: Functions
) -> Iterator[Value]:
    """Yield the loop-invariant values of a body that are worth hoisting."""
    captures = list(body.entry_block.arguments)[first_capture:]
    sources: dict[Value, set[Value]] = {value: {value} for value in captures}
    for op in body.entry_block.operations:
        if _can_move(op, functions) and all(value in sources for value in op.operands):
            read = set().union(*(sources[value] for value in op.operands))
            sources |= dict.fromkeys(op.results, read)
    for value, read in sources.items():
        if read and value not in captures and not _is_free(value):
            readers = (use.owner for use in value.uses)
            is_end = any(not _gives(each, sources) for each in readers)
            if is_end and not _grows(value, read):
                yield value


def _gives(op: Operation, values: Container[Value]) -> bool:
    """Return whether an op has results, all of which are in `values`."""
    return bool(list(op.results)) and all(value in values for value in op.results)


def _can_move(op: Operation, functions: Functions) -> bool:
    """Return whether an op is safe to execute even if the loop never runs."""
    if isinstance(op, func.CallOp):
        return is_region(functions[callee_of(op)])
    if not isinstance(op, GraphOp) or has_effect(op) or type(op).expands:
        return False
    if type(op).rearranges or isinstance(op, (Constant, *_HARMLESS)):
        return True
    return all(Tensor.of(value).dtype in dtypes.FLOATS for value in op.results)


def _is_free(value: Value) -> bool:
    """Return whether a value is only constants, broadcasts and reshapes of captures."""
    return all(
        isinstance(each.owner, ir.Block) or isinstance(each.owner.opview, _FREE)
        for each in backward_slice([value])
    )


def _grows(value: Value, sources: set[Value]) -> bool:
    """Return whether a value may have over `_GROWTH` times as many elements as its
    sources.
    """
    kinds = [Tensor.of(each) for each in sources]
    kind = Tensor.of(value)
    if any(same_count(kind.shape, each.shape) for each in kinds):
        return False
    made, *read = (element_count(each.shape) for each in (kind, *kinds))
    known = [count for count in read if isinstance(count, int)]
    return not isinstance(made, int) or made > _GROWTH * sum(known)


def _define_with_hoisted(name: str, moving: Sequence[Value]) -> str:
    """Define a copy of a loop body that takes the hoisted values as arguments; return
    its name.
    """
    function = find(name)
    kinds, _ = signature(function)
    more = [Tensor.of(value) for value in moving]

    def body(arguments: list[Value]) -> list[Value]:
        given = dict(zip(moving, arguments[len(kinds) :], strict=True))

        def visit(op: Operation, operands: list[Value]) -> list[Value]:
            copies = clone(op, operands)
            pairs = zip(op.results, copies, strict=True)
            return [given.get(value, copied) for value, copied in pairs]

        return walk(function.entry_block, arguments[: len(kinds)], visit)

    return define(name, [*kinds, *more], body)
