"""Makes the calls of a replay on a bundle."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from aotc.artifacts.manifest import EntryPoint, Symbol
from aotc.counting.memory import memory
from aotc.errors import InputError
from aotc.evidence.collecting import collector_paused
from aotc.evidence.messages import (
    ANY,
    OWN,
    PADDED,
    REFUSED,
    ROUTED,
    LoadedContender,
    Outputs,
    Replayed,
    ReplayOrder,
    Way,
)
from aotc.runtime.padding import CallPadding
from aotc.timing.inputs import arrays_for
from aotc.timing.serve import load_subject, threads_of

_REFUSALS = ("no-code-for-sizes", "no-callback")


class BundlePlayer:
    """Replays calls of a loaded bundle, with inputs for each size.

    Args:
        order: what to load, and the calls.

    Raises:
        AotcError: as `aotc.load` raises it.
    """

    def __init__(self, order: ReplayOrder) -> None:
        subject = order.subject
        before = memory()["resident"]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            start = time.perf_counter_ns()
            self._model = load_subject(subject)
            loading = time.perf_counter_ns() - start
        manifest, variant = self._model.manifest, self._model.variant
        self._entry = self._model.entry(subject.entry)
        point = manifest.entry_points[subject.entry]
        sizes = order.requests.sizes
        self._inputs = [_leaves(point, each, order.seed) for each in sizes]
        self._order = order.requests.order
        self._ways = tuple(
            way_of(point, manifest.symbols, each, sum(array.size for array in leaves))
            for each, leaves in zip(sizes, self._inputs, strict=True)
        )
        self._states = {
            name: self._model.read_state(name)
            for name in point.updates
            if name in manifest.states
        }
        self.loaded = LoadedContender(
            title=f"{manifest.name} {manifest.version}, {manifest.identity[:12]}",
            variant=variant.id,
            threads=threads_of(self._model, subject.threads),
            codes=len(point.codes),
            dispatches=variant.dispatches,
            artifact_bytes=sum(file.size for file in manifest.files.values()),
            load_ns=loading,
            memory=before,
            warnings=tuple(str(each.message) for each in caught),
            partitions=1,
            islands=manifest.data.get("hybrid", {}).get("graph_breaks", 0),
        )

    def play(self) -> Replayed:
        """Time all calls in order, from the initial states; return times, code and peak
        memory.

        Raises:
            AotcError: as a call raises it, unless it is refused for want of code.
        """
        self._reset_states()
        with collector_paused():
            times = tuple(self._time(self._inputs[place]) for place in self._order)
        return Replayed(times, self._ways, 0, memory()["peak"])

    def outputs(self, place: int) -> Outputs:
        """Make one call, with the inputs at index `place`, from the initial states;
        return its outputs by name.

        Raises:
            AotcError: as the call raises it.
        """
        self._reset_states()
        found = map(np.asarray, self._entry.call_flat(self._inputs[place]))
        names = (leaf.name for leaf in self._entry.spec.outputs)
        return tuple(zip(names, found, strict=True))

    def _reset_states(self) -> None:
        """Write the initial values of all states into the model."""
        for name, tree in self._states.items():
            self._model.write_state(tree, name)

    def _time(self, leaves: Sequence[np.ndarray]) -> int | None:
        """Make a call and return its nanoseconds; None if no code serves its sizes."""
        call, clock = self._entry.call_flat, time.perf_counter_ns
        start = clock()
        try:
            call(leaves)
        except InputError as error:
            if error.code not in _REFUSALS:
                raise
            return None
        return clock() - start


def way_of(
    point: EntryPoint,
    symbols: Mapping[str, Symbol],
    sizes: Mapping[str, int],
    elements: int,
) -> Way:
    """Return which code of a bundle's entry computes calls of these sizes.

    Args:
        point: the entry.
        symbols: their contracts and policies, by name.
        sizes: by name of the symbol.
        elements: of the inputs of such a call.
    """
    code = point.code_for(sizes)
    if code is None:
        route = point.route_for(sizes, symbols) or ""
        is_routed = route.startswith("route:")  # functions of callers are not here
        return Way(*((ROUTED, route) if is_routed else (REFUSED, "")), elements)
    if not code.sizes:
        return Way(ANY, code.export, elements)
    added = 0
    if code.padded:
        padding = CallPadding(code, point.inputs, point.outputs, sizes)
        added = sum(map(prod, padding.shapes)) - elements
    return Way(PADDED if added else OWN, code.export, elements, added)


def _leaves(point: EntryPoint, sizes: Mapping[str, int], seed: int) -> list[np.ndarray]:
    """Draw random inputs of an entry for these sizes, as a list of arrays."""
    arrays = arrays_for(point, sizes, {}, seed)
    return [arrays[leaf.name] for leaf in point.inputs]
