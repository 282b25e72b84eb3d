"""The rules of calls whose function says itself how it is differentiated.

See `CustomVjp`, `CustomJvp` and `Checkpoint` in transform.py. Each class here has the
rules of a call: `jvp`, `vjp` and `batch`.
"""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from aotc import dtypes
from aotc.dialects import functions
from aotc.dialects.batching import all_spread
from aotc.dialects.builder import Builder
from aotc.dialects.control.parts import active, tangent_or_zero
from aotc.dialects.functions import Values, call
from aotc.dialects.graph import LOW, NOT_DIFFERENTIABLE, Tangent
from aotc.dialects.transform import (
    Batch,
    Checkpoint,
    CheckpointProducts,
    Custom,
    CustomJvp,
    CustomVjp,
    Jvp,
    Vjp,
    annotate,
    custom_of,
    derive,
)
from aotc.dialects.types import Size, Tensor
from aotc.dialects.walking import clone, walk
from aotc.mlir import Function, Operation, Value, func


def rules_of(function: Function) -> "type[_Annotated]":
    """The rules of calls of `function`, which is annotated."""
    return _RULES[type(custom_of(function))]


def _custom(op: func.CallOp) -> Any:
    return custom_of(functions.find(functions.callee_of(op)))


def _floats(values: Sequence[Value]) -> list[int]:
    return [
        number
        for number, value in enumerate(values)
        if dtypes.is_float(Tensor.of(value).dtype)
    ]


def _tangents(b: Builder, op: func.CallOp, given: Sequence[Tangent]) -> Values:
    """A tangent for each float operand."""
    smooth = _floats(op.operands)
    return [tangent_or_zero(b, op.operands[i], given[i]) for i in smooth]


class _Annotated:
    """What they have in common."""

    @staticmethod
    def batch(
        b: Builder,
        op: func.CallOp,
        operands: Values,
        batched: Sequence[bool],
        size: Size,
    ) -> Values:
        """A call of the batched function, annotated with batched rules."""
        name = functions.callee_of(op)
        inputs = range(len(operands))
        batch_name = derive(Batch(name, tuple(inputs), size))
        function = functions.find(batch_name)
        if custom_of(function) is None:
            annotate(function, _batched_rules(_custom(op), size))
        return call(batch_name, all_spread(b, operands, batched, size))


def _batched_rules(custom: Custom, size: Size) -> Custom:
    """The annotation with a batched function in the place of each."""
    names = {field.name: getattr(custom, field.name) for field in fields(custom)}
    batched = {
        key: derive(Batch(name, tuple(range(_arity(name))), size))
        for key, name in names.items()
    }
    return type(custom)(**batched)


def _arity(name: str) -> int:
    return len(functions.signature(functions.find(name))[0])


class CustomVjpRules(_Annotated):
    """Of a function with its own reverse mode."""

    jvp = NOT_DIFFERENTIABLE(
        "it has a rule for reverse mode only (custom_vjp)",
        hint="give it a custom_jvp, from which both modes follow",
    )

    @staticmethod
    def vjp(
        b: Builder, op: func.CallOp, dys: Sequence[Tangent], wanted: Sequence[int]
    ) -> Values:
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
    def jvp(b: Builder, op: func.CallOp, tangents: Sequence[Tangent]) -> Values:
        """The rule, on zero tangents where there are none."""
        given = _tangents(b, op, tangents)
        results = call(_custom(op).rule, [*op.operands, *given])
        return results[len(op.results) :]

    @staticmethod
    def vjp(
        b: Builder, op: func.CallOp, dys: Sequence[Tangent], wanted: Sequence[int]
    ) -> Values:
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
    def jvp(b: Builder, op: func.CallOp, tangents: Sequence[Tangent]) -> Values:
        """That of its body."""
        wrt, given = active(tangents)
        derivative = derive(Jvp(functions.callee_of(op), wrt))
        return call(derivative, [*op.operands, *given])[len(op.results) :]

    @staticmethod
    def vjp(
        b: Builder, op: func.CallOp, dys: Sequence[Tangent], wanted: Sequence[int]
    ) -> Values:
        """That of its body, on inputs that wait for a cotangent: nothing is shared."""
        given = [dy for dy in dys if dy is not None]
        inputs = [b.after(value, given[0]) for value in op.operands]
        derivative = derive(Vjp(functions.callee_of(op), tuple(wanted)))
        return call(derivative, [*inputs, *given])[len(op.results) :]


class CheckpointProductsRules(CheckpointRules):
    """Of a function that keeps its products."""

    @staticmethod
    def vjp(
        b: Builder, op: func.CallOp, dys: Sequence[Tangent], wanted: Sequence[int]
    ) -> Values:
        """`saving` in the place of the call; the derivative of `given`."""
        custom, count = _custom(op), len(op.results)
        with functions.before(op):
            results = call(custom.saving, list(op.operands))
        for old, new in zip(op.results, results, strict=False):
            old.replace_all_uses_with(new)
        given = [dy for dy in dys if dy is not None]
        read = [*op.operands, *results[count:]]
        derivative = derive(Vjp(custom.given, tuple(wanted)))
        late = [b.after(value, given[0]) for value in read]
        return call(derivative, [*late, *given])[count:]


def keeping_products(function: Function) -> CheckpointProducts:
    """The annotation of a function that has a body, with the functions it names."""
    name, (inputs, _) = functions.name_of(function), functions.signature(function)
    products = filter(_is_dear, function.entry_block.operations)
    kinds = [Tensor.of(op.results[0]) for op in products]

    def saving(arguments: Values) -> Values:
        saved: Values = []

        def copy(op: Operation, operands: Values) -> Values:
            results = clone(op, operands)
            saved.extend(results if _is_dear(op) else [])
            return results

        return [*walk(function.entry_block, arguments, copy), *saved]

    known = {kind: _define_known(kind) for kind in kinds}

    def given(arguments: Values) -> Values:
        saved = iter(arguments[len(inputs) :])

        def copy(op: Operation, operands: Values) -> Values:
            results = clone(op, operands)
            if _is_dear(op):
                results = call(known[Tensor.of(results[0])], [*results, next(saved)])
            return results

        return walk(function.entry_block, arguments[: len(inputs)], copy)

    return CheckpointProducts(
        functions.define(f"{name}.saving", inputs, saving),
        functions.define(f"{name}.given", [*inputs, *kinds], given),
    )


def _define_known(kind: Tensor) -> str:
    """A function of x and what that is known to be; it has the slope of x."""
    name = functions.define("known", [kind, kind], lambda pair: pair[1:])
    rule = functions.define("known_slope", [kind] * 4, lambda values: values[1:3])
    annotate(functions.find(name), CustomJvp(rule))
    return name


def _is_dear(op: Operation) -> bool:
    is_product = getattr(op, "precision", None) == LOW
    return is_product and dtypes.is_float(Tensor.of(op.results[0]).dtype)


_RULES: dict[type, type[_Annotated]] = {
    CustomVjp: CustomVjpRules,
    CustomJvp: CustomJvpRules,
    Checkpoint: CheckpointRules,
    CheckpointProducts: CheckpointProductsRules,
}
