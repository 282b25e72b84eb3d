"""Boundaries where Python computes between compiled regions, and their costs."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from aotc.core.json_values import JsonObject
from aotc.core.pytree import PyTree, flatten_in_order
from aotc.counting import counters


@dataclass
class Boundary:
    """Location and counters of an operation that Python computes between compiled
    regions.

    Args:
        owner: the name of the hybrid function or model.
        place: `file:line`, or the path of a module or node.
        operation: what is computed there: its source, or the name of an op.
        reason: why it is not compiled.
        calls: how many there have been, those that have failed included.
        failures: how many have failed.
        bytes_in: of the arrays that these were given.
        bytes_out: of those that they have returned.
        synchronizations: how often one waited for the result of compiled code.
        seconds: that they have taken, with what they call.
    """

    owner: str
    place: str
    operation: str
    reason: str
    calls: int = 0
    failures: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    synchronizations: int = 0
    seconds: float = 0.0
    _lock: threading.Lock = field(
        default_factory=threading.Lock, repr=False, compare=False
    )

    @contextmanager
    def crossing(self, given: Iterable[PyTree]) -> Iterator[list[PyTree]]:
        """Count the `with` block as a call of the operation; measure its time and its
        bytes.

        Args:
            given: trees that it is given.

        Yields:
            A list, for the trees that it returns.
        """
        returned: list[PyTree] = []
        arriving = byte_count(given)
        begun = time.perf_counter()
        try:
            yield returned
        except Exception as error:
            self._add_failure(error, arriving, time.perf_counter() - begun)
            raise
        self._add(arriving, byte_count(returned), time.perf_counter() - begun)

    def count(self) -> None:
        """Increment the call counters by a call whose time and bytes are not
        measured.
        """
        self._add(0, 0, 0.0)

    def _add(self, arriving: int, leaving: int, seconds: float) -> None:
        """Add a successful call to the counters and metrics: bytes in and out, and
        seconds.
        """
        with self._lock:
            self.calls += 1
            self.bytes_in += arriving
            self.bytes_out += leaving
            self.synchronizations += bool(arriving)
            self.seconds += seconds
        labels = self._labels
        called = {**labels, "variant": self.place, "path": "island"}
        counters.counter("calls", called).add()
        counters.histogram("call_duration_seconds", called).observe(seconds)
        for direction, count in (("in", arriving), ("out", leaving)):
            moved = {**labels, "direction": direction}
            counters.counter("transferred_bytes", moved).add(count)
        if arriving:
            counters.counter("synchronizations", labels).add()

    def _add_failure(self, error: Exception, arriving: int, seconds: float) -> None:
        """Add a call that raised `error` to the counters and metrics."""
        with self._lock:
            self.calls += 1
            self.failures += 1
            self.bytes_in += arriving
            self.synchronizations += bool(arriving)
            self.seconds += seconds
        code = getattr(error, "code", type(error).__name__)
        counters.counter("call_failures", {**self._labels, "code": str(code)}).add()

    @property
    def _labels(self) -> dict[str, str]:
        """The metric labels of this boundary: model, version, target and entry."""
        entry = {"model": self.owner, "version": "", "target": "python"}
        return {**entry, "entry": self.owner}

    def to_json(self) -> JsonObject:
        """Return the location, the reason and the counters as a JSON object."""
        return {
            "place": self.place,
            "operation": self.operation,
            "reason": self.reason,
            "calls": self.calls,
            "failures": self.failures,
            "bytes_in": self.bytes_in,
            "bytes_out": self.bytes_out,
            "synchronizations": self.synchronizations,
        }


def byte_count(trees: Iterable[PyTree]) -> int:
    """Return the total bytes of all arrays in pytrees."""
    return sum(_bytes_of(each) for each in trees)


def _bytes_of(tree: PyTree) -> int:
    """Return the total bytes of the arrays in one pytree."""
    if isinstance(tree, np.ndarray):
        return tree.nbytes
    leaves, _ = flatten_in_order(tree)
    return sum(int(getattr(leaf, "nbytes", 0)) for leaf in leaves)
