"""ATen ops that cut, repeat or count elements, along padded axes or beside them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from aotc import numpy as np
from aotc.dialects.types import Size
from aotc.importers.common.padded import cutting
from aotc.importers.common.padded.op_rules import by_op_rules
from aotc.importers.common.padded.sizes import bound_of, count_of, has_data_dependent
from aotc.importers.common.padded.values import (
    Value,
    from_first,
    refuse,
)
from aotc.importers.torch.ops import shapes

Rule = Callable[..., Any]


def _slice_axis(
    x: Value,
    dim: int = 0,
    start: Size | None = None,
    end: Size | None = None,
    step: int = 1,
) -> Value:
    """Return `x[start:end:step]` along an axis."""
    whole = isinstance(end, int) and end >= shapes._END
    return cutting.slice_axis(x, dim, start, None if whole else end, step)


def _narrow(x: Value, dim: int, start: Size, length: Size) -> Value:
    """Return `length` positions of an axis from `start`."""
    return cutting.slice_axis(x, dim, start, start + length)


def _repeat(x: Value, repeats: Sequence[Size]) -> Value:
    """Return x repeated along each axis; refuse data-dependent counts."""
    if has_data_dependent(repeats):
        refuse("copies whose number depends on values", "use expand, or an index")
    return by_op_rules(shapes.repeat)(x, repeats)  # type: ignore[no-any-return]


def _arange(*bounds: Any, dtype: str | None = None) -> Value:
    """Return the vector `start, start + 1, …` below a data-dependent end."""
    start, end, step = {1: (0, *bounds, 1), 2: (*bounds, 1), 3: bounds}[len(bounds)]
    if step != 1 or any(isinstance(part, float) for part in (start, end)):
        refuse("a range with a step whose end depends on values", "multiply the range")
    size = cutting.length_between(start, end)
    line = np.arange(bound_of(size), dtype=dtype or "i64")
    first = np.astype(count_of(start), line.dtype)
    return from_first(np.add(line, first), (size,))


RULES: dict[str, Rule] = {
    "aten.arange": _arange,
    "aten.narrow": _narrow,
    "aten.repeat": _repeat,
    "aten.select.int": cutting.select,
    "aten.slice.Tensor": _slice_axis,
    "aten.split_with_sizes": shapes.splitting(_narrow),
}
