"""Function transformations: functions of the graph until the autodiff pass writes them.

Nothing is differentiated in Python: each function here traces its argument as a graph
function, declares the transformed one and calls it. They may be nested in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from aotc import dtypes
from aotc.dialects.functions import call
from aotc.dialects.transform import Batch, Derived, Jvp, Vjp, derive
from aotc.dialects.types import Size
from aotc.frontends.array import Array
from aotc.frontends.bodies import Body, function_name, leaves_like, trace_bodies
from aotc.frontends.calls import guard
from aotc.frontends.conversion import lift
from aotc.frontends.places import fail, location
from aotc.frontends.tracing import Trace, current_trace
from aotc.mlir import ir
from aotc.numpy.creation import full
from aotc.numpy.shaping import moveaxis
from aotc.pytree import Structure, flatten, leaf_names

__all__ = ["grad", "jvp", "value_and_grad", "vjp", "vmap"]

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

    def finished(traced: Callable[..., Any], result: Any) -> Any:
        _require_scalar(traced, result, has_aux)
        return result

    def transformed(*args: Any, **kwargs: Any) -> Any:
        traced = _Traced("value_and_grad", function, args, kwargs, finished)
        arguments = traced.structure.children[0]
        spans = _spans(arguments, argnums)
        wrt = [leaf for span in spans for leaf in span]
        _require_floats(traced.structure, traced.arrays, wrt)
        outputs = traced.body.outputs
        seeds = [_seed(i, y) for i, y in enumerate(outputs) if _is_float(y)]
        values, grads = traced.apply(Vjp(traced.body.name, tuple(wrt)), seeds)
        parts = _by_argument(arguments, argnums, grads)
        return traced.body.tree.unflatten(values), parts

    return transformed


def vjp(
    function: Callable[..., Any], *primals: Any
) -> tuple[Any, Callable[[Any], tuple[Any, ...]]]:
    """The result of a function, and the product of cotangents with its Jacobian.

    Args:
        function: of pytrees of arrays; only float leaves have cotangents.
        primals: its arguments.

    Returns:
        The result, and a function that takes cotangents in the form of the result (None
        or zeros for leaves that are no floats) and returns one tree for each argument,
        with None for leaves that are no floats.
    """
    traced = _Traced("vjp", function, primals, {})
    arguments = traced.structure.children[0]
    wrt = [i for i, array in enumerate(traced.arrays) if _is_float(array)]

    def pullback(cotangents: Any) -> tuple[Any, ...]:
        given = _matching("cotangent", traced.body, cotangents)
        _, found = traced.apply(Vjp(traced.body.name, tuple(wrt)), given)
        leaves = dict(zip(wrt, found, strict=True))
        tree: tuple[Any, ...] = arguments.unflatten(
            [leaves.get(i) for i in range(len(traced.arrays))]
        )
        return tree

    return traced.results(), pullback


def jvp(
    function: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]
) -> tuple[Any, Any]:
    """The result of a function, and how it changes along `tangents`.

    Args:
        function: of pytrees of arrays.
        primals: its arguments.
        tangents: one tree for each argument, of its form; None for leaves that are no
            floats.

    Returns:
        The result and its tangent, None for leaves that are no floats.
    """
    traced = _Traced("jvp", function, tuple(primals), {})
    given = _tangents(traced, tuple(tangents))
    wrt = tuple(given)
    values, found = traced.apply(Jvp(traced.body.name, wrt), list(given.values()))
    smooth = [i for i, output in enumerate(traced.body.outputs) if _is_float(output)]
    slopes = dict(zip(smooth, found, strict=True))
    tree = traced.body.tree
    return tree.unflatten(values), tree.unflatten(
        [slopes.get(i) for i in range(len(values))]
    )


def vmap(
    function: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0
) -> Callable[..., Any]:
    """The function for each element along an axis of its arguments, in one go.

    Args:
        function: of pytrees of arrays.
        in_axes: the axis of each argument that counts the elements, or None for an
            argument that all share; one for all arguments, or a sequence with one each.
        out_axes: where the axis goes in each result; one for all.

    Returns:
        A function of the stacked arguments.
    """

    def transformed(*args: Any) -> Any:
        axes = _axis_of_each(args, in_axes)
        size = _stack_size(args, axes)
        leaves, structure = flatten((args, {}))
        arrays = [
            array if axis is None else moveaxis(array, axis, 0)
            for array, axis in zip(map(lift, leaves), axes, strict=True)
        ]
        stacked = tuple(i for i, axis in enumerate(axes) if axis is not None)
        traced = _Traced.of_elements(function, arrays, structure, stacked)
        results, _ = traced.apply(Batch(traced.body.name, stacked, size), [])
        return traced.body.tree.unflatten(
            [
                array if out_axes == 0 else moveaxis(array, 0, out_axes)
                for array in results
            ]
        )

    return transformed


# ---- the traced function ------------------------------------------------------------


class _Traced:
    """A function traced on its arguments, and what is called in its place."""

    def __init__(
        self,
        transformation: str,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        finished: Callable[..., Any] = lambda _, result: result,
    ) -> None:
        leaves, self.structure = flatten((args, kwargs))
        self.trace = _require_trace(transformation, function)
        self.arrays = [lift(leaf) for leaf in leaves]
        types = [array.type for array in self.arrays]
        bodies, self.captures = trace_bodies(
            self.trace, [function], types, self.structure, finished
        )
        self.body: Body = bodies[0]

    @classmethod
    def of_elements(
        cls,
        function: Callable[..., Any],
        arrays: Sequence[Array],
        structure: Structure,
        stacked: Sequence[int],
    ) -> _Traced:
        """The function traced on one element of each array in `stacked`."""
        traced = cls.__new__(cls)
        traced.structure, traced.arrays = structure, list(arrays)
        traced.trace = _require_trace("vmap", function)
        types = [
            array.type.with_shape(array.shape[1:]) if i in stacked else array.type
            for i, array in enumerate(arrays)
        ]
        bodies, traced.captures = trace_bodies(
            traced.trace, [function], types, structure
        )
        traced.body = bodies[0]
        return traced

    def results(self) -> Any:
        """What the function itself returns."""
        return self.body.tree.unflatten(self._call(self.body.name, []))

    def apply(
        self, derived: Derived, more: Sequence[Array]
    ) -> tuple[list[Array], list[Array]]:
        """The outputs of a transformed function; the body's own, and what it adds."""
        with location(), ir.InsertionPoint(self.trace.block):
            name = derive(derived)
        results = self._call(name, more)
        count = len(self.body.outputs)
        return results[:count], results[count:]

    def _call(self, name: str, more: Sequence[Array]) -> list[Array]:
        operands = [self.trace.value_of(array) for array in self.arrays]
        given = [self.trace.value_of(array) for array in more]
        with location(), ir.InsertionPoint(self.trace.block):
            values = call(name, [*operands, *self.captures, *given])
        return [Array(value=value, trace=self.trace) for value in values]


