"""`aotc run --find-nan`: calls that must stay finite, or the op at fault is named."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from aotc.artifacts import trees
from aotc.artifacts.manifest import Leaf
from aotc.core import dtypes
from aotc.errors import Finding
from aotc.runtime import Model, state_files
from aotc.runtime.model import LoadedEntry

Array = np.ndarray


def require_finite_calls(model: Model, source: Path) -> Model:
    """Return a copy of the model whose calls fail if they make a NaN or an infinity.

    Args:
        model: the loaded model, whose states both share.
        source: the file that it was built from, or IR of its graph.

    Raises:
        InputError: as `nonfinite.require_source` says.
    """
    from aotc.checks import nonfinite

    nonfinite.require_source(source, model.manifest.data.get("source", {}))
    watched = copy.copy(model)
    watched.entries = {
        name: _FiniteEntry(entry, model, source)
        for name, entry in model.entries.items()
    }
    return watched


class _FiniteEntry(LoadedEntry):
    """An entry whose calls raise if an output or state becomes NaN or infinite."""

    def __init__(self, entry: LoadedEntry, model: Model, source: Path) -> None:
        vars(self).update(vars(entry))
        self._model = model
        self._source = source

    def call_flat(self, leaves: Sequence[Any]) -> list[Any]:
        """Call the entry; raise if an output or state is not finite; return the
        outputs.

        Raises:
            Finding: `made-not-finite`, with the op that made the first such number.
        """
        before = dict(self._states())
        results = super().call_flat(leaves)
        outputs = zip(_names(self.spec.outputs), results, strict=True)
        for name, array in (*outputs, *self._states()):
            if not _is_finite(array):
                given = zip(_names(self.spec.inputs), leaves, strict=True)
                raise self._finding(name, {**before, **dict(given)})
        return results

    def _states(self) -> Iterator[tuple[str, Array]]:
        """Yield the current arrays of all states that the entry reads, by name."""
        states = self._model.manifest.states
        for name in filter(states.__contains__, self.spec.reads):
            state = states[name]
            leaves = trees.flatten(state.tree, self._model.read_state(name))
            for number, leaf in enumerate(state.leaves):
                yield state_files.key(state, leaf), leaves[number]

    def _finding(self, name: str, values: Mapping[str, Array]) -> Finding:
        """Return the error that names the op which made the first NaN or infinity."""
        from aotc.checks import nonfinite

        said = f"{self.name}: '{name}' is not finite"
        given = next((key for key, x in values.items() if not _is_finite(x)), None)
        if given is not None:
            return Finding(
                "made-not-finite",
                f"{said}, because '{given}' is not when the call begins",
                hint="look for it in the data, or begin with earlier states",
            )
        mixed = self._model.manifest.data.get("precision", {}).get("mixed")
        makers = nonfinite.find(self._source, self.name, values, mixed)
        if not makers.found:
            return Finding(
                "made-not-finite",
                f"{said}, but the reference evaluator meets finite numbers only",
                hint="numbers are too large or too close to 0 for the rounding of "
                "compiled code; if they are not, please report it",
            )
        first = makers.found[0]
        found = Finding(
            "made-not-finite",
            f"{said}; made by {', then '.join(map(str, makers.found))}",
            where=first.where,
            hint=makers.hint,
        )
        found.call = first.call
        return found


def _names(leaves: Sequence[Leaf]) -> list[str]:
    """Return the names of inputs or outputs."""
    return [leaf.name for leaf in leaves]


def _is_finite(array: Array) -> bool:
    """Return whether an array has no NaN or infinity; True for integers."""
    is_float = dtypes.is_float(dtypes.canonical_dtype(array.dtype))
    return not is_float or bool(np.isfinite(array).all())
