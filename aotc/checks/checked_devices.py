"""An entry that several devices compute together, as one that is checked.

Its results are those of all devices, one after the other. Device d gets what a check
gives to one device, with floats d / 8 larger; all begin with the same states.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from aotc import reference
from aotc.checks.checked_entry import Arrays, CheckedEntry
from aotc.checks.samples import CallSequence
from aotc.core import dtypes, printing
from aotc.dialects.functions.functions import functions_of
from aotc.passes.record_devices import ops_over_devices

_STEP = 0.125  # by which floats of a device are larger than those of the one before


class CheckedDevicesEntry(CheckedEntry):
    """A checked entry with collectives, which several simulated devices compute
    together.
    """

    @property
    def count(self) -> int:
        """The number of devices that compute the entry."""
        return int(self._first_device_op.axis_size)

    @property
    def names(self) -> list[str]:
        """Names of the results of all devices, device by device."""
        own = super().names
        return [f"{name} of device {d}" for d in range(self.count) for name in own]

    @property
    def _first_device_op(self) -> Any:
        """The first op over the devices, which has their number and axis name."""
        return ops_over_devices(functions_of(self.graph), self.entry.name)[0]

    def reference_results(
        self, calls: CallSequence, with_op: reference.EvaluateOp | None
    ) -> Iterator[tuple[Arrays, Arrays]]:
        """Yield device 0's arguments and all devices' results of each call, by the
        reference.
        """
        stored = [
            {**self.program.parameters, **calls.states} for _ in range(self.count)
        ]
        for inputs in calls.inputs:
            given = [
                self.arguments(_of_device(inputs, d), stored[d])
                for d in range(self.count)
            ]
            with printing.silence():
                found = reference.evaluate_devices(
                    self.graph,
                    self.entry.name,
                    given,
                    self._first_device_op.axis_name,
                    with_op=with_op,
                )
            results: Arrays = []
            for known, own in zip(stored, found, strict=True):
                results += self._results(known, own)
            yield given[0], results

    def _results(
        self, stored: dict[str, Any], returned: Sequence[np.ndarray]
    ) -> Arrays:
        """Write updated states of a device to `stored`; return its outputs and
        states.
        """
        ports = list(zip(self.entry.results, returned, strict=True))
        stored |= {port.name: x for port, x in ports if port.kind == "state"}
        outputs = [x for port, x in ports if port.kind == "output"]
        return [*outputs, *(stored[name] for name in self._updated_leaves)]

    def _compiled_arguments(self, inputs: Sequence[np.ndarray]) -> Arrays:
        """Return the inputs of one device after the other; see `DevicesBundle`."""
        return [x for d in range(self.count) for x in _of_device(inputs, d)]

    def _compiled_result(self, outputs: Arrays, states: Arrays) -> Arrays:
        """Return the outputs and states of one device after the other."""
        return [
            x
            for d in range(self.count)
            for found in (outputs, states)
            for x in _part(found, d, self.count)
        ]


def _part(
    arrays: Sequence[np.ndarray], device: int, count: int
) -> Sequence[np.ndarray]:
    """Return one device's slice of a list with all devices' arrays in a row."""
    size = len(arrays) // count
    return arrays[device * size : (device + 1) * size]


def _of_device(inputs: Sequence[np.ndarray], device: int) -> Arrays:
    """Return inputs for a device: floats scaled by its number, so that devices
    differ.
    """

    def scaled(x: np.ndarray) -> np.ndarray:
        x = np.asarray(x)
        if not device or not dtypes.is_float(dtypes.canonical_dtype(x.dtype)):
            return x
        larger: np.ndarray = x.astype(np.float64) * (1 + _STEP * device)
        return larger.astype(x.dtype)

    return [scaled(x) for x in inputs]
