"""Linear systems, inverses and determinants: functions of `aotc.linalg`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from aotc import numpy as np
from aotc.linalg.factorizing import (
    cutoff,
    eye_like,
    lu_factor,
    matrices,
    rows_at,
    square,
    svd,
    svdvals,
)
from aotc.tracing.array import Array
from aotc.tracing.conversion import ArrayLike, as_float, one_dtype
from aotc.tracing.custom import custom_jvp
from aotc.tracing.source_locations import fail
from aotc.tracing.tracing import emit

__all__ = [
    "block_diag", "cho_solve", "det", "inv", "lstsq", "lu_solve", "matrix_power",
    "multi_dot", "pinv", "slogdet", "solve", "solve_triangular", "tensorinv",
    "tensorsolve",
]  # fmt: skip

# ---- triangles ----------------------------------------------------------------------


def solve_triangular(
    a: ArrayLike,
    b: ArrayLike,
    trans: int | str = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
) -> Array:
    """Solve a x = b, where only one triangle of `a` is read.

    Args:
        a: square matrices.
        b: a vector, or matrices with as many rows.
        trans: 1 or "T" for aᵀ x = b.
        lower: whether it is the lower triangle.
        unit_diagonal: whether the diagonal counts as ones.
    """
    if trans not in (0, 1, "N", "T"):
        fail("bad-argument", f"expected trans as 0, 1, 'N' or 'T'; got {trans!r}")
    x, y = _system(a, b)
    transpose = trans in (1, "T")
    return _as_vector(b, _triangular(x, y, lower, transpose, unit_diagonal))


def _triangular(
    a: Array, b: Array, lower: bool, transpose: bool = False, unit: bool = False
) -> Array:
    """Emit the triangular solve of stacks of matrices, broadcast to one shape."""
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return emit(
        "triangular_solve",
        np.broadcast_to(a, (*lead, *a.shape[-2:])),
        np.broadcast_to(b, (*lead, *b.shape[-2:])),
        lower=lower,
        transpose=transpose,
        unit_diagonal=unit,
    )


def _system(a: ArrayLike, b: ArrayLike) -> tuple[Array, Array]:
    """Return square matrices and right-hand sides; a vector becomes one column."""
    x, y = one_dtype(square("a", a), as_float(b))
    if y.ndim == 1:
        y = np.expand_dims(y, -1)
    y = matrices("b", y)
    if y.type.shape[-2] != x.type.shape[-1]:
        fail(
            "shape-mismatch",
            f"expected 'b' with {x.type.shape[-1]} rows, as 'a' {x.type} has; "
            f"got {y.type}",
        )
    return x, y


def _as_vector(b: ArrayLike, x: Array) -> Array:
    """Return the solution without the column axis that a vector `b` was given."""
    return np.squeeze(x, -1) if as_float(b).ndim == 1 else x


def cho_solve(c_and_lower: tuple[ArrayLike, bool], b: ArrayLike) -> Array:
    """Solve a x = b, from the result of `cho_factor` on `a`."""
    c, lower = c_and_lower
    x, y = _system(c, b)
    half = _triangular(x, y, lower, transpose=not lower)
    return _as_vector(b, _triangular(x, half, lower, transpose=lower))


def lu_solve(
    lu_and_permutation: tuple[ArrayLike, ArrayLike], b: ArrayLike, trans: int = 0
) -> Array:
    """Solve a x = b, or aᵀ x = b with `trans`, from the result of `lu_factor` on
    `a`.
    """
    packed, permutation = lu_and_permutation
    if trans not in (0, 1):
        fail("bad-argument", f"expected trans as 0 or 1; got {trans!r}")
    x, y = _system(packed, b)
    lead = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    y = np.broadcast_to(y, (*lead, *y.shape[-2:]))
    order = np.broadcast_to(permutation, (*lead, x.shape[-1]))
    if trans:
        half = _triangular(x, y, lower=False, transpose=True)
        found = _triangular(x, half, lower=True, transpose=True, unit=True)
        return _as_vector(b, rows_at(found, np.argsort(order, -1)))
    half = _triangular(x, rows_at(y, order), lower=True, unit=True)
    return _as_vector(b, _triangular(x, half, lower=False))


# ---- systems ------------------------------------------------------------------------


def solve(a: ArrayLike, b: ArrayLike) -> Array:
    """Solve a x = b; x is not finite where `a` is singular.

    The derivative asks for one more solution with the same factors.

    Args:
        a: square matrices.
        b: a vector, or matrices with as many rows; stacks broadcast.
    """
    return _as_vector(b, _solve(*_system(a, b)))


@custom_jvp
def _solve(a: Array, b: Array) -> Array:
    """Solve a x = b by LU decomposition."""
    return lu_solve(lu_factor(a), b)


def _solve_rule(primals: Sequence[Array], tangents: Sequence[Array]) -> Any:
    """Return x of a x = b and its tangent dx: a dx = db - da x."""
    (a, b), (da, db) = primals, tangents
    factors = lu_factor(a)
    x = lu_solve(factors, b)
    return x, lu_solve(factors, db - np.matmul(da, x))


_solve.defjvp(_solve_rule)


def inv(a: ArrayLike) -> Array:
    """The inverses of the matrices a[…, n, n]; not finite where one is singular."""
    x = square("a", a)
    inverse: Array = _solve(x, eye_like(x, x.shape[-1]))
    return inverse


def tensorsolve(a: ArrayLike, b: ArrayLike) -> Array:
    """Solve tensordot(a, x, x.ndim) = b."""
    x, y = one_dtype(as_float(a), as_float(b))
    if x.ndim < y.ndim or x.type.shape[: y.ndim] != y.type.shape:
        fail(
            "shape-mismatch",
            f"expected 'a' to begin with the sizes of 'b' {y.type}; got {x.type}",
        )
    count = math.prod(y.shape)
    return np.reshape(solve(np.reshape(x, (count, -1)), np.ravel(y)), x.shape[y.ndim :])


def tensorinv(a: ArrayLike, ind: int = 2) -> Array:
    """The inverse of x → tensordot(a, x), whose results have the first `ind` axes."""
    x = as_float(a)
    if not 0 < ind < max(x.ndim, 1):
        fail("bad-argument", f"expected ind within 1 … {x.ndim - 1}; got {ind}")
    rows, columns = x.shape[:ind], x.shape[ind:]
    flat = np.reshape(x, (math.prod(rows), -1))
    return np.reshape(inv(flat), (*columns, *rows))


def lstsq(
    a: ArrayLike, b: ArrayLike, rcond: float | None = None
) -> tuple[Array, Array, Array, Array]:
    """The x of least norm among those that make the norm of b - a x least.

    Returns:
        x; the sum of squares of b - a x for each column (NumPy leaves it out where `a`
        has not full rank); the rank, as i32; the singular values of `a`.
    """
    x, y = one_dtype(matrices("a", a), as_float(b))
    are_systems = x.ndim == 2 and y.ndim in (1, 2)
    if not are_systems or y.type.shape[0] != x.type.shape[0]:
        fail(
            "shape-mismatch",
            f"expected one matrix and as many rows of 'b'; got {x.type}, {y.type}",
        )
    s = svdvals(x)
    wide = np.expand_dims(y, -1) if y.ndim == 1 else y
    found = pinv(x, rcond) @ wide
    rank = np.sum((s > cutoff(x, s, rcond)).astype("i32"))
    rest = np.sum(np.square(wide - x @ found), 0)
    return _as_vector(y, found), rest, rank, s


def pinv(a: ArrayLike, rcond: float | None = None) -> Array:
    """The Moore-Penrose inverse; singular values up to rcond * the largest count as 0.

    `rcond` is the larger size of the matrix times the rounding of its dtype, if not
    given.
    """

    def by_values(x: Array) -> Array:
        u, s, vh = svd(x, full_matrices=False)
        above = s > np.expand_dims(cutoff(x, s, rcond), -1)
        inverse = np.where(above, 1 / np.where(above, s, 1.0), 0.0)
        scaled = np.matrix_transpose(vh) * np.expand_dims(inverse, -2)
        return np.matmul(scaled, np.matrix_transpose(u))

    def rule(primals: Sequence[Array], tangents: Sequence[Array]) -> Any:
        (x,), (dx,) = primals, tangents
        return inverse(x), _pinv_tangent(x, inverse(x), dx)

    inverse = custom_jvp(by_values)
    inverse.defjvp(rule)
    found: Array = inverse(matrices("a", a))
    return found


def _pinv_tangent(x: Array, p: Array, dx: Array) -> Array:
    """Return the tangent of the pseudoinverse p of x, from the tangent dx.

    Golub and Pereyra, "The differentiation of pseudo-inverses and nonlinear least
    squares problems whose variables separate", SIAM Journal on Numerical Analysis 10
    (1973). It divides by no difference of singular values.
    """
    turn = np.matrix_transpose
    pt, dxt = turn(p), turn(dx)
    left, right = np.matmul(p, np.matmul(pt, dxt)), np.matmul(np.matmul(dxt, pt), p)
    left = left - np.matmul(np.matmul(left, x), p)
    right = right - np.matmul(p, np.matmul(x, right))
    return left + right - np.matmul(p, np.matmul(dx, p))


# ---- determinants -------------------------------------------------------------------

_SMALL = 3


def det(a: ArrayLike) -> Array:
    """Return the determinant.

    The derivative is det(a) a⁻ᵀ, which is not finite at a singular matrix. That of
    matrices up to 3x3 is right everywhere: their determinants are sums of products.
    """
    x = square("a", a)
    return _det_by_minors(x) if x.shape[-1] <= _SMALL else _det(x)


def _det_by_minors(x: Array) -> Array:
    """Return the determinant by cofactor expansion along the first row."""
    n = x.shape[-1]
    if n == 0:
        return np.ones(x.shape[:-2], x.dtype)
    if n == 1:
        return x[..., 0, 0]
    total = np.zeros(x.shape[:-2], x.dtype)
    for k in range(n):
        rest = np.concatenate([x[..., 1:, :k], x[..., 1:, k + 1 :]], -1)
        total = total + (-1) ** k * x[..., 0, k] * _det_by_minors(rest)
    return total


@custom_jvp
def _det(a: Array) -> Array:
    """Return the determinant by LU decomposition."""
    packed, permutation = lu_factor(a)
    return _parity(permutation, a.dtype) * np.prod(_diagonal(packed), -1)


def _det_rule(primals: Sequence[Array], tangents: Sequence[Array]) -> Any:
    """Return the determinant and its tangent, det(a) trace(a⁻¹ da)."""
    (a,), (da,) = primals, tangents
    value = _det(a)
    return value, value * _trace_of_solved(a, da)


_det.defjvp(_det_rule)


def slogdet(a: ArrayLike) -> tuple[Array, Array]:
    """The sign of the determinant and the logarithm of its magnitude.

    They are 0 and -inf for a singular matrix, where the derivative is not finite.
    """
    sign, logarithm = _slogdet(square("a", a))
    return sign, logarithm


@custom_jvp
def _slogdet(a: Array) -> tuple[Array, Array]:
    """Return the sign and the logarithm of the determinant by LU decomposition."""
    packed, permutation = lu_factor(a)
    pivots = _diagonal(packed)
    sign = _parity(permutation, a.dtype) * np.prod(np.sign(pivots), -1)
    return sign, np.sum(np.log(np.absolute(pivots)), -1)


def _slogdet_rule(primals: Sequence[Array], tangents: Sequence[Array]) -> Any:
    """Return `_slogdet` and its tangents: 0 and trace(a⁻¹ da)."""
    (a,), (da,) = primals, tangents
    return _slogdet(a), (None, _trace_of_solved(a, da))


_slogdet.defjvp(_slogdet_rule)


def _trace_of_solved(a: Array, da: Array) -> Array:
    """Return trace(a⁻¹ da)."""
    return np.sum(np.matrix_transpose(inv(a)) * da, (-2, -1))


def _diagonal(x: Array) -> Array:
    """Return the main diagonals of a stack of matrices."""
    return np.diagonal(x, 0, -2, -1)


def _parity(permutation: Array, dtype: str) -> Array:
    """Return the sign of each permutation: -1 if odd, 1 if even."""
    n = permutation.shape[-1]
    after = np.expand_dims(permutation, -1) > np.expand_dims(permutation, -2)
    wrong = np.triu(np.broadcast_to(after, (*permutation.shape, n)).astype("i32"), 1)
    return (1 - 2 * (np.sum(wrong, (-2, -1)) % 2)).astype(dtype)


# ---- products -----------------------------------------------------------------------


def matrix_power(a: ArrayLike, n: int) -> Array:
    """The matrix product of `n` copies of a[…, m, m]; of its inverse for negative `n`.

    0 gives the identity. The number `n` is one of Python's, not an array.
    """
    x = square("a", a)
    x = inv(x) if n < 0 else x
    result, count = None, abs(n)
    while count:
        if count % 2:
            result = x if result is None else np.matmul(result, x)
        count //= 2
        x = np.matmul(x, x) if count else x
    return eye_like(x, x.shape[-1]) if result is None else result


def multi_dot(arrays: Sequence[ArrayLike]) -> Array:
    """The product of two or more matrices, multiplied in a good order.

    The first and the last may be vectors.
    """
    factors = [as_float(a) for a in arrays]
    if len(factors) < 2:
        fail("bad-argument", f"expected two arrays or more; got {len(factors)}")
    ranks = [x.ndim for x in factors]
    if not all(rank == 2 for rank in ranks[1:-1]) or not {ranks[0], ranks[-1]} <= {
        1,
        2,
    }:
        fail("shape-mismatch", f"expected matrices; got ranks {ranks}")
    names = [chr(ord("a") + i) for i in range(len(factors) + 1)]
    terms = [f"{one}{two}" for one, two in zip(names[:-1], names[1:], strict=True)]
    if ranks[0] == 1:
        terms[0] = names[1]
    if ranks[-1] == 1:
        terms[-1] = names[-2]
    ends = ("" if ranks[0] == 1 else names[0]) + ("" if ranks[-1] == 1 else names[-1])
    return np.einsum(f"{','.join(terms)}->{ends}", *factors)


def block_diag(*arrs: ArrayLike) -> Array:
    """Return a matrix with the given ones along its diagonal, and zeros elsewhere."""
    blocks = [np.atleast_2d(x) for x in one_dtype(*arrs)]
    if any(x.ndim != 2 for x in blocks):
        fail(
            "shape-mismatch", f"expected matrices; got {[str(x.type) for x in blocks]}"
        )
    width = sum(x.shape[1] for x in blocks)
    rows, left = [], 0
    for x in blocks:
        right = width - left - x.shape[1]
        rows.append(np.pad(x, ((0, 0), (left, right))))
        left = left + x.shape[1]
    return np.concatenate(rows, 0)
