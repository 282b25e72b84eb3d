"""Discrete Fourier transforms of ATen, on complex tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from aotc import fft
from aotc.complexes import Complex, as_complex
from aotc.tracing.array import Array

_FORWARD = {0: "backward", 1: "ortho", 2: "forward"}
_INVERSE = {0: "forward", 1: "ortho", 2: "backward"}


def transform(z: Any, dim: Sequence[int], normalization: int, forward: bool) -> Complex:
    """Return the discrete Fourier transform of z over axes, or its inverse."""
    if not dim:
        return as_complex(z)
    if forward:
        return fft.fftn(z, axes=tuple(dim), norm=_FORWARD[normalization])
    return fft.ifftn(z, axes=tuple(dim), norm=_INVERSE[normalization])


def transform_of_reals(
    x: Array, dim: Sequence[int], normalization: int, onesided: bool
) -> Complex:
    """Return the Fourier transform of reals: full, or half of the last axis."""
    if not onesided:
        return transform(x, dim, normalization, True)
    return fft.rfftn(x, axes=tuple(dim), norm=_FORWARD[normalization])


def transform_to_reals(
    z: Complex, dim: Sequence[int], normalization: int, last_dim_size: int
) -> Array:
    """Return the inverse transform to reals, with a given size of the last axis."""
    *others, last = dim
    y = transform(z, others, normalization, False)
    return fft.irfft(y, last_dim_size, last, _INVERSE[normalization])


OPS: dict[str, Callable[..., Any]] = {
    "aten._fft_c2c": transform,
    "aten._fft_r2c": transform_of_reals,
    "aten._fft_c2r": transform_to_reals,
}
