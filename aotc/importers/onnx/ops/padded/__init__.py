"""Operators on values whose sizes depend on values: one rule for each that has one.

The functions take what those of the other families take; arrays may be `Padded`, and
known sizes may be ones that values decide. An operator that is not here is refused for
such inputs; see `aotc.importers.common.padded`.
"""

from __future__ import annotations

from typing import Any

from aotc import numpy as np
from aotc.core import dtypes
from aotc.importers.common.padded import axes, products
from aotc.importers.common.padded.elementwise import elementwise, row_by_row
from aotc.importers.common.padded.values import Padded, Value, refuse
from aotc.importers.onnx.calling import Imports
from aotc.importers.onnx.elements import element
from aotc.importers.onnx.ops import activations, constants, narrow, normalization
from aotc.importers.onnx.ops import elementwise as by_element
from aotc.importers.onnx.ops.padded import positions, reductions, shapes
from aotc.tracing.array import Array


def gemm(
    a: Value,
    b: Value,
    c: Value | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,  # noqa: N803 - ONNX's name
    transB: int = 0,  # noqa: N803
) -> Value:
    """`alpha a b + beta c` of matrices that may be transposed first."""
    left = axes.transpose(a) if transA else a
    right = axes.transpose(b) if transB else b
    found = _times(products.matmul(left, right), alpha)
    return found if c is None else _add(found, _times(c, beta))


def einsum(*xs: Value, equation: str) -> Value:
    """Contract by Einstein's sum convention."""

    def function(*arrays: Array) -> Array:
        return np.einsum(equation.replace(" ", ""), *arrays)

    return products.einsum(function, equation, xs)


_add = elementwise(np.add)


def _times(x: Value, factor: float) -> Value:
    if factor == 1:
        return x
    whole = factor if dtypes.is_float(x.dtype) else int(factor)
    return elementwise(np.multiply)(x, whole)  # type: ignore[no-any-return]


def _normalized_axes(x: Padded, *_: Any, axis: int = -1, **__: Any) -> range:
    return range(axis % x.ndim, x.ndim)


def cast(x: Value, *, to: int, saturate: int = 1, round_mode: str = "up") -> Value:
    """`x` as values of ONNX's element type number `to`."""
    if element(to).narrow:
        refuse(f"{element(to).name} of a size that depends on values", "cast it later")
    return _cast(x, to=to, saturate=saturate, round_mode=round_mode)  # type: ignore[no-any-return]


_cast = elementwise(narrow.cast)


_ACROSS = {"Hardmax", "LogSoftmax", "Softmax"}  # activations along an axis


PADDED: dict[str, Imports] = {
    **shapes.TABLE,
    **reductions.TABLE,
    **positions.TABLE,
    **{key: elementwise(function) for key, function in by_element.TABLE.items()},
    **{
        key: elementwise(function)
        for key, function in activations.TABLE.items()
        if key not in _ACROSS
    },
    "Identity": elementwise(constants.identity),
    "Cast": cast,
    "Einsum": einsum,
    "MatMul": products.matmul,
    "Gemm": gemm,
    "LayerNormalization": row_by_row(
        normalization.layer_normalization, _normalized_axes
    ),
}
