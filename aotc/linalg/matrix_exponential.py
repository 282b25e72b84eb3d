"""The exponential of a matrix."""

from __future__ import annotations

import math

from aotc import control
from aotc import numpy as np
from aotc.linalg.factorizing import eye_like, square
from aotc.linalg.solving import solve
from aotc.tracing.array import Array
from aotc.tracing.conversion import ArrayLike

__all__ = ["expm"]

# Coefficients of the approximant [13/13], and the largest norm that it is exact for.
_PADE = [
    math.factorial(26 - k) * math.comb(13, k) / math.factorial(26) for k in range(14)
]
_EXACT = 5.371920351148152
_SQUARINGS = 16


def expm(A: ArrayLike) -> Array:  # noqa: N803 - SciPy's name
    """The matrix exponential, for a 1-norm of up to 3.5e5; NaN beyond.

    Padé approximation after scaling by a power of 2, then squaring: Higham, "The
    scaling and squaring method for the matrix exponential revisited", SIAM Journal on
    Matrix Analysis and Applications 26 (2005). The number of squarings depends on the
    values, so all that may be needed are made, and those that are not are left out.
    """
    x = square("A", A)
    norm = np.max(np.sum(np.absolute(x), -2), -1)
    count = np.ceil(np.log2(np.maximum(norm, _EXACT) / _EXACT))
    halved = x * np.expand_dims(np.exp2(-count), (-2, -1))
    steps = np.arange(_SQUARINGS).astype(x.dtype)

    def square_where_needed(power: Array, step: Array) -> tuple[Array, None]:
        needed = np.expand_dims(step < count, (-2, -1))
        return np.where(needed, np.matmul(power, power), power), None

    result = control.scan(square_where_needed, _pade(halved), steps)[0]
    fits = np.expand_dims(count <= _SQUARINGS, (-2, -1))
    return np.where(fits, result, math.nan)


def _pade(x: Array) -> Array:
    """Return a Padé approximant of exp(x): (even - odd)⁻¹ (even + odd)."""
    b = _PADE
    one = eye_like(x, x.shape[-1])
    x2 = np.matmul(x, x)
    x4 = np.matmul(x2, x2)
    x6 = np.matmul(x4, x2)

    def part(first: int) -> Array:
        high = b[first + 12] * x6 + b[first + 10] * x4 + b[first + 8] * x2
        low = b[first + 6] * x6 + b[first + 4] * x4 + b[first + 2] * x2
        return np.matmul(x6, high) + low + b[first] * one

    even, odd = part(0), np.matmul(x, part(1))
    return solve(even - odd, even + odd)
