"""The public names of `aotc.linalg`."""

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
