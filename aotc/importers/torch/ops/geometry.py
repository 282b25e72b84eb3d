"""Windows over the spatial axes of images: shared by ops with windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from aotc import numpy as np
from aotc.tracing.array import Array

Numbers = int | Sequence[int]


def each(value: Numbers, spatial: int) -> list[int]:
    """Return one number per spatial axis, given one for all or a list."""
    numbers = [value] if isinstance(value, int) else list(value)
    return numbers * spatial if len(numbers) == 1 else numbers


def sides(padding: Numbers, spatial: int) -> list[tuple[int, int]]:
    """Return symmetric (low, high) padding for each spatial axis."""
    return [(n, n) for n in each(padding, spatial)]


def allow_unbatched(function: Callable[..., Any], spatial: int) -> Callable[..., Any]:
    """Wrap a function of N, C, spatial… to also take C, spatial…."""

    def call(x: Array, *args: Any, **options: Any) -> Any:
        if x.ndim == spatial + 2:
            return function(x, *args, **options)
        found = function(np.expand_dims(x, 0), *args, **options)
        if isinstance(found, list):
            return [np.squeeze(part, 0) for part in found]
        return np.squeeze(found, 0)

    return call
