"""A processor that stands in for a GPU, and tensors that are on it.

Its memory is the host's, so that what is lent can be looked at; calls go the ways of a
device whose memory is not.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from aotc.runtime import engine, foreign_tensors, loader
from aotc.runtime.foreign_tensors import DlpackGpu
from aotc.runtime.module import LoadedModule

HOST = 1  # DLPack's type of the memory that stands in for a GPU's


def pretend(patch: pytest.MonkeyPatch, synchronize: Callable[[], None]) -> DlpackGpu:
    """Let models that are loaded with one thread take tensors, as on a GPU.

    Args:
        patch: undoes it.
        synchronize: is called where the host would wait for the GPU.
    """
    gpu = DlpackGpu(foreign_tensors._Kind((HOST, 13), 1, object), 0, synchronize)

    def module(
        context: Any, module: Any, device: Any, _: bool, *rest: Any
    ) -> LoadedModule:
        _, exchange = rest
        return LoadedModule(context, module, device, False, gpu, exchange)

    kept = engine._KEPT_CALLS["cuda"]
    patch.setattr(loader, "LoadedModule", module)
    patch.setattr(engine, "call_memory", lambda device: engine.CallMemory(device, kept))
    return gpu


class Lent:
    """A tensor of another framework on the GPU.

    Args:
        array: what it holds; its memory begins at a multiple of 64 bytes.
        device: where it says that it lies.
    """

    def __init__(self, array: np.ndarray, device: tuple[int, int] = (HOST, 0)) -> None:
        memory = np.empty(array.nbytes + 128, np.uint8)
        start = -memory.ctypes.data % 64
        self.array = memory[start : start + array.nbytes].view(array.dtype)
        self.array = self.array.reshape(array.shape)
        self.array[...] = array
        self.device = device
        self.streams: list[Any] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, *, stream: Any) -> Any:
        self.streams.append(stream)
        return self.array.__dlpack__()


class LentByTorch:
    """A tensor of PyTorch on a processor, which knows no streams.

    Args:
        tensor: of PyTorch.
    """

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.tensor.__dlpack_device__()

    def __dlpack__(self, *, stream: Any) -> Any:
        return self.tensor.__dlpack__()
