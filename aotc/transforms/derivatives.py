"""Derivatives: gradients, and products with Jacobians from both sides.

Within an entry nothing is differentiated in Python: each function here traces its
argument as a graph function, declares the transformed one and calls it. Outside of one
the argument runs at once, on a tape. They may be nested in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from aotc.core.pytree import PyTree, Structure, flatten, leaf_names
from aotc.dialects.functions.transform import Jvp, Vjp
from aotc.numpy.creation import full
from aotc.tracing.array import Array
from aotc.tracing.bodies import function_name, leaves_like
from aotc.tracing.calls import shown_value
from aotc.tracing.conversion import lift
from aotc.tracing.source_locations import fail
from aotc.transforms.traced import Function, is_float, traced_or_executed

Positions = int | Sequence[int]
Result = TypeVar("Result")
Each = TypeVar("Each")


def grad(
    function: Callable[..., object], argnums: Positions = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """Return a function that gives the gradient of a function with a scalar result.

    Returns:
        A function of the same arguments that returns the gradient, or with `has_aux`
        (gradient, anything).
    """
    with_value = value_and_grad(function, argnums, has_aux)

    def gradient(*args: object, **kwargs: object) -> object:
        value, grads = with_value(*args, **kwargs)
        return (grads, value[1]) if has_aux else grads

    return gradient


def value_and_grad(
    function: Callable[..., object], argnums: Positions = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """Return a function that gives value and gradient of one with a scalar result.

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

    def adapt_result(traced: Callable[..., object], result: object) -> object:
        _require_scalar(traced, result, has_aux)
        return result

    def wrapper(*args: object, **kwargs: object) -> object:
        leaves, structure = flatten((args, kwargs))
        wrt = float_leaves_in(structure, leaves, argnums)
        traced = traced_or_executed(
            "value_and_grad", function, leaves, structure, adapt_result
        )
        arguments, outputs = structure.children[0], traced.body.outputs
        seeds = [_seed(i, y) for i, y in enumerate(outputs) if is_float(y)]
        values, grads = traced.apply(Vjp(traced.body.name, wrt), seeds)
        parts = by_argument(arguments, argnums, grads)
        return traced.body.tree.unflatten(values), parts

    return wrapper


def vjp(
    function: Callable[..., Result], *primals: PyTree
) -> tuple[Result, Callable[[PyTree], tuple[Any, ...]]]:
    """Return a function's result, and the function from cotangents to argument
    gradients.

    Args:
        function: of pytrees of arrays; only float leaves have cotangents.
        primals: its arguments.

    Returns:
        The result, and a function that takes cotangents in the form of the result (None
        or zeros for leaves that are no floats) and returns one tree for each argument,
        with None for leaves that are no floats. What the two have in common is computed
        once.
    """
    traced = traced_or_executed("vjp", function, *flatten((primals, {})))
    arguments = traced.structure.children[0]
    wrt = [i for i, array in enumerate(traced.arrays) if is_float(array)]

    def pullback(cotangents: PyTree) -> tuple[PyTree, ...]:
        given = _matching("cotangent", traced, cotangents)
        _, found = traced.apply(Vjp(traced.body.name, tuple(wrt)), given)
        leaves = dict(zip(wrt, found, strict=True))
        tree: tuple[PyTree, ...] = arguments.unflatten(
            [leaves.get(i) for i in range(len(traced.arrays))]
        )
        return tree

    return traced.results(), pullback


def jvp(
    function: Callable[..., Result],
    primals: Sequence[PyTree],
    tangents: Sequence[PyTree],
) -> tuple[Result, Result]:
    """Return a function's result, and its directional derivative along `tangents`.

    Args:
        function: of pytrees of arrays.
        primals: its arguments.
        tangents: one tree for each argument, of its form; None for leaves that are no
            floats.

    Returns:
        The result and its tangent, None for leaves that are no floats.
    """
    arguments, given = _as_tuple("primals", primals), _as_tuple("tangents", tangents)
    traced = traced_or_executed("jvp", function, *flatten((arguments, {})))
    return _pushed_forward(traced, given)


def linearize(
    function: Callable[..., object], *primals: PyTree
) -> tuple[object, Callable[..., object]]:
    """Return a function's result, and the linear function from tangents to its tangent.

    Args:
        function: of pytrees of arrays.
        primals: its arguments.

    Returns:
        The result, and a function of tangents, as in `jvp`, that returns the tangent of
        the result. What its calls have in common is computed once.
    """
    traced = traced_or_executed("linearize", function, *flatten((primals, {})))
    return traced.results(), lambda *tangents: _pushed_forward(traced, tangents)[1]


def hvp(
    function: Callable[..., object],
    primals: Sequence[PyTree],
    tangents: Sequence[PyTree],
) -> tuple[Any, ...]:
    """Return the product of a scalar function's Hessian and a vector.

    By forward mode over reverse mode, so at a few times the cost of the function and
    without the matrix (Pearlmutter, "Fast exact multiplication by the Hessian", 1994).

    Args:
        function: of pytrees of float arrays, with a float scalar as result.
        primals: its arguments.
        tangents: one tree for each argument, of its form.

    Returns:
        One tree for each argument, of its form.
    """
    argnums = tuple(range(len(_as_tuple("primals", primals))))
    product: tuple[Any, ...] = jvp(grad(function, argnums), primals, tangents)[1]
    return product


