"""Functions of `aotc.numpy` that `numpy.linalg` has, too: axes are the last two."""

from aotc import numpy as anp
from aotc.numpy.products import cross, matmul, outer, tensordot
from aotc.numpy.shaping import matrix_transpose
from aotc.tracing.array import Array
from aotc.tracing.conversion import ArrayLike

__all__ = [
    "cross", "diagonal", "matmul", "matrix_transpose", "outer", "tensordot", "trace",
]  # fmt: skip


def diagonal(x: ArrayLike, /, *, offset: int = 0) -> Array:
    """The elements on a diagonal of each matrix."""
    return anp.diagonal(x, offset, -2, -1)


def trace(x: ArrayLike, /, *, offset: int = 0) -> Array:
    """The sum of a diagonal of each matrix of the stack x[…, n, m], in its dtype."""
    return anp.trace(x, offset, -2, -1)
