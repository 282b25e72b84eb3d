"""Functions of `aotc.numpy` that taper signals: the windows of spectral analysis.

They are symmetric, as NumPy's. Periodic ones, which PyTorch has by default and a short
time Fourier transform needs, are those of one more element without the last.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from aotc.core import dtypes
from aotc.core.dtypes import DTypeLike
from aotc.tracing.array import Array
from aotc.tracing.conversion import lift
from aotc.tracing.source_locations import fail

__all__ = ["bartlett", "blackman", "hamming", "hanning", "kaiser"]


def hanning(M: int, *, dtype: DTypeLike = "f32") -> Array:  # noqa: N803
    """Return Hann's window of `M` elements: one period of a cosine, from 0 to 0."""
    return _window(np.hanning, M, dtype)


def hamming(M: int, *, dtype: DTypeLike = "f32") -> Array:  # noqa: N803
    """Return Hamming's window of `M` elements: a cosine that ends at 0.08."""
    return _window(np.hamming, M, dtype)


def blackman(M: int, *, dtype: DTypeLike = "f32") -> Array:  # noqa: N803
    """Return Blackman's window of `M` elements: a sum of two cosines."""
    return _window(np.blackman, M, dtype)


def bartlett(M: int, *, dtype: DTypeLike = "f32") -> Array:  # noqa: N803
    """Return Bartlett's window of `M` elements: a triangle."""
    return _window(np.bartlett, M, dtype)


def kaiser(M: int, beta: float, *, dtype: DTypeLike = "f32") -> Array:  # noqa: N803
    """Return Kaiser's window of `M` elements, the narrower the larger `beta`."""
    if not math.isfinite(beta):
        fail("bad-argument", f"expected 'beta' to be finite; got {beta}")
    return _window(lambda count: np.kaiser(count, beta), M, dtype)


def _window(window: Callable[[int], Any], count: int, dtype: DTypeLike) -> Array:
    """Return NumPy's window of `count` elements in a dtype."""
    if count < 0:
        fail("bad-size", f"expected M of 0 or more; got {count}")
    return lift(window(count).astype(dtypes.to_numpy(dtypes.canonical_dtype(dtype))))
