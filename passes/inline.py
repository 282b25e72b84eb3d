"""Replace calls by the bodies of the functions they name; drop what is not called.

    %0 = call @loss(%x)      →      %0 = graph.reduce_sum(%x)

Requires: derivatives are defined (autodiff). Ensures: no call and no private function.
"""

from collections.abc import Sequence
from typing import Any

from aotc.dialects.transform import vjp_of
from aotc.errors import CompileError
from aotc.mlir import func, ir, source_of


def run(module: Any) -> bool:
    """Inline every call of every public function."""
    functions = functions_of(module)
    changed = False
    for function in functions.values():
        if is_private(function):
            continue
        changed |= inline_calls(function, functions)
    for function in list(functions.values()):
        if is_private(function):
            function.operation.erase()
            changed = True
    return changed


def functions_of(module: Any) -> dict[str, Any]:
    """The functions of a module by name."""
    return {
        str(ir.StringAttr(op.attributes["sym_name"]).value): op
        for op in module.body.operations
        if isinstance(op, func.FuncOp)
    }


def is_private(function: Any) -> bool:
    """Whether a function is only there for others to call."""
    attributes = function.attributes
    if "sym_visibility" not in attributes:
        return False
    return str(ir.StringAttr(attributes["sym_visibility"]).value) == "private"


def inline_calls(function: Any, functions: dict[str, Any]) -> bool:
    """Inline all calls in `function`, and those in what was inlined."""
    changed = False
    while calls := [
        op for op in function.entry_block.operations if isinstance(op, func.CallOp)
    ]:
        for call in calls:
            _inline(call, functions)
        changed = True
    return changed


def _inline(call: Any, functions: dict[str, Any]) -> None:
    callee = functions[ir.FlatSymbolRefAttr(call.callee).value]
    if vjp_of(callee) is not None:
        raise CompileError(
            "undefined-derivative",
            f"the body of '{call.callee}' has not been written yet",
            where=source_of(call.location),
            hint="run the pass 'autodiff' first",
        )
    with ir.InsertionPoint(call):
        results = clone_body(callee.entry_block, list(call.operands))
    for old, new in zip(call.results, results, strict=True):
        old.replace_all_uses_with(new)
    call.operation.erase()


def clone_body(block: Any, arguments: Sequence[Any]) -> list[Any]:
    """Copy the ops of a function's block to the insertion point.

    Args:
        block: ends in a return.
        arguments: values that take the place of the block's arguments.

    Returns:
        What takes the place of the returned values.
    """
    mapping = dict(zip(block.arguments, arguments, strict=True))
    for op in block.operations:
        operands = [mapping[value] for value in op.operands]
        if isinstance(op, func.ReturnOp):
            return operands
        clone = op.operation.clone()
        for number, value in enumerate(operands):
            clone.operands[number] = value
        mapping.update(zip(op.results, clone.results, strict=True))
    raise AssertionError("a function ends in a return")
