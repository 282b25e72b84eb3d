"""Custom derivatives of functions, and the rules of their calls.

    func.func private @f(%x) attributes {graph.custom_jvp = {rule = @f_rule}} {…}

Each annotation has the rules of a call: `jvp`, `vjp` and `batch`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, ClassVar

from aotc.core import dtypes
from aotc.dialects.attributes import SymbolReference, read_attribute, read_dictionary
from aotc.dialects.builder import Builder
from aotc.dialects.control.parts import active, tangent_or_zero
from aotc.dialects.functions import functions
from aotc.dialects.functions.functions import Values, call
from aotc.dialects.functions.transform import Batch, Jvp, Types, Vjp, derive, floats
from aotc.dialects.functions.walking import clone, walk
from aotc.dialects.graph import LOW, NOT_DIFFERENTIABLE, Tangent
from aotc.dialects.rules.batching import add_leading_axes
from aotc.dialects.types import Size, Tensor
from aotc.mlir import Function, Operation, Value, func, ir

Parts = dict[str, tuple[Types, Types]]  # what functions take and return, by role


@dataclass(frozen=True)
class Custom:
    """Base of custom derivatives of a function; its fields name rule functions."""

    key: ClassVar[str]
    keeps_precision: ClassVar[bool]

    def rule_types(self, inputs: Types, outputs: Types, parts: Parts) -> Parts:
        """Return the signature that each of the named functions should have, by role.

        Args:
            inputs: types that the annotated function takes.
            outputs: and those that it returns.
            parts: what the named functions do take and return.
        """
        return {}

    if TYPE_CHECKING:

        @property
        def jvp(self) -> Callable[..., Values]:
            """The `jvp` rule, which returns the tangents of a call's float results."""

        @property
        def vjp(self) -> Callable[..., Values]:
            """The `vjp` rule, which returns cotangents of some operands of a call."""

    def title(self, name: str) -> str:
        """Return how messages name a call of the function `name`."""
        return f"'{name.rpartition('.')[2]}'"

    def batch(
        self,
        b: Builder,
        op: func.CallOp,
        operands: Values,
        batched: Sequence[bool],
        size: Size,
    ) -> Values:
        """Emit a call of the batched function, annotated with batched rules."""

        def batch_all(name: str) -> str:
            inputs, _ = functions.signature(functions.find(name))
            return derive(Batch(name, tuple(range(len(inputs))), size))

        given = add_leading_axes(b, operands, batched, size)
        return self.call_transformed(functions.callee_of(op), given, batch_all)

    def call_transformed(
        self, name: str, operands: Values, transform: Callable[[str], str]
    ) -> Values:
        """Emit a call of the transformed function, annotated with transformed rules."""
        transformed = transform(name)
        function = functions.find(transformed)
        if custom_of(function) is None:
            rules = {key: transform(each) for key, each in vars(self).items()}
            annotate(function, replace(self, **rules))
        return call(transformed, operands)


@dataclass(frozen=True)
class CustomVjp(Custom):
    """A custom VJP: outputs and residuals by `forward`, cotangents by `backward`.

    `forward` takes the inputs and returns the outputs, then residuals. `backward` takes
    the residuals and a cotangent per float output; it returns one per float input.
    """

    key: ClassVar[str] = "graph.custom_vjp"
    keeps_precision: ClassVar[bool] = True
    forward: str
    backward: str

    def rule_types(self, inputs: Types, outputs: Types, parts: Parts) -> Parts:
        """Return the signatures of `forward` and `backward`, by that of `forward`.

        Residuals are the results of `forward` after the outputs.
        """
        residuals = parts["forward"][1][len(outputs) :]
        return {
            "forward": (inputs, outputs + residuals),
            "backward": (residuals + floats(outputs), floats(inputs)),
        }

    jvp = NOT_DIFFERENTIABLE(
        "it has a rule for reverse mode only (custom_vjp)",
        hint="give it a custom_jvp, from which both modes follow",
    )

    def vjp(
        self, b: Builder, op: func.CallOp, dys: Sequence[Tangent], wanted: Sequence[int]
    ) -> Values:
        """Replace the call by one of `forward`; return cotangents by `backward`."""
        with functions.before(op):
            results = call(self.forward, list(op.operands))
        count = len(op.results)
        for old, new in zip(op.results, results, strict=False):
            old.replace_all_uses_with(new)
        given = [dy for dy in dys if dy is not None]
        found = call(self.backward, [*results[count:], *given])
        cotangents = dict(zip(_floats(op.operands), found, strict=True))
        return [cotangents[i] for i in wanted]


