"""Parts of arrays that stay in a processor's caches."""

from __future__ import annotations

from collections.abc import Iterator

PART = 2**16  # elements


def cached_parts(size: int) -> Iterator[slice]:
    """Yield consecutive slices of `size` elements, each small enough for the cache.

    What goes through large arrays several times is faster on one part after the other.
    Smaller parts would be in nearer caches; but two threads would hand Python's lock to
    one another more often than they compute.
    """
    return (slice(begin, begin + PART) for begin in range(0, size, PART))
