"""Factorisations and triangular systems."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aotc import linalg
from aotc import numpy as np
from aotc.complexes import Complex
from aotc.importers.stablehlo.operation import Op
from aotc.importers.stablehlo.values import Value, array
from aotc.tracing.array import Array
from aotc.tracing.source_locations import fail
from aotc.tracing.tracing import emit


def real_matrix(op: Op, value: Value) -> Array:
    """Return a value as a real array; refuse complex matrices."""
    if isinstance(value, Complex):
        fail("unsupported-ops", f"{op.name} of complex matrices is not implemented")
    return array(value)


def cholesky(op: Op, a: Value) -> Array:
    """Return the Cholesky factor of a, read from one triangle."""
    return cholesky_factor(real_matrix(op, a), op.flag("lower"))


def cholesky_factor(a: Array, lower: bool) -> Array:
    """Return the Cholesky factor of a symmetric matrix, read from one triangle."""
    half = np.tril(a, -1) if lower else np.matrix_transpose(np.triu(a, 1))
    diagonal = np.tril(np.triu(a))
    factor = linalg.cholesky(half + np.matrix_transpose(half) + diagonal)
    return factor if lower else np.matrix_transpose(factor)


def triangular_solve(op: Op, a: Value, b: Value) -> Array:
    """Return x with a x = b or x a = b, for a triangular a that may be transposed."""
    return solve_triangle(
        real_matrix(op, a),
        real_matrix(op, b),
        left=op.flag("left_side"),
        lower=op.flag("lower"),
        transpose=op.word("transpose_a") != "NO_TRANSPOSE",
        unit_diagonal=op.flag("unit_diagonal"),
    )


def solve_triangle(
    a: Array, b: Array, *, left: bool, lower: bool, transpose: bool, unit_diagonal: bool
) -> Array:
    """Return x with a x = b or x a = b, for a triangular a; f16 is solved in f32."""
    if a.dtype in ("f16", "bf16"):
        solved = solve_triangle(
            np.astype(a, "f32"),
            np.astype(b, "f32"),
            left=left,
            lower=lower,
            transpose=transpose,
            unit_diagonal=unit_diagonal,
        )
        return np.astype(solved, a.dtype)
    kind: dict[str, Any] = {"lower": lower, "unit_diagonal": unit_diagonal}
    if left:
        return emit("triangular_solve", a, b, transpose=transpose, **kind)
    turned = np.matrix_transpose(b)
    solved = emit("triangular_solve", a, turned, transpose=not transpose, **kind)
    return np.matrix_transpose(solved)


OPS: dict[str, Callable[..., Any]] = {
    "stablehlo.cholesky": cholesky,
    "stablehlo.triangular_solve": triangular_solve,
}
