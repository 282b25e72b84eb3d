"""Compiled code that can be loaded and called: of a bundle, or on its own.

A call takes the name of an entry, the leaves of its inputs, the leaves of the states to
write first by state, and the names of the states to return; it gives the leaves of the
outputs, and those of the states after it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np

from aotc.artifacts.manifest import Code as ManifestCode
from aotc.artifacts.manifest import Leaf
from aotc.core.pytree import flatten
from aotc.errors import CompileError
from aotc.runtime import DeviceModels, Model, engine, load, load_devices
from aotc.runtime.contract import CallContract
from aotc.runtime.function import ExportedFunction
from aotc.runtime.loader import start

Arrays = list[np.ndarray]
Call = Callable[
    [str, Arrays, Mapping[str, Arrays], Sequence[str]], tuple[Arrays, Arrays]
]


class Loadable(Protocol):
    """Protocol of compiled code that a process can load."""

    @property
    def target(self) -> str:
        """The target that the code was compiled for."""

    def load(self) -> Call:
        """Load the code; return a function that makes calls.

        Raises:
            AotcError: it does not run on this machine, or is no code.
        """


@dataclass(frozen=True)
class Bundle:
    """A bundle on disk, perhaps unsigned, and the variant to load from it.

    Args:
        path: of its folder.
        target: id of the variant.
    """

    path: str
    target: str

    def load(self) -> Call:
        """Load the variant; return a function that makes calls (see `Loadable`)."""
        model = load(
            self.path, allow_unsigned=True, target=self.target, weights="mapped"
        )
        return partial(_call_model, model)


@dataclass(frozen=True)
class DevicesBundle(Bundle):
    """A bundle whose variant is loaded on all its devices in one process.

    A call takes the inputs of one device after the other, and gives outputs and states
    so; the states to write are those of each device.
    """

    def load(self) -> Call:
        """Load the variant on all devices; return a function that makes calls."""
        models = load_devices(
            self.path, allow_unsigned=True, target=self.target, weights="mapped"
        )
        return partial(_call_devices, models)


def _call_devices(
    models: DeviceModels,
    entry: str,
    arrays: Arrays,
    before: Mapping[str, Arrays],
    after: Sequence[str],
) -> tuple[Arrays, Arrays]:
    """Write states, make one call on all devices; return outputs and states after
    it.
    """
    for model in models:
        _write_states(model, before)
    size = len(arrays) // len(models)
    parts = [arrays[n * size : (n + 1) * size] for n in range(len(models))]
    outputs = models.call(entry, parts)
    states = [x for model in models for x in _read_states(model, after)]
    return [x for own in outputs for x in own], states


def _call_model(
    model: Model,
    entry: str,
    arrays: Arrays,
    before: Mapping[str, Arrays],
    after: Sequence[str],
) -> tuple[Arrays, Arrays]:
    """Write states, make one call; return its outputs and the states after it."""
    _write_states(model, before)
    outputs = model.entry(entry).call_flat(arrays)
    return list(outputs), _read_states(model, after)


def _write_states(model: Model, states: Mapping[str, Arrays]) -> None:
    """Write the leaves of these states into a model."""
    for name, leaves in states.items():
        _, tree = flatten(model.read_state(name))
        model.write_state(tree.unflatten(leaves), name)


def _read_states(model: Model, names: Sequence[str]) -> Arrays:
    """Return the leaves of the named states of a model in a row."""
    return [leaf for name in names for leaf in flatten(model.read_state(name))[0]]


@dataclass(frozen=True)
class Export:
    """The name and fixed argument and result types of a function that code exports.

    Args:
        name: of the function.
        inputs: that it takes.
        outputs: that it returns.
    """

    name: str
    inputs: tuple[Leaf, ...]
    outputs: tuple[Leaf, ...]


@dataclass(frozen=True)
class UnbundledCode:
    """Compiled functions that are in no bundle and have no states.

    Args:
        vmfb: the code.
        target: that it is for.
        backend: of the target.
        exports: its functions.
    """

    vmfb: bytes
    target: str
    backend: str
    exports: tuple[Export, ...]

    def functions(self, threads: int | None = None) -> dict[str, ExportedFunction]:
        """Load the code on a device; return its functions by name.

        Raises:
            CompileError: `not-loadable`.
        """
        try:
            device = engine.device(self.backend, threads)
            code = start(self.vmfb, self.backend, device)
        except (RuntimeError, ValueError, IndexError) as error:  # as IREE raises
            first_line = str(error).partition("\n")[0]
            raise CompileError(
                "not-loadable", f"IREE rejects the module: {first_line}"
            ) from error
        return {
            each.name: ExportedFunction(
                code,
                each.name,
                [ManifestCode(each.name)],
                CallContract(each.name, each.inputs, {}),
                each.outputs,
                True,
            )
            for each in self.exports
        }

    def load(self) -> Call:
        """Load the code; see `Loadable`."""
        functions = self.functions()

        def call(
            entry: str,
            arrays: Arrays,
            before: Mapping[str, Arrays],
            after: Sequence[str],
        ) -> tuple[Arrays, Arrays]:
            return list(functions[entry](arrays)), []

        return call
