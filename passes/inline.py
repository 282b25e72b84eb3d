"""Replace calls by the bodies of the functions they name; drop what is not called.

    %0 = call @loss(%x)      →      %0 = graph.reduce_sum(%x)

What is left are calls of control flow and of derivatives that are not written yet, and
the only private functions are what these need.
"""

from aotc.dialects.callees import callees, calls_in, declaration_of
from aotc.dialects.function_table import erase
from aotc.dialects.functions import callee_of, functions_of, is_root
from aotc.dialects.walking import clone, walk
from aotc.mlir import Function, Module, func, ir
from aotc.passes.base import Pass, Unit
from aotc.passes.properties import CALLS_INLINED


class Inline(Pass):
    """Inline every call in every function."""

    name = "inline"
    level = 0
    keeps_graph = True
    ensures = (CALLS_INLINED,)

    def run(self, unit: Unit) -> bool:
        """Whether anything changed."""
        module = unit.module
        functions = functions_of(module)
        changed = False
        for function in functions.values():
            if not function.is_external:
                changed |= inline_calls(function, functions)
        return drop_uncalled(module) or changed


def inline_calls(function: Function, functions: dict[str, Function]) -> bool:
    """Inline all calls in `function` that can be."""
    changed = False
    while calls := [
        (op, callee)
        for op in calls_in(function)
        if declaration_of(callee := functions[callee_of(op)]) is None
    ]:
        for call, callee in calls:
            inline_call(call, callee)
        changed = True
    return changed


def drop_uncalled(module: Module) -> bool:
    """Erase private functions that no public one, or entry, reaches."""
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


def inline_call(call: func.CallOp, callee: Function) -> None:
    """Put the ops of the called function, which has a body, in the place of a call."""
    with ir.InsertionPoint(call):
        results = walk(callee.entry_block, list(call.operands), clone)
    for old, new in zip(call.results, results, strict=True):
        old.replace_all_uses_with(new)
    call.operation.erase()
