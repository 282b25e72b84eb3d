"""Linear algebra on `Array`s, under the names of `numpy.linalg` and `scipy.linalg`.

The last two axes are a matrix of known size in f32 or f64, those before them a stack,
whose sizes may be symbolic. Factorizations are differentiated by their own rules, never
through the algorithm.

Traces keep the dtype, all others take integers as f32. Norms, traces and products take
f16 and bf16 as well; the rest refuses these (`dtype-mismatch`), and all refuse matrices
that are not square where they must be (`shape-mismatch`). What a singular matrix makes
impossible is Inf or NaN in the result, not an error.
"""

from __future__ import annotations

from aotc import numpy as _np
from aotc.linalg.factorizing import (
    cho_factor,
    cholesky,
    eigh,
    eigvalsh,
    lu,
    lu_factor,
    qr,
    svd,
    svdvals,
)
from aotc.linalg.matrix_exponential import expm
from aotc.linalg.norms import cond, matrix_norm, matrix_rank, norm, vector_norm
from aotc.linalg.solving import (
    block_diag,
    cho_solve,
    det,
    inv,
    lstsq,
    lu_solve,
    matrix_power,
    multi_dot,
    pinv,
    slogdet,
    solve,
    solve_triangular,
    tensorinv,
    tensorsolve,
)
from aotc.numpy.products import cross, matmul, outer, tensordot
from aotc.numpy.shaping import matrix_transpose
from aotc.tracing.array import Array
from aotc.tracing.calls import guard
from aotc.tracing.conversion import ArrayLike

__all__ = [
    "block_diag",
    "cho_factor",
    "cho_solve",
    "cholesky",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eigh",
    "eigvalsh",
    "expm",
    "inv",
    "lstsq",
    "lu",
    "lu_factor",
    "lu_solve",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "multi_dot",
    "norm",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_triangular",
    "svd",
    "svdvals",
    "tensordot",
    "tensorinv",
    "tensorsolve",
    "trace",
    "vector_norm",
]


def diagonal(x: ArrayLike, /, *, offset: int = 0) -> Array:
    """The elements on a diagonal of each matrix."""
    return _np.diagonal(x, offset, -2, -1)


def trace(x: ArrayLike, /, *, offset: int = 0) -> Array:
    """The sum of a diagonal of each matrix of the stack x[…, n, m], in its dtype."""
    return _np.trace(x, offset, -2, -1)


guard(globals(), __all__)
