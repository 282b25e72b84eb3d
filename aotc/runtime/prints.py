"""Debug prints of a running model: traced buffers, written to standard error."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import iree.runtime as iree

from aotc.artifacts.manifest import Leaf
from aotc.core import printing
from aotc.runtime import buffers, transfers

if TYPE_CHECKING:
    from aotc.runtime.iree_types import HalBufferView, HalDevice


def sink(device: HalDevice, on_cpu: bool) -> object:
    """Return the debug sink for IREE's HAL module that prints a model's traced
    buffers.
    """
    return iree.HalModuleDebugSink(_writer(device, on_cpu))


def _writer(
    device: HalDevice, on_cpu: bool
) -> Callable[[str, Sequence[HalBufferView]], None]:
    """Return a function that prints the buffer views of one trace."""
    reader = buffers.viewer if on_cpu else transfers.Fetcher

    def write(key: str, views: Sequence[HalBufferView]) -> None:
        text, dtype = printing.parse_key(key)
        for view in views:
            leaf = Leaf("x", dtype, tuple(view.shape))
            printing.show(text, reader(device, leaf)(view))

    return write
