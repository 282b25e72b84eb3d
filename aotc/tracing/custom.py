"""Functions that say how they are differentiated: custom rules and checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, ParamSpec, TypeVar

import numpy as np

from aotc.core import dtypes
from aotc.core.pytree import PyTree, Structure, flatten
from aotc.dialects.calls.custom import (
    Checkpoint,
    Custom,
    CustomJvp,
    CustomVjp,
    annotate,
    define_product_checkpoint,
)
from aotc.dialects.functions.functions import call
from aotc.dialects.types import Tensor
from aotc.mlir import ir
from aotc.tracing.array import Array
from aotc.tracing.bodies import (
    Body,
    function_name,
    leaves_like,
    returned_arrays,
    trace_bodies,
)
from aotc.tracing.conversion import lift
from aotc.tracing.execution import (
    ArrayRule,
    ByForwardRule,
    ByReverseRule,
    CustomCall,
    Rebound,
    call_custom,
)
from aotc.tracing.scopes import enter_scope
from aotc.tracing.source_locations import fail, location
from aotc.tracing.tracing import Trace, current_trace, emit

_Key = tuple[int, tuple[Tensor, ...], Structure]
_NodeKind = type[ByReverseRule | ByForwardRule]
P = ParamSpec("P")
Result = TypeVar("Result")


class _CustomFunction:
    """Base class of functions with custom derivative rules."""

    def __init__(self, function: Callable[..., object]) -> None:
        self.function = function
        self.__name__ = function_name(function)
        self.__doc__ = function.__doc__
        self._under_way: dict[_Key, Body] = {}

    def __call__(self, *args: object) -> Any:
        """Call the function: traced as an annotated graph function, or executed at
        once.
        """
        trace = current_trace()
        leaves, structure = flatten((args, {}))
        arrays = [lift(leaf) for leaf in leaves]
        if trace is None:
            return self._execute(arrays, structure)
        body = self._body(trace, [array.type for array in arrays], structure)
        operands = [trace.value_of(array) for array in arrays]
        with location(), ir.InsertionPoint(trace.block):
            values = call(body.name, operands)
        return body.tree.unflatten([Array(value=v, trace=trace) for v in values])

    def _execute(self, arrays: Sequence[Array], structure: Structure) -> Any:
        """Execute a call at once; return its result."""
        execution = _Execution(self, structure)
        call = CustomCall(self.__name__, execution.evaluate, execution.record)
        outputs = call_custom(call, arrays)
        return execution.form.unflatten(outputs)

    def record(
        self, execution: _Execution, arrays: Sequence[Array]
    ) -> tuple[list[Array], _NodeKind, ArrayRule]:
        """Execute a call eagerly; return flat outputs, the kind of its rule, and the
        rule.
        """
        raise NotImplementedError

    def _body(self, trace: Trace, types: list[Tensor], structure: Structure) -> Body:
        """Trace the function and its rules; return its body, which these rules get as
        well.
        """
        key = (id(trace.module), tuple(types), structure)
        if key in self._under_way:
            return self._under_way[key]
        body = _closed_body(trace, self.function, types, structure)
        with self._registered(key, body):
            custom = self._rules(trace, body, types, structure)
        annotate(body.trace.function, custom)
        return body

    @contextmanager
    def _registered(self, key: _Key, body: Body) -> Iterator[None]:
        """Register the body for recursive calls within the `with` block."""
        self._under_way[key] = body
        try:
            yield
        finally:
            del self._under_way[key]

    def _rules(
        self, trace: Trace, body: Body, types: list[Tensor], structure: Structure
    ) -> Custom:
        """Trace the derivative rules; return the annotation that names them."""
        raise NotImplementedError

    def require_rules(self) -> None:
        """Refuse a function whose derivative rule is not set."""
        raise NotImplementedError

    def _require_rule(
        self, rule: Callable[..., object] | None, method: str
    ) -> Callable[..., object]:
        """Return a derivative rule; refuse None."""
        if rule is None:
            fail(
                "missing-rule",
                f"'{self.__name__}' has no rule for its derivative",
                f"give it one with {self.__name__}.{method}(…)",
            )
        return rule


class _Execution:
    """One call of a custom-derivative function on concrete arrays.

    Args:
        custom: the function.
        structure: the form of (args, kwargs).
    """

    def __init__(self, custom: _CustomFunction, structure: Structure) -> None:
        self.custom = custom
        self.arguments = structure.children[0]
        self._form: Structure | None = None

    @property
    def form(self) -> Structure:
        """The structure of the result."""
        assert self._form is not None
        return self._form

    def evaluate(self, arrays: Sequence[Array]) -> list[Array]:
        """Execute the function; return its flat outputs."""
        self.custom.require_rules()
        return self.outputs_of(self.custom.function(*self.arguments.unflatten(arrays)))

    def record(
        self, arrays: Sequence[Array]
    ) -> tuple[list[Array], _NodeKind, ArrayRule]:
        """Execute the function eagerly; return flat outputs, the kind of its rule, and
        the rule.
        """
        self.custom.require_rules()
        return self.custom.record(self, arrays)

    def outputs_of(self, result: object) -> list[Array]:
        """Return a result's leaves as Arrays; store its structure."""
        leaves, tree = flatten(result)
        self._form = tree
        return returned_arrays(self.custom.function, leaves, tree)


