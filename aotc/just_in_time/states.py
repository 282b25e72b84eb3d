"""The States of a function of `aotc.jit`, which all of its code shares.

They lie in the loaded model that was called last, or here: where the reference
evaluator computed the last call, and before the first one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from aotc.core.pytree import PyTree, flatten
from aotc.just_in_time.tracing import values_of
from aotc.runtime import Model
from aotc.tracing.entry import State, StoredParameter


class SharedStates:
    """The current values of a function's States, in this process or in a loaded model.

    Args:
        sources: the States, or the Weights, among the parameters of the function.
    """

    def __init__(self, sources: Mapping[str, StoredParameter]) -> None:
        found = values_of(sources)
        self._here: dict[str, PyTree] = {
            n: x.tree for n, x in found.items() if isinstance(x, State)
        }
        self._model: Model | None = None
        self.were_used = False

    @property
    def model(self) -> Model | None:
        """The model that has the current values; None if they are in this process."""
        return self._model

    def move_to(self, model: Model) -> None:
        """Move the current values into a model, which computes the next call."""
        if model is self._model:
            return
        self.move_here()
        if self.were_used:  # else the model has the first values itself
            for name in model.manifest.states:
                model.write_state(self._here[name], name)
        self._model, self.were_used = model, True

    def move_here(self) -> None:
        """Move the current values into this process, from the model that has them."""
        if self._model is not None:
            for name in self._model.manifest.states:
                self._here[name] = self._model.read_state(name)
            self._model = None

    def write(self, name: str, leaves: Sequence[np.ndarray]) -> None:
        """Replace the arrays of a State, in the memory of this process.

        Args:
            name: of the State.
            leaves: its arrays.
        """
        self.move_here()
        self._here[name] = flatten(self._here[name])[1].unflatten([*leaves])
        self.were_used = True

    def read(self, name: str) -> PyTree:
        """Return a copy of a State's current value."""
        if self._model is not None and name in self._model.manifest.states:
            return self._model.read_state(name)
        leaves, structure = flatten(self._here[name])
        return structure.unflatten([leaf.copy() for leaf in leaves])

    @property
    def names(self) -> list[str]:
        """The names of the States, in the order of the parameters."""
        return list(self._here)

    def leaves(self) -> dict[str, list[np.ndarray]]:
        """Return copies of the States' arrays, by name."""
        return {name: flatten(self.read(name))[0] for name in self._here}
