"""What gives an op its rules: its class, or the function that a call names."""

from typing import Any, TypeGuard

from aotc.dialects import functions
from aotc.dialects.control import control_of
from aotc.dialects.custom import rules_of
from aotc.dialects.graph import Reason, where_of
from aotc.errors import CompileError
from aotc.mlir import Operation, func


def rule_of(op: Operation, name: str) -> Any:
    """The rule `name` of an op or call.

    Raises:
        CompileError: it has none, for the reason that the message gives.
    """
    rule = getattr(_owner(op), name)
    if isinstance(rule, Reason):
        raise CompileError(
            rule.kind,
            f"{title(op)} cannot be {_DONE[name]}: {rule.text}",
            where=where_of(op),
            hint=rule.hint,
        )
    return rule


_DONE = {"jvp": "differentiated", "vjp": "differentiated", "batch": "batched"}


def is_call(op: Operation) -> TypeGuard[func.CallOp]:
    """Whether an op is a call of control flow or of a function with its own rules."""
    return isinstance(op, func.CallOp)


def _owner(op: Operation) -> Any:
    if not is_call(op):
        return type(op)
    callee = functions.find(functions.callee_of(op))
    return control_of(callee) or rules_of(callee)


def title(op: Operation) -> str:
    """What messages call an op or a call."""
    if is_call(op):
        name = functions.callee_of(op)
        control = control_of(functions.find(name))
        return f"this {control.kind}" if control else f"'{name.rpartition('.')[2]}'"
    return op.name
