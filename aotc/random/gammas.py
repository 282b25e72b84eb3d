"""The gamma distribution of `aotc.random`, and those that are made of it.

Marsaglia and Tsang, "A simple method for generating gamma variables", ACM TOMS 26
(2000) 363: with d = a - 1/3 and normal x, d (1 + x / sqrt(9 d))**3 is accepted in at
least 95 of 100 cases. Six candidates are drawn at once, so that 1 draw in 10**8 at most
is not accepted; it is the first candidate then. Below a = 1 a gamma number of a + 1 is
multiplied by u**(1 / a).

Everything is in logarithms, where small parameters do not underflow. The derivative by
a is implicit: Figurnov, Mohamed and Mnih, "Implicit reparameterization gradients",
NeurIPS 2018.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy

from aotc import numpy as np
from aotc.core.dtypes import DTypeLike
from aotc.dialects.types import Shape
from aotc.numpy.broadcasting import ShapeLike, as_shape, broadcast_to
from aotc.random import exact
from aotc.random.distributions import (
    exponential,
    float_dtypes,
    normal,
    parameters,
)
from aotc.random.threefry import split
from aotc.tracing.array import Array
from aotc.tracing.conversion import ArrayLike, as_float
from aotc.tracing.custom import custom_jvp
from aotc.tracing.source_locations import fail
from aotc.tracing.tracing import emit

__all__ = ["beta", "chisquare", "dirichlet", "gamma", "loggamma", "t"]

_CANDIDATES = 6


def gamma(
    key: ArrayLike,
    a: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
) -> Array:
    """Draw gamma numbers of shape `a` > 0 and scale 1, with the derivative by `a`."""
    return _of_gamma(key, a, shape, dtype, exact.exp)


def loggamma(
    key: ArrayLike,
    a: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
) -> Array:
    """Draw the logarithm of `gamma` numbers; small `a` do not underflow."""
    return _of_gamma(key, a, shape, dtype, lambda x: x)


def chisquare(
    key: ArrayLike,
    df: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
) -> Array:
    """Draw chi-square numbers with `df` degrees of freedom, with the derivative by
    `df`.
    """
    return _of_gamma(
        key, as_float(df) * 0.5, shape, dtype, lambda x: 2.0 * exact.exp(x)
    )


def _of_gamma(
    key: ArrayLike,
    a: ArrayLike,
    shape: ShapeLike | None,
    dtype: DTypeLike | None,
    function: Callable[[Array], Array],
) -> Array:
    """Draw the logarithm of gamma numbers, apply `function`, and cast to the dtype."""
    name, wide = float_dtypes(as_float(a).dtype if dtype is None else dtype)
    (a,), wanted = parameters(a, shape=shape, dtype=wide)
    return np.astype(function(_log_draw(key, a, wanted)), name)


def beta(
    key: ArrayLike,
    a: ArrayLike,
    b: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
) -> Array:
    """Draw beta numbers: the fraction of the first of two gamma numbers in their sum.

    Has derivatives by both.
    """
    name, wide = float_dtypes(as_float(a).dtype if dtype is None else dtype)
    (a, b), wanted = parameters(a, b, shape=shape, dtype=wide)
    first, second = split(key)
    logs = [_log_draw(first, a, wanted), _log_draw(second, b, wanted)]
    return np.astype(_shares(np.stack(logs))[0], name)


def dirichlet(
    key: ArrayLike,
    alpha: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
) -> Array:
    """Draw Dirichlet numbers along the last axis of `alpha`, whose other axes broadcast
    to `shape`.

    Has derivatives by `alpha`.
    """
    alpha = as_float(alpha)
    if alpha.ndim == 0 or not isinstance(alpha.shape[-1], int):
        fail("bad-axis", f"expected alpha with a fixed last axis; got {alpha.type}")
    name, wide = float_dtypes(alpha.dtype if dtype is None else dtype)
    wanted = None if shape is None else (*as_shape(shape), alpha.shape[-1])
    (alpha,), wanted = parameters(alpha, shape=wanted, dtype=wide)
    logs = np.moveaxis(_log_draw(key, alpha, wanted), -1, 0)
    return np.astype(np.moveaxis(_shares(logs), 0, -1), name)


def t(
    key: ArrayLike, df: ArrayLike, shape: ShapeLike = (), dtype: DTypeLike | None = None
) -> Array:
    """Draw Student's t numbers with `df` degrees of freedom, with the derivative by
    `df`.
    """
    name, wide = float_dtypes(as_float(df).dtype if dtype is None else dtype)
    like_df = isinstance(shape, tuple) and not shape
    (half,), wanted = parameters(
        as_float(df) * 0.5, shape=None if like_df else shape, dtype=wide
    )
    first, second = split(key)
    # sqrt(df / chi-square), where half of either will do
    spread = exact.exp((exact.log(half) - _log_draw(second, half, wanted)) * 0.5)
    return np.astype(exact.product(normal(first, wanted, wide), spread), name)


def _shares(logs: Array) -> Array:
    """Return softmax(logs) along the first axis, with exact functions."""
    sizes = exact.exp(logs - np.max(logs, 0))
    return exact.quotient(sizes, broadcast_to(exact.total(sizes, 0), sizes.shape))


# ---- one draw -----------------------------------------------------------------------


def _log_draw(key: ArrayLike, a: Array, shape: Shape) -> Array:
    """Draw the logarithm of gamma numbers; `a` has the shape of the draws."""
    keys, candidates = split(key, 3), (*shape, _CANDIDATES)
    drawn: Array = _log_gamma(
        a,
        normal(keys[0], candidates, a.dtype),
        -exponential(keys[1], candidates, a.dtype),
        -exponential(keys[2], shape, a.dtype),
    )
    return drawn


def _marsaglia_tsang(a: Array, x: Array, log_u: Array, log_boost: Array) -> Array:
    """Return log gamma numbers by rejection from normal and exponential candidates."""
    small = a < 1.0
    d = np.where(small, a + 1.0, a) - 1 / 3
    many, slope = (
        broadcast_to(np.expand_dims(each, -1), x.shape)
        for each in (d, exact.rsqrt(9.0 * d))
    )
    root = exact.product(slope, x) + 1.0
    valid = root > 1e-6
    log_v = exact.product(exact.log(np.where(valid, root, 1.0)), 3.0)
    cube = exact.product(root * root, root)
    bound = exact.product(0.5 * x, x) + exact.product(many, (1.0 - cube) + log_v)
    accepted = np.logical_and(valid, log_u < bound)
    boost = np.where(small, exact.quotient(log_boost, a), 0.0)
    return (exact.log(d) + exact.first(log_v, accepted)) + boost


_log_gamma = custom_jvp(_marsaglia_tsang)


def _rule(primals: Sequence[Array], tangents: Sequence[Array]) -> tuple[Array, Array]:
    """Return log gamma numbers and their tangent by `a`."""
    drawn: Array = _log_gamma(*primals)
    return drawn, _slope(drawn, primals[0]) * tangents[0]


_log_gamma.defjvp(_rule)

_NODES, _WEIGHTS = numpy.polynomial.legendre.leggauss(32)
_REACH = 16.0  # how far an integrand decays: to e**-16


def _slope(log_x: Array, a: Array) -> Array:
    """Return d(ln x)/da of a gamma number while F(x; a) is constant.

    By -(dF/da) / (x dF/dx). With t = x e**(-y) in the integral for dF/da over [0, x],
    for x below a, and t = x e**y in that over [x, inf) above it (the sum of the two is
    zero), it becomes, with the sign s = -1 or 1,

        s * integral over y > 0 of e**(s (a y - x |e**(s y) - 1|)) g(y),
        g(y) = ln x + s y - digamma(a)

    Gauss and Legendre's rule with 32 nodes gives six digits of it, three at worst.
    """
    x = np.exp(log_x)
    below = x < a
    side = 1.0 - 2.0 * np.astype(below, a.dtype)
    digamma = emit("polygamma", a, order=0)
    columns = (log_x, x, a, side, digamma, _reach(x, a, below))
    log_x, x, a, s, digamma, reach = (np.expand_dims(each, -1) for each in columns)
    y = reach * np.asarray((_NODES + 1) / 2, a.dtype)
    decay = np.exp(s * (a * y - x * np.abs(np.expm1(s * y))))
    values = decay * (log_x + s * y - digamma) * np.asarray(_WEIGHTS / 2, a.dtype)
    return side * np.sum(reach * values, -1)


def _reach(x: Array, a: Array, below: Array) -> Array:
    """Return an upper limit of the integral in `_slope`, where the integrand has
    decayed.
    """
    down = _REACH / a + np.sqrt(2 * _REACH / a)
    more = np.maximum(x, a)
    up = np.log1p(_REACH / more + np.sqrt(2 * _REACH / more))
    return np.minimum(_REACH / np.abs(a - x), np.where(below, down, up))
