"""The weights of a Winograd convolution: transformed, and in the order they are read.

Both are ops of the graph on parameters, so a build computes them. They are computed in
f64 and rounded once, so what a call computes is off by one rounding of each transformed
weight more than with exact ones. Those of bytes become whole numbers, which i16 have,
by a matrix that is multiplied by what makes it one of integers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from aotc.dialects.builder import Builder
from aotc.dialects.graph import GraphOp
from aotc.dialects.rules.rearrangements import Rearrangement
from aotc.dialects.types import Tensor
from aotc.kernels.planning.winograd import WinogradTile
from aotc.kernels.winograd.matrices import WINDOW, filter_scale, matrices
from aotc.mlir import Value


def pack(b: Builder, op: GraphOp, tile: WinogradTile) -> Value:
    """Emit ops that transform weights as [panel][product][channel][column of a panel].

    Zeros fill the last panel. Channels in pairs are the last axis, after the columns.
    """
    kernel = op.operands[1]
    is_float = Tensor.of(kernel).dtype == "f32"
    matrix = _filter_matrix(tile, is_float=is_float)
    value = _multiply(b, matrix, kernel, "f32" if is_float else "i16")
    return _packing(op, tile).apply(b, value)


def growth(tile: WinogradTile) -> float:
    """Return the size of transformed weights relative to that of the weights."""
    return tile.products / WINDOW**2 * (1 if tile.terms == 1 else 2)


def unpack(b: Builder, op: GraphOp, packed: Value, tile: WinogradTile) -> Value:
    """Emit ops that restore weights from the result of `pack`; f32 is inexact."""
    dtype = Tensor.of(op.operands[1]).dtype
    value = _packing(op, tile).undo(b, packed)
    matrix = np.linalg.pinv(_filter_matrix(tile, is_float=dtype == "f32"))
    return b.to_shape(_multiply(b, matrix, value, dtype), _static_shape(op))


def _packing(op: GraphOp, tile: WinogradTile) -> Rearrangement:
    """Return the undoable ops that order transformed weights for a kernel."""
    *_, channels, features = _static_shape(op)
    products, panels, columns = tile.products, tile.panels(features), tile.columns
    padded = (
        Rearrangement((products, channels * features))
        .reshape((products, channels, features))
        .pad((products, channels, panels * columns))
    )
    if tile.terms == 1:
        split = padded.reshape((products, channels, panels, columns))
        return split.transpose((2, 0, 1, 3))
    words = channels // tile.terms
    split = padded.reshape((products, words, tile.terms, panels, columns))
    return split.transpose((3, 0, 1, 4, 2))


def _filter_matrix(tile: WinogradTile, *, is_float: bool) -> np.ndarray:
    """Return the 2-D transform of a 3×3 filter as one matrix: kron(G, G)."""
    along = np.array(matrices(tile.outputs).filter, np.float64)
    along *= 1 if is_float else filter_scale(tile.outputs)
    return np.kron(along, along)


def _multiply(b: Builder, matrix: np.ndarray, x: Value, dtype: str) -> Value:
    """Emit the product `matrix @ x` in f64, rounded to `dtype`, over x's first axes."""
    rows = matrix.shape[1]
    shape: Any = Tensor.of(x).shape
    count = int(np.prod(shape)) // rows
    wide = b.cast(b.to_shape(x, (rows, count)), dtype="f64")
    axes = {"lhs_batch": (), "rhs_batch": (), "lhs_contract": (1,)}
    made = b.dot_general(b.constant(value=matrix), wide, **axes, rhs_contract=(0,))
    return b.cast(made if dtype == "f32" else b.round_even(made), dtype=dtype)


def _static_shape(op: GraphOp) -> Any:
    """Return the shape of a convolution's weight."""
    return Tensor.of(op.operands[1]).shape
