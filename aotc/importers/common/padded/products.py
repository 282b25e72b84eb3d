"""Rules of products: padded rows stay padding, and padding is zero.

A product sums over padding, or its derivatives do: zeros change no sum, and the
derivative by padding of the result is zero as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from aotc import numpy as np
from aotc.dialects.types import Shape, Size
from aotc.importers.common.padded.sizes import has_data_dependent, is_equal
from aotc.importers.common.padded.values import (
    Padded,
    Value,
    common_sizes,
    fill_padding,
    mask_padding_gradient,
    refuse,
    require_whole,
)


def matmul(a: Value, b: Value) -> Value:
    """Multiply matrices, or batches of them, as `matmul` does."""
    inner = len(b.shape) - 2 if len(b.shape) > 1 else 0
    return _product(np.matmul, a, b, len(a.shape) - 1, inner)


def apply_linear(
    function: Callable[..., Any], x: Value, weight: Value, *rest: Any
) -> Value:
    """A function of the last axis of `x` and a weight, which is not padded."""
    require_whole(x, (-1,))
    if any(isinstance(part, Padded) for part in (weight, *rest)):
        refuse("the weights of a layer have sizes that depend on values", "fix them")
    data = function(fill_padding(x, 0), weight, *rest)
    return mask_padding_gradient(data, (*x.shape[:-1], data.shape[-1]))


def einsum(
    function: Callable[..., Any], equation: str, operands: Sequence[Value]
) -> Value:
    """Compute Einstein's sum convention of padded values by `function`, which takes
    arrays.

    Args:
        function: of as many arrays as there are operands.
        equation: with its output, and without `...`.
        operands: the values.
    """
    inputs, arrow, output = equation.replace(" ", "").partition("->")
    labels = inputs.split(",")
    if not arrow or "." in equation:
        refuse(f"the product '{equation}' of padded values", "name all of its axes")
    sizes: dict[str, Size] = {}
    for line, x in zip(labels, operands, strict=True):
        for label, size in zip(line, x.shape, strict=True):
            own = sizes.setdefault(label, size)
            if has_data_dependent((own, size)) and not is_equal(own, size):
                refuse(f"'{label}' of '{equation}' has two sizes", _SAME)
    data = function(*(fill_padding(x, 0) for x in operands))
    return mask_padding_gradient(data, [sizes[label] for label in output])


_SAME = "take both from the same positions"


def _product(
    function: Callable[..., Any], a: Value, b: Value, left: int, right: int
) -> Value:
    """`function(a, b)`, which sums over these axes of the two."""
    pair = (a.shape[left], b.shape[right])
    if has_data_dependent(pair) and not is_equal(*pair):
        refuse(
            "a product sums over axes of sizes that depend on values and are not known "
            "to be equal",
            _SAME,
        )
    data = function(fill_padding(a, 0), fill_padding(b, 0))
    return mask_padding_gradient(data, _product_shape(a.shape, b.shape))


def _product_shape(a: Shape, b: Shape) -> Shape:
    rows = a[-2:-1] if len(a) > 1 else ()
    columns = b[-1:] if len(b) > 1 else ()
    batch = [a[:-2], b[:-2]]
    if not any(batch):
        return (*rows, *columns)
    sizes = common_sizes(batch)
    return (*_broadcast(batch, sizes), *rows, *columns)


def _broadcast(shapes: list[Shape], padded: list[Any]) -> Shape:
    """Return the broadcast of shapes, with these sizes where values decide them."""
    rank = max(map(len, shapes))
    found = []
    for axis in range(-rank, 0):
        sizes = [shape[axis] for shape in shapes if len(shape) >= -axis]
        own = padded[axis]
        found.append(
            own if own is not None else next((s for s in sizes if s != 1), sizes[0])
        )
    return tuple(found)
