"""`aotc run --find-nan`: calls that must stay finite, or the op at fault is named."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from aotc import dtypes
from aotc.cli.entries import Array, DirectCall, flat
from aotc.errors import Finding, InputError
from aotc.runtime import state_files

if TYPE_CHECKING:
    from aotc.artifacts.manifest import EntryPoint


class FiniteCall:
    """Calls an entry as `DirectCall` does, and looks at outputs and states afterwards.

    Args:
        model: the loaded model.
        point: the entry.
        source: the file that the model was built from.

    Raises:
        InputError: `other-source`: it was built from something else.
    """

    def __init__(self, model: Any, point: EntryPoint, source: Path) -> None:
        _check_source(model, source)
        self._model = model
        self._point = point
        self._source = source
        self._call = DirectCall(model, point)

    def __call__(self, inputs: Sequence[Array]) -> dict[str, Array]:
        """The outputs by name.

        Raises:
            Finding: `made-not-finite`, with the op that made the first such number.
        """
        before = dict(self._states())
        outputs = self._call(inputs)
        for name, array in (*outputs.items(), *self._states()):
            if not _is_finite(array):
                names = [leaf.name for leaf in self._point.inputs]
                given = zip(names, inputs, strict=True)
                raise self._finding(name, {**before, **dict(given)})
        return outputs

    def _states(self) -> Iterator[tuple[str, Array]]:
        """The leaves of all states that the entry sees, as they are now."""
        states = self._model.manifest.states
        for name in filter(states.__contains__, self._point.reads):
            state = states[name]
            leaves = flat(state.tree, self._model.read_state(name))
            for number, leaf in enumerate(state.leaves):
                yield state_files.key(state, leaf), leaves[number]

    def _finding(self, name: str, values: Mapping[str, Array]) -> Finding:
        from aotc import nonfinite

        said = f"{self._point.name}: '{name}' is not finite"
        given = next((key for key, x in values.items() if not _is_finite(x)), None)
        if given is not None:
            return Finding(
                "made-not-finite",
                f"{said}, because '{given}' is not when the call begins",
                hint="look for it in the data, or begin with earlier states",
            )
        makers = nonfinite.find(self._source, self._point.name, values)
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


def _is_finite(array: Array) -> bool:
    is_float = dtypes.is_float(dtypes.canonical(array.dtype))
    return not is_float or bool(np.isfinite(array).all())


def _check_source(model: Any, source: Path) -> None:
    """Another model would have other ops and lines."""
    if not source.is_file():
        raise InputError("no-such-file", "there is no model", where=str(source))
    expected = model.manifest.data.get("source", {})
    got = hashlib.sha256(source.read_bytes()).hexdigest()
    if got != expected.get("sha256"):
        raise InputError(
            "other-source",
            f"expected the {expected.get('file', 'file')} that the bundle was built "
            "from, got another text",
            where=str(source),
            hint="build the bundle again from it",
        )