class custom_vjp(_CustomFunction):  # noqa: N801 - used as a decorator
    """A function with its own reverse mode: `f = custom_vjp(f); f.defvjp(fwd, bwd)`.

    `fwd(*args)` returns (result, residuals). `bwd(residuals, cotangent)` returns one
    cotangent for each argument, in its form, with None for leaves that are no floats.
    """

    _forward: Callable[..., object] | None = None
    _backward: Callable[..., object] | None = None

    def defvjp(
        self, forward: Callable[..., object], backward: Callable[..., object]
    ) -> None:
        """Set the reverse-mode rules."""
        self._forward, self._backward = forward, backward

    def require_rules(self) -> None:
        """Refuse a function whose reverse-mode rules are not set."""
        self._require_rule_pair()

    def _require_rule_pair(self) -> tuple[Callable[..., object], Callable[..., object]]:
        """Return the forward and the backward rule; refuse a missing one."""
        given = self._forward, self._backward
        forward, backward = (self._require_rule(rule, "defvjp") for rule in given)
        return forward, backward

    def record(
        self, execution: _Execution, arrays: Sequence[Array]
    ) -> tuple[list[Array], _NodeKind, ArrayRule]:
        """Execute `forward` eagerly; return flat outputs and a rule on cotangents, by
        kind.
        """
        forward, rule = self._require_rule_pair()
        args = execution.arguments.unflatten(arrays)
        result, residuals = _as_pair(forward, forward(*args))
        outputs = execution.outputs_of(result)
        types = [array.type for array in arrays]

        def backward(smooth: Sequence[Array]) -> list[Array]:
            cotangents = _at_float_leaves(execution.form, outputs, smooth)
            found = rule(residuals, cotangents)
            return _float_leaves(self.__name__, execution.arguments, types, found)

        return outputs, ByReverseRule, backward

    def _rules(
        self, trace: Trace, body: Body, types: list[Tensor], structure: Structure
    ) -> Custom:
        """Trace the forward and backward rules; return the annotation that names
        them.
        """
        ahead_rule, _ = self._require_rule_pair()
        split: list[tuple[Structure, Structure, list[Tensor]]] = []

        def forward(*args: object) -> tuple[object, object]:
            result, residuals = _as_pair(ahead_rule, ahead_rule(*args))
            leaves, tree = flatten(residuals)
            split.append((flatten(result)[1], tree, [lift(x).type for x in leaves]))
            return result, residuals

        forward.__name__ = f"{self.__name__}_forward"
        ahead = _closed_body(trace, forward, types, structure)
        ((result_tree, residual_tree, residual_types),) = split
        _require_form(forward.__name__, body.tree, result_tree)
        backward = self._trace_backward(
            trace, body, residual_tree, residual_types, types, structure
        )
        return CustomVjp(ahead.name, backward.name)

    def _trace_backward(
        self,
        trace: Trace,
        body: Body,
        residual_tree: Structure,
        residual_types: list[Tensor],
        types: list[Tensor],
        structure: Structure,
    ) -> Body:
        """Trace the backward rule as a function of residuals and cotangents."""
        smooth = [output.type for output in body.outputs if _is_float(output.type)]
        count = len(residual_types)
        _, rule = self._require_rule_pair()

        def backward(*leaves: Array) -> list[Array]:
            residuals = residual_tree.unflatten(leaves[:count])
            cotangents = _at_float_leaves(body.tree, body.outputs, leaves[count:])
            found = rule(residuals, cotangents)
            return _float_leaves(self.__name__, structure.children[0], types, found)

        backward.__name__ = f"{self.__name__}_backward"
        kinds = [*residual_types, *smooth]
        return _closed_body(trace, backward, kinds, _positional_structure(len(kinds)))


