"""Correspondence of axes between two shapes with as many elements."""

from functools import lru_cache

from aotc.dialects.types import Shape, same_count


def long_axes(shape: Shape) -> list[int]:
    """Return the axes whose size is not 1."""
    return [axis for axis, size in enumerate(shape) if size != 1]


def squeeze_shape(shape: Shape) -> Shape:
    """Return a shape without its sizes of 1."""
    return tuple(size for size in shape if size != 1)


@lru_cache(maxsize=2**14)
def reshape_groups(old: Shape, new: Shape) -> list[tuple[range, range]]:
    """Return the finest matching groups of axes of two shapes, with equal products.

    `[batch, 8, 8, 4] → [batch, 256]` gives the axes `[(0, 0), (1…3, 1)]`. Trailing axes
    of size one join the last run, and what cannot be proven equal is one run.
    """
    groups: list[tuple[range, range]] = []
    i = j = 0
    while i < len(old) and j < len(new):
        ends = [
            (a, b)
            for a in range(i + 1, len(old) + 1)
            for b in range(j + 1, len(new) + 1)
            if same_count(old[i:a], new[j:b])
        ]
        a, b = min(ends, key=sum, default=(len(old), len(new)))
        groups.append((range(i, a), range(j, b)))
        i, j = a, b
    if groups:
        last, made = groups[-1]
        groups[-1] = range(last.start, len(old)), range(made.start, len(new))
    return groups