def _require_trace(transformation: str, function: Callable[..., Any]) -> Trace:
    trace = current_trace()
    if trace is None:
        fail(
            "no-trace",
            "gradients and other transformations are compiled, not computed in "
            f"Python: {transformation}({function_name(function)}) was called outside "
            "of an entry",
            "call it in a function with @aotc.entry",
        )
    return trace


def _is_float(array: Array) -> bool:
    return dtypes.is_float(array.dtype)


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
    structure: Structure, arrays: Sequence[Array], leaves: Sequence[int]
) -> None:
    for leaf in leaves:
        if not _is_float(arrays[leaf]):
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


def _seed(index: int, output: Array) -> Array:
    """The cotangent of an output, when the first one is differentiated."""
    return full(output.shape, 0.0 if index else 1.0, output.dtype)


def _require_scalar(function: Callable[..., Any], result: Any, has_aux: bool) -> None:
    name = function_name(function)
    if has_aux and not (isinstance(result, tuple) and len(result) == 2):
        fail("not-a-scalar", f"with has_aux, '{name}' must return (scalar, anything)")
    scalar = result[0] if has_aux else result
    if isinstance(scalar, (tuple, list, dict)) or scalar is None:
        got = type(scalar).__name__
    else:
        value = lift(scalar)
        if not value.ndim and _is_float(value):
            return
        got = str(value.type)
    fail(
        "not-a-scalar",
        f"expected '{name}' to return a float scalar; got {got}",
        "reduce the result, for instance with .mean(); return more with has_aux=True",
    )


