"""ATen ops that read images at any place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aotc import nn
from aotc.importers.common.channels import apply_channels_last
from aotc.tracing.array import Array

_METHODS = ("linear", "nearest", "cubic")
_PADDINGS = ("zeros", "border", "reflection")


def grid_sample(
    x: Array, grid: Array, method: int, padding: int, align_corners: bool
) -> Array:
    """Return the image sampled at the positions of a grid."""
    return apply_channels_last(
        nn.grid_sample,
        x,
        grid,
        _METHODS[method],
        _PADDINGS[padding],
        align_corners=align_corners,
    )


OPS: dict[str, Callable[..., Any]] = {
    "aten.grid_sampler_2d": grid_sample,
    "aten.grid_sampler_3d": grid_sample,
}
