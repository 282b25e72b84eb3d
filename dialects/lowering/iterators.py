"""The loops of a `linalg.generic`: which of them are parallel, which reduce."""

from collections.abc import Sequence
from functools import cache

from aotc.mlir import ir


def iterator_types(kinds: Sequence[str]) -> ir.ArrayAttr:
    """The attribute for loops of these kinds, `parallel` or `reduction` each."""
    return _attribute(tuple(kinds))


@cache  # of few kinds, and parsed
def _attribute(kinds: tuple[str, ...]) -> ir.ArrayAttr:
    return ir.ArrayAttr.get(
        [ir.Attribute.parse(f"#linalg.iterator_type<{kind}>") for kind in kinds]
    )


@cache
def has_reduction(iterators: ir.ArrayAttr) -> bool:
    """Return whether a loop of the attribute `iterator_types` reduces."""
    return "reduction" in str(iterators)
