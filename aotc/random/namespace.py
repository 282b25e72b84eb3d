"""The public names of `aotc.random`."""

from __future__ import annotations

from aotc.random.counts import binomial, geometric, poisson
from aotc.random.distributions import (
    bernoulli,
    cauchy,
    exponential,
    gumbel,
    laplace,
    logistic,
    normal,
    rademacher,
    randint,
    truncated_normal,
    uniform,
)
from aotc.random.drawing import categorical, choice, permutation
from aotc.random.gammas import beta, chisquare, dirichlet, gamma, loggamma, t
from aotc.random.rounding import stochastic_round
from aotc.random.threefry import bits, fold_in, key, split
from aotc.random.transformed import (
    lognormal,
    maxwell,
    pareto,
    rayleigh,
    triangular,
    weibull_min,
)
from aotc.random.vectors import multivariate_normal, orthogonal
from aotc.tracing.calls import guard

__all__ = [
    "bernoulli",
    "beta",
    "binomial",
    "bits",
    "categorical",
    "cauchy",
    "chisquare",
    "choice",
    "dirichlet",
    "exponential",
    "fold_in",
    "gamma",
    "geometric",
    "gumbel",
    "key",
    "laplace",
    "loggamma",
    "logistic",
    "lognormal",
    "maxwell",
    "multivariate_normal",
    "normal",
    "orthogonal",
    "pareto",
    "permutation",
    "poisson",
    "rademacher",
    "randint",
    "rayleigh",
    "split",
    "stochastic_round",
    "t",
    "triangular",
    "truncated_normal",
    "uniform",
    "weibull_min",
]


guard(globals(), __all__)