def _matching(what: str, body: Body, tree: Any) -> list[Array]:
    """The leaves of `tree`, which has the form of a body's result, for its floats."""
    leaves = leaves_like(f"{what}s", body.tree, tree)
    names = leaf_names(body.tree)
    return [
        _like(f"{what} of result leaf '{name}'", leaf, output)
        for name, leaf, output in zip(names, leaves, body.outputs, strict=True)
        if _is_float(output)
    ]


def _tangents(traced: _Traced, tangents: tuple[Any, ...]) -> dict[int, Array]:
    """The tangents of the float leaves of the arguments, by number."""
    arguments = traced.structure.children[0]
    leaves = leaves_like("tangents", arguments, tangents)
    names = leaf_names(arguments)
    return {
        number: _like(f"tangent of argument leaf '{names[number]}'", leaf, array)
        for number, (leaf, array) in enumerate(zip(leaves, traced.arrays, strict=True))
        if _is_float(array) and leaf is not None
    }


def _like(what: str, leaf: Any, expected: Array) -> Array:
    """`leaf` as an array of the type of `expected`; None means zeros."""
    if leaf is None:
        return full(expected.shape, 0.0, expected.dtype)
    array = lift(leaf, expected.dtype)
    if array.type != expected.type:
        fail(
            "shape-mismatch", f"expected a {what} of {expected.type}; got {array.type}"
        )
    return array


# ---- axes of vmap -------------------------------------------------------------------


def _axis_of_each(args: tuple[Any, ...], in_axes: Any) -> list[int | None]:
    """For each leaf of the arguments, the axis that counts, or None."""
    each = [in_axes] * len(args) if in_axes is None or _is_int(in_axes) else in_axes
    if len(each) != len(args) or not all(a is None or _is_int(a) for a in each):
        fail(
            "bad-axis",
            f"expected in_axes as one axis or None for each of {len(args)} arguments; "
            f"got {in_axes!r}",
        )
    return [
        axis
        for arg, axis in zip(args, each, strict=True)
        for _ in range(flatten(arg)[1].leaf_count)
    ]


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _stack_size(args: tuple[Any, ...], axes: Sequence[int | None]) -> Size:
    """How many elements there are; the same along every axis that counts them."""
    leaves, structure = flatten(args)
    names = leaf_names(structure)
    found: list[tuple[str, Size]] = []
    for name, leaf, axis in zip(names, leaves, axes, strict=True):
        array = lift(leaf)
        if axis is None:
            continue
        if not -array.ndim <= axis < array.ndim:
            fail(
                "bad-axis", f"argument leaf '{name}', {array.type}, has no axis {axis}"
            )
        found.append((name, array.shape[axis]))
    if not found:
        fail("bad-axis", "vmap needs at least one argument with an axis to map over")
    for name, size in found[1:]:
        if size != found[0][1]:
            fail(
                "shape-mismatch",
                f"vmap needs one number of elements; argument leaf '{found[0][0]}' has "
                f"{found[0][1]} and '{name}' has {size}",
            )
    return found[0][1]


guard(globals(), __all__)
