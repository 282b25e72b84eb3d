"""Windows over the spatial axes of images: shared by operators with windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

from aotc.nn.spatial import Padding
from aotc.tracing.source_locations import fail

Ints = tuple[int, ...]

_AUTOMATIC = {"SAME_UPPER": "SAME", "SAME_LOWER": "SAME_LOWER", "VALID": "VALID"}


class WindowSteps(TypedDict):
    """The steps of windows, in the form that functions of `aotc.nn` take."""

    strides: Ints
    padding: Padding
    dilation: Ints


class PoolingWindows(WindowSteps):
    """The windows of a pooling and how they slide."""

    window: Ints
    ceil_mode: bool


@dataclass(frozen=True, kw_only=True)
class WindowAttributes:
    """The attributes that say how windows slide."""

    auto_pad: str = "NOTSET"
    dilations: Ints = ()
    pads: Ints = ()
    strides: Ints = ()

    def steps(self, spatial: int) -> WindowSteps:
        """Return the steps for an image with this number of spatial axes."""
        return {
            "strides": per_axis(self.strides, spatial),
            "padding": self._padding(spatial),
            "dilation": per_axis(self.dilations, spatial),
        }

    def sides(self, spatial: int) -> list[tuple[int, int]]:
        """The padding that `pads` says, low and high."""
        sides = tuple(self.pads) or (0,) * (2 * spatial)
        return list(zip(sides[:spatial], sides[spatial:], strict=True))

    def _padding(self, spatial: int) -> Padding:
        if self.auto_pad in _AUTOMATIC:
            return _AUTOMATIC[self.auto_pad]
        if self.auto_pad not in ("NOTSET", ""):
            fail("bad-node", f"expected an auto_pad of ONNX; got {self.auto_pad!r}")
        return self.sides(spatial)


@dataclass(frozen=True, kw_only=True)
class Convolution(WindowAttributes):
    """The attributes of convolutions; the kernel itself has its shape too."""

    group: int = 1
    kernel_shape: Ints = ()


@dataclass(frozen=True, kw_only=True)
class Pooling(WindowAttributes):
    """The attributes of pooling."""

    kernel_shape: Ints
    ceil_mode: int = 0

    def windows(self) -> PoolingWindows:
        """The windows and how they slide."""
        return {
            "window": self.kernel_shape,
            "ceil_mode": bool(self.ceil_mode),
            **self.steps(len(self.kernel_shape)),
        }


def per_axis(numbers: Sequence[int], spatial: int) -> Ints:
    """Return one number for each spatial axis; ones if there are none."""
    return tuple(numbers) or (1,) * spatial
