"""Distributions of `aotc.random` on the numbers 0, 1, 2, …; none is differentiable.

Poisson and binomial numbers of a mean below 10 are found by inversion: `_inverse_cdf`
adds up the probabilities of the first 40, from the nearer end. Those of a larger mean
come by rejection: Hörmann, "The transformed rejection method for generating Poisson
random variables", Insurance: Mathematics and Economics 12 (1993) 39, and "The
generation of binomial random variates", Journal of Statistical Computation and
Simulation 46 (1993) 101. At least 7 of 10 candidates are accepted; 16 are drawn at
once, so that 1 draw in 10**8 at most is not accepted, which then is the mean.

Means up to 2**24 (f64: 2**53) are exact in the dtype of the parameters.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from aotc import numpy as np
from aotc.core import dtypes
from aotc.core.dtypes import DTypeLike
from aotc.numpy.broadcasting import ShapeLike
from aotc.random import exact
from aotc.random.distributions import exponential, float_dtypes, parameters, tail
from aotc.random.threefry import split
from aotc.tracing.array import Array
from aotc.tracing.conversion import ArrayLike, as_float
from aotc.tracing.source_locations import fail

__all__ = ["binomial", "geometric", "poisson"]

_LARGE = 10.0  # means from here on are drawn by rejection
_SEARCHED = 40  # numbers; the next one has probability 10**-12 for a mean of 10
_CANDIDATES = 16


def poisson(
    key: ArrayLike,
    lam: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike = "i32",
) -> Array:
    """Draw Poisson numbers of mean `lam` >= 0."""
    name = _integer(dtype)
    (lam,), wanted = parameters(lam, shape=shape, dtype=_computation_dtype(lam))
    keys, small = split(key), lam < _LARGE
    few = np.where(small, np.maximum(lam, 0.0), 1.0)
    ratios = exact.product(np.expand_dims(few, -1), _inverses(lam.dtype))
    searched = _inverse_cdf(tail(keys[0], wanted, lam.dtype), exact.exp(-few), ratios)
    many = np.expand_dims(np.where(small, _LARGE, lam), -1)
    rejected = _rejection_sample(keys[1], many, _poisson_hat(many), _poisson_cost)
    return np.astype(np.where(small, searched, rejected), name)


def binomial(
    key: ArrayLike,
    n: ArrayLike,
    p: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike = "i32",
) -> Array:
    """Draw the number of successes in `n` >= 0 trials of probability `p`."""
    name = _integer(dtype)
    (n, p), wanted = parameters(n, p, shape=shape, dtype=_computation_dtype(p))
    keys, rare = split(key), np.minimum(p, 1.0 - p)  # the rarer outcome is counted
    small = exact.product(n, rare) < _LARGE
    few = np.where(small, np.maximum(rare, 0.0), 0.0)
    searched = _inverse_cdf(
        tail(keys[0], wanted, p.dtype), _power(few, n), _binomial_ratios(n, few)
    )
    pair = np.where(small, 100.0, n), np.where(small, 0.5, rare)
    count, chance = (np.expand_dims(each, -1) for each in pair)
    hat, cost = _binomial_hat(count, chance), _binomial_cost(count, chance)
    rejected = _rejection_sample(keys[1], exact.product(count, chance), hat, cost)
    found = np.where(small, searched, rejected)
    return np.astype(np.where(p > 0.5, n - found, found), name)


def geometric(
    key: ArrayLike,
    p: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike = "i32",
) -> Array:
    """Draw the number of trials of probability `p` > 0 until the first success: 1,
    2, …
    """
    name = _integer(dtype)
    (p,), wanted = parameters(p, shape=shape, dtype=_computation_dtype(p))
    waited = exact.quotient(exponential(key, wanted, p.dtype), -_log_complement(p))
    return np.astype(np.floor(waited) + 1.0, name)


def _integer(dtype: DTypeLike) -> str:
    """Return the canonical name of an integer dtype; raise for others."""
    name = dtypes.canonical_dtype(dtype)
    if name not in dtypes.INTEGERS:
        fail("bad-dtype", f"expected an integer dtype; got {name}")
    return name


def _computation_dtype(parameter: ArrayLike) -> str:
    """Return the float dtype in which draws with this parameter are computed."""
    return float_dtypes(as_float(parameter).dtype)[1]


def _log_complement(p: Array) -> Array:
    """ln(1 - p), as accurate for small p; far below anything for p = 1."""
    small = p < 0.5
    near = exact.log_of(exact.logarithmic_complement(np.where(small, p, 0.0)))
    far = exact.log(np.where(small, 1.0, np.maximum(1.0 - p, 2.0**-100)))
    return np.where(small, near, far)


def _power(p: Array, n: Array) -> Array:
    """Return (1 - p)**n."""
    return exact.exp(exact.product(n, _log_complement(p)))


# ---- small means: inversion ---------------------------------------------------------


def _inverse_cdf(end: tuple[Array, Array], first: Array, ratios: Array) -> Array:
    """Draw by inversion: count the values whose cumulative probability is below `end`.

    Args:
        end: the uniform number, as `tail` gives it.
        first: the probability of 0.
        ratios: of the probability of k + 1 to that of k, along the last axis.
    """
    is_lower, distance = (np.expand_dims(part, -1) for part in end)
    rest = exact.product(
        np.expand_dims(first, -1), exact.running(exact.product, ratios, 1.0)
    )
    chances = np.concatenate([np.expand_dims(first, -1), rest], -1)
    below = exact.running(np.add, chances, 0.0)[..., :-1]
    above = np.flip(exact.running(np.add, np.flip(rest, -1), 0.0), -1)
    passed = np.where(is_lower, below < distance, above > distance)
    return np.astype(np.sum(np.astype(passed, "i32"), -1), first.dtype)


def _inverses(dtype: str) -> Array:
    """Return 1, 1 / 2, 1 / 3, … as an array."""
    return np.asarray([1 / (k + 1) for k in range(_SEARCHED)], dtype)


def _binomial_ratios(n: Array, p: Array) -> Array:
    """Return the ratios of a binomial's probabilities of k + 1 and k."""
    k = np.arange(_SEARCHED, dtype=n.dtype)
    left = np.maximum(np.expand_dims(n, -1) - k, 0.0)
    odds = np.expand_dims(exact.quotient(p, 1.0 - p), -1)
    return exact.product(exact.product(left, _inverses(n.dtype)), odds)


