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
    """Strides, padding and dilation of windows, as keyword arguments of `aotc.nn`."""

    strides: Ints
    padding: Padding
    dilation: Ints


class PoolingWindows(WindowSteps):
    """Keyword arguments of pooling functions of `aotc.nn`."""

    window: Ints
    ceil_mode: bool


@dataclass(frozen=True, kw_only=True)
class WindowAttributes:
    """The node attributes on strides, padding and dilation of windows."""

    auto_pad: str = "NOTSET"
    dilations: Ints = ()
    pads: Ints = ()
    strides: Ints = ()

    def steps(self, spatial: int) -> WindowSteps:
        """Return strides, padding and dilation for a number of spatial axes."""
        return {
            "strides": per_axis(self.strides, spatial),
            "padding": self._padding(spatial),
            "dilation": per_axis(self.dilations, spatial),
        }

    def sides(self, spatial: int) -> list[tuple[int, int]]:
        """Return the (low, high) padding of each spatial axis that `pads` states."""
        sides = tuple(self.pads) or (0,) * (2 * spatial)
        return list(zip(sides[:spatial], sides[spatial:], strict=True))

    def _padding(self, spatial: int) -> Padding:
        """Return the padding of each spatial axis, or the name of an automatic one."""
        if self.auto_pad in _AUTOMATIC:
            return _AUTOMATIC[self.auto_pad]
        if self.auto_pad not in ("NOTSET", ""):
            fail("bad-node", f"expected an auto_pad of ONNX; got {self.auto_pad!r}")
        return self.sides(spatial)


@dataclass(frozen=True, kw_only=True)
class Convolution(WindowAttributes):
    """The node attributes of convolutions."""

    group: int = 1
    kernel_shape: Ints = ()


@dataclass(frozen=True, kw_only=True)
class Pooling(WindowAttributes):
    """The node attributes of pooling."""

    kernel_shape: Ints
    ceil_mode: int = 0

    def windows(self) -> PoolingWindows:
        """Return the keyword arguments of a pooling function of `aotc.nn`."""
        return {
            "window": self.kernel_shape,
            "ceil_mode": bool(self.ceil_mode),
            **self.steps(len(self.kernel_shape)),
        }


def per_axis(numbers: Sequence[int], spatial: int) -> Ints:
    """Return the numbers for each spatial axis; ones if there are none."""
    return tuple(numbers) or (1,) * spatial
