"""`vmap`: functions for each element along an axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from aotc.core.pytree import Structure, flatten, leaf_names
from aotc.dialects.functions.transform import Batch
from aotc.dialects.types import Size
from aotc.numpy.rows import CollectedResults, no_rows
from aotc.numpy.shaping import moveaxis
from aotc.tracing.array import Array
from aotc.tracing.conversion import lift
from aotc.tracing.source_locations import fail
from aotc.tracing.tracing import current_trace
from aotc.transforms.traced import TracedFunction

# one for all arguments, or one for each; None for what is not mapped
MappedAxes = int | Sequence[int | None] | None


def vmap(
    function: Callable[..., object],
    in_axes: MappedAxes = 0,
    out_axes: int = 0,
) -> Callable[..., Any]:
    """Return a function that maps over an axis of its arguments, vectorized.

    Args:
        function: of pytrees of arrays.
        in_axes: the axis of each argument that counts the elements, or None for an
            argument that all share; one for all arguments, or a sequence with one each.
        out_axes: where the axis goes in each result; one for all.

    Returns:
        A function of the stacked arguments. Where nothing is traced it calls `function`
        on one element after the other.
    """

    def wrapper(*args: object) -> object:
        axes = _axis_of_each(args, in_axes)
        size = _stack_size(args, axes)
        leaves, structure = flatten((args, {}))
        arrays = [
            array if axis is None else moveaxis(array, axis, 0)
            for array, axis in zip(map(lift, leaves), axes, strict=True)
        ]
        stacked = tuple(i for i, axis in enumerate(axes) if axis is not None)
        if current_trace() is None:
            assert isinstance(size, int)
            results, tree = _looped(function, arrays, structure, stacked, size)
        else:
            traced = TracedFunction(
                "vmap", function, arrays, structure, stacked=stacked
            )
            results, _ = traced.apply(Batch(traced.body.name, stacked, size), [])
            tree = traced.body.tree
        return tree.unflatten(
            [
                array if out_axes == 0 else _move_to_out_axis(array, out_axes)
                for array in results
            ]
        )

    return wrapper


def _looped(
    function: Callable[..., object],
    arrays: Sequence[Array],
    structure: Structure,
    stacked: Sequence[int],
    size: int,
) -> tuple[list[Array], Structure]:
    """Call a function for each element in a loop; return stacked results and their
    form.
    """
    rows = CollectedResults(function)
    for number in range(size):
        element = [x[number] if i in stacked else x for i, x in enumerate(arrays)]
        args, kwargs = structure.unflatten(element)
        rows.append(function(*args, **kwargs))
    if size:
        return rows.stacked()
    types = [
        x.type.with_shape(x.type.shape[i in stacked :]) for i, x in enumerate(arrays)
    ]
    return no_rows(function, types, structure)


def _move_to_out_axis(array: Array, out_axes: int) -> Array:
    """Move the mapped axis of a result to `out_axes`."""
    if not -array.ndim <= out_axes < array.ndim:
        fail(
            "bad-axis",
            f"expected out_axes to name an axis of a result, {array.type}; got "
            f"{out_axes}",
        )
    return moveaxis(array, 0, out_axes)


def _axis_of_each(args: tuple[object, ...], in_axes: MappedAxes) -> list[int | None]:
    """Return the mapped axis of each argument leaf; None for unmapped ones."""
    each: Sequence[int | None] = (
        [in_axes] * len(args)
        if in_axes is None or isinstance(in_axes, int)
        else in_axes
    )
    if len(each) != len(args):
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


def _stack_size(args: tuple[object, ...], axes: Sequence[int | None]) -> Size:
    """Return the common size of all mapped axes; raise if they differ."""
    leaves, structure = flatten(args)
    names = leaf_names(structure)
    found: list[tuple[str, Size]] = []
    for name, leaf, axis in zip(names, leaves, axes, strict=True):
        array = lift(leaf)
        if axis is None:
            continue
        if not -array.ndim <= axis < array.ndim:
            fail(
                "bad-axis",
                f"expected in_axes to name an axis of argument leaf '{name}', "
                f"{array.type}; got {axis}",
            )
        found.append((name, array.type.shape[axis]))
    if not found:
        fail("bad-axis", "expected in_axes to name an axis of an argument; got None")
    for name, size in found[1:]:
        if size != found[0][1]:
            fail(
                "shape-mismatch",
                f"vmap needs one number of elements; argument leaf '{found[0][0]}' has "
                f"{found[0][1]} and '{name}' has {size}",
            )
    return found[0][1]
