"""Functions of `aotc.numpy` on how variables go together: covariance, correlation."""

from __future__ import annotations

from aotc.numpy.broadcasting import broadcast_to
from aotc.numpy.diagonals import diagonal
from aotc.numpy.elementwise import clip, divide, maximum, multiply, sqrt, subtract
from aotc.numpy.joining import concatenate
from aotc.numpy.products import matmul
from aotc.numpy.reducing import mean
from aotc.numpy.shaping import atleast_2d, expand_dims, reshape, transpose
from aotc.tracing.array import Array
from aotc.tracing.conversion import (
    ArrayLike,
    as_float,
    astype,
    lift,
    one_dtype,
    to_accumulator,
)
from aotc.tracing.source_locations import fail

__all__ = ["corrcoef", "cov"]


def cov(
    m: ArrayLike,
    y: ArrayLike | None = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
) -> Array:
    """Return the covariance matrix of the variables.

    Args:
        m: variables, observations; or a vector of observations of one variable.
        y: more variables of the same form.
        rowvar: False if the axes are the other way round.
        bias: whether to divide by the number of observations; by one less otherwise.
        ddof: what is taken off that number instead.
    """
    x = _variables(m, y, rowvar)
    return astype(_covariance(to_accumulator(x), bias, ddof), x.dtype)


def _covariance(x: Array, bias: bool, ddof: int | None) -> Array:
    """Return the covariance matrix of the rows."""
    count = x.shape[1] - (int(not bias) if ddof is None else ddof)
    deviations = subtract(x, mean(x, 1, keepdims=True))
    # a count that is not positive divides by 0, as in NumPy
    products = matmul(deviations, transpose(deviations))
    found = divide(products, maximum(lift(count, x.dtype), 0))
    return reshape(found, ()) if x.shape[0] == 1 else found  # in each call or in none


def corrcoef(x: ArrayLike, y: ArrayLike | None = None, rowvar: bool = True) -> Array:
    """Return the matrix of Pearson correlations of the variables; see `cov`."""
    rows = _variables(x, y, rowvar)
    return astype(_correlation(to_accumulator(rows)), rows.dtype)


def _correlation(rows: Array) -> Array:
    """Return the matrix of Pearson correlations of the rows."""
    shares = _covariance(rows, False, None)
    if not shares.ndim:
        return divide(shares, shares)
    deviation = sqrt(diagonal(shares))
    across = broadcast_to(expand_dims(deviation, 1), shares.shape)
    return clip(divide(shares, multiply(across, deviation)), -1, 1)


def _variables(m: ArrayLike, y: ArrayLike | None, rowvar: bool) -> Array:
    """Return the variables of `m`, then those of `y`, as rows."""
    parts = [m] if y is None else one_dtype(m, y)
    rows = []
    for part in parts:
        x = as_float(part)
        if x.ndim > 2:
            fail("shape-mismatch", f"expected one or two axes; got {x.type}")
        turned = not rowvar and x.ndim == 2
        rows.append(atleast_2d(transpose(x) if turned else x))
    if rows[0].type.shape[1] != rows[-1].type.shape[1]:
        fail(
            "shape-mismatch",
            f"expected as many observations of both; got {rows[0].type} and "
            f"{rows[-1].type}",
        )
    return concatenate(rows)
