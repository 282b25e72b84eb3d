"""Whole Jacobians and Hessians: one product with each vector of a basis, batched."""

from __future__ import annotations

from collections.abc import Callable

from aotc.core.pytree import flatten, leaf_names
from aotc.dialects.functions.transform import Jvp, Vjp
from aotc.dialects.types import element_count
from aotc.numpy.creation import zeros_like
from aotc.numpy.diagonals import eye
from aotc.numpy.shaping import moveaxis, reshape
from aotc.tracing.array import Array
from aotc.tracing.source_locations import fail
from aotc.transforms.derivatives import (
    Positions,
    by_argument,
    float_leaves_in,
)
from aotc.transforms.mapping import vmap
from aotc.transforms.traced import Function, is_float, traced_or_executed

# for the leaves of the arguments in `wrt`: the Jacobian of every result by each
Rows = Callable[[Function, tuple[int, ...]], list[list[Array]]]


def jacrev(
    function: Callable[..., object], argnums: Positions = 0
) -> Callable[..., object]:
    """Return a function that gives the Jacobian, by a reverse pass per result element.

    Args:
        function: of pytrees of arrays; its result is a pytree of float arrays.
        argnums: the positional arguments to differentiate by.

    Returns:
        A function of the same arguments. Its result has the form of that of `function`;
        in the place of each leaf of shape y stand arrays of shape y + x in the form of
        the argument, a tuple of them if `argnums` is one.
    """
    return _jacobian("jacrev", function, argnums, _reverse_rows)


def jacfwd(
    function: Callable[..., object], argnums: Positions = 0
) -> Callable[..., object]:
    """Return a function that gives the Jacobian, by a forward pass per argument
    element.

    Takes and returns what `jacrev` does.
    """
    return _jacobian("jacfwd", function, argnums, _forward_columns)


def hessian(
    function: Callable[..., object], argnums: Positions = 0
) -> Callable[..., object]:
    """Return a function that gives the second derivatives, by forward over reverse
    mode.

    Takes what `jacrev` does, and returns its form within its form.
    """
    return jacfwd(jacrev(function, argnums), argnums)


def _jacobian(
    name: str, function: Callable[..., object], argnums: Positions, rows: Rows
) -> Callable[..., object]:
    """Return a function that gives the Jacobian with rows computed by `rows`."""

    def wrapper(*args: object, **kwargs: object) -> object:
        leaves, structure = flatten((args, kwargs))
        wrt = float_leaves_in(structure, leaves, argnums)
        traced = traced_or_executed(name, function, leaves, structure)
        _require_float_results(traced)
        arguments = structure.children[0]
        return traced.body.tree.unflatten(
            [by_argument(arguments, argnums, parts) for parts in rows(traced, wrt)]
        )

    return wrapper


def _reverse_rows(traced: Function, wrt: tuple[int, ...]) -> list[list[Array]]:
    """Return the Jacobian of each result by each leaf in `wrt`, by reverse mode."""
    outputs, derived = traced.body.outputs, Vjp(traced.body.name, wrt)

    def of_output(chosen: int) -> list[Array]:
        def row(cotangent: Array) -> list[Array]:
            given = [zeros_like(y) for y in outputs]
            given[chosen] = cotangent
            return traced.apply(derived, given)[1]

        shape = outputs[chosen].shape
        found = vmap(row)(_basis(outputs[chosen]))
        return [
            reshape(part, (*shape, *traced.arrays[leaf].shape))
            for part, leaf in zip(found, wrt, strict=True)
        ]

    return [of_output(number) for number in range(len(outputs))]


def _forward_columns(traced: Function, wrt: tuple[int, ...]) -> list[list[Array]]:
    """Return the Jacobian of each result by each leaf in `wrt`, by forward mode."""

    def by_leaf(leaf: int) -> list[Array]:
        derived = Jvp(traced.body.name, (leaf,))

        def column(tangent: Array) -> list[Array]:
            return traced.apply(derived, [tangent])[1]

        shape = traced.arrays[leaf].shape
        return [
            reshape(moveaxis(part, 0, -1), (*part.shape[1:], *shape))
            for part in vmap(column)(_basis(traced.arrays[leaf]))
        ]

    columns = [by_leaf(leaf) for leaf in wrt]
    count = len(traced.body.outputs)  # also where there is no argument to go by
    return [[parts[number] for parts in columns] for number in range(count)]


def _basis(array: Array) -> Array:
    """Return all one-hot arrays of the shape of `array`, stacked."""
    count = element_count(array.type.shape)
    return reshape(eye(count, dtype=array.dtype), (count, *array.shape))


def _require_float_results(traced: Function) -> None:
    """Raise if a result leaf is no float."""
    names = leaf_names(traced.body.tree)
    for name, output in zip(names, traced.body.outputs, strict=True):
        if not is_float(output):
            fail(
                "not-differentiable",
                f"cannot differentiate the result leaf '{name}' of type {output.type}: "
                "only floats have derivatives",
                "leave integers out of what the function returns",
            )
