"""Simulation of several devices: rendezvous of the references of collectives.

Each device is a thread that evaluates the whole program. At a collective all wait for
one another, and the last to arrive computes the results for all. (Control flow needs no
care this way: each device takes its own branches.)
"""

import threading
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from aotc.errors import InputError
from aotc.parallel.rendezvous import Diverged, Rendezvous

if TYPE_CHECKING:
    from aotc.dialects.ops.collective import OverDevices

Found = TypeVar("Found")

# the devices that this thread is one of, and its number
_place: ContextVar[tuple["SimulatedDevices", int] | None] = ContextVar(
    "aotc_device", default=None
)


def rendezvous(
    op: "type[OverDevices]", x: np.ndarray, attributes: dict[str, object]
) -> np.ndarray:
    """Run a collective with the other simulated devices; return this device's result.

    Args:
        op: the class; its `across` computes the parts of all.
        x: this device's operand.
        attributes: of the op.

    Raises:
        InputError: there are not as many devices as the op asks for.
    """
    name, size, *_ = attributes.values()
    rest = {k: v for k, v in attributes.items() if not k.startswith("axis_")}
    if size == 1:
        alone: np.ndarray = op.across(x[None], **rest)[0]
        return alone
    devices, number = _place.get() or (None, 0)
    if devices is None or (devices.axis_name, devices.size) != (name, size):
        raise InputError(
            "needs-devices",
            f"graph.{op._op_name} takes {size} devices along '{name}'; they are not "
            "there",
            hint="aotc.reference.evaluate_devices simulates them",
        )
    return devices.rendezvous(number, (op, rest), x)


class SimulatedDevices:
    """Devices along one axis, as threads of which one computes at a time.

    Each goes on to the next collective, in their order, so that what evaluates ops for
    all of them, such as random noise, meets the same ops in the same order.

    Args:
        axis_name: of the axis.
        size: how many.
    """

    def __init__(self, axis_name: str, size: int) -> None:
        self.axis_name = axis_name
        self.size = size
        self._rendezvous = Rendezvous(size)
        self._turn = 0
        self._turn_passed = threading.Condition()

    def run(self, work: Callable[[int], Found]) -> list[Found]:
        """Run `work(number)` on every device, in turns; return the results.

        Raises:
            InputError: the devices do not meet in the same collectives.
        """

        def work_in_place(number: int) -> Found:
            _place.set((self, number))
            self._await_turn(number)
            try:
                return work(number)
            finally:
                self._pass_turn(number)

        return self._rendezvous.run(work_in_place)

    def rendezvous(self, number: int, collective: object, x: np.ndarray) -> np.ndarray:
        """Wait for the other devices; return device `number`'s part of a collective."""
        self._pass_turn(number)
        part: np.ndarray = self._rendezvous.meet(number, (collective, x), _across)
        self._await_turn(number)
        return part

    def _await_turn(self, number: int) -> None:
        """Block until it is the turn of device `number`."""
        with self._turn_passed:
            self._turn_passed.wait_for(lambda: self._turn == number)

    def _pass_turn(self, number: int) -> None:
        """Let the next device compute, if it is the turn of device `number`."""
        with self._turn_passed:
            if self._turn == number:
                self._turn = (number + 1) % self.size
                self._turn_passed.notify_all()


def _across(calls: Sequence[tuple[Any, np.ndarray]]) -> Sequence[np.ndarray]:
    """Return all devices' results of a collective; raise if their calls differ."""
    (op, attributes), _ = calls[0]
    if any(what != (op, attributes) for what, _ in calls):
        raise Diverged
    return list(op.across(np.stack([x for _, x in calls]), **attributes))
