"""The models of the devices that one process computes, called together."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from aotc.artifacts.manifest import Manifest
from aotc.errors import InputError
from aotc.parallel import LocalDevices
from aotc.runtime.host_arrays import Array
from aotc.runtime.model import Model


class DeviceModels:
    """The models of all devices of this process, from `aotc.runtime.load_devices`.

    Each keeps the states of its device.

    Args:
        models: in the order of their devices.
        devices: which ones they are, of how many.
    """

    def __init__(self, models: Sequence[Model], devices: LocalDevices) -> None:
        self._models = tuple(models)
        self.devices = devices

    @classmethod
    def of(cls, model: Model | DeviceModels) -> DeviceModels:
        """Return a single model as the `DeviceModels` of one device; `DeviceModels` as
        they are.
        """
        if isinstance(model, DeviceModels):
            return model
        devices = model.device.devices if model.device else LocalDevices.alone()
        return cls([model], devices)

    @property
    def first(self) -> Model:
        """The model of this process's first device."""
        return self._models[0]

    @property
    def manifest(self) -> Manifest:
        """The manifest of the bundle."""
        return self.first.manifest

    def call(self, entry: str, leaves: Sequence[Sequence[object]]) -> list[list[Array]]:
        """Call an entry on all devices of this process concurrently; return the
        results' leaves.

        Args:
            entry: its name.
            leaves: for each device here, the leaves of its inputs.

        Returns:
            The leaves of the results of each.

        Raises:
            InputError: as a call of the entry; `devices-diverge`; `input-structure`:
                there are not as many leaves, or lists of them, as there must be.
            SetupError: as a call of the entry; `rank-lost`.
        """
        names = [leaf.name for leaf in self.first.entry(entry).spec.inputs]
        if len(leaves) != len(self) or any(len(x) != len(names) for x in leaves):
            raise InputError(
                "input-structure",
                f"{entry}: expected for each of {len(self)} devices in this process "
                f"the arrays of its inputs ({', '.join(names) or 'none'}); got "
                f"{len(leaves)} lists, of {', '.join(str(len(x)) for x in leaves)}",
                hint="models.devices.numbers says which devices are here",
            )
        return self.devices.run(
            lambda n: self._models[n].entry(entry).call_flat(leaves[n])
        )

    def load_state(self, path: Path | str | os.PathLike[str]) -> None:
        """Load the states in a file into all models."""
        for model in self._models:
            model.load_state(path)

    def __iter__(self) -> Iterator[Model]:
        return iter(self._models)

    def __len__(self) -> int:
        return len(self._models)