def _pushed_forward(traced: Function, tangents: tuple[object, ...]) -> tuple[Any, Any]:
    """Return the result of a traced function and its tangent."""
    given = _tangents(traced, tangents)
    derived = Jvp(traced.body.name, tuple(given))
    values, found = traced.apply(derived, list(given.values()))
    smooth = [i for i, output in enumerate(traced.body.outputs) if is_float(output)]
    slopes = dict(zip(smooth, found, strict=True))
    tree = traced.body.tree
    return tree.unflatten(values), tree.unflatten(
        [slopes.get(i) for i in range(len(values))]
    )


# ---- arguments ----------------------------------------------------------------------


def _as_tuple(name: str, values: Sequence[Each]) -> tuple[Each, ...]:
    """Return a tuple with a value for each argument; raise for an array."""
    if not isinstance(values, (tuple, list)):
        fail(
            "bad-argument",
            f"expected {name} as a tuple with one for each argument; got "
            f"{shown_value(values)}",
            "a single one is (x,)",
        )
    return tuple(values)


def _positions(count: int, argnums: Positions) -> list[int]:
    """Return the argument indices to differentiate by, counted from the front."""
    wanted = [argnums] if isinstance(argnums, int) else list(argnums)
    wrong = [position for position in wanted if not -count <= position < count]
    if wrong or len({position % count for position in wanted}) != len(wanted):
        fail(
            "bad-argnums",
            f"expected argnums that name each of {count} positional arguments at most "
            f"once; got {argnums}",
            "count from 0, or with negative numbers from the end; what is "
            "differentiated by cannot be given by its name",
        )
    return [position % count for position in wanted]


def float_leaves_in(
    structure: Structure, leaves: Sequence[object], argnums: Positions
) -> tuple[int, ...]:
    """Return the leaf indices of the arguments `argnums`; raise if one is no float.

    Args:
        structure: the form of (args, kwargs).
        leaves: of them.
        argnums: the positional arguments to differentiate by.
    """
    ends = [0]
    for child in structure.children[0].children:
        ends.append(ends[-1] + child.leaf_count)
    positions = _positions(len(ends) - 1, argnums)
    found = tuple(n for p in positions for n in range(ends[p], ends[p + 1]))
    for leaf in found:
        array = lift(leaves[leaf])
        if not is_float(array):
            name = leaf_names(structure)[leaf].removeprefix("0.")
            fail(
                "not-differentiable",
                f"cannot differentiate by argument leaf '{name}' of type "
                f"{array.type}: only floats have gradients",
                "keep integers apart from the arguments that are differentiated by",
            )
    return found


def by_argument(
    arguments: Structure, argnums: Positions, grads: Sequence[Array]
) -> PyTree:
    """Return gradients of leaves in the structure of their arguments."""
    parts, first = [], 0
    for position in _positions(len(arguments.children), argnums):
        child = arguments.children[position]
        parts.append(child.unflatten(grads[first : first + child.leaf_count]))
        first += child.leaf_count
    return parts[0] if isinstance(argnums, int) else tuple(parts)


def _seed(index: int, output: Array) -> Array:
    """Return ones for the output to differentiate (`index` 0), zeros for others."""
    return full(output.shape, 0.0 if index else 1.0, output.dtype)


def _require_scalar(
    function: Callable[..., object], result: object, has_aux: bool
) -> None:
    """Raise unless a function's result is a float scalar."""
    name, scalar = function_name(function), result
    if has_aux:
        if not isinstance(result, tuple) or len(result) != 2:
            fail(
                "not-a-scalar",
                f"with has_aux, '{name}' must return (scalar, anything); got "
                f"{shown_value(result)}",
                "leave out has_aux if there is nothing but the scalar",
            )
        scalar = result[0]
    if isinstance(scalar, (tuple, list, dict, str)) or scalar is None:
        got = type(scalar).__name__
    else:
        value = lift(scalar)
        if not value.ndim and is_float(value):
            return
        got = str(value.type)
    fail(
        "not-a-scalar",
        f"expected '{name}' to return a float scalar; got {got}",
        "reduce the result, for instance with .mean(); return more with has_aux=True",
    )


def _matching(what: str, traced: Function, tree: PyTree) -> list[Array]:
    """Return a tree's leaves at the float leaves of a function's result, as typed
    arrays.
    """
    form, outputs = traced.body.tree, traced.body.outputs
    leaves, names = leaves_like(f"{what}s", form, tree), leaf_names(form)
    return [
        _like(f"{what} of result leaf '{name}'" if name else what, leaf, output)
        for name, leaf, output in zip(names, leaves, outputs, strict=True)
        if is_float(output)
    ]


def _tangents(traced: Function, tangents: tuple[object, ...]) -> dict[int, Array]:
    """Return the tangents of float argument leaves by leaf index."""
    arguments = traced.structure.children[0]
    leaves = leaves_like("tangents", arguments, tangents)
    names = leaf_names(arguments)
    given = {number: leaf for number, leaf in enumerate(leaves) if leaf is not None}
    for number in given:
        if not is_float(traced.arrays[number]):
            fail(
                "not-differentiable",
                f"argument leaf '{names[number]}' of type {traced.arrays[number].type} "
                "has no tangent: only floats have",
                "give None in its place",
            )
    return {
        number: _like(
            f"tangent of argument leaf '{names[number]}'", leaf, traced.arrays[number]
        )
        for number, leaf in given.items()
    }


def _like(what: str, leaf: object, expected: Array) -> Array:
    """Return `leaf` as an array; raise unless it has the type of `expected`. None is
    zeros.
    """
    if leaf is None:
        return full(expected.shape, 0.0, expected.dtype)
    array = lift(leaf, expected.dtype)
    if array.type != expected.type:
        fail("shape-mismatch", f"expected a {what}: {expected.type}; got {array.type}")
    return array
