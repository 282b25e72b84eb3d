"""Factorizations of matrices: functions of `aotc.linalg` around the ops of the dialect.

The last two axes of an array are a matrix, those before them a stack; the sizes of the
matrices are numbers, those of the stack may be symbolic.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy

from aotc import numpy as np
from aotc.core import dtypes
from aotc.dialects.types import Size
from aotc.tracing.array import Array
from aotc.tracing.conversion import ArrayLike, as_float
from aotc.tracing.source_locations import fail
from aotc.tracing.tracing import emit, emit_all

__all__ = [
    "cho_factor", "cholesky", "eigh", "eigvalsh", "lu", "lu_factor", "qr", "svd",
    "svdvals",
]  # fmt: skip

DTYPES = ("f32", "f64")


# ---- operands -----------------------------------------------------------------------


def matrices(name: str, a: ArrayLike) -> Array:
    """Return the argument `name` as a stack of matrices in f32 or f64, or raise."""
    x = as_float(a)
    if x.dtype not in DTYPES:
        fail(
            "dtype-mismatch",
            f"expected '{name}' in f32 or f64; got {x.type}",
            "convert it with .astype(...)",
        )
    if x.ndim < 2:
        fail("shape-mismatch", f"expected '{name}' with two axes or more; got {x.type}")
    if not all(isinstance(size, int) for size in x.shape[-2:]):
        fail(
            "symbolic-size",
            f"expected '{name}' with numbers as its last two sizes; got {x.type}",
            "give them in the Spec as numbers; sizes before may be symbolic",
        )
    return x


def square(name: str, a: ArrayLike) -> Array:
    """Return the argument `name` as a stack of square matrices in f32 or f64, or
    raise.
    """
    x = matrices(name, a)
    if x.shape[-1] != x.shape[-2]:
        fail("shape-mismatch", f"expected '{name}' as square matrices; got {x.type}")
    return x


def matrix_size(x: Array) -> tuple[int, int]:
    """Return the numbers of rows and columns of each matrix."""
    rows, columns = map(operator.index, x.shape[-2:])
    return rows, columns


def is_tall(x: Array) -> bool:
    """Return whether matrices have at least as many rows as columns."""
    rows, columns = matrix_size(x)
    return rows >= columns


def eye_like(x: Array, size: Size) -> Array:
    """Return an identity matrix for each matrix of the stack `x`."""
    one = np.eye(size, dtype=x.dtype)
    return np.broadcast_to(one, (*x.shape[:-2], size, size))


def rows_at(x: Array, order: Array) -> Array:
    """Return matrices with their rows in the order of each one's row of `order`."""
    lead = tuple(range(x.ndim - 2))
    along, kept = (*lead, x.ndim - 2), (*lead, x.ndim - 1)
    return emit(
        "gather", x, order, axes=(x.ndim - 2,), along=along, kept=kept, mode="clip"
    )


# ---- cholesky -----------------------------------------------------------------------


def cholesky(a: ArrayLike, /, *, upper: bool = False) -> Array:
    """L with a = L Lᵀ, lower triangular; with `upper` its transpose.

    Of `a` the symmetric part is used. Where it is not positive definite, all of the
    triangle is NaN.
    """
    lower = emit("cholesky", square("a", a))
    return np.matrix_transpose(lower) if upper else lower


def cho_factor(a: ArrayLike, lower: bool = False) -> tuple[Array, bool]:
    """Return a Cholesky factor for `cho_solve`, and whether it is the lower one."""
    return cholesky(a, upper=not lower), lower


# ---- lu -----------------------------------------------------------------------------


def lu_factor(a: ArrayLike) -> tuple[Array, Array]:
    """Return L and U packed in one matrix (L - 1 + U), and the permutation of rows.

    SciPy gives the exchanges of rows that make up the permutation instead of it.
    """
    packed, permutation = emit_all("lu", square("a", a))
    return packed, permutation


def lu(a: ArrayLike) -> tuple[Array, Array, Array]:
    """P, L and U with a = P L U: a permutation, a lower and an upper triangle.

    L has ones on its diagonal.
    """
    packed, permutation = lu_factor(a)
    one = eye_like(packed, packed.shape[-1])
    lower = np.tril(packed, -1) + one
    return np.matrix_transpose(rows_at(one, permutation)), lower, np.triu(packed)


# ---- qr -----------------------------------------------------------------------------


def qr(a: ArrayLike, mode: str = "reduced") -> Any:
    """Q and R with a = Q R: orthonormal columns and an upper triangle.

    The diagonal of R is at least 0, which NumPy leaves open.

    Args:
        a: matrices.
        mode: "reduced", or "r" for R alone.
    """
    x = matrices("a", a)
    if mode not in ("reduced", "r"):
        fail("bad-argument", f"expected a mode out of reduced, r; got {mode!r}")
    columns = min(matrix_size(x))
    q, r = emit_all("qr", x[..., :columns])
    if not is_tall(x):
        rest = np.matmul(np.matrix_transpose(q), x[..., columns:])
        r = np.concatenate([r, rest], -1)
    return r if mode == "r" else (q, r)


# ---- eigenvalues and singular values ------------------------------------------------


def eigh(a: ArrayLike) -> tuple[Array, Array]:
    """Return eigenvalues in rising order and eigenvectors, in columns, of symmetric
    matrices.

    Of `a` the symmetric part is used. The largest element of each eigenvector is
    positive. Vectors of equal eigenvalues are not unique. Functions of the values alone
    and of the spaces that such vectors span have the right derivative there; in others
    the part that would divide by the difference of the values is left out.
    """
    values, vectors = emit_all("eigh", square("a", a))
    return values, vectors


def eigvalsh(a: ArrayLike) -> Array:
    """The eigenvalues of symmetric matrices a[…, n, n], in rising order: […, n].

    Those of (a + aᵀ) / 2, if a matrix is not symmetric; see `eigh`.
    """
    return eigh(a)[0]


def svd(a: ArrayLike, full_matrices: bool = True, compute_uv: bool = True) -> Any:
    """U, s and Vh with a = U diag(s) Vh; s alone without `compute_uv`.

    s falls. Of each column of U (of each row of Vh, if `a` is wider than high) the
    largest element is positive. Vectors of equal values are as those of `eigh`.

    Args:
        a: matrices.
        full_matrices: must be False if `a` is not square: there is no full U or Vh.
        compute_uv: whether to return vectors, too.
    """
    x = matrices("a", a)
    if full_matrices and compute_uv and x.shape[-1] != x.shape[-2]:
        fail(
            "unsupported",
            f"there is no full U and Vh of matrices that are not square; got {x.type}",
            "give full_matrices=False",
        )
    tall = x if is_tall(x) else np.matrix_transpose(x)
    u, s, vh = emit_all("svd", tall)
    if not compute_uv:
        return s
    if is_tall(x):
        return u, s, vh
    return np.matrix_transpose(vh), s, np.matrix_transpose(u)


def svdvals(x: ArrayLike, /) -> Array:
    """The singular values of x[…, m, n], in falling order: […, min(m, n)]."""
    values: Array = svd(x, compute_uv=False)
    return values


def cutoff(x: Array, values: Array, rcond: float | None) -> Array:
    """Return the threshold below which singular values count as 0."""
    if rcond is None:
        step = numpy.finfo(dtypes.to_numpy(x.dtype)).eps
        rcond = float(step) * max(matrix_size(x))
    return rcond * np.max(values, -1)
