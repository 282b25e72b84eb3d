"""The functions that compiled code calls to exchange tensors with other devices.

Collectives are calls of imported functions (`aotc.dialects.iree_text.bodies`): one gets
JSON that says which collective it is, and a buffer view, of which it keeps a copy; the
other waits for what comes back. Between the two a thread exchanges, one array after the
other in the order of the program, while IREE goes on computing. What a function raises
comes back from IREE as a text; the very error is kept here for the caller.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

import iree.runtime as iree
import numpy as np

from aotc.artifacts import loader_module
from aotc.artifacts.manifest import DeviceAxis, Leaf
from aotc.core.dtypes import to_numpy
from aotc.core.json_values import JsonObject
from aotc.errors import InputError
from aotc.parallel import Device
from aotc.runtime.buffers import mapped_array, sender
from aotc.runtime.host_arrays import Array

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

    from aotc.runtime.iree_types import (
        HalBufferView,
        HalDevice,
        VmInstance,
        VmModule,
        VmRef,
    )


class Exchange:
    """Host functions by which one device's compiled code exchanges tensors with others.

    Args:
        device: of IREE, which computes.
        taken: the devices of the model.
        part: the one of them that is computed here; None if none is.
    """

    def __init__(
        self, device: HalDevice, taken: DeviceAxis, part: Device | None
    ) -> None:
        self._device, self._taken, self._part = device, taken, part
        self._error: Exception | None = None
        self._failure: Exception | None = None  # of an exchange in this call
        self._pool: ThreadPoolExecutor | None = None
        self._count = 0
        self._running: dict[int, tuple[Leaf, Future[Array]]] = {}

    def module(self, instance: VmInstance) -> VmModule:
        """Return a module for IREE's VM that exports the exchange functions."""
        interface = iree.PyModuleInterface(loader_module.NAME, lambda _: self)
        interface.export(
            loader_module.EXCHANGE, "0rr_r", _keeping_error(Exchange.exchange)
        )
        interface.export(loader_module.START, "0rr_I", _keeping_error(Exchange.start))
        interface.export(loader_module.FINISH, "0I_r", _keeping_error(Exchange.finish))
        module: VmModule = interface.create()
        return module

    def exchange(self, asked: VmRef, sent: VmRef) -> VmRef:
        """Run the collective `asked` on a buffer view; return the resulting buffer
        view.
        """
        part, leaf, said, array = self._read(asked, sent)
        return self._view(leaf, part.exchange(said, array))

    def start(self, asked: VmRef, sent: VmRef) -> int:
        """Start a collective in the background; return its number for `finish`."""
        part, leaf, said, array = self._read(asked, sent)
        if self._pool is None:
            from concurrent.futures import ThreadPoolExecutor  # few loaders need it

            self._pool = ThreadPoolExecutor(1, "aotc-exchange")
        self._count += 1
        # A copy: the program may write over a buffer that it has read to the end.
        running = self._pool.submit(self._run, part, said, np.array(array))
        self._running[self._count] = leaf, running
        return self._count

    def _run(self, device: Device, request: JsonObject, array: Array) -> Array:
        """Run a collective in the exchange thread, unless an earlier one has failed in
        this call.

        Other devices wait for what this one has begun: after a failure it must leave.
        """
        if self._failure is not None:
            raise self._failure
        try:
            return device.exchange(request, array)
        except Exception as error:
            self._failure = error
            raise

    def finish(self, number: int) -> VmRef:
        """Wait for a started collective; return the resulting buffer view."""
        leaf, running = self._running.pop(number)
        return self._view(leaf, running.result())

    def _read(
        self, asked: VmRef, sent: VmRef
    ) -> tuple[Device, Leaf, JsonObject, Array]:
        """Return the device, element type, JSON request and input array of a
        collective.

        Raises:
            InputError: `needs-devices`.
        """
        if self._part is None:
            raise needs_devices(self._taken)
        said = json.loads(bytes(asked.deref(iree.VmBuffer)))
        leaf = Leaf("x", said.pop("dtype"), ())
        view: HalBufferView = sent.deref(iree.HalBufferView)
        dtype = to_numpy(leaf.dtype)
        array = (
            np.empty(view.shape, dtype)
            if 0 in view.shape
            else mapped_array(view, view.shape, dtype)
        )
        return self._part, leaf, said, array

    def _view(self, leaf: Leaf, array: Array) -> VmRef:
        """Copy an array to a buffer view on the device; return a reference to it."""
        return sender(self._device, leaf)(array).ref

    def keep_error(self, error: Exception) -> None:
        """Remember an exception raised within compiled code's call."""
        self._error = error

    def take_error(self) -> Exception | None:
        """Return and clear the remembered exception, after ending all running
        collectives.

        What the call has begun ends first, so that none of it meets the next call.
        """
        for _, running in self._running.values():
            running.cancel()
        for _, running in self._running.values():
            if not running.cancelled():
                running.exception()
        self._running.clear()
        self._failure = None
        error, self._error = self._error, None
        return error


def _keeping_error(call: Callable[..., object]) -> Callable[..., object]:
    """Wrap a method of `Exchange` to remember any exception that it raises."""

    def keep(exchange: Exchange, *arguments: object) -> object:
        try:
            return call(exchange, *arguments)
        except Exception as error:
            exchange.keep_error(error)
            raise

    return keep


def needs_devices(taken: DeviceAxis) -> InputError:
    """Return the error for calling a multi-device model that was loaded as one
    device.
    """
    return InputError(
        "needs-devices",
        f"expected {taken.count} devices along '{taken.axis}' to compute this call "
        "together; the model was loaded as one alone",
        hint=f"aotc run --ranks {taken.count} starts a process for each, as do "
        "torchrun and mpirun; aotc.runtime.load_devices loads several into one, which "
        "aotc.training.fit takes, too",
    )
