"""Winograd convolutions in NumPy, by the kernel's steps.

With the absolute values of everything it gives what bounds the errors of the kernel,
and with noise between the steps what they may look like (`aotc.checks.rounding`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from aotc.kernels.winograd.matrices import WINDOW, matrices

Array = np.ndarray


@dataclass(frozen=True)
class Transforms:
    """The transform matrices for one tile size, in f64; see `WinogradMatrices`."""

    output: Array
    filter: Array
    input: Array

    @classmethod
    def of(cls, outputs: int) -> Transforms:
        """Return the transforms of F(outputs × outputs, 3 × 3)."""
        exact = matrices(outputs)
        return cls(
            *(
                np.array(each, np.float64)
                for each in (exact.output, exact.filter, exact.input)
            )
        )

    def absolute(self) -> Transforms:
        """Return the matrices of absolute values, for error bounds."""
        return Transforms(*map(np.abs, (self.output, self.filter, self.input)))


def convolve(
    x: Array,
    kernel: Array,
    padding: tuple[int, ...],
    transforms: Transforms,
    disturb: Callable[[Array, float], Array] = lambda array, terms: array,
) -> Array:
    """Compute a Winograd convolution of x (N, H, W, C) with a kernel (3, 3, C, F).

    Args:
        x: the images.
        kernel: the weights; they are transformed in f64, and rounded.
        padding: zeros before and after, along both axes.
        transforms: of the tiles.
        disturb: is given the operands of each step, and how many terms it adds up, and
            gives them back as it likes.
    """
    outputs, size = transforms.output.shape
    results = [
        n + low + high - WINDOW + 1
        for n, low, high in zip(x.shape[1:3], padding[::2], padding[1::2], strict=True)
    ]
    counts = [-(-n // outputs) for n in results]
    around = [
        (low, count * outputs + WINDOW - 1 - n - low)
        for n, low, count in zip(x.shape[1:3], padding[::2], counts, strict=True)
    ]
    image = np.pad(x, [(0, 0), *around, (0, 0)])
    tiles = np.lib.stride_tricks.sliding_window_view(image, (size, size), (1, 2))
    tiles = tiles[:, ::outputs, ::outputs]

    def transform(matrix: Array, array: Array) -> Array:
        along = matrix.astype(x.dtype)
        lines = along @ disturb(array, 1.0)
        made: Array = disturb(lines, 1.0) @ along.T
        return made

    inputs = transform(transforms.input, tiles)
    filters = np.moveaxis(kernel.astype(np.float64), (0, 1), (2, 3))
    filters = transforms.filter @ filters @ transforms.filter.T
    filters = disturb(filters.astype(x.dtype), 1.0)
    images, features = x.shape[0], kernel.shape[-1]
    rows = np.moveaxis(inputs, (-2, -1), (0, 1)).reshape(size, size, -1, x.shape[-1])
    columns = np.moveaxis(filters, (-2, -1), (0, 1))
    sums = disturb(rows, float(x.shape[-1])) @ columns
    found = transform(transforms.output, np.moveaxis(sums, (0, 1), (-2, -1)))
    found = found.reshape(images, *counts, features, outputs, outputs)
    found = found.transpose(0, 1, 4, 2, 5, 3)
    whole = [count * outputs for count in counts]
    found = found.reshape(images, *whole, features)
    return found[:, : results[0], : results[1]]
