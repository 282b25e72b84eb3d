"""A traced function, computed by the reference evaluator until its code is there."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from aotc.core.pytree import PyTree
from aotc.counting import counters
from aotc.just_in_time.trace_guards import Values
from aotc.just_in_time.tracing import TracedSpecialization
from aotc.just_in_time.variants import entry_labels


def reference_labels(function: str, target: str) -> dict[str, str]:
    """Return the metric labels of calls that the reference evaluator computes.

    Args:
        function: its name.
        target: that its code is for.
    """
    return {
        **entry_labels(function, target),
        "variant": "general",
        "path": "reference",
    }


def count_reference_call(labels: Mapping[str, str], seconds: float) -> None:
    """Add a call of the reference evaluator, and its seconds, to the metrics."""
    counters.counter("calls", labels).add()
    counters.histogram("call_duration_seconds", labels).observe(seconds)


class ReferenceCode:
    """A traced function that the reference evaluator computes op by op.

    Args:
        traced: the function; it is left as it is.
        target: that its code is for, as counters call it.
    """

    def __init__(self, traced: TracedSpecialization, target: str) -> None:
        from aotc.passes import run_passes  # with the dialect

        assert traced.program is not None
        self._program = traced.program.copy()
        run_passes(self._program.module, ("autodiff",), silently=True)
        self._entry = self._program.entry(traced.entry)
        self._labels = reference_labels(traced.entry, target)
        self.calls = 0

    def run(self, values: Values) -> tuple[PyTree, dict[str, list[np.ndarray]]]:
        """Compute a call by the reference evaluator; return its result and updated
        States.

        Args:
            values: of all arguments; States and Weights have theirs, too.

        Returns:
            The result, and the leaves of the States that the call updates, by name.
        """
        from aotc import reference

        begun = time.perf_counter()
        entry = self._entry
        arrays = reference.evaluate(
            self._program.module, entry.name, [np.asarray(x) for x in values]
        )
        found = [np.array(each) for each in arrays]  # arguments may come back
        ports = list(zip(entry.results, found, strict=True))
        outputs = [array for port, array in ports if port.kind == "output"]
        new = {port.name: array for port, array in ports if port.kind == "state"}
        updated = {
            state.name: [new[leaf] for leaf in state.leaves]
            for state in self._program.states
            if state.name in entry.updates
        }
        self.calls += 1
        count_reference_call(self._labels, time.perf_counter() - begun)
        return entry.output_tree.unflatten(outputs), updated


@dataclass(eq=False)
class Pending:
    """Code that a background thread compiles, and what computes calls in the meantime.

    Args:
        traced: what of; its module is used up.
        reference: computes calls in the meantime.
        worker: makes it.
        last: leaves of the call that was computed last, by which code is compared.
        error: that ended this, until a call has told it.
    """

    traced: TracedSpecialization
    reference: ReferenceCode
    worker: threading.Thread | None = None
    last: Sequence[np.ndarray] | None = None
    error: Exception | None = None
