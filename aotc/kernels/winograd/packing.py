"""The weights of a Winograd convolution: transformed, and in the order they are read.

Both are ops of the graph on parameters, so a build computes them. They are computed in
f64 and rounded once, so what a call computes is off by one rounding of each transformed
weight more than with exact ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from aotc.dialects.builder import Builder
from aotc.dialects.graph import GraphOp
from aotc.dialects.rearrangements import Rearrangement
from aotc.dialects.types import Tensor
from aotc.kernels.planning.winograd import WinogradTile
from aotc.kernels.winograd.matrices import matrices
from aotc.mlir import Value


def pack(b: Builder, op: GraphOp, tile: WinogradTile) -> Value:
    """The transformed kernel as [panel][product][channel][column of a panel].

    Zeros fill the last panel.
    """
    value = _multiply(b, _filter_matrix(tile), op.operands[1])
    return _packing(op, tile).apply(b, value)


def unpack(b: Builder, op: GraphOp, packed: Value, tile: WinogradTile) -> Value:
    """The kernel, to a few roundings, from what `pack` has made of it."""
    value = _packing(op, tile).undo(b, packed)
    value = _multiply(b, np.linalg.pinv(_filter_matrix(tile)), value)
    return b.to_shape(value, _static_shape(op))


def _packing(op: GraphOp, tile: WinogradTile) -> Rearrangement:
    """Return the chain of ops that packs transformed kernels as they are read."""
    *_, channels, features = _static_shape(op)
    products, panels, columns = tile.products, tile.panels(features), tile.columns
    return (
        Rearrangement((products, channels * features))
        .reshape((products, channels, features))
        .pad((products, channels, panels * columns))
        .reshape((products, channels, panels, columns))
        .transpose((2, 0, 1, 3))
    )


def _filter_matrix(tile: WinogradTile) -> np.ndarray[Any, Any]:
    """What transforms the 9 elements of a kernel, of both axes: G by G."""
    along = np.array(matrices(tile.outputs).filter, np.float64)
    return np.kron(along, along)


def _multiply(b: Builder, matrix: np.ndarray[Any, Any], x: Value) -> Value:
    """`matrix @ x` in f64, rounded to f32; the rows of x are the first axes it has."""
    rows = matrix.shape[1]
    shape: Any = Tensor.of(x).shape
    count = int(np.prod(shape)) // rows
    wide = b.cast(b.to_shape(x, (rows, count)), dtype="f64")
    axes = {"lhs_batch": (), "rhs_batch": (), "lhs_contract": (1,)}
    made = b.dot_general(b.constant(value=matrix), wide, **axes, rhs_contract=(0,))
    return b.cast(made, dtype="f32")


def _static_shape(op: GraphOp) -> Any:
    """Of the kernel of a convolution."""
    return Tensor.of(op.operands[1]).shape
