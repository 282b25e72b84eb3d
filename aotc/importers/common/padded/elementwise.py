"""Rules of elementwise functions: padding stays padding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from aotc import nn
from aotc import numpy as np
from aotc.core import dtypes
from aotc.dialects.types import Size
from aotc.importers.common.padded.values import (
    Padded,
    Value,
    as_padded,
    common_sizes,
    data_of,
    inside,
    is_trained,
    leaves_of,
    mask_padding_gradient,
    padded_axes,
    refuse,
    require_whole,
)
from aotc.tracing.array import Array


def elementwise(function: Callable[..., Any]) -> Callable[..., Any]:
    """The rule of a function whose operands broadcast."""

    @wraps(function)
    def rule(*args: Any, **named: Any) -> Any:
        operands = [*leaves_of(args), *leaves_of(list(named.values()))]
        sizes = common_sizes([x.shape for x in operands]) if operands else []
        given = [_broadcast(value, sizes, operands) for value in args]
        others = {n: _broadcast(value, sizes, operands) for n, value in named.items()}
        found = function(*given, **others)
        several = isinstance(found, (list, tuple))
        results = [_result(y, sizes) for y in (found if several else [found])]
        return results if several else results[0]

    return rule


def _result(data: Array, sizes: Sequence[Size | None]) -> Any:
    if not sizes:
        return data
    shape = [
        size if own is None else own
        for size, own in zip(data.shape, sizes, strict=True)
    ]
    return as_padded(data, shape)


def _broadcast(value: Any, sizes: Sequence[Size | None], operands: list[Value]) -> Any:
    """The array of an argument, which has the padded axes of the result if trained.

    The derivative by an operand that lacks one is a sum along it. As each element of it
    is chosen for the elements that are no padding only, so is what is summed, whatever
    the function makes of padding.
    """
    if isinstance(value, (list, tuple)):
        return [_broadcast(each, sizes, operands) for each in value]
    data = data_of(value)
    shape = tuple(1 if size is None else size for size in sizes)
    if not (is_trained(value) and _lacks_padding(value, shape)):
        return data
    if not data.ndim:
        data = np.astype(data, _dtype_of_others(data.dtype, operands))
    return np.where(inside(shape), data, nn.stop_gradient(data))


def _lacks_padding(x: Value, shape: Sequence[Size]) -> bool:
    return len(padded_axes(x.shape)) < len(padded_axes(shape))


def _dtype_of_others(dtype: str, operands: list[Value]) -> str:
    """The dtype of a scalar with axes: that of the other floats, if it has no say."""
    floats = {x.dtype for x in operands if x.shape and dtypes.is_float(x.dtype)}
    return floats.pop() if len(floats) == 1 else dtype


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
        data = function(_with_rows(x), *args, **named)
        if isinstance(data, (list, tuple)):
            refuse(f"more than the main result for {x}", "compute the others apart")
        return mask_padding_gradient(data, x.shape)

    return rule


def _with_rows(x: Padded) -> Array:
    """The array with 1, 2, 3, … along the last axis in the place of padding.

    It has a spread, so that normalizing it is finite, with an epsilon of 0 as well.
    """
    line = np.add(np.arange(x.data.shape[-1], dtype="i32"), 1)
    return np.where(inside(x.shape), x.data, np.astype(line, x.dtype))