class custom_jvp(_CustomFunction):  # noqa: N801 - used as a decorator
    """A function with its own forward mode: `f = custom_jvp(f); f.defjvp(rule)`.

    `rule(primals, tangents)` gets two tuples (None for the tangent of a leaf that is no
    float) and returns (result, its tangent), which is linear in the tangents. Reverse
    mode follows from it.
    """

    _rule: Callable[..., object] | None = None

    def defjvp(self, rule: Callable[..., object]) -> None:
        """Set the forward-mode rule."""
        self._rule = rule

    def require_rules(self) -> None:
        """Refuse a function whose forward-mode rule is not set."""
        self._require_jvp_rule()

    def _require_jvp_rule(self) -> Callable[..., object]:
        """Return the forward-mode rule; refuse a missing one."""
        return self._require_rule(self._rule, "defjvp")

    def record(
        self, execution: _Execution, arrays: Sequence[Array]
    ) -> tuple[list[Array], _NodeKind, ArrayRule]:
        """Execute the function eagerly; return flat outputs and a rule on tangents, by
        kind.
        """
        given, arguments = self._require_jvp_rule(), execution.arguments
        primals = arguments.unflatten(arrays)
        outputs = execution.outputs_of(self(*primals))
        form, types = execution.form, [output.type for output in outputs]

        def rule(smooth: Sequence[Array]) -> list[Array]:
            tangents = _at_float_leaves(arguments, arrays, smooth)
            result, slope = _as_pair(given, given(primals, tangents))
            _require_form(f"the rule of {self.__name__}", form, flatten(result)[1])
            return _float_leaves(self.__name__, form, types, slope)

        return outputs, ByForwardRule, rule

    def _rules(
        self, trace: Trace, body: Body, types: list[Tensor], structure: Structure
    ) -> Custom:
        """Trace the rule; return the annotation that names it."""
        given = self._require_jvp_rule()
        arguments, count = structure.children[0], len(types)
        smooth = [kind for kind in types if _is_float(kind)]

        def rule(*leaves: Array) -> tuple[list[object], list[Array]]:
            primals = arguments.unflatten(leaves[:count])
            tangents = _at_float_leaves(arguments, leaves[:count], leaves[count:])
            result, slope = _as_pair(given, given(primals, tangents))
            outputs, tree = flatten(result)
            _require_form(f"the rule of {self.__name__}", body.tree, tree)
            kinds = [lift(output).type for output in outputs]
            return outputs, _float_leaves(self.__name__, body.tree, kinds, slope)

        rule.__name__ = f"{self.__name__}_rule"
        kinds = [*types, *smooth]
        return CustomJvp(
            _closed_body(trace, rule, kinds, _positional_structure(len(kinds))).name
        )


def checkpoint(
    function: Callable[P, Result], save: Literal["nothing", "products"] = "nothing"
) -> Callable[P, Result]:
    """Return the function, marked so that its derivative recomputes intermediate
    values.

    That saves the memory of its intermediate values, for the time of a second forward
    computation.

    Args:
        function: of pytrees of arrays.
        save: what is kept all the same: `products` of matrices and convolutions, which
            take most of the time. Only those of the function itself count, not those in
            the body of a loop or a branch, or in a function under a rule of its own.
    """
    if save not in ("nothing", "products"):
        fail("bad-argument", f"expected save='nothing' or 'products'; got {save!r}")

    def wrapper(*args: P.args, **kwargs: P.kwargs) -> Result:
        trace = current_trace()
        if trace is None:
            return function(*args, **kwargs)
        leaves, structure = flatten((args, kwargs))
        arrays = [lift(leaf) for leaf in leaves]
        types = [array.type for array in arrays]
        (body,), captures = trace_bodies(trace, [function], types, structure)
        made = body.trace.function
        with location(), ir.InsertionPoint(made.entry_block):
            policy = (
                define_product_checkpoint(made) if save == "products" else Checkpoint()
            )
        annotate(made, policy)
        operands = [trace.value_of(array) for array in arrays]
        with location(), ir.InsertionPoint(trace.block):
            values = call(body.name, [*operands, *captures])
        result: Result = body.tree.unflatten(
            [Array(value=v, trace=trace) for v in values]
        )
        return result

    wrapper.__name__ = function_name(function)
    return wrapper


