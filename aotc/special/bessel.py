"""The modified Bessel functions of order 0 and 1, of `aotc.special`.

    e**-x I_n(x) = (1 / pi) ∫ e**(x (cos t - 1)) cos(n t) dt   over [0, pi]

The trapezoidal rule is exact to rounding for it, so the Chebyshev series are computed
from it here, below 8 in x and above in 1 / x.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy

from aotc.numpy.elementwise import absolute, maximum, minimum, sqrt, where
from aotc.numpy.exponential import exp
from aotc.special.functions import in_f32
from aotc.tracing.array import Array
from aotc.tracing.conversion import ArrayLike, lift

__all__ = ["i0", "i0e", "i1", "i1e"]

_SPLIT = 8.0
_DEGREE = 30
_POINTS = 4096  # of the trapezoidal rule


def _scaled_bessel(order: int, x: numpy.ndarray) -> numpy.ndarray:
    """Return e**-x I_n(x) of a NumPy vector, by numerical integration."""
    angle = (numpy.arange(_POINTS) + 0.5) * (numpy.pi / _POINTS)
    cosine = numpy.cos(angle)
    heights = numpy.exp(numpy.multiply.outer(x, cosine - 1.0)) * numpy.cos(
        order * angle
    )
    means: numpy.ndarray = heights.mean(-1)
    return means


@cache
def _series(order: int) -> tuple[list[float], list[float]]:
    """Fit Chebyshev coefficients of e**-x I_n(x), over x**n or times sqrt(x), below and
    above the split; cached.
    """
    fit = numpy.polynomial.chebyshev.chebinterpolate

    def above(t: numpy.ndarray) -> Any:
        x = 2.0 * _SPLIT / (t + 1.0)
        return numpy.sqrt(x) * _scaled_bessel(order, x)

    def below(t: numpy.ndarray) -> Any:
        x = (t + 1.0) * _SPLIT / 2.0
        return _scaled_bessel(order, x) / x**order

    return fit(below, _DEGREE).tolist(), fit(above, _DEGREE).tolist()


def _clenshaw(t: Array, coefficients: list[float]) -> Array:
    """Evaluate a Chebyshev series at t by Clenshaw's recurrence (1955)."""
    one, other = t * 0.0, t * 0.0
    for coefficient in coefficients[:0:-1]:
        one, other = 2.0 * t * one - other + coefficient, one
    return t * one - other + coefficients[0]


def _exponentially_scaled(order: int, x: Array) -> Array:
    """Return e**-|x| I_n(x) by Chebyshev series."""
    below, above = _series(order)
    size = absolute(x)
    near_size = minimum(size, _SPLIT)
    near = _clenshaw(near_size * (2.0 / _SPLIT) - 1.0, below)
    near = near * near_size if order else near
    far_size = maximum(size, _SPLIT)
    far = _clenshaw(2.0 * _SPLIT / far_size - 1.0, above) / sqrt(far_size)
    value = where(size < _SPLIT, near, far)
    return where(x < 0.0, -value, value) if order else value


@in_f32
def i0e(x: ArrayLike, /) -> Array:
    """`exp(-abs(x)) * i0(x)`."""
    return _exponentially_scaled(0, lift(x))


@in_f32
def i1e(x: ArrayLike, /) -> Array:
    """`exp(-abs(x)) * i1(x)`."""
    return _exponentially_scaled(1, lift(x))


@in_f32
def i0(x: ArrayLike, /) -> Array:
    """The modified Bessel function of order 0."""
    return exp(absolute(x)) * _exponentially_scaled(0, lift(x))


@in_f32
def i1(x: ArrayLike, /) -> Array:
    """The modified Bessel function of order 1."""
    return exp(absolute(x)) * _exponentially_scaled(1, lift(x))
