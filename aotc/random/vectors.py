"""Random vectors and matrices of `aotc.random`.

They are made by products and factorizations of matrices: unlike all other numbers of
`aotc.random`, they differ between targets, in their last bits.
"""

from __future__ import annotations

from aotc import numpy as np
from aotc.core.dtypes import DTypeLike
from aotc.numpy.broadcasting import ShapeLike, as_shape, common_shape, new_shape
from aotc.random.distributions import float_dtypes, normal
from aotc.tracing.array import Array
from aotc.tracing.conversion import ArrayLike, as_float
from aotc.tracing.source_locations import fail
from aotc.tracing.tracing import emit, emit_all

__all__ = ["multivariate_normal", "orthogonal"]


def multivariate_normal(
    key: ArrayLike,
    mean: ArrayLike,
    cov: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
) -> Array:
    """Draw normal vectors of a mean and a covariance, with derivatives by both.

    Args:
        key: the key.
        mean: …, n.
        cov: …, n, n: symmetric and positive definite.
        shape: of the draws, which have one more axis of n; that of the parameters
            without it.
        dtype: that of `mean` without it.
    """
    name, wide = float_dtypes(as_float(mean).dtype if dtype is None else dtype)
    centre, spread = np.asarray(mean, wide), np.asarray(cov, wide)
    if not centre.ndim or spread.type.shape[-2:] != (centre.type.shape[-1],) * 2:
        fail(
            "shape-mismatch",
            "expected mean as vectors and cov as square matrices of their size; got "
            f"{centre.type} and {spread.type}",
        )
    found = common_shape(centre.type.shape[:-1], spread.type.shape[:-2])
    wanted = found if shape is None else as_shape(shape)
    if common_shape(found, wanted) != wanted:
        fail(
            "shape-mismatch",
            f"parameters of shape {found} do not fit draws of shape {wanted}",
        )
    z = normal(key, (*wanted, centre.shape[-1]), wide)
    moved = np.matvec(emit("cholesky", spread), z)
    return np.astype(np.add(centre, moved), name)


def orthogonal(
    key: ArrayLike,
    n: int,
    shape: ShapeLike = (),
    dtype: DTypeLike = "f32",
    m: int | None = None,
) -> Array:
    """Draw matrices n × m (n × n) with orthonormal columns, or rows if there are fewer.

    All directions are alike, for the diagonal of r is positive: Mezzadri, "How to
    generate random matrices from the classical compact groups", Notices of the AMS 54
    (2007) 592.
    """
    name, wide = float_dtypes(dtype)
    rows, columns = new_shape((n, n if m is None else m))
    tall = max(n, columns), min(n, columns)
    q, _ = emit_all("qr", normal(key, (*as_shape(shape), *tall), wide))
    return np.astype(q if rows >= columns else np.matrix_transpose(q), name)
