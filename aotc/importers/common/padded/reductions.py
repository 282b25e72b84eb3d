"""Rules of functions that choose among elements, or accumulate, along padded axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from aotc.importers.common.padded.op_rules import by_op_rules
from aotc.importers.common.padded.sizes import require_elements
from aotc.importers.common.padded.values import (
    Padded,
    Value,
    fill_padding,
    mask_padding_gradient,
)
from aotc.tracing.array import Array

Axes = Sequence[int] | int | None


def of_elements(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a selecting reduction (max, argmin, …) to check at run time for empty axes.

    Args:
        function: of a value, the axes it looks along (None for all) and more.
    """

    def rule(x: Value, dim: Axes = None, *rest: object, **named: object) -> Any:
        every = range(len(x.shape))
        along = [dim] if isinstance(dim, int) else list(dim or every)
        with require_elements([x.shape[axis] for axis in along]):
            return by_op_rules(function)(x, dim, *rest, **named)

    return rule


def running_reduction(
    function: Callable[..., Array], x: Padded, axis: int, neutral: float
) -> Value:
    """Apply a cumulative function to x, whose padding is the neutral element."""
    data = function(fill_padding(x, neutral, (axis % x.ndim,)), axis)
    return mask_padding_gradient(data, x.shape)
