"""Rules of functions that work element by element: what is padding stays padding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from aotc.dialects.types import Size
from aotc.frontends.array import Array
from aotc.frontends.padded.values import (
    Padded,
    common_sizes,
    data_of,
    is_trained,
    leaves_of,
    padded_axes,
    refuse,
    require_whole,
    settled,
    wrapped,
)


def elementwise(function: Callable[..., Any]) -> Callable[..., Any]:
    """The rule of a function whose operands broadcast."""

    @wraps(function)
    def rule(*args: Any, **named: Any) -> Any:
        operands = [*leaves_of(args), *leaves_of(list(named.values()))]
        given = {name: data_of(value) for name, value in named.items()}
        found = function(*data_of(args), **given)
        several = isinstance(found, (list, tuple))
        results = [_result(y, operands) for y in (found if several else [found])]
        return results if several else results[0]

    return rule


def _result(data: Array, operands: Sequence[Array | Padded]) -> Any:
    if not operands:
        return data
    sizes = common_sizes([x.shape for x in operands])
    shape = tuple(
        size if own is None else own
        for size, own in zip(data.shape, sizes, strict=True)
    )
    return combined(data, shape, operands)


def combined(
    data: Array, shape: Sequence[Size], operands: Sequence[Any]
) -> Array | Padded:
    """A result whose padding some operands have, as a value of a shape.

    A derivative by an operand that lacks a padded axis is a sum over padding.
    """
    if any(_lacks_padding(x, shape) for x in operands if is_trained(x)):
        return settled(data, shape)
    return wrapped(data, shape)


def _lacks_padding(x: Array | Padded, shape: Sequence[Size]) -> bool:
    return len(padded_axes(x.shape)) < len(padded_axes(shape))


def row_by_row(
    function: Callable[..., Any], axes: Callable[..., Sequence[int]]
) -> Callable[..., Any]:
    """The rule of a function of one value that mixes elements along some axes only.

    Args:
        function: keeps the shape of its first argument; others, such as the scale of a
            normalization, are not padded.
        axes: which ones it mixes, for the same arguments.
    """

    @wraps(function)
    def rule(x: Padded, *args: Any, **named: Any) -> Any:
        require_whole(x, axes(x, *args, **named))
        data = function(x.data, *args, **named)
        if isinstance(data, (list, tuple)):
            refuse(f"more than the main result for {x}", "compute the others apart")
        return combined(data, x.shape, [x, *leaves_of(args)])

    return rule
