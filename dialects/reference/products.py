"""Sums of products of NumPy arrays by matrix products, which BLAS computes.

What references of contractions, convolutions and attention have in common.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

_EXACT = 2.0**53  # up to here f64 holds all whole numbers

Loops = Sequence[int]


def sum_of_products(
    lhs: np.ndarray, left: Loops, rhs: np.ndarray, right: Loops, out: Loops
) -> Any:
    """Return `np.einsum(lhs, left, rhs, right, out)`, as a batch of matrix products.

    Args:
        lhs: an array of numbers.
        left: the loop of each axis of it, no two alike.
        rhs: an array of the same dtype.
        right: the loop of each axis of it, no two alike.
        out: the loops of the result; what is in both operands and not here is summed
            over. A loop of one operand alone is to be here.

    Returns:
        The sums, in the dtype of the operands. Integers wrap.
    """
    shared = [loop for loop in left if loop in right]
    batch = [loop for loop in shared if loop in out]
    summed = [loop for loop in shared if loop not in out]
    rows = [loop for loop in left if loop not in right]
    columns = [loop for loop in right if loop not in left]
    axes = (*left, *right), (*lhs.shape, *rhs.shape)
    sizes = dict(zip(*axes, strict=True))

    def matrices(x: np.ndarray, own: Loops, *parts: Loops) -> Any:
        order = [own.index(loop) for part in parts for loop in part]
        return x.transpose(order).reshape([_size(sizes, part) for part in parts])

    y = _matmul(
        matrices(lhs, left, batch, rows, summed),
        matrices(rhs, right, batch, summed, columns),
    )
    made = [*batch, *rows, *columns]
    order = [made.index(loop) for loop in out]
    return y.reshape([sizes[loop] for loop in made]).transpose(order)


def _size(sizes: dict[int, int], loops: Loops) -> int:
    """Return the product of the sizes of loops."""
    return prod(sizes[loop] for loop in loops)


def _matmul(x: np.ndarray, y: np.ndarray) -> Any:
    """Return batched matrix products; those of integers in f64 where it is exact.

    So are those of floats that overflow in f32 on the way to a sum that does not.
    """
    if not np.issubdtype(x.dtype, np.integer):
        found = np.matmul(x, y)
        if found.dtype == np.float64 or np.isfinite(found).all():
            return found
        return np.matmul(x.astype(np.float64), y.astype(np.float64)).astype(x.dtype)
    most = float(x.shape[-1])
    for each in (x, y):
        low, high = each.min(initial=0), each.max(initial=0)
        most *= max(abs(int(low)), abs(int(high)))
    if most >= _EXACT:
        return np.matmul(x, y)
    found = np.matmul(x.astype(np.float64), y.astype(np.float64))
    return found.astype(np.int64).astype(x.dtype)
