"""Function transformations: ops of the graph until the autodiff pass replaces them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from aotc import dtypes
from aotc import numpy as anp
from aotc.dialects.transform import VjpOf, declare_vjp
from aotc.errors import InputError
from aotc.frontends.tracing import Array, Trace, current_trace, lift, location, user_line
from aotc.mlir import func, ir
from aotc.pytree import flatten, leaf_names


def grad(
    function: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """The gradient of a function with a scalar result; see `value_and_grad`."""
    with_value = value_and_grad(function, argnums, has_aux)

    def gradient(*args: Any) -> Any:
        value, grads = with_value(*args)
        return (grads, value[1]) if has_aux else grads

    return gradient


def value_and_grad(
    function: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """The value of a function with a scalar result, and its gradient.

    Args:
        function: returns a float scalar, or (scalar, anything) with `has_aux`.
        argnums: the positional arguments to differentiate by; each is a pytree of float
            arrays, and so is its gradient.
        has_aux: whether the function returns more beside the scalar.

    Returns:
        A function of the same arguments that returns (value, gradient), where the
        gradient is a tuple if `argnums` is.

    Raises:
        InputError: the result is no float scalar, or an argument in `argnums` has
            leaves that are no floats.
    """

    def transformed(*args: Any) -> Any:
        trace = current_trace()
        if trace is None:
            raise InputError(
                "no-trace",
                "gradients are compiled, not computed in Python: call "
                f"value_and_grad({_name(function)}) inside an entry",
                where=user_line(),
            )
        leaves, structure = flatten(args)
        arrays = [lift(leaf) for leaf in leaves]
        wanted = _wanted_leaves(structure, arrays, argnums)
        inner, outputs, output_tree = _trace_inner(trace, function, arrays, structure, has_aux)
        results = _build_vjp(trace, inner, arrays, outputs, wanted)
        values = output_tree.unflatten(results[: len(outputs)])
        grads = _by_argument(structure, results[len(outputs) :], argnums)
        return values, grads

    return transformed


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", "function")


def _positions(argnums: int | Sequence[int]) -> list[int]:
    return [argnums] if isinstance(argnums, int) else list(argnums)


def _wanted_leaves(structure: Any, arrays: list[Array], argnums: Any) -> list[int]:
    """Numbers of the leaves to differentiate by."""
    names = leaf_names(structure)
    spans, first = [], 0
    for child in structure.children:
        spans.append(range(first, first + child.leaf_count))
        first += child.leaf_count
    wanted = []
    for position in _positions(argnums):
        if not -len(spans) <= position < len(spans):
            raise InputError(
                "bad-argnums",
                f"argnums names argument {position}; the function was given {len(spans)}",
                where=user_line(),
            )
        for leaf in spans[position]:
            if not dtypes.is_float(arrays[leaf].dtype):
                raise InputError(
                    "not-differentiable",
                    f"cannot differentiate by argument leaf '{names[leaf]}' of type "
                    f"{arrays[leaf].type}: only floats have gradients",
                    where=user_line(),
                    hint="leave integers out of the arguments in argnums",
                )
            wanted.append(leaf)
    return wanted


def _trace_inner(
    trace: Trace, function: Callable[..., Any], arrays: list[Array], structure: Any, aux: bool
) -> tuple[Trace, list[Array], Any]:
    """`function` as a private graph function; its outputs begin with the scalar."""
    types = [array.type for array in arrays]
    inner = Trace(trace.module, _name(function), types, trace.contracts, trace)
    with inner.active():
        result = function(*structure.unflatten(inner.arguments))
        leaves, tree = flatten(result)
        outputs = [lift(leaf) for leaf in leaves]
        _require_scalar(function, result, aux)
        inner.finish(outputs)
    return inner, outputs, tree


def _require_scalar(function: Callable[..., Any], result: Any, aux: bool) -> None:
    if aux and not (isinstance(result, tuple) and len(result) == 2):
        raise InputError(
            "not-a-scalar",
            f"with has_aux, '{_name(function)}' must return (scalar, anything)",
            where=user_line(),
        )
    value = lift(result[0] if aux else result)
    if value.ndim or not dtypes.is_float(value.dtype):
        raise InputError(
            "not-a-scalar",
            f"expected '{_name(function)}' to return a float scalar; got {value.type}",
            where=user_line(),
            hint="reduce the result, for instance with .mean()",
        )


def _build_vjp(
    trace: Trace, inner: Trace, arrays: list[Array], outputs: list[Array], wanted: list[int]
) -> list[Array]:
    inputs = [trace.value_of(array) for array in arrays]
    inputs += [trace.value_of(array) for array in inner.captured]
    cotangents = [
        trace.value_of(anp.full(output.shape, 1.0 if number == 0 else 0.0, output.dtype))
        for number, output in enumerate(outputs)
        if dtypes.is_float(output.dtype)
    ]
    types = [output.type for output in outputs]
    with location():
        of = VjpOf(inner.name, tuple(wanted))
        callee = declare_vjp(trace.module, of, inputs, cotangents, types)
        operands = [*inputs, *cotangents]
        results = [t.to_mlir() for t in types] + [inputs[i].type for i in wanted]
        with ir.InsertionPoint(trace.block):
            call = func.CallOp(results, ir.FlatSymbolRefAttr.get(callee), operands)
    return [Array(value=value, trace=trace) for value in call.results]


def _by_argument(structure: Any, grads: list[Array], argnums: Any) -> Any:
    parts, first = [], 0
    for position in _positions(argnums):
        child = structure.children[position]
        parts.append(child.unflatten(grads[first : first + child.leaf_count]))
        first += child.leaf_count
    return parts[0] if isinstance(argnums, int) else tuple(parts)
