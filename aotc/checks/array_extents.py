"""Facts on arrays, by their identity: each is looked for once.

Evaluations with noise ask for them at each op that reads an array. Arrays of an
evaluation do not change.
"""

from __future__ import annotations

from typing import Generic, TypeVar
from weakref import ref

import numpy as np

F = TypeVar("F")
Extent = tuple[float, float]  # NaN if an element is


class ArrayFacts(Generic[F]):
    """A fact on each of some arrays that are alive, by their identity."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[ref[np.ndarray], F]] = {}

    def note(self, array: np.ndarray, fact: F) -> None:
        """Note the fact on an array."""
        self._known[id(array)] = ref(array), fact

    def find(self, array: np.ndarray) -> F | None:
        """Return the fact on an array, if it is known."""
        found = self._known.get(id(array))
        if found is None or found[0]() is not array:
            return None
        return found[1]


class ArrayExtents(ArrayFacts[Extent]):
    """The extents of arrays that have elements."""

    def of(self, array: np.ndarray) -> Extent:
        """Return the extent of an array that has elements."""
        extent = self.find(array)
        if extent is None:
            extent = float(array.min()), float(array.max())
            self.note(array, extent)
        return extent

    def is_finite(self, array: np.ndarray) -> bool:
        """Return whether all elements of an array of floats are finite."""
        return not array.size or bool(np.isfinite(self.of(array)).all())
