"""Function transformations: ops of the graph until the autodiff pass replaces them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from aotc import dtypes
from aotc.dialects.transform import VjpOf, declare_vjp
from aotc.frontends.array import Array
from aotc.frontends.conversion import lift
from aotc.frontends.creation import full
from aotc.frontends.places import fail, location
from aotc.frontends.tracing import Trace, current_trace
from aotc.mlir import func, ir
from aotc.pytree import Structure, flatten, leaf_names

Positions = int | Sequence[int]


def grad(
    function: Callable[..., Any], argnums: Positions = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """The gradient of a function with a scalar result; see `value_and_grad`.

    Returns:
        A function of the same arguments that returns the gradient, or with `has_aux`
        (gradient, anything).
    """
    with_value = value_and_grad(function, argnums, has_aux)

    def gradient(*args: Any, **kwargs: Any) -> Any:
        value, grads = with_value(*args, **kwargs)
        return (grads, value[1]) if has_aux else grads

    return gradient


def value_and_grad(
    function: Callable[..., Any], argnums: Positions = 0, has_aux: bool = False
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

    def transformed(*args: Any, **kwargs: Any) -> Any:
        trace = current_trace()
        if trace is None:
            fail(
                "no-trace",
                "gradients are compiled, not computed in Python: "
                f"value_and_grad({_name(function)}) was called outside of an entry",
                "call it in a function with @aotc.entry",
            )
        leaves, structure = flatten((args, kwargs))
        arrays = [lift(leaf) for leaf in leaves]
        spans = _spans(structure.children[0], argnums)
        _require_floats(structure, arrays, spans)
        inner = _trace_inner(trace, function, arrays, structure, has_aux)
        wanted = [leaf for span in spans for leaf in span]
        values, grads = _differentiated(trace, inner, arrays, wanted)
        parts = _by_argument(structure.children[0], argnums, grads)
        return inner.tree.unflatten(values), parts

    return transformed


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", type(function).__name__)


# ---- arguments ----------------------------------------------------------------------


def _positions(count: int, argnums: Positions) -> list[int]:
    """The numbers of the arguments to differentiate by, counted from the front."""
    wanted = [argnums] if isinstance(argnums, int) else list(argnums)
    wrong = [position for position in wanted if not -count <= position < count]
    if wrong or len({position % count for position in wanted}) != len(wanted):
        fail(
            "bad-argnums",
            f"expected argnums that name each of {count} positional arguments at most "
            f"once; got {argnums}",
        )
    return [position % count for position in wanted]


def _spans(arguments: Structure, argnums: Positions) -> list[range]:
    """Per argument in `argnums`, the numbers of its leaves."""
    ends = [0]
    for child in arguments.children:
        ends.append(ends[-1] + child.leaf_count)
    positions = _positions(len(arguments.children), argnums)
    return [range(ends[position], ends[position + 1]) for position in positions]


def _require_floats(
    structure: Structure, arrays: Sequence[Array], spans: Sequence[range]
) -> None:
    for leaf in (leaf for span in spans for leaf in span):
        if not dtypes.is_float(arrays[leaf].dtype):
            name = leaf_names(structure)[leaf].removeprefix("0.")
            fail(
                "not-differentiable",
                f"cannot differentiate by argument leaf '{name}' of type "
                f"{arrays[leaf].type}: only floats have gradients",
                "leave integers out of the arguments in argnums",
            )


def _by_argument(
    arguments: Structure, argnums: Positions, grads: Sequence[Array]
) -> Any:
    """The gradients in the form of the arguments that they belong to."""
    parts, first = [], 0
    for position in _positions(len(arguments.children), argnums):
        child = arguments.children[position]
        parts.append(child.unflatten(grads[first : first + child.leaf_count]))
        first += child.leaf_count
    return parts[0] if isinstance(argnums, int) else tuple(parts)


# ---- the function and its derivative ------------------------------------------------


@dataclass(frozen=True)
class _Inner:
    """The function as a private graph function; its outputs begin with the scalar."""

    trace: Trace
    outputs: list[Array]
    tree: Structure


def _trace_inner(
    trace: Trace,
    function: Callable[..., Any],
    arrays: Sequence[Array],
    structure: Structure,
    has_aux: bool,
) -> _Inner:
    # below the name of the function that calls, which no entry can have
    symbol = re.sub(r"\W+", "_", _name(function)).strip("_")
    name = f"{trace.name}.{symbol}"
    types = [array.type for array in arrays]
    inner = Trace(trace.module, name, types, trace.contracts, trace)
    with inner.active():
        args, kwargs = structure.unflatten(inner.arguments)
        result = function(*args, **kwargs)
        _require_scalar(function, result, has_aux)
        leaves, tree = flatten(result)
        outputs = [lift(leaf) for leaf in leaves]
        inner.finish(outputs)
    return _Inner(inner, outputs, tree)


def _require_scalar(function: Callable[..., Any], result: Any, has_aux: bool) -> None:
    if has_aux and not (isinstance(result, tuple) and len(result) == 2):
        fail(
            "not-a-scalar",
            f"with has_aux, '{_name(function)}' must return (scalar, anything)",
        )
    scalar = result[0] if has_aux else result
    if isinstance(scalar, (tuple, list, dict)) or scalar is None:
        got = type(scalar).__name__
    else:
        value = lift(scalar)
        if not value.ndim and dtypes.is_float(value.dtype):
            return
        got = str(value.type)
    fail(
        "not-a-scalar",
        f"expected '{_name(function)}' to return a float scalar; got {got}",
        "reduce the result, for instance with .mean(); return more with has_aux=True",
    )


def _differentiated(
    trace: Trace, inner: _Inner, arrays: Sequence[Array], wanted: Sequence[int]
) -> tuple[list[Array], list[Array]]:
    """The outputs of the function, and the gradients by the leaves in `wanted`."""
    inputs = [trace.value_of(array) for array in (*arrays, *inner.trace.captured)]
    seeds = [1.0] + [0.0] * (len(inner.outputs) - 1)
    cotangents = [
        trace.value_of(full(output.shape, seed, output.dtype))
        for output, seed in zip(inner.outputs, seeds, strict=True)
        if dtypes.is_float(output.dtype)
    ]
    types = [output.type for output in inner.outputs]
    of = VjpOf(inner.trace.name, tuple(wanted))
    with location(), ir.InsertionPoint(trace.block):
        results = [t.to_mlir() for t in types] + [inputs[i].type for i in wanted]
        callee = declare_vjp(trace.module, of, inputs, cotangents, types)
        symbol = ir.FlatSymbolRefAttr.get(callee)
        call = func.CallOp(results, symbol, [*inputs, *cotangents])
    found = [Array(value=value, trace=trace) for value in call.results]
    return found[: len(types)], found[len(types) :]
