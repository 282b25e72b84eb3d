"""Rules of an op: by its class, or by the function that a call names."""

from typing import Any, TypeGuard

from aotc.dialects.calls.callees import Rules, rules_of
from aotc.dialects.functions import functions
from aotc.dialects.graph import Reason, where_of
from aotc.errors import CompileError
from aotc.mlir import Operation, func


def rule_of(op: Operation, name: str) -> Any:
    """Return the rule `name` (jvp, vjp, batch) of an op or call.

    Raises:
        CompileError: it has none, for the reason that the message gives.
    """
    rule = getattr(rules_of_call(op) if is_call(op) else type(op), name)
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
    """Return whether an op is a call: of control flow, or of a function with its own
    rules.
    """
    return isinstance(op, func.CallOp)


def rules_of_call(call: func.CallOp) -> Rules:
    """Return the rules of a call's callee (control flow, checkpoint, custom rule)."""
    rules = rules_of(functions.find(functions.callee_of(call)))
    assert rules is not None
    return rules


def title(op: Operation) -> str:
    """Return how error messages name an op or call."""
    if is_call(op):
        return rules_of_call(op).title(functions.callee_of(op))
    return op.name
