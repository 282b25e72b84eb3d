"""Random numbers as pure functions of a key: the functions of `jax.random`.

A key is an array of two u32. It is a value like any other: split it, pass it on, keep
it in `State`. Use a key once: split it for more. The same key gives the same numbers,
bit for bit, in the reference evaluator, on every target, and in forward and backward
passes: see Note [Exact functions] in `aotc.random.exact`. Only those that are products
of matrices, `multivariate_normal` and `orthogonal`, differ in their last bits. The
numbers are Threefry's (`aotc.random.threefry`); they are aotc's own, not those that JAX
draws.

Derivatives, by kind:

- `uniform`, `truncated_normal` and the gamma family (`gamma`, `beta`, `dirichlet`,
  `chisquare`, `t`) are reparameterised: they have derivatives by their bounds and
  parameters, the latter by implicit differentiation.
- `lognormal`, `pareto`, `rayleigh`, `triangular`, `weibull_min` and
  `multivariate_normal` are functions of standard numbers and have derivatives by their
  parameters.
- `normal`, `exponential`, `gumbel`, `laplace`, `logistic`, `cauchy` and `maxwell` are
  standard: write `mean + deviation * normal(key)`, which has derivatives by both.
- `bernoulli`, `binomial`, `categorical`, `choice`, `geometric`, `permutation`,
  `poisson`, `rademacher`, `randint` and `bits` are discrete: they have no derivative.
  The score-function estimator (Williams, Machine Learning 8 (1992) 229) is the gradient
  of `stop_gradient(reward) * log_probability`, where the log probability of what
  `categorical` drew is that element of `aotc.nn.log_softmax(logits)`.

Floats come in f32 and f64; f16 and bf16 are those of f32, rounded. `shape` is that of
the result; where parameters are arrays, it may be left out and is then theirs.

Errors: `bad-key` for a key that is no u32[2], `bad-dtype` for a dtype of another kind
than the numbers have (floats, integers, or for `bits` unsigned ones).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aotc.core.deferring import lazy_attributes

if TYPE_CHECKING:
    from aotc.random.namespace import *  # noqa: F403

__getattr__, __dir__ = lazy_attributes(__name__, "aotc.random.namespace")
