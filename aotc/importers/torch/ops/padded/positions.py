"""ATen ops that read and write at positions, some of which are padding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from aotc import numpy as np
from aotc.importers.common.padded import axes, indexing, sources
from aotc.importers.common.padded.values import (
    Padded,
    Value,
    data_of,
    in_dtype,
    refuse,
)
from aotc.importers.torch.ops import indexing as plain
from aotc.importers.torch.ops import shapes

Rule = Callable[..., Any]


def _index_put(
    x: Value, indices: Sequence[Any], values: Value, accumulate: bool = False
) -> Value:
    """Return x with values set or added at positions, as many as masks hold."""
    new = in_dtype(values, x.dtype)
    write = "add" if accumulate else "set"
    return indexing.write_at(x, indices, new, write, counts_alike=True)


def _masked_scatter(x: Value, mask: Value, source: Value) -> Value:
    """Return x with the elements of `source`, in order, where a mask holds."""
    if isinstance(x, Padded) or isinstance(mask, Padded):
        refuse("a mask whose size depends on values is written through", "use an index")
    flat = axes.reshape(source, (-1,))
    return plain.masked_scatter(x, mask, data_of(flat))


def masked_select(x: Value, mask: Value) -> Value:
    """Return the elements where a mask holds, as a vector of data-dependent length."""
    shape = np.broadcast_shapes(x.shape, mask.shape)
    return indexing.getitem(axes.expand(x, shape), [axes.expand(mask, shape)])


def nonzero(x: Value) -> Value:
    """Return the index vectors of nonzero elements, as rows."""
    return axes.stack(sources.true_positions(x), 1)  # type: ignore[no-any-return]


def positions(x: Value) -> list[Value]:
    """Return the indices of nonzero elements, a vector for each axis."""
    return sources.true_positions(x)


def repeat_interleave(
    x: Value, repeats: Value, dim: int | None = None, output_size: Any = None
) -> Value:
    """Return x with each slice of an axis repeated as often as an array says."""
    if dim is None:
        x, dim = axes.reshape(x, (-1,)), 0
    times = axes.reshape(repeats, (-1,))
    if times.shape == (1,):
        times = axes.expand(times, (x.shape[dim],))
    if output_size is not None and not isinstance(times, Padded):
        places: Value = shapes.repeated_positions(
            data_of(times), output_size=output_size
        )
    else:
        places = sources.repeated_positions(times)
    return indexing.take(x, dim, places)


def _repeated_positions(repeats: Value, *, output_size: Any = None) -> Value:
    """Return each index repeated as often as an array says."""
    if output_size is not None and not isinstance(repeats, Padded):
        return shapes.repeated_positions(repeats, output_size=output_size)
    return sources.repeated_positions(repeats)


def unique(
    x: Value,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
) -> list[Value]:
    """Return distinct elements in ascending order, inverse indices and counts."""
    values, _, inverse, counts = sources.distinct(x, equal_nan=False)
    nothing = np.zeros((0,), "i64")
    return [
        values,
        inverse if return_inverse else nothing,
        counts if return_counts else nothing,
    ]


def bincount(x: Value, weights: Value | None = None, minlength: int = 0) -> Value:
    """Return the count of each number in a vector, or the sum of its weights."""
    found = sources.counts_of_each(x, weights, minlength)
    if weights is None:
        return in_dtype(found, "i64")
    return in_dtype(found, "f32" if weights.dtype == "f32" else "f64")


RULES: dict[str, Rule] = {
    "aten.index.Tensor": indexing.getitem,
    "aten._unsafe_index.Tensor": indexing.getitem,
    "aten.index_put": _index_put,
    "aten._unsafe_index_put": _index_put,
    "aten.embedding": lambda table, indices, *_: indexing.take(table, 0, indices),
    "aten.index_select": indexing.take,
    "aten.masked_scatter": _masked_scatter,
    "aten.take": lambda x, i: indexing.take(axes.reshape(x, (-1,)), 0, i),
}

# what makes sizes that depend on values, also of arguments that have none
SOURCES: dict[str, Rule] = {
    "aten.nonzero": nonzero,
    "aten.argwhere": nonzero,
    "aten.nonzero_numpy": positions,
    "aten.where.default": positions,
    "aten.masked_select": masked_select,
    "aten.repeat_interleave.self_Tensor": repeat_interleave,
    "aten.repeat_interleave.Tensor": _repeated_positions,
    "aten._unique2": unique,
    "aten.bincount": bincount,
}
