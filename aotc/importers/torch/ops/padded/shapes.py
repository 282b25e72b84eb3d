"""ATen ops that rearrange or make elements, along padded axes or beside them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from aotc import numpy as np
from aotc.dialects.types import Size, element_count
from aotc.importers.common.padded import axes, cutting
from aotc.importers.common.padded.elementwise import elementwise
from aotc.importers.common.padded.sizes import bound_of, count_of, has_data_dependent
from aotc.importers.common.padded.values import (
    Padded,
    Value,
    as_padded,
    data_of,
    from_first,
    in_dtype,
    refuse,
    require_whole,
)
from aotc.importers.torch.ops import composites, creation, shapes
from aotc.importers.torch.promotion import as_dtype, result_dtype

Rule = Callable[..., Any]


def _view(x: Value, shape: Any) -> Value:
    if isinstance(shape, str):
        return elementwise(shapes.view)(x, shape)  # type: ignore[no-any-return]
    return axes.reshape(x, shape)


def _flatten(x: Value, first: int = 0, last: int = -1) -> Value:
    rank = len(x.shape)
    first, last = first % rank, last % rank
    size = element_count(x.shape[first : last + 1])
    return axes.reshape(x, (*x.shape[:first], size, *x.shape[last + 1 :]))


def _slice_axis(
    x: Value, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Value:
    whole = isinstance(end, int) and end >= shapes._END
    return cutting.slice_axis(x, dim, start, None if whole else end, step)


def _narrow(x: Value, dim: int, start: Any, length: Size) -> Value:
    return cutting.slice_axis(x, dim, start, start + length)


def _select_scatter(x: Value, src: Value, dim: int, index: int) -> Value:
    """`x` with one position of an axis replaced, whose size no value decides."""
    axis = dim % len(x.shape)
    require_whole(x, (axis,))
    size = x.shape[axis]
    place = index if index >= 0 else size + index
    ones = (1,) * (len(x.shape) - axis - 1)
    chosen = np.reshape(np.equal(np.arange(size), place), (size, *ones))
    new = axes.unsqueeze(in_dtype(src, x.dtype), axis)
    return elementwise(np.where)(chosen, new, x)  # type: ignore[no-any-return]


def _join_rule(join: Callable[[Sequence[Value], int], Value]) -> Rule:
    """The values in the dtype of their result, joined."""

    def rule(tensors: Sequence[Value], dim: int = 0) -> Value:
        parts = [x for x in tensors if x.shape != (0,)]
        dtype = result_dtype(*map(data_of, parts))
        return join(
            [as_padded(as_dtype(data_of(x), dtype), x.shape) for x in parts], dim
        )

    return rule


def _tiled_axes(x: Padded, repeats: Sequence[int]) -> list[int]:
    new = len(repeats) - x.ndim
    return [n - new for n, count in enumerate(repeats) if count != 1 and n >= new]


def _repeat(x: Value, repeats: Sequence[int]) -> Value:
    if has_data_dependent(repeats):
        refuse("copies whose number depends on values", "use expand, or an index")
    first = axes.reshape(x, (*[1] * (len(repeats) - len(x.shape)), *x.shape))
    return axes.along_others(shapes.repeat, _tiled_axes)(first, repeats)  # type: ignore[no-any-return]


def _padded_around(x: Padded, widths: Sequence[Any], *_: Any) -> list[int]:
    return [x.ndim - 1 - n // 2 for n, width in enumerate(widths) if width != 0]


SHAPES: dict[str, Rule] = {
    "aten.view": _view,
    "aten._unsafe_view": _view,
    "aten.reshape": _view,
    "aten.flatten.using_ints": _flatten,
    "aten.expand": lambda x, shape, implicit=False: axes.expand(x, shape),
    "aten.permute": axes.transpose,
    "aten.transpose.int": axes.swap_axes,
    "aten.t": axes.transpose,
    "aten.unsqueeze": axes.unsqueeze,
    "aten.squeeze": axes.squeeze,
    "aten.cat": _join_rule(axes.concatenate),
    "aten.stack": _join_rule(axes.stack),
    "aten.select.int": cutting.select,
    "aten.select_scatter": _select_scatter,
    "aten.slice.Tensor": _slice_axis,
    "aten.narrow": _narrow,
    "aten.split_with_sizes": shapes.splitting(_narrow),
    "aten.split.Tensor": axes.along_others(shapes.split, lambda x, size, dim=0: (dim,)),
    "aten.chunk": axes.along_others(composites.chunk, lambda x, n, dim=0: (dim,)),
    "aten.unbind.int": cutting.unstack,
    "aten.repeat": _repeat,
    "aten.flip": axes.along_others(shapes.flip, lambda x, dims: dims),
    "aten.roll": axes.along_others(
        shapes.roll, lambda x, shifts, dims=(): dims or range(x.ndim)
    ),
    "aten.constant_pad_nd": axes.along_others(shapes.constant_pad, _padded_around),
    "aten.pad": axes.along_others(composites.pad, _padded_around),
}

# ---- creation ----------------------------------------------------------------------


def _creation_rule(function: Rule) -> Rule:
    """Return a rule that makes an array of a size."""

    def rule(size: Sequence[Size], *args: Any, **named: Any) -> Value:
        given = data_of(args)
        return axes.create_padded(lambda shape: function(shape, *given, **named), size)

    return rule


def _made_like(function: Rule) -> Rule:
    """Return a rule that makes an array of a size in the dtype of another."""

    def rule(x: Value, size: Sequence[Size], *args: Any, **named: Any) -> Value:
        like, given = data_of(x), data_of(args)
        return axes.create_padded(lambda s: function(like, s, *given, **named), size)

    return rule


def _arange(*bounds: Any, dtype: str | None = None) -> Value:
    start, end, step = {1: (0, *bounds, 1), 2: (*bounds, 1), 3: bounds}[len(bounds)]
    if step != 1 or any(isinstance(part, float) for part in (start, end)):
        refuse("a range with a step whose end depends on values", "multiply the range")
    size = cutting.length_between(start, end)
    line = np.arange(bound_of(size), dtype=dtype or "i64")
    first = np.astype(count_of(start), line.dtype)
    return from_first(np.add(line, first), (size,))


CREATION: dict[str, Rule] = {
    "aten.full": _creation_rule(creation.full),
    "aten.zeros": _creation_rule(creation.zeros),
    "aten.ones": _creation_rule(creation.OPS["aten.ones"]),
    "aten.empty.memory_format": _creation_rule(creation.zeros),
    "aten.new_zeros": _made_like(composites.OPS["aten.new_zeros"]),
    "aten.new_ones": _made_like(composites.OPS["aten.new_ones"]),
    "aten.new_full": _made_like(composites.new_full),
    "aten.arange": _arange,
}
