"""The devices that a loop trains on: each has its rows of a batch, and equal states."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from aotc.artifacts import trees
from aotc.artifacts.manifest import EntryPoint
from aotc.errors import InputError
from aotc.runtime import DeviceModels, Model, state_files
from aotc.runtime.collectives import needs_devices
from aotc.training import entries
from aotc.training.entries import Array

_AXIS = "data"  # of devices that a batch is divided among


class Replicas:
    """The devices that train copies of one model, here and on the other ranks.

    Args:
        models: of the devices of this process.
        point: the entry that trains.

    Raises:
        InputError: `bad-ranks`: the entry is for one process; `usage`: its devices do
            not divide the rows of a batch; `needs-devices`: they are not there.
    """

    def __init__(self, models: DeviceModels, point: EntryPoint) -> None:
        self._models, self._point = models, point
        self._group = models.devices.group
        self.count = 1 if point.devices is None else point.devices.count
        entries.require_one_rank(
            point,
            self._group.size,
            "aotc.collectives.all_reduce in the entry averages gradients over devices",
        )
        if point.devices is not None and point.devices.axis != _AXIS:
            raise InputError(
                "usage",
                f"expected devices along '{_AXIS}', which the rows of a batch are "
                f"divided among; the entry {point.name!r} has devices along "
                f"'{point.devices.axis}'",
                hint="call such an entry step by step: aotc.runtime.load_devices",
            )
        if point.devices is not None and point.devices.count != models.devices.count:
            raise needs_devices(point.devices)

    @property
    def model(self) -> Model:
        """The model of this process's first device; all devices have equal states."""
        return self._models.first

    @property
    def writes(self) -> bool:
        """Return whether this process is the one that writes files: rank 0."""
        return self._group.rank == 0

    @property
    def is_shared(self) -> bool:
        """Return whether other processes train copies of the same states."""
        return self._group.size > 1

    def call(
        self, constants: Mapping[str, object], batch: Mapping[str, object]
    ) -> list[Array]:
        """Run one step on all devices; return the outputs of the first device here.

        Args:
            constants: inputs that are the same on all devices, by name.
            batch: inputs whose rows are divided among the devices of all ranks.

        Raises:
            InputError: `batch-size`: the rows cannot be divided evenly; or as a call.
        """
        if self._point.devices is None:
            return entries.call(self.model, self._point, {**constants, **batch})
        parts = [
            {**constants, **self._rows(batch, number)}
            for number in self._models.devices.numbers
        ]
        names = [leaf.name for leaf in self._point.inputs]
        leaves = [[part[name] for name in names] for part in parts]
        return self._models.call(self._point.name, leaves)[0]

    def _rows(self, batch: Mapping[str, Any], number: int) -> dict[str, object]:
        """Return a device's slice of the rows of a batch; scalars as they are."""
        found: dict[str, object] = {}
        for name, value in batch.items():
            if not np.ndim(value):
                found[name] = value
                continue
            rows = len(value)
            if rows % self.count:
                raise InputError(
                    "batch-size",
                    f"expected a number of rows that {self.count} devices can divide; "
                    f"got {rows} for {name!r}",
                )
            size = rows // self.count
            found[name] = value[number * size : (number + 1) * size]
        return found

    def load_state(self, path: Path) -> None:
        """Load states from a file into the models of all devices here."""
        self._models.load_state(path)

    def wait(self) -> None:
        """Wait until all ranks have called this."""
        self._group.barrier()

    def agree(self, number: int) -> int:
        """Return the greatest of the numbers that the ranks pass."""
        return int(self._group.all_reduce(np.array(number, np.int64), "max"))

    def require_equal(self, step: int) -> None:
        """Raise if states differ between devices after a step.

        Raises:
            InputError: `states-differ`.
        """
        if self.count == 1:
            return
        require_equal_states(self._models, f"after step {step}")

    def is_first_left(self) -> bool:
        """Return whether all ranks before this one are lost."""
        lost = self._group.engine.lost_ranks()
        return all(rank in lost for rank in range(self._group.rank))


def require_equal_states(models: DeviceModels, when: str) -> None:
    """Raise if states differ between the devices of a group; all ranks must call it.

    Args:
        models: of the devices of this process.
        when: the states are those, for the message.

    Raises:
        InputError: `states-differ`.
        SetupError: `rank-lost`.
    """
    own = json.dumps([_digests(model) for model in models])
    found = [x for text in models.devices.group.texts(own) for x in json.loads(text)]
    for number, digests in enumerate(found):
        differing = [name for name in digests if digests[name] != found[0][name]]
        if differing:
            raise InputError(
                "states-differ",
                f"expected equal states on all devices {when}; "
                f"{', '.join(differing[:3])} of device {number} is not what device "
                "0 has",
                hint="each device updates its own copy: average what updates are "
                "made of over all of them (aotc.collectives.all_reduce)",
            )


def _digests(model: Model) -> dict[str, str]:
    """Return the digest of each leaf of a model's states, by name."""
    found = {}
    for state in model.manifest.states.values():
        leaves = trees.flatten(state.tree, model.read_state(state.name))
        for index, leaf in enumerate(state.leaves):
            data = np.ascontiguousarray(leaves[index]).reshape(-1).view(np.uint8)
            name = state_files.key(state, leaf)
            found[name] = hashlib.sha256(data.data).hexdigest()
    return found
