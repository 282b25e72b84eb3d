"""Makes the calls of a replay on a peer's file."""

from __future__ import annotations

import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import cast

import numpy as np

from aotc.artifacts.manifest import EntryPoint
from aotc.counting.memory import memory
from aotc.evidence.collecting import collector_paused
from aotc.evidence.messages import (
    ANY,
    OWN,
    LoadedContender,
    Outputs,
    Replayed,
    ReplayOrder,
    Way,
)
from aotc.evidence.peers import PEERS
from aotc.evidence.peers.engine import Array, PeerEngine, PeerInput, peer_errors
from aotc.evidence.peers.matching import match_inputs, require_shapes
from aotc.runtime.engine import threads
from aotc.timing.inputs import arrays_for


class PeerPlayer:
    """Replays calls on a peer's runtime, with inputs for each size.

    Args:
        order: what to load, and the calls.

    Raises:
        InputError: `peer-failed`, `peer-mismatch`.
    """

    def __init__(self, order: ReplayOrder) -> None:
        subject, self._name = order.subject, order.player
        self._file = subject.bundle
        used = threads("llvm-cpu", subject.threads)
        package = PEERS[self._name].package
        with peer_errors(self._name, self._file):
            module, name = PEERS[self._name].engine.split(":")
            load = getattr(import_module(module), name)
            before = memory()["resident"]
            start = time.perf_counter_ns()
            self._engine: PeerEngine = load(Path(self._file), cast("int", used))
            loading = time.perf_counter_ns() - start
            arrays = self._arrays(order)
            self._calls = [self._engine.prepare(each) for each in arrays]
        self._order = order.requests.order
        path = _path(self._engine, self._engine.inputs)
        self._ways = tuple(
            Way(path, self._name, sum(array.size for array in each)) for each in arrays
        )
        title = f"{package} {self._engine.version}"
        self.loaded = LoadedContender(
            title=f"{Path(self._file).name}, {title}",
            variant=title,
            threads=used,
            codes=None,
            dispatches=None,
            artifact_bytes=_size_on_disk(Path(self._file)),
            load_ns=loading,
            memory=before,
            warnings=(),
        )

    def play(self) -> Replayed:
        """Time all calls of the replay in order; return times, code, compiles and peak
        memory.

        Raises:
            InputError: `peer-failed`.
        """
        call, clock = self._engine.call, time.perf_counter_ns
        before, times = self._engine.compiles, []
        with peer_errors(self._name, self._file), collector_paused():
            for place in self._order:
                start = clock()
                call(self._calls[place])
                times.append(clock() - start)
        made = self._engine.compiles - before
        return Replayed(tuple(times), self._ways, made, memory()["peak"])

    def outputs(self, place: int) -> Outputs:
        """Make one call, with the inputs at index `place`; return its outputs by name.

        Raises:
            InputError: `peer-failed`.
        """
        with peer_errors(self._name, self._file):
            found = self._engine.call(self._calls[place])
            # which may lie in memory that the next call writes to
            arrays = [np.array(each) for each in found]
        return tuple(zip(self._engine.outputs, arrays, strict=True))

    def _arrays(self, order: ReplayOrder) -> list[list[Array]]:
        """Return the peer's input arrays for each distinct size of the replay."""
        ports, found = self._engine.inputs, []
        leaves = match_inputs(self._name, ports, order.inputs)
        point = EntryPoint(
            order.subject.entry, "infer", order.inputs, {}, (), 0, (), ()
        )
        for sizes in order.requests.sizes:
            known = arrays_for(point, sizes, {}, order.seed)
            arrays = [known[leaf.name] for leaf in leaves]
            require_shapes(self._name, ports, arrays, sizes)
            found.append(arrays)
        return found


def _path(engine: PeerEngine, ports: Sequence[PeerInput]) -> str:
    """Return the kind of code of a peer's calls: own sizes, any sizes, or eager."""
    has_symbols = any(size is None for port in ports for size in port.shape)
    return OWN if engine.path == ANY and not has_symbols else engine.path


def _size_on_disk(file: Path) -> int:
    """Return the size in bytes of a file and of weight files beside it."""
    beside = (file.with_suffix(".bin"), file.with_name(f"{file.name}.data"))
    used = [file, *(each for each in beside if each.is_file())]
    return sum(each.stat().st_size for each in used)
