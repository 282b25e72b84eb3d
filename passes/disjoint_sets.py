"""Sets that grow together."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class DisjointSets(Generic[T]):
    """Union-find over hashable items (Tarjan's, with path halving)."""

    def __init__(self) -> None:
        self._parents: dict[T, T] = {}

    def root(self, item: T) -> T:
        """Return the representative of the set of `item`."""
        parents = self._parents
        while (parent := parents.get(item, item)) != item:
            parents[item] = item = parents.get(parent, parent)
        return item

    def unite(self, one: T, other: T) -> None:
        """Merge the sets of two items."""
        self._parents[self.root(other)] = self.root(one)
