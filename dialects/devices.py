"""Several devices, simulated: how the references of collectives meet.

Each device is a thread that evaluates the whole program. At a collective all wait for
one another, and the last to arrive computes the results for all. (Control flow needs no
care this way: each device takes its own branches.)
"""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from aotc.errors import InputError

if TYPE_CHECKING:
    from aotc.dialects.ops.collective import OverDevices

Found = TypeVar("Found")

# the group that this thread is a device of, and its number there
_place: ContextVar[tuple["Group", int] | None] = ContextVar("aotc_device", default=None)


def rendezvous(
    op: "type[OverDevices]", x: np.ndarray, attributes: dict[str, Any]
) -> np.ndarray:
    """The part that this device gets of a collective.

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
    group, number = _place.get() or (None, 0)
    if group is None or (group.axis_name, group.size) != (name, size):
        raise InputError(
            "needs-devices",
            f"graph.{op._op_name} takes {size} devices along '{name}'; they are not "
            "there",
            hint="aotc.reference.evaluate_devices simulates them",
        )
    return group.rendezvous(number, (op, rest), x)


class Diverged(Exception):
    """A device waits for another one that is done."""


class Group:
    """The devices along one axis.

    Args:
        axis_name: of the axis.
        size: how many.
    """

    def __init__(self, axis_name: str, size: int) -> None:
        self.axis_name = axis_name
        self.size = size
        self._changed = threading.Condition()
        self._arrived: dict[int, tuple[Any, Any]] = {}
        self._results: np.ndarray | None = None
        self._round = 0
        self._someone_left = False

    def run(self, work: Callable[[int], Found]) -> list[Found]:
        """`work(number)` on every device, at the same time.

        Raises:
            InputError: the devices do not meet in the same collectives.
        """
        with ThreadPoolExecutor(self.size) as pool:
            running = [pool.submit(self._run, i, work) for i in range(self.size)]
        errors = [error for each in running if (error := each.exception())]
        for error in sorted(errors, key=lambda error: isinstance(error, Diverged)):
            if isinstance(error, Diverged):
                raise self._divergence() from None
            raise error
        return [each.result() for each in running]

    def _run(self, number: int, work: Callable[[int], Found]) -> Found:
        _place.set((self, number))
        try:
            return work(number)
        finally:
            with self._changed:
                self._someone_left = True
                self._changed.notify_all()

    def rendezvous(self, number: int, what: Any, x: np.ndarray) -> np.ndarray:
        """The part of device `number` of the collective `what`."""
        with self._changed:
            this_round = self._round
            self._arrived[number] = what, x
            if len(self._arrived) == self.size:
                self._compute()
            self._changed.wait_for(
                lambda: self._round != this_round or self._someone_left
            )
            if self._round == this_round or self._results is None:
                raise Diverged
            part: np.ndarray = self._results[number]
            return part

    def _compute(self) -> None:
        calls = [self._arrived.pop(number) for number in range(self.size)]
        (op, attributes), _ = calls[0]
        if any(what != (op, attributes) for what, _ in calls):
            raise self._divergence()
        self._results = op.across(np.stack([x for _, x in calls]), **attributes)
        self._round += 1
        self._changed.notify_all()

    def _divergence(self) -> InputError:
        return InputError(
            "devices-diverge",
            f"the devices along '{self.axis_name}' do not meet in the same collectives",
            hint="keep collectives out of branches that only some devices take",
        )
