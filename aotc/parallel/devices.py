"""The devices of a model, divided among the ranks of a group.

A model that takes four devices computes the same on one, two and four ranks: each rank
computes four, two or one of them, each in a thread of its own. What they exchange is
reduced in the order of the devices, so the bits are the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from aotc.artifacts.manifest import DeviceAxis
from aotc.errors import InputError
from aotc.parallel.definitions import results
from aotc.parallel.engine import Alone, Array
from aotc.parallel.group import Group
from aotc.parallel.rendezvous import Diverged, Rendezvous

Found = TypeVar("Found")


class LocalDevices:
    """The simulated or real devices that this process computes, among all of a mesh
    axis.

    Args:
        group: the processes.
        taken: the devices of the model.

    Raises:
        InputError: `bad-ranks`: they cannot be divided evenly.
    """

    def __init__(self, group: Group, taken: DeviceAxis) -> None:
        if taken.count % group.size:
            divisors = [n for n in range(1, taken.count + 1) if not taken.count % n]
            raise InputError(
                "bad-ranks",
                f"expected a number of ranks that divides the devices of the model, "
                f"{taken.count}; got {group.size}",
                hint=f"start {' or '.join(map(str, divisors))} of them"
                if taken.count > 1
                else "start one; entries whose gradients are averaged over devices "
                "take several: aotc.collectives.all_reduce, docs/parallel.md",
            )
        self.group = group
        self.axis, self.count = taken.axis, taken.count
        own = taken.count // group.size
        self.numbers = range(group.rank * own, (group.rank + 1) * own)
        self._rendezvous: Rendezvous | None = None

    @classmethod
    def alone(cls) -> LocalDevices:
        """Return the single device of a model without collectives."""
        return cls(Group(Alone()), DeviceAxis("", 1))

    def run(self, work: Callable[[int], Found]) -> list[Found]:
        """Call `work` in a thread for each device of this process; return the results.

        Args:
            work: gets the place of the device among those of this process, from 0.
        """
        if len(self.numbers) == 1:
            return [work(0)]
        self._rendezvous = Rendezvous(len(self.numbers))
        try:
            return self._rendezvous.run(work)
        finally:
            self._rendezvous = None

    def exchange(self, place: int, asked: Mapping[str, object], x: Array) -> Array:
        """Take part in a collective as one device; return that device's result.

        Args:
            place: of the device among those of this process, from 0.
            asked: `op`, which collective it is, and its attributes.
            x: what the device has.

        Raises:
            InputError: `devices-diverge`.
            SetupError: `rank-lost`.
        """
        if asked["op"] == "axis_index":
            return np.array(self.numbers[place], np.int32)
        what = json.dumps([asked, x.shape])
        if len(self.numbers) == 1:
            return self._exchange([(what, x)])[0]
        if self._rendezvous is None:
            raise InputError(
                "needs-devices",
                f"expected the {len(self.numbers)} devices of this process to compute "
                "a call together; got one alone",
                hint="call the entry through aotc.runtime.load_devices",
            )
        found: Array = self._rendezvous.meet(place, (what, x), self._exchange)
        return found

    def _exchange(self, brought: Sequence[tuple[str, Array]]) -> list[Array]:
        """Exchange arrays with other processes; return the results of the local
        devices.
        """
        what = brought[0][0]
        if any(other != what for other, _ in brought):
            raise Diverged
        asked, _ = json.loads(what)
        with self.group.engine.exchange(what, [x for _, x in brought]) as ranks:
            arrays = [x for given in ranks for x in given]
            return results(asked, arrays, self.numbers)

    def device(self, place: int) -> Device:
        """Return the device of this process at an index."""
        return Device(self, place)


class Device:
    """One device of this process, which takes part in collectives.

    Args:
        devices: all of them.
        place: which of them it is, from 0.
    """

    def __init__(self, devices: LocalDevices, place: int) -> None:
        self.devices, self.place = devices, place

    @property
    def number(self) -> int:
        """The device's index along the mesh axis, over all processes."""
        return self.devices.numbers[self.place]

    def exchange(self, asked: Mapping[str, object], x: Array) -> Array:
        """Take part in a collective; return this device's result."""
        return self.devices.exchange(self.place, asked, x)