@dataclass(frozen=True)
class CustomJvp(Custom):
    """A custom JVP: `rule` gives the outputs and their tangents.

    It takes the inputs, then a tangent per float input, and returns the outputs, then a
    tangent per float output; it is linear in the tangents.
    """

    key: ClassVar[str] = "graph.custom_jvp"
    keeps_precision: ClassVar[bool] = True
    rule: str

    def rule_types(self, inputs: Types, outputs: Types, parts: Parts) -> Parts:
        """Return the signature of the rule: values and tangents, in and out."""
        return {"rule": (inputs + floats(inputs), outputs + floats(outputs))}

    def jvp(self, b: Builder, op: func.CallOp, tangents: Sequence[Tangent]) -> Values:
        """Emit a call of the rule, zeros for tangents of None; return its tangents."""
        given = _tangents(b, op, tangents)
        results = call(self.rule, [*op.operands, *given])
        return results[len(op.results) :]

    def vjp(
        self, b: Builder, op: func.CallOp, dys: Sequence[Tangent], wanted: Sequence[int]
    ) -> Values:
        """Return cotangents by transposing the rule: it is linear in tangents."""
        count = len(op.operands)
        smooth = _floats(op.operands)
        wrt = tuple(count + smooth.index(i) for i in wanted)
        given = [dy for dy in dys if dy is not None]
        unseen = [b.full_like(op.results[i], 0.0) for i in _floats(op.results)]
        zeros = _tangents(b, op, [None] * count)
        derivative = derive(Vjp(self.rule, wrt))
        results = call(derivative, [*op.operands, *zeros, *unseen, *given])
        return results[len(op.results) + len(given) :]


@dataclass(frozen=True)
class Checkpoint(Custom):
    """A checkpoint: the derivative of the function recomputes its values."""

    key: ClassVar[str] = "graph.checkpoint"
    keeps_precision: ClassVar[bool] = False

    def jvp(self, b: Builder, op: func.CallOp, tangents: Sequence[Tangent]) -> Values:
        """Return tangents by differentiating the body."""
        wrt, given = active(tangents)
        derivative = derive(Jvp(functions.callee_of(op), wrt))
        return call(derivative, [*op.operands, *given])[len(op.results) :]

    def vjp(
        self, b: Builder, op: func.CallOp, dys: Sequence[Tangent], wanted: Sequence[int]
    ) -> Values:
        """Emit the VJP of the body, to run after a cotangent of it is computed."""
        given = [dy for dy in dys if dy is not None]
        inputs = [b.after(value, given[0]) for value in op.operands]
        derivative = derive(Vjp(functions.callee_of(op), tuple(wanted)))
        return call(derivative, [*inputs, *given])[len(op.results) :]


