"""Levels of allowed deviation of results from the sums as the model writes them."""

from __future__ import annotations

STRICT = "strict"  # sums in any order, each term rounded as it is
RELAXED = "relaxed"  # and algorithms of fewer operations, within a stated bound
LEVELS = (STRICT, RELAXED)

# what `--precision` says → the cheaper dtype of mixed precision
MIXED = {"mixed:bf16": "bf16", "mixed:f16": "f16"}


def allows(level: str, needed: str) -> bool:
    """Return whether the level `level` allows an optimization that needs `needed`."""
    return LEVELS.index(needed) <= LEVELS.index(level)
