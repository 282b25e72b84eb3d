"""Transformations of some parameters only."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy

from aotc.core.pytree import flatten, subtrees
from aotc.errors import InputError
from aotc.optim.transformation import GradientTransformation, stateful
from aotc.optim.trees import Tree
from aotc.tracing.calls import shown_value
from aotc.tracing.source_locations import fail

__all__ = ["MaskedNode", "MaskedState", "masked"]


class MaskedNode(NamedTuple):
    """Placeholder for a subtree that a masked transformation does not see."""


class MaskedState(NamedTuple):
    """State of `masked`: the state of the inner transformation."""

    inner_state: Any


def masked(inner: GradientTransformation, mask: object) -> GradientTransformation:
    """Return `inner` applied to the masked-in subtrees only; other updates stay.

    Args:
        inner: any transformation.
        mask: a pytree of True, where updates are transformed, and False; of the form of
            the parameters, or with one for a whole branch of them. Or a function that
            returns it for parameters or updates.
    """

    def init(params: Tree) -> Tree:
        return MaskedState(inner.init(Mask(mask, params).select(params)))

    def update(updates: Tree, state: MaskedState, params: Tree) -> tuple[Tree, Tree]:
        chosen = Mask(mask, updates)
        kept = None if params is None else chosen.select(params)
        found, new = inner.update(chosen.select(updates), state.inner_state, kept)
        return chosen.merge(found, updates), MaskedState(new)

    return stateful(MaskedState, init, update)


class Mask:
    """A selection of subtrees of a pytree, by a pytree of bools.

    Args:
        mask: what `masked` takes.
        tree: what a function is asked about.
    """

    def __init__(self, mask: Any, tree: Tree) -> None:
        flags, self._structure = flatten(mask(tree) if callable(mask) else mask)
        self._flags = [_flag(each) for each in flags]

    def select(self, tree: Tree) -> Tree:
        """Return the tree with a `MaskedNode` in place of each deselected subtree."""
        pairs = zip(self._flags, self._branches(tree), strict=True)
        return self._structure.unflatten([x if on else MaskedNode() for on, x in pairs])

    def merge(self, new: Tree, old: Tree) -> Tree:
        """Return the selected subtrees of `new`, and the others of `old`, as one
        tree.
        """
        rows = zip(self._flags, self._branches(new), self._branches(old), strict=True)
        return self._structure.unflatten([x if on else y for on, x, y in rows])

    def _branches(self, tree: Tree) -> list[Tree]:
        """Return the subtrees at the mask's leaves; raise if the tree does not fit."""
        try:
            return subtrees(tree, self._structure)
        except InputError:
            fail(
                "tree-mismatch",
                "expected a mask of the form of the parameters, or of the upper part "
                f"of it; got {self._structure} for {flatten(tree)[1]}",
            )


def _flag(x: object) -> bool:
    """Return a mask's leaf as a bool; raise if it is none."""
    if not isinstance(x, bool | numpy.bool_):
        fail("bad-mask", f"expected a mask of True and False; got {shown_value(x)}")
    return bool(x)
