"""The function that compiled code calls to exchange tensors with other devices.

Collectives are calls of one imported function (`aotc.dialects.iree_text.bodies`): it
gets JSON that says which collective it is, and a buffer view. What the function raises
comes back from IREE as a text; the very error is kept here for the caller.
"""

from __future__ import annotations

import json
from typing import Any

import iree.runtime as iree
import numpy as np

from aotc.artifacts import loader_module
from aotc.artifacts.manifest import DeviceAxis, Leaf
from aotc.dtypes import to_numpy
from aotc.errors import InputError
from aotc.parallel import Device
from aotc.runtime.buffers import mapped_array, sender


class Exchange:
    """The function that the code of one device calls.

    Args:
        device: of IREE, which computes.
        taken: the devices of the model.
        part: the one of them that is computed here; None if none is.
    """

    def __init__(self, device: Any, taken: DeviceAxis, part: Device | None) -> None:
        self._device, self._taken, self._part = device, taken, part
        self._error: Exception | None = None

    def module(self, instance: Any) -> Any:
        """Return the module for IREE's VM that defines the function."""
        interface = iree.PyModuleInterface(loader_module.NAME, lambda _: self)
        interface.export(loader_module.EXCHANGE, "0rr_r", Exchange.__call__)
        return interface.create()

    def __call__(self, asked: Any, sent: Any) -> Any:
        """Return the buffer view that this device gets for the one that it sends."""
        try:
            return self._exchange(asked, sent)
        except Exception as error:
            self._error = error
            raise

    def _exchange(self, asked: Any, sent: Any) -> Any:
        if self._part is None:
            raise needs_devices(self._taken)
        said = json.loads(bytes(asked.deref(iree.VmBuffer)))
        leaf = Leaf("x", said.pop("dtype"), ())
        view = sent.deref(iree.HalBufferView)
        dtype = to_numpy(leaf.dtype)
        array = (
            np.empty(view.shape, dtype)
            if 0 in view.shape
            else mapped_array(view, view.shape, dtype)
        )
        received = self._part.exchange(said, array)
        return sender(self._device, leaf)(received).ref

    def take_error(self) -> Exception | None:
        """Return what the function has raised, once."""
        error, self._error = self._error, None
        return error


def needs_devices(taken: DeviceAxis) -> InputError:
    """Return the error of a model of several devices that was loaded as one alone."""
    return InputError(
        "needs-devices",
        f"expected {taken.count} devices along '{taken.axis}' to compute this call "
        "together; the model was loaded as one alone",
        hint=f"aotc run --ranks {taken.count} starts a process for each, as do "
        "torchrun and mpirun; aotc.runtime.load_devices loads several into one, which "
        "aotc.training.fit takes, too",
    )
