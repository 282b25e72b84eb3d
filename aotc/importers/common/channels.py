"""Channels: second in the images of other frameworks, last in those of aotc.

Frameworks have images as N, C, spatial… and kernels as F, C / groups, spatial…; the
functions of `aotc.nn` take N, spatial…, C and spatial…, C / groups, F.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Concatenate, ParamSpec

from aotc import numpy as np
from aotc.tracing.array import Array

P = ParamSpec("P")


def channels_last(x: Array) -> Array:
    """Transpose an array from N, C, spatial… to N, spatial…, C."""
    return np.moveaxis(x, 1, -1)


def channels_first(x: Array) -> Array:
    """Transpose an array from N, spatial…, C to N, C, spatial…."""
    return np.moveaxis(x, -1, 1)


def apply_channels_last(
    function: Callable[Concatenate[Array, P], Array],
    x: Array,
    *args: P.args,
    **options: P.kwargs,
) -> Array:
    """Apply a channels-last function to x (N, C, spatial…); return its result
    transposed.
    """
    return channels_first(function(channels_last(x), *args, **options))


def kernel_last(kernel: Array) -> Array:
    """Transpose a convolution kernel: F, C/groups, spatial… to spatial…,
    C/groups, F.
    """
    return np.moveaxis(kernel, (1, 0), (-2, -1))


def transposed_kernel_last(kernel: Array, groups: int) -> Array:
    """Transpose a transposed convolution's kernel to spatial…, C/groups, F."""
    channels, features, *window = kernel.shape
    split = np.reshape(kernel, (groups, channels // groups, features, *window))
    beside = np.moveaxis(split, (1, 0, 2), (-3, -2, -1))
    return np.reshape(beside, (*window, channels // groups, groups * features))


def over_channels(vector: Array, x: Array) -> Array:
    """Reshape one number per channel to broadcast with x (N, C, spatial…)."""
    return np.reshape(vector, (-1, *[1] * (x.ndim - 2)))
