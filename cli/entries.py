"""One entry of a model: chosen by name, called with flat inputs, outputs by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from aotc.artifacts import trees
from aotc.errors import InputError

if TYPE_CHECKING:
    from aotc.artifacts.manifest import EntryPoint, Manifest

Array = np.ndarray[Any, np.dtype[Any]]


def choose(manifest: Manifest, name: str | None, *, training: bool) -> EntryPoint:
    """The entry `name`, or the only one there is (of those that train, if any does).

    Raises:
        InputError: `unknown-entry`.
    """
    entries = manifest.entry_points
    if name in entries:
        return entries[name]
    trains = [entry for entry in entries.values() if entry.kind == "train-step"]
    fitting = trains if training and trains else list(entries.values())
    if name is None and len(fitting) == 1:
        return fitting[0]
    said = f"there is no entry {name!r}" if name else "the bundle has several entries"
    if training and trains and not name:
        said += " to train with"
    raise InputError("unknown-entry", said, hint=f"--entry {' | '.join(entries)}")


# the outputs by name, of inputs in the order of the manifest
Call = Callable[[Sequence[Array]], dict[str, Array]]


class DirectCall:
    """Calls an entry with its inputs in the order of the manifest."""

    def __init__(self, model: Any, point: EntryPoint) -> None:
        self._point = point
        self._build = trees.builder(point.arguments)
        self._entry = model.entry(point.name)

    def __call__(self, inputs: Sequence[Array]) -> dict[str, Array]:
        """The outputs by name."""
        result = self._entry(**self._build(inputs))
        leaves = flat(self._point.result, result)
        return {
            x.name: np.asarray(leaves[i]) for i, x in enumerate(self._point.outputs)
        }


def flat(tree: Any, value: Any) -> dict[int, Any]:
    """The leaves of `value`, which has the form of `tree`, by their index."""
    leaves: dict[int, Any] = {}
    _flatten(tree, value, leaves)
    return leaves


def _flatten(tree: Any, value: Any, into: dict[int, Any]) -> None:
    if isinstance(tree, int):
        into[tree] = value
    elif tree is not None:
        ((kind, body),) = tree.items()
        for key, child in body.items() if kind == "dict" else enumerate(body):
            _flatten(child, value[key], into)