@dataclass(frozen=True)
class CheckpointProducts(Checkpoint):
    """Checkpoint that saves the results of matrix products and convolutions.

    `saving` returns the outputs, then all products; `given` takes the inputs and then
    these, and computes the outputs from them.
    """

    key: ClassVar[str] = "graph.checkpoint_products"
    saving: str
    given: str

    def rule_types(self, inputs: Types, outputs: Types, parts: Parts) -> Parts:
        """Return the signatures of `saving` and `given`, by that of `saving`.

        Products are the results of `saving` after the outputs.
        """
        products = parts["saving"][1][len(outputs) :]
        return {
            "saving": (inputs, outputs + products),
            "given": (inputs + products, outputs),
        }

    def vjp(
        self, b: Builder, op: func.CallOp, dys: Sequence[Tangent], wanted: Sequence[int]
    ) -> Values:
        """Replace the call by one of `saving`; return cotangents by `given`'s VJP."""
        count = len(op.results)
        with functions.before(op):
            results = call(self.saving, list(op.operands))
        for old, new in zip(op.results, results, strict=False):
            old.replace_all_uses_with(new)
        given = [dy for dy in dys if dy is not None]
        read = [*op.operands, *results[count:]]
        derivative = derive(Vjp(self.given, tuple(wanted)))
        late = [b.after(value, given[0]) for value in read]
        return call(derivative, [*late, *given])[count:]


def annotate(function: Function, custom: Custom) -> None:
    """Set the function attribute that names the rules of a custom derivative."""
    function.attributes[custom.key] = ir.DictAttr.get(
        {key: ir.FlatSymbolRefAttr.get(name) for key, name in vars(custom).items()}
    )


def custom_of(function: Function) -> Custom | None:
    """Return the custom differentiation of a function; None if it has none."""
    for cls in (CustomVjp, CustomJvp, Checkpoint, CheckpointProducts):
        if cls.key in function.attributes:
            facts = read_dictionary(function.attributes, cls.key)
            return cls(
                *(read_attribute(facts, f.name, SymbolReference) for f in fields(cls))
            )
    return None


def _floats(values: Sequence[Value]) -> list[int]:
    """Return the indices of the values that have a float dtype."""
    return [
        number
        for number, value in enumerate(values)
        if dtypes.is_float(Tensor.of(value).dtype)
    ]


def _tangents(b: Builder, op: func.CallOp, tangents: Sequence[Tangent]) -> Values:
    """Return a tangent for each float operand of a call, zeros in place of None."""
    smooth = _floats(op.operands)
    return [tangent_or_zero(b, op.operands[i], tangents[i]) for i in smooth]


def define_product_checkpoint(function: Function) -> CheckpointProducts:
    """Define the functions of a CheckpointProducts for `function`; return that."""
    name, (inputs, _) = functions.name_of(function), functions.signature(function)
    products = filter(_is_costly, function.entry_block.operations)
    kinds = [Tensor.of(op.results[0]) for op in products]

    def saving(arguments: Values) -> Values:
        saved: Values = []

        def copy(op: Operation, operands: Values) -> Values:
            results = clone(op, operands)
            saved.extend(results if _is_costly(op) else [])
            return results

        return [*walk(function.entry_block, arguments, copy), *saved]

    known = {kind: _define_known(kind) for kind in kinds}

    def with_products(arguments: Values) -> Values:
        saved = iter(arguments[len(inputs) :])

        def copy(op: Operation, operands: Values) -> Values:
            results = clone(op, operands)
            if _is_costly(op):
                results = call(known[Tensor.of(results[0])], [*results, next(saved)])
            return results

        return walk(function.entry_block, arguments[: len(inputs)], copy)

    return CheckpointProducts(
        functions.define(f"{name}.saving", inputs, saving),
        functions.define(f"{name}.given", [*inputs, *kinds], with_products),
    )


def _define_known(kind: Tensor) -> str:
    """Define a function (x, known) → known with x's derivative; return its name."""
    name = functions.define("known", [kind, kind], lambda pair: pair[1:])
    rule = functions.define("known_slope", [kind] * 4, lambda values: values[1:3])
    annotate(functions.find(name), CustomJvp(rule))
    return name


def _is_costly(op: Operation) -> bool:
    """Return whether an op is a float product or convolution, worth saving."""
    is_product = getattr(op, "precision", None) == LOW
    return is_product and dtypes.is_float(Tensor.of(op.results[0]).dtype)
