"""Images as ONNX has them, N, C, spatial…, and as aotc has them, N, spatial…, C."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aotc import numpy as np
from aotc.tracing.array import Array
from aotc.tracing.source_locations import fail

_AUTOMATIC = {"SAME_UPPER": "SAME", "SAME_LOWER": "SAME_LOWER", "VALID": "VALID"}


def channels_last(x: Array) -> Array:
    """N, C, spatial… → N, spatial…, C."""
    return np.moveaxis(x, 1, -1)


def channels_first(x: Array) -> Array:
    """The inverse of `channels_last`."""
    return np.moveaxis(x, -1, 1)


def kernel_last(kernel: Array) -> Array:
    """F, C / groups, spatial… → spatial…, C / groups, F."""
    return np.moveaxis(kernel, (1, 0), (-2, -1))


def padding(auto_pad: str, pads: Sequence[int], spatial: int) -> Any:
    """The padding as functions of aotc take it."""
    if auto_pad in _AUTOMATIC:
        return _AUTOMATIC[auto_pad]
    if auto_pad not in ("NOTSET", ""):
        fail("bad-node", f"expected an auto_pad of ONNX; got {auto_pad!r}")
    sides = tuple(pads) or (0,) * (2 * spatial)
    return list(zip(sides[:spatial], sides[spatial:], strict=True))


def per_axis(numbers: Sequence[int], spatial: int) -> tuple[int, ...]:
    """One number for each spatial axis; ones if there are none."""
    return tuple(numbers) or (1,) * spatial


def over_channels(vector: Array, x: Array) -> Array:
    """One number per channel, shaped to broadcast with N, C, spatial…"""
    return np.reshape(vector, (-1, *[1] * (x.ndim - 2)))
