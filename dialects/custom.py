"""The rules of calls whose function says itself how it is differentiated.

See `CustomVjp`, `CustomJvp` and `Checkpoint` in transform.py. Each class here has the
rules of a call: `jvp`, `vjp` and `batch`.
"""

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

from aotc import dtypes
from aotc.dialects import functions
from aotc.dialects.batching import all_spread
from aotc.dialects.functions import Values, call
from aotc.dialects.graph import NOT_DIFFERENTIABLE
from aotc.dialects.transform import (
    Batch,
    Checkpoint,
    CustomJvp,
    CustomVjp,
    Jvp,
    Vjp,
    annotate,
    custom_of,
    derive,
)
from aotc.dialects.types import Size, Tensor


def rules_of(function: Any) -> Any:
    """The rules of calls of `function`, which is annotated."""
    return _RULES[type(custom_of(function))]


def _custom(op: Any) -> Any:
    return custom_of(functions.find(functions.callee_of(op)))


def _floats(values: Sequence[Any]) -> list[int]:
    return [
        number
        for number, value in enumerate(values)
        if dtypes.is_float(Tensor.of(value).dtype)
    ]


def _tangents(b: Any, op: Any, given: Values) -> Values:
    """A tangent for each float operand."""
    return [
        b.full_like(op.operands[i], 0.0) if given[i] is None else given[i]
        for i in _floats(op.operands)
    ]


class _Annotated:
    """What they have in common."""

    @staticmethod
    def batch(
        b: Any, op: Any, operands: Values, batched: Sequence[bool], size: Size
    ) -> Values:
        """A call of the batched function, annotated with batched rules."""
        name = functions.callee_of(op)
        inputs = range(len(operands))
        batch_name = derive(Batch(name, tuple(inputs), size))
        function = functions.find(batch_name)
        if custom_of(function) is None:
            annotate(function, _batched(_custom(op), size))
        return call(batch_name, all_spread(b, operands, batched, size))


def _batched(custom: Any, size: Size) -> Any:
    """The annotation with a batched function in the place of each."""
    names = {field.name: getattr(custom, field.name) for field in fields(custom)}
    batched = {
        key: derive(Batch(name, tuple(range(_arity(name))), size))
        for key, name in names.items()
    }
    return replace(custom, **batched)


def _arity(name: str) -> int:
    return len(functions.signature(functions.find(name))[0])


class CustomVjpRules(_Annotated):
    """Of a function with its own reverse mode."""

    jvp = NOT_DIFFERENTIABLE(
        "it has a rule for reverse mode only (custom_vjp)",
        hint="give it a custom_jvp, from which both modes follow",
    )

    @staticmethod
    def vjp(b: Any, op: Any, dys: Values, wanted: Sequence[int]) -> Values:
        """`forward` in the place of the call; `backward` on what it left."""
        custom = _custom(op)
        with functions.before(op):
            results = call(custom.forward, list(op.operands))
        count = len(op.results)
        for old, new in zip(op.results, results, strict=False):
            old.replace_all_uses_with(new)
        given = [dy for dy in dys if dy is not None]
        found = call(custom.backward, [*results[count:], *given])
        cotangents = dict(zip(_floats(op.operands), found, strict=True))
        return [cotangents[i] for i in wanted]


class CustomJvpRules(_Annotated):
    """Of a function with its own forward mode; reverse mode transposes that."""

    @staticmethod
    def jvp(b: Any, op: Any, tangents: Values) -> Values:
        """The rule, on zero tangents where there are none."""
        given = _tangents(b, op, tangents)
        results = call(_custom(op).rule, [*op.operands, *given])
        return results[len(op.results) :]

    @staticmethod
    def vjp(b: Any, op: Any, dys: Values, wanted: Sequence[int]) -> Values:
        """The cotangents of the rule's tangents: it is linear in them."""
        rule, count = _custom(op).rule, len(op.operands)
        smooth = _floats(op.operands)
        wrt = tuple(count + smooth.index(i) for i in wanted)
        given = [dy for dy in dys if dy is not None]
        unseen = [b.full_like(op.results[i], 0.0) for i in _floats(op.results)]
        zeros = _tangents(b, op, [None] * count)
        derivative = derive(Vjp(rule, wrt))
        results = call(derivative, [*op.operands, *zeros, *unseen, *given])
        return results[len(op.results) + len(given) :]


class CheckpointRules(_Annotated):
    """Of a function that keeps nothing for its derivative."""

    @staticmethod
    def jvp(b: Any, op: Any, tangents: Values) -> Values:
        """That of its body."""
        wrt = tuple(i for i, d in enumerate(tangents) if d is not None)
        given = [tangents[i] for i in wrt]
        derivative = derive(Jvp(functions.callee_of(op), wrt))
        return call(derivative, [*op.operands, *given])[len(op.results) :]

    @staticmethod
    def vjp(b: Any, op: Any, dys: Values, wanted: Sequence[int]) -> Values:
        """That of its body, on inputs behind a barrier, so that nothing is shared."""
        given = [dy for dy in dys if dy is not None]
        inputs = [b.barrier(value) for value in op.operands]
        derivative = derive(Vjp(functions.callee_of(op), tuple(wanted)))
        return call(derivative, [*inputs, *given])[len(op.results) :]


_RULES: dict[Any, Any] = {
    CustomVjp: CustomVjpRules,
    CustomJvp: CustomJvpRules,
    Checkpoint: CheckpointRules,
}
