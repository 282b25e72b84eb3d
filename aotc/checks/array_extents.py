"""Facts on arrays, by their identity: each is looked for once.

Evaluations with noise ask for them at each op that reads an array. Arrays of an
evaluation do not change.
"""

from __future__ import annotations

from weakref import ref

import numpy as np

Extent = tuple[float, float]  # NaN if an element is


class KnownArrays:
    """A set of arrays that are alive, by their identity."""

    def __init__(self) -> None:
        self._known: dict[int, ref[np.ndarray]] = {}

    def add(self, array: np.ndarray) -> None:
        """Add an array."""
        self._known[id(array)] = ref(array)

    def has(self, array: np.ndarray) -> bool:
        """Return whether an array was added."""
        found = self._known.get(id(array))
        return found is not None and found() is array


class ArrayExtents:
    """The extents of arrays that are alive, by their identity."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[ref[np.ndarray], Extent]] = {}

    def note(self, array: np.ndarray, extent: Extent) -> None:
        """Note the extent of an array that has elements."""
        self._known[id(array)] = ref(array), extent

    def find(self, array: np.ndarray) -> Extent | None:
        """Return the extent of an array, if it is known."""
        found = self._known.get(id(array))
        if found is None or found[0]() is not array:
            return None
        return found[1]

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
