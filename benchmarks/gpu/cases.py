"""Calls of the entries of a model, with results and tolerances of the self-check."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from aotc import importers
from aotc.checks.checked_entry import Arrays, CheckedEntry
from aotc.checks.inputs import IntegerRange
from aotc.checks.judging import Rounding, elementwise_tolerances
from aotc.checks.rounding import Noise
from aotc.checks.samples import (
    CheckItem,
    call_sequence_of,
    check_items_of,
    input_elements,
)
from aotc.checks.work import NothingToCompare, WorkBudget
from aotc.dialects import context
from aotc.errors import InputError
from aotc.mlir import ir
from aotc.passes import run_passes
from benchmarks.gpu.programs import Call

SEED = 31
NOISY_RUNS = 8
_WORK = 2e8  # of the reference evaluator for an item, in elements
_ELEMENTS = 2**20  # of the largest array
_INPUTS = 2**17  # elements of the inputs of a call, all of which are kept


class CaseWriter:
    """Collects calls with expected results, and writes cases.json and arrays.npz."""

    def __init__(self) -> None:
        self._arrays: list[Any] = []
        self._cases: list[dict[str, Any]] = []
        self._left_out: list[str] = []

    def add_model(self, model: Path, more: Sequence[Call] = ()) -> None:
        """Add the calls that a self-check makes of each entry, and those in `more`."""
        with context(), ir.Location.unknown():
            program = importers.load(model)
            run_passes(program.module, ("autodiff",), silently=True)
            for entry in program.entry_points:
                checked = CheckedEntry(program, program.module, entry)
                items = check_items_of(program, program.module, entry)
                asked = [call.sizes for call in more if call.entry == entry.name]
                for number, sizes in enumerate(asked, len(items)):
                    items.append(CheckItem(number, sizes, False, IntegerRange.BITS))
                for item in items:
                    self._add_item(checked, item)

    def _add_item(self, checked: CheckedEntry, item: CheckItem) -> None:
        """Add a call's case, or record why it is left out."""
        try:
            self._cases.append(self._case(checked, item))
        except (NothingToCompare, InputError, ValueError) as reason:
            # ValueError: NumPy's, of what means nothing, as the largest of no elements
            sizes = dict(item.sizes)
            self._left_out.append(f"{checked.entry.name} {sizes}: {reason}")

    def _case(self, checked: CheckedEntry, item: CheckItem) -> dict[str, Any]:
        """Evaluate a call by the reference; return its JSON row with tolerances."""
        entry, work = checked.entry, WorkBudget(_WORK, _ELEMENTS)
        if input_elements(entry, item.sizes) > _INPUTS:
            raise NothingToCompare("the inputs are too large to keep")
        calls = call_sequence_of(checked.program, checked.graph, entry, item, SEED)
        done = [results for _, results in checked.reference_results(calls, work)]
        allowed = _tolerances(checked, calls, done)
        states = checked.program.states
        return {
            "entry": entry.name,
            "sizes": dict(item.sizes),
            "before": {
                state.name: [self._keep(calls.states[leaf]) for leaf in state.leaves]
                for state in states
            },
            "after": [state.name for state in states if state.name in entry.updates],
            "calls": [
                {
                    "inputs": list(map(self._keep, inputs)),
                    "results": [
                        {
                            "name": name,
                            "expected": self._keep(x),
                            "tolerance": self._keep(_compact(y)),
                        }
                        for name, x, y in zip(checked.names, results, some, strict=True)
                    ],
                }
                for inputs, results, some in zip(
                    calls.inputs, done, allowed, strict=True
                )
            ],
        }

    def _keep(self, array: Any) -> int:
        """Store an array once; return its number."""
        self._arrays.append(np.asarray(array))
        return len(self._arrays) - 1

    @property
    def count(self) -> int:
        """The number of cases."""
        return len(self._cases)

    def write(self, folder: Path) -> None:
        """Write the collected cases and arrays into a folder."""
        folder.mkdir(parents=True, exist_ok=True)
        document = {"cases": self._cases, "left_out": self._left_out}
        text = json.dumps(document, indent=1)
        (folder / "cases.json").write_text(text, encoding="utf-8")
        named = {str(number): array for number, array in enumerate(self._arrays)}
        np.savez(folder / "arrays.npz", **named)


def _tolerances(
    checked: CheckedEntry, calls: Any, results: Sequence[Arrays]
) -> Iterator[list[Any]]:
    """Return the allowed error of each element of each result, call by call."""
    flat = [array for each in results for array in each]

    def with_noise(noise: Noise) -> Arrays:
        found = checked.reference_results(calls, noise)
        return [array for _, each in found for array in each]

    rounding = Rounding(flat, with_noise)
    for _ in range(NOISY_RUNS):
        rounding.run_again()
    pairs = zip(flat, rounding.spreads, strict=True)
    found = iter([elementwise_tolerances(array, spread) for array, spread in pairs])
    return ([next(found) for _ in each] for each in results)


def _compact(tolerance: Any) -> Any:
    """Return a tolerance as f32, rounded up; a scalar if all elements share it.

    Only seven bits of the mantissa are kept, so that the archive is smaller.
    """
    above = np.nextafter(tolerance.astype(np.float32), np.float32(np.inf))
    bits = above.view(np.uint32) + np.uint32(0xFFFF) & np.uint32(0xFFFF0000)
    found = np.where(np.isfinite(above), bits.view(np.float32), above)
    found = np.where(tolerance == 0, np.float32(0), found)
    if found.size and (found == found.flat[0]).all():
        return found.reshape(-1)[0]
    return found