def closure_convert(
    function: Callable[..., Result], *examples: object
) -> tuple[Callable[..., Result], list[Array]]:
    """Return a function with captured arrays as further arguments, and these arrays.

    What has a rule of its own may capture nothing: it takes as further arguments what a
    function that it is given captures.

    Args:
        function: of pytrees of arrays.
        examples: arguments of the types that it is going to be called with.

    Returns:
        A function of the same arguments and then the captured arrays, and these.
    """
    trace = current_trace()
    if trace is None:
        return _executed_closure(function, examples)
    leaves, structure = flatten((examples, {}))
    types = [lift(leaf).type for leaf in leaves]
    (body,), captures = trace_bodies(trace, [function], types, structure)

    def converted_function(*args: object) -> Result:
        inner = current_trace()
        assert inner is not None
        operands = [inner.value_of(lift(leaf)) for leaf in flatten(args)[0]]
        with location(), ir.InsertionPoint(inner.block):
            values = call(body.name, operands)
        result: Result = body.tree.unflatten(
            [Array(value=v, trace=inner) for v in values]
        )
        return result

    return converted_function, [Array(value=value, trace=trace) for value in captures]


def _executed_closure(
    function: Callable[..., Result], examples: Sequence[object]
) -> tuple[Callable[..., Result], list[Array]]:
    """Apply `closure_convert` to a function that executes at once."""
    reads = Rebound()
    with enter_scope(reads):
        example = function(*examples)
    for leaf in flatten(example)[0]:
        reads.current(lift(leaf))
    captured = list(reads.captured.values())

    def converted_function(*args: object) -> Result:
        given = args[len(args) - len(captured) :]
        pairs = zip(captured, given, strict=True)
        rebound = Rebound({id(before): lift(after) for before, after in pairs})
        with enter_scope(rebound):
            found = function(*args[: len(args) - len(captured)])
        leaves, tree = flatten(found)
        result: Result = tree.unflatten([rebound.current(lift(x)) for x in leaves])
        return result

    return converted_function, captured


# ---- parts --------------------------------------------------------------------------


def _closed_body(
    trace: Trace,
    function: Callable[..., object],
    types: Sequence[Tensor],
    structure: Structure,
) -> Body:
    """Trace a function; refuse one that captures arrays from around it."""
    (body,), captures = trace_bodies(trace, [function], types, structure)
    if captures:
        fail(
            "captured-array",
            f"'{function_name(function)}' uses an array of type "
            f"{Tensor.of(captures[0])} from around it, which its rule would not see",
            "pass it as an argument",
        )
    return body


def _positional_structure(count: int) -> Structure:
    """Return the structure of `count` positional arguments that are leaves."""
    return flatten(((0,) * count, {}))[1]


def _is_float(kind: Tensor) -> bool:
    """Return whether a tensor type has a float dtype."""
    return dtypes.is_float(kind.dtype)


def _as_pair(function: Callable[..., object], result: object) -> tuple[object, object]:
    """Return a function's two results; refuse any other number."""
    if not isinstance(result, tuple) or len(result) != 2:
        fail(
            "bad-rule",
            f"expected '{function_name(function)}' to return two values; got "
            f"{type(result).__name__}",
        )
    return result[0], result[1]


def _require_form(what: str, expected: Structure, got: Structure) -> None:
    """Refuse a result whose structure is not the expected one."""
    if expected != got:
        fail(
            "bad-rule", f"{what} must return a result of the form {expected}; got {got}"
        )


def _at_float_leaves(
    tree: Structure, leaves: Sequence[Array], smooth: Sequence[Array]
) -> PyTree:
    """Return a tree with the `smooth` values at float leaves, and None at others."""
    rest = iter(smooth)
    return tree.unflatten([next(rest) if _is_float(x.type) else None for x in leaves])


def _float_leaves(
    name: str, tree: Structure, types: Sequence[Tensor], found: object
) -> list[Array]:
    """Return a rule's results at float leaves as Arrays, with zeros for None."""
    leaves = leaves_like(f"values from the rule of '{name}'", tree, found)
    result = []
    for leaf, kind in zip(leaves, types, strict=True):
        if not _is_float(kind):
            continue
        array = _zeros(kind) if leaf is None else lift(leaf)
        if array.type != kind:
            fail(
                "bad-rule",
                f"the rule of '{name}' gives {array.type} where {kind} is expected",
            )
        result.append(array)
    return result


def _zeros(kind: Tensor) -> Array:
    """Return an Array of zeros of a tensor type."""
    zero = lift(np.zeros((), dtypes.to_numpy(kind.dtype)))
    return emit("broadcast", zero, shape=kind.shape, axes=()) if kind.shape else zero
