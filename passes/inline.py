"""Replace calls by the bodies of the functions they name; drop uncalled functions.

    %0 = call @loss(%x)      →      %0 = graph.reduce_sum(%x)

What is left are calls of control flow and of derivatives that are not written yet, and
the only private functions are what these need.
"""

from collections.abc import Callable, Sequence

from aotc.dialects.calls.callees import callees, calls_in, declaration_of
from aotc.dialects.functions.function_table import erase
from aotc.dialects.functions.functions import callee_of, functions_of, is_root
from aotc.dialects.functions.walking import clone_op, walk
from aotc.mlir import Function, Module, Operation, Value, func, ir
from aotc.passes.base import Pass, Unit
from aotc.passes.properties import CALLS_INLINED


class Inline(Pass):
    """Inline every call that is no control flow or derivative; drop unreachable
    functions.
    """

    name = "inline"
    level = 0
    keeps_graph = True
    ensures = (CALLS_INLINED,)

    def run(self, unit: Unit) -> bool:
        """Rewrite the unit's module in place; return whether anything changed."""
        functions = functions_of(unit.module)

        def chosen(call: func.CallOp) -> Function | None:
            callee = functions[callee_of(call)]
            return callee if declaration_of(callee) is None else None

        changed = False
        rest = [name for name, function in functions.items() if is_root(function)]
        kept = {*rest}  # none of the others is worth the work
        while rest:
            function = functions[rest.pop()]
            if not function.is_external:
                changed |= inline_calls(function, chosen)
            for name in callees(function):
                if name not in kept:
                    kept.add(name)
                    rest.append(name)
        return drop_uncalled(unit.module) or changed


def inline_calls(
    function: Function, chosen: Callable[[func.CallOp], Function | None]
) -> bool:
    """Inline the calls in `function` that `chosen` resolves, repeatedly; return whether
    any were.

    Args:
        function: with a body.
        chosen: gives the function of a call that is to be inlined, None for others.
    """
    rest, changed = calls_in(function), False
    while rest:
        call = rest.pop()
        callee = chosen(call)
        if callee is not None:
            rest += inline_call(call, callee)
            changed = True
    return changed


def drop_uncalled(module: Module) -> bool:
    """Erase private functions unreachable from public ones and entries; return whether
    any were.
    """
    functions = functions_of(module)
    reached: set[str] = set()
    rest = [name for name, function in functions.items() if is_root(function)]
    while rest:
        name = rest.pop()
        if name not in reached:
            reached.add(name)
            rest += callees(functions[name])
    unused = [name for name in functions if name not in reached]
    for name in unused:
        erase(functions[name])
    return bool(unused)


def inline_call(call: func.CallOp, callee: Function) -> list[func.CallOp]:
    """Replace a call by a copy of the callee's ops; return the calls among the copies.

    Returns:
        The calls among these ops.
    """
    calls = []

    def copy(op: Operation, operands: Sequence[Value]) -> Sequence[Value]:
        made = clone_op(op, operands)
        if isinstance(op, func.CallOp):
            calls.append(made.opview)
        return list(made.results)

    with ir.InsertionPoint(call):
        results = walk(callee.entry_block, list(call.operands), copy)
    for old, new in zip(call.results, results, strict=True):
        old.replace_all_uses_with(new)
    call.operation.erase()
    return calls
