"""Loops in Python over elements, with stacked results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from aotc.core.pytree import Structure, flatten
from aotc.dialects.types import Tensor
from aotc.numpy.creation import zeros
from aotc.numpy.joining import stack
from aotc.tracing.array import Array
from aotc.tracing.bodies import function_name, result_types, returned_arrays
from aotc.tracing.source_locations import fail


class CollectedResults:
    """A list of a function's results, checked for equal structure and types.

    Args:
        function: that returns them, for messages.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._rows: list[list[Array]] = []
        self._tree: Structure | None = None

    def append(self, result: Any) -> None:
        """Add a result; raise if its structure or types differ from the first.

        Raises:
            InputError: they differ, or it holds something else than arrays.
        """
        leaves, tree = flatten(result)
        row = returned_arrays(self._function, leaves, tree)
        if self._rows:
            self._require_same(row, tree)
        self._tree = tree
        self._rows.append(row)

    def stacked(self, reverse: bool = False) -> tuple[list[Array], Structure]:
        """Stack the leaves of all results; return them and the structure."""
        assert self._tree is not None
        ordered = self._rows[::-1] if reverse else self._rows
        columns = zip(*ordered, strict=True)
        return [stack(list(column)) for column in columns], self._tree

    def _require_same(self, row: Sequence[Array], tree: Structure) -> None:
        """Raise if a result's structure or types differ from the first."""
        first, types = [x.type for x in self._rows[0]], [x.type for x in row]
        if tree != self._tree or types != first:
            fail(
                "row-mismatch",
                f"'{function_name(self._function)}' must return the same form and "
                f"types for each element; it returns {_shown(self._tree, first)} for "
                f"the first and {_shown(tree, types)} for a later one",
                "what a value decides may not change the form or the types",
            )


def _shown(tree: Structure | None, types: Sequence[Tensor]) -> str:
    """Return a structure and its leaf types as text."""
    return f"{tree} of {', '.join(map(str, types)) or 'nothing'}"


def no_rows(
    function: Callable[..., object],
    types: Sequence[Tensor],
    arguments: Structure,
    adapt_result: Callable[
        [Callable[..., object], object], object
    ] = lambda _, result: result,
) -> tuple[list[Array], Structure]:
    """Return the stacked results of zero calls: leaves with a leading axis of size 0.

    The function is traced, as there is no element that it could be called with.

    Args:
        function: of one element.
        types: of the leaves of its arguments.
        arguments: the form of (args, kwargs).
        adapt_result: of the function and what it returned; gives what is stacked.
    """
    found, tree = result_types(function, types, arguments, adapt_result)
    return [zeros((0, *kind.shape), kind.dtype) for kind in found], tree
