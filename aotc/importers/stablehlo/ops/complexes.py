"""Functions of complex numbers, written with real ones.

Branch cuts are those of C99; parts are computed without care for overflow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aotc import numpy as np
from aotc.fft import Complex, absolute, conj, exp, polar
from aotc.importers.stablehlo.values import Value, as_pair
from aotc.tracing.array import Array

__all__ = ["OPS", "compare", "conj"]


def _on_pairs(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *zs: function(*map(as_pair, zs))


def _angle(z: Complex) -> Array:
    return np.arctan2(z.imag, z.real)


def _log(z: Complex) -> Complex:
    return Complex(np.log(absolute(z)), _angle(z))


def _sqrt(z: Complex) -> Complex:
    """The root with a real part of 0 or more; the larger part first, for its digits."""
    larger = np.sqrt((absolute(z) + np.abs(z.real)) * 0.5)
    zero = larger == 0.0
    smaller = np.abs(z.imag) / np.where(zero, 1.0, 2.0 * larger)
    right = z.real >= 0.0
    imag = np.where(right, smaller, larger)
    return Complex(np.where(right, larger, smaller), np.copysign(imag, z.imag))


def _power(z: Complex, w: Complex) -> Complex:
    whole = exp(w * _log(z))
    zero = np.logical_and(z.real == 0.0, z.imag == 0.0)
    none = np.logical_and(w.real == 0.0, w.imag == 0.0)
    at_zero = np.where(none, np.ones_like(z.real), np.zeros_like(z.real))
    return Complex(
        np.where(zero, at_zero, whole.real),
        np.where(zero, np.zeros_like(z.real), whole.imag),
    )


def _sin(z: Complex) -> Complex:
    return Complex(np.sin(z.real) * np.cosh(z.imag), np.cos(z.real) * np.sinh(z.imag))


def _cos(z: Complex) -> Complex:
    return Complex(np.cos(z.real) * np.cosh(z.imag), -np.sin(z.real) * np.sinh(z.imag))


def _sinh(z: Complex) -> Complex:
    return _over_i(_sin(_times_i(z)))


def _cosh(z: Complex) -> Complex:
    return _cos(_times_i(z))


def _tanh(z: Complex) -> Complex:
    """From tanh and tan of the parts, which do not overflow."""
    t, u = np.tanh(z.real), np.tan(z.imag)
    return Complex(t, u) / Complex(np.ones_like(t), t * u)


def _tan(z: Complex) -> Complex:
    return _over_i(_tanh(_times_i(z)))


def _times_i(z: Complex) -> Complex:
    return Complex(-z.imag, z.real)


def _over_i(z: Complex) -> Complex:
    return Complex(z.imag, -z.real)


def _asin(z: Complex) -> Complex:
    """Hull, Fairgrieve and Tang's form by square roots (ACM TOMS 23, 1997)."""
    left, right = _sqrt(1.0 - z), _sqrt(1.0 + z)
    real = np.arctan2(z.real, (left * right).real)
    return Complex(real, np.arcsinh((conj(left) * right).imag))


def _acos(z: Complex) -> Complex:
    left, right = _sqrt(1.0 - z), _sqrt(1.0 + z)
    real = 2.0 * np.arctan2(left.real, right.real)
    return Complex(real, np.arcsinh((conj(right) * left).imag))


def _asinh(z: Complex) -> Complex:
    return _over_i(_asin(_times_i(z)))


def _acosh(z: Complex) -> Complex:
    left, right = _sqrt(z - 1.0), _sqrt(z + 1.0)
    real = np.arcsinh((conj(left) * right).real)
    return Complex(real, 2.0 * np.arctan2(left.imag, right.real))


def _atanh(z: Complex) -> Complex:
    x, y = z.real, z.imag
    real = 0.25 * np.log1p(4.0 * x / ((1.0 - x) * (1.0 - x) + y * y))
    imag = 0.5 * np.arctan2(2.0 * y, (1.0 - x) * (1.0 + x) - y * y)
    return Complex(real, imag)


def _atan(z: Complex) -> Complex:
    return _over_i(_atanh(_times_i(z)))


def _sign(z: Complex) -> Complex:
    size = absolute(z)
    zero = size == 0.0
    return z.map(lambda part: np.where(zero, part, part / np.where(zero, 1.0, size)))


def _expm1(z: Complex) -> Complex:
    """(e**x - 1) cos y + (cos y - 1), and e**x sin y."""
    half = np.sin(z.imag * 0.5)
    real = np.expm1(z.real) * np.cos(z.imag) - 2.0 * half * half
    return Complex(real, np.exp(z.real) * np.sin(z.imag))


def _log1p(z: Complex) -> Complex:
    """ln|1 + z| from |1 + z|**2 - 1 = x (x + 2) + y**2."""
    real = 0.5 * np.log1p(z.real * (z.real + 2.0) + z.imag * z.imag)
    return Complex(real, np.arctan2(z.imag, 1.0 + z.real))


def _logistic(z: Complex) -> Complex:
    return 1.0 / (1.0 + exp(-z))


def _rsqrt(z: Complex) -> Complex:
    return 1.0 / _sqrt(z)


def _atan2(y: Complex, x: Complex) -> Complex:
    """-i ln((x + i y) / sqrt(x**2 + y**2))."""
    return _over_i(_log((x + _times_i(y)) / _sqrt(x * x + y * y)))


def _cbrt(z: Complex) -> Complex:
    return polar(np.cbrt(absolute(z)), _angle(z) * (1.0 / 3.0))


def compare(direction: str, x: Value, y: Value) -> Array:
    """Equality of both parts; complex numbers have no order."""
    one, other = as_pair(x), as_pair(y)
    same = np.logical_and(one.real == other.real, one.imag == other.imag)
    return np.logical_not(same) if direction == "NE" else same


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": absolute,
    "acos": _acos,
    "acosh": _acosh,
    "add": lambda z, w: z + w,
    "asin": _asin,
    "asinh": _asinh,
    "atan": _atan,
    "atan2": _atan2,
    "atanh": _atanh,
    "cbrt": _cbrt,
    "cos": _cos,
    "cosh": _cosh,
    "divide": lambda z, w: z / w,
    "exp": exp,
    "expm1": _expm1,
    "log": _log,
    "log1p": _log1p,
    "logistic": _logistic,
    "multiply": lambda z, w: z * w,
    "power": _power,
    "rsqrt": _rsqrt,
    "sign": _sign,
    "sin": _sin,
    "sinh": _sinh,
    "sqrt": _sqrt,
    "square": lambda z: z * z,
    "subtract": lambda z, w: z - w,
    "tan": _tan,
    "tanh": _tanh,
}
OPS = {name: _on_pairs(function) for name, function in _FUNCTIONS.items()}
