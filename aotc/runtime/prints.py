"""Debug prints of a running model: traced buffers, written to standard error."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import iree.runtime as iree

from aotc.artifacts.manifest import Leaf
from aotc.core import printing
from aotc.runtime import buffers, transfers


def sink(device: iree.HalDevice, on_cpu: bool) -> Any:
    """Return the sink for buffers of a model's prints, for IREE's HAL module."""
    return iree.HalModuleDebugSink(_writer(device, on_cpu))


def _writer(
    device: iree.HalDevice, on_cpu: bool
) -> Callable[[str, Sequence[object]], None]:
    reader = buffers.viewer if on_cpu else transfers.Fetcher

    def write(key: str, views: Sequence[iree.HalBufferView]) -> None:
        text, dtype = printing.parse_key(key)
        for view in views:
            leaf = Leaf("x", dtype, tuple(view.shape))
            printing.show(text, reader(device, leaf)(view))

    return write
