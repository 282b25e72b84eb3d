"""ATen ops that are layers and products, of which some rows are padding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from aotc import nn
from aotc import numpy as np
from aotc.importers.common.padded import axes, products
from aotc.importers.common.padded.elementwise import elementwise, row_by_row
from aotc.importers.common.padded.sizes import has_data_dependent, is_equal
from aotc.importers.common.padded.values import (
    Padded,
    Value,
    as_padded,
    data_of,
    refuse,
)
from aotc.importers.torch.ops import composites, normalization, sampling
from aotc.importers.torch.ops.products import linear
from aotc.tracing.array import Array

Rule = Callable[..., Any]


def _linear(x: Value, weight: Value, bias: Any = None) -> Value:
    given = [weight] if bias is None else [weight, bias]
    return products.apply_linear(linear, x, *given)


def _einsum(equation: str, operands: Sequence[Value], path: Any = None) -> Value:
    def function(*arrays: Array) -> Array:
        return np.einsum(equation, *arrays)

    return products.einsum(function, equation, operands)


def _scaled_sum(
    x: Value, a: Value, b: Value, *, beta: Any = 1, alpha: Any = 1
) -> Value:
    """`beta * x + alpha * a @ b`."""
    y = products.matmul(a, b)
    if alpha != 1:
        y = elementwise(np.multiply)(y, alpha)
    if beta != 1:
        x = elementwise(np.multiply)(x, beta)
    return elementwise(np.add)(x, y)  # type: ignore[no-any-return]


def _grid_sample(x: Value, grid: Value, *options: Any) -> Value:
    """The image at the places of a grid: padded places stay padding."""
    batches = [x.shape[0], grid.shape[0]]
    if has_data_dependent((*x.shape[1:], grid.shape[-1])) or not is_equal(*batches):
        refuse(
            f"an image of {x.shape} is read at places of {grid.shape}",
            "bring the image to a known size before",
        )
    found = sampling.grid_sample(data_of(x), data_of(grid), *options)
    return as_padded(found, (*x.shape[:2], *grid.shape[1:-1]))


def _normalized_axes(x: Padded, shape: Sequence[Any], *_: Any, **__: Any) -> range:
    return range(-len(shape), 0)


def _glu_axes(x: Padded, dim: int = -1) -> tuple[int]:
    return (dim,)


RULES: dict[str, Rule] = {
    "aten.linear": _linear,
    **dict.fromkeys(
        ("aten.mm", "aten.bmm", "aten.mv", "aten.dot", "aten.matmul"),
        products.matmul,
    ),
    "aten.einsum": _einsum,
    "aten.grid_sampler_2d": _grid_sample,
    "aten.grid_sampler_3d": _grid_sample,
    "aten.addmm": _scaled_sum,
    "aten.addmv": _scaled_sum,
    "aten.baddbmm": _scaled_sum,
    "aten.layer_norm": row_by_row(normalization.layer_norm, _normalized_axes),
    "aten.rms_norm": row_by_row(normalization.rms_norm, _normalized_axes),
    "aten.group_norm": row_by_row(
        normalization.group_norm, lambda x, *_, **__: range(1, x.ndim)
    ),
    "aten.batch_norm": row_by_row(composites.batch_norm, lambda x, *_, **__: (1,)),
    "aten.glu": axes.along_others(nn.glu, _glu_axes),
}
