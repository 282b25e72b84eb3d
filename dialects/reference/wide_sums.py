"""Sums of the reference, which compiled code is compared with."""

from collections.abc import Sequence
from typing import Any

import numpy as np


def wide_sum(
    x: np.ndarray, axes: int | Sequence[int], *, keepdims: bool = False
) -> Any:
    """Return the sum of a float array along axes, accumulated in f64, rounded once.

    NumPy adds along the last axis in parts, and along others in series, which rounds
    1e6 equal f32 numbers all one way. What compiled code makes, in any order, is to be
    compared with what neither does to it.
    """
    along = axes if isinstance(axes, int) else tuple(axes)
    total = np.sum(x, axis=along, dtype=np.float64, keepdims=keepdims)
    return total.astype(x.dtype)
