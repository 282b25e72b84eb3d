"""The loops of a `linalg.generic`: which of them are parallel, which reduce."""

from collections.abc import Sequence
from functools import cache

from aotc.mlir import ir


def iterator_types(kinds: Sequence[str]) -> ir.ArrayAttr:
    """Return the `iterator_types` attribute for loops `parallel` or `reduction`."""
    return _attribute(tuple(kinds))


@cache  # of few kinds, and parsed
def _attribute(kinds: tuple[str, ...]) -> ir.ArrayAttr:
    """Return the cached `iterator_types` attribute."""
    return ir.ArrayAttr.get(
        [ir.Attribute.parse(f"#linalg.iterator_type<{kind}>") for kind in kinds]
    )


@cache
def has_reduction(iterators: ir.ArrayAttr) -> bool:
    """Return whether an `iterator_types` attribute has a reduction loop."""
    return "reduction" in str(iterators)
