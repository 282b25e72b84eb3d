"""ATen ops of linear algebra: factorizations, solvers, functions of matrices.

Where torch returns more than the result (what its derivatives use, how a factorization
went), the rest is None, or 0 for `info`: failures show as values that are not finite.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aotc import linalg
from aotc import numpy as np
from aotc.linalg.factorizing import matrix_size
from aotc.tracing.array import Array


def _info(a: Array) -> Array:
    """Return a status of 0 for each matrix of a batch."""
    return np.zeros(a.shape[:-2], "i32")


def _adjoint(a: Array) -> Array:
    """Return the transpose of real matrices."""
    return np.matrix_transpose(a)


def determinant(a: Array) -> list[Any]:
    """Return the determinants of square matrices."""
    return [linalg.det(a), None, None]


def sign_and_log_determinant(a: Array) -> list[Any]:
    """Return sign and logarithm of magnitude of the determinants."""
    return [*linalg.slogdet(a), None, None]


def inverse(a: Array, check_errors: bool = False) -> list[Array]:
    """Return the inverses of square matrices, and a status of 0 for each."""
    return [linalg.inv(a), _info(a)]


def solution(a: Array, b: Array, left: bool = True, **_: object) -> list[Any]:
    """Return [x, None, None, status] for the x of `a x = b`, or of `x a = b` if not
    `left`.
    """
    vector = b.ndim == 1 or (b.ndim == a.ndim - 1 and b.shape == a.shape[:-1])
    right = np.expand_dims(b, -1) if vector else b
    if left:
        x = linalg.solve(*_same_batch(a, right))
    else:
        x = _adjoint(linalg.solve(*_same_batch(_adjoint(a), _adjoint(right))))
    return [np.squeeze(x, -1) if vector else x, None, None, _info(a)]


def _same_batch(a: Array, b: Array) -> list[Array]:
    """Return two batches of matrices with batch axes broadcast."""
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return [np.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (a, b)]


def triangular_solution(
    a: Array, b: Array, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Array:
    """Return the x of `a x = b`, or of `x a = b`, for a triangular a."""
    if not left:
        x = triangular_solution(
            _adjoint(a), _adjoint(b), upper=not upper, unitriangular=unitriangular
        )
        return _adjoint(x)
    a, b = _same_batch(a, b)
    return linalg.solve_triangular(a, b, lower=not upper, unit_diagonal=unitriangular)


def triangular_solve(
    b: Array,
    a: Array,
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
) -> list[Array]:
    """Return the solution of a triangular system, and a (an op that torch
    deprecated).
    """
    matrix, above = (_adjoint(a), not upper) if transpose else (a, upper)
    x = triangular_solution(matrix, b, upper=above, unitriangular=unitriangular)
    return [x, a]


def cholesky(a: Array, upper: bool = False) -> Array:
    """Return the Cholesky factor of positive definite matrices."""
    return linalg.cholesky(a, upper=upper)


def cholesky_with_info(a: Array, *, upper: bool = False, **_: object) -> list[Array]:
    """Return the Cholesky factor, and a status of 0."""
    return [cholesky(a, upper), _info(a)]


def cholesky_solve(b: Array, factor: Array, upper: bool = False) -> Array:
    """Return the x of `a x = b`, given a's Cholesky factor."""
    factor, b = _same_batch(factor, b)
    return linalg.cho_solve((factor, not upper), b)


def cholesky_inverse(factor: Array, upper: bool = False) -> Array:
    """Return the inverse of a, given its Cholesky factor."""
    return cholesky_solve(
        np.broadcast_to(np.eye(factor.shape[-1], dtype=factor.dtype), factor.shape),
        factor,
        upper,
    )


def eigen(a: Array, side: str = "L", compute_v: bool = True) -> list[Any]:
    """Return eigenvalues and eigenvectors of symmetric matrices, read on one side."""
    lower = np.tril(a) if side == "L" else _adjoint(np.triu(a))
    symmetric = np.add(lower, _adjoint(np.tril(lower, -1)))
    if not compute_v:
        return [linalg.eigvalsh(symmetric), None]
    return list(linalg.eigh(symmetric))


def singular_values(
    a: Array, full_matrices: bool = False, compute_uv: bool = True, **_: object
) -> list[Any]:
    """Return the singular value decomposition: U, S and Vh."""
    if not compute_uv:
        return [None, linalg.svdvals(a), None]
    return list(linalg.svd(a, full_matrices))


def orthogonal(a: Array, mode: str = "reduced") -> list[Any]:
    """Return the QR decomposition: Q and R."""
    if mode == "r":
        return [None, linalg.qr(a, "r")]
    return list(linalg.qr(a, mode))


def pseudo_inverse(
    a: Array, *, atol: object = None, rtol: object = None, hermitian: bool = False
) -> Array:
    """Return the Moore-Penrose inverse, with small singular values cut to 0.

    Without tolerances they are what is lost by rounding.
    """
    if rtol is None and atol is None:
        rtol = float(np.finfo(a.dtype).eps) * max(matrix_size(a))
    if hermitian:
        values, left = eigen(a)
        right = left
    else:
        left, values, adjoint = linalg.svd(a, False)
        right = _adjoint(adjoint)
    size = np.absolute(values)
    largest = np.max(size, -1, keepdims=True, initial=0.0)
    least = np.multiply(largest, _column(rtol, size))
    least = np.maximum(least, _column(atol, size))
    inverted = np.where(np.greater(size, least), np.divide(1.0, values), 0.0)
    return np.matmul(np.multiply(right, np.expand_dims(inverted, -2)), _adjoint(left))


def _column(tolerance: Any, s: Array) -> Any:
    """Return a tolerance as a column to broadcast with singular values; 0 for None."""
    if tolerance is None:
        return 0.0
    x = np.astype(tolerance, s.dtype)
    return np.expand_dims(x, -1) if x.ndim else x


OPS: dict[str, Callable[..., Any]] = {
    "aten._linalg_det": determinant,
    "aten._linalg_slogdet": sign_and_log_determinant,
    "aten.linalg_inv": linalg.inv,
    "aten.linalg_inv_ex": inverse,
    "aten.linalg_solve": lambda a, b, *, left=True: solution(a, b, left)[0],
    "aten._linalg_solve_ex": solution,
    "aten.linalg_solve_triangular": triangular_solution,
    "aten.triangular_solve": triangular_solve,
    "aten.cholesky": cholesky,
    "aten.linalg_cholesky": lambda a, *, upper=False: cholesky(a, upper),
    "aten.linalg_cholesky_ex": cholesky_with_info,
    "aten.cholesky_solve": cholesky_solve,
    "aten.cholesky_inverse": cholesky_inverse,
    "aten._linalg_eigh": eigen,
    "aten._linalg_svd": singular_values,
    "aten.linalg_qr": orthogonal,
    "aten.linalg_lu": lambda a, *, pivot=True: list(linalg.lu(a)),
    "aten.linalg_matrix_exp": linalg.expm,
    "aten.linalg_pinv.atol_rtol_tensor": pseudo_inverse,
}
