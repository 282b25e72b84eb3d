"""Permutations: axes in another order, as transposes and `numpy.transpose` have them.

Axis i of what is permuted is axis `permutation[i]` of what it was.
"""

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")
Order = tuple[int, ...]


def permute(items: Sequence[T], permutation: Sequence[int]) -> tuple[T, ...]:
    """Return `items[place]` for each place in `permutation`."""
    return tuple(items[place] for place in permutation)


def inverse(permutation: Sequence[int]) -> Order:
    """Return the inverse of a permutation; for other numbers, their sorting order."""
    return tuple(sorted(range(len(permutation)), key=permutation.__getitem__))


def moving(rank: int, source: int, to: int) -> Order:
    """Return the permutation of `rank` axes that moves axis `source` to `to`."""
    order = [*range(rank)]
    axis = order.pop(source)
    order.insert(to % rank, axis)
    return tuple(order)