# ---- large means: rejection ---------------------------------------------------------


@dataclass(frozen=True)
class _Hat:
    """The hat function of Hörmann's rejection sampler, with his parameter names."""

    a: Array
    b: Array
    centre: Array
    log_scale: Array


def _poisson_hat(mean: Array) -> _Hat:
    """Return the hat function of the Poisson distribution."""
    b = exact.product(exact.sqrt(mean), 2.53) + 0.931
    a = exact.product(b, 0.02483) - 0.059
    scale = exact.quotient(np.full_like(b, 1.1328), b - 3.4) + 1.1239
    return _Hat(a, b, mean + 0.43, exact.log(scale))


def _binomial_hat(n: Array, p: Array) -> _Hat:
    """Return the hat function of the binomial distribution."""
    mean = exact.product(n, p)
    deviation = exact.sqrt(exact.product(mean, 1.0 - p))
    b = exact.product(deviation, 2.53) + 1.15
    a = (exact.product(b, 0.0248) - 0.0873) + exact.product(p, 0.01)
    scale = exact.quotient(np.full_like(b, 5.1), b) + 2.83
    top = np.floor(exact.product(n + 1.0, p))
    cost = _binomial_cost(n, p)(top, mean)
    return _Hat(a, b, mean + 0.5, exact.log(scale * deviation) - cost)


Cost = Callable[[Array, Array], Array]


def _rejection_sample(key: ArrayLike, mean: Array, hat: _Hat, cost: Cost) -> Array:
    """Draw candidates from a hat; return the first that `cost` accepts, or floor(mean).

    Parameters have a last axis of one element, for the candidates.
    """
    keys, candidates = split(key), (*mean.shape[:-1], _CANDIDATES)
    is_lower, edge = tail(keys[0], candidates, mean.dtype)
    u = np.where(is_lower, edge - 0.5, 0.5 - edge)
    slope = exact.quotient(2.0 * hat.a, edge) + hat.b
    k = np.floor(exact.product(slope, u) + hat.centre)
    density = exact.log(exact.quotient(hat.a, edge * edge) + hat.b)
    log_v = -exponential(keys[1], candidates, mean.dtype)
    fits = (log_v + (hat.log_scale - density)) + cost(k, mean) <= 0.0
    accepted = np.logical_and(fits, k >= 0.0)
    found = exact.first(k, accepted)
    return np.where(np.any(accepted, -1), found, np.floor(np.squeeze(mean, -1)))


def _poisson_cost(k: Array, mean: Array) -> Array:
    """Return the negative log-probability of k: -ln(e**-mean mean**k / k!)."""
    some = np.maximum(k, 1.0)
    logarithm = exact.product(exact.log(some), 0.5) + 0.5 * math.log(2 * math.pi)
    cost = (exact.deviance(some, mean) + _stirling(some)) + logarithm
    return np.where(k < 1.0, mean, cost)


def _binomial_cost(n: Array, p: Array) -> Cost:
    """Return a function (k, mean): the binomial's negative log-probability plus a
    constant.
    """
    misses = exact.product(n, 1.0 - p)

    def cost(k: Array, mean: Array) -> Array:
        left = n - k
        found = _poisson_cost(k, mean) + _poisson_cost(left, misses)
        return np.where(left < 0.0, math.inf, found)

    return cost


def _stirling(x: Array) -> Array:
    """Return the error of Stirling's formula, ln x! - ln(sqrt(2 pi x) (x / e)**x)."""
    inverse = exact.quotient(np.ones_like(x), x)
    square = exact.product(inverse, inverse)
    return exact.product(
        inverse, exact.polynomial(square, [1 / 1260, -1 / 360, 1 / 12])
    )
