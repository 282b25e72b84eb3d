"""Products of matrices, and determinants."""

from __future__ import annotations

from aotc import linalg
from aotc import numpy as np
from aotc.core import dtypes
from aotc.importers.onnx.calling import Imports
from aotc.tracing.array import Array


def gemm(
    a: Array,
    b: Array,
    c: Array | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,  # noqa: N803 - ONNX's name
    transB: int = 0,  # noqa: N803
    broadcast: int = 1,
) -> Array:
    """Return `alpha a b + beta c` of matrices, a and b transposed if asked."""
    left = np.transpose(a) if transA else a
    right = np.transpose(b) if transB else b
    found = _times(np.matmul(left, right), alpha)
    return found if c is None else np.add(found, _times(c, beta))


def _times(x: Array, factor: float) -> Array:
    """Return x times a number; x itself for 1."""
    if factor == 1:
        return x
    number = factor if dtypes.is_float(x.dtype) else int(factor)
    return np.multiply(x, number)


def einsum(*xs: Array, equation: str) -> Array:
    """Return the contraction of the inputs that an Einstein-sum equation states."""
    return np.einsum(equation.replace(" ", ""), *xs)


TABLE: dict[str, Imports] = {
    "Det": linalg.det,
    "Einsum": einsum,
    "Gemm": gemm,
    "MatMul": np.matmul,
}
