"""Roles of axes of a function's values in images: batch, channels, spatial.

Convolutions and pooling say it of their own operands and results. The ops around them,
elementwise ones, transposes, broadcasts and so on, tie axes of their operands to axes
of their results, and axes that are tied are one and the same. Ops that change the size
of an image pass the roles of its axes on (`image_axis_relations.py`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from aotc.dialects.graph import GraphOp, has_effect
from aotc.dialects.movement.image_layouts import (
    IMAGE_LAYOUTS,
    IMAGE_RANKS,
    layout_of_rank,
)
from aotc.dialects.types import Tensor
from aotc.dialects.weight_values import weight_values
from aotc.mlir import Function, Value
from aotc.passes.disjoint_sets import DisjointSets
from aotc.passes.image_axis_relations import Relation, axis_relations

_Axis = tuple[Value, int]
# of sets of axes, by their roots: n, c, s (spatial), p and q (what was split off c and
# s), r (the batch and the pixels in a row), or x (merged of others)
_Roles = dict[_Axis, set[str]]
_PART_OF = {"c": "p", "s": "q", "p": "p", "q": "q"}


class ImageAxes:
    """Roles (batch, channels, spatial) of the axes of a function's values in images.

    What weights alone decide ties nothing, and bodies of loops and branches are not
    looked into.

    Args:
        function: in which calls are inlined.
    """

    def __init__(self, function: Function) -> None:
        ops = [op for op in function.entry_block.operations if isinstance(op, GraphOp)]
        self._sets: DisjointSets[_Axis] = DisjointSets()
        self._roles: list[_Roles] = []
        over_images = [op for op in ops if op.takes_images]
        if over_images:
            weights = weight_values(function)
            self._tie(ops, weights)
            # pooling of other things than pixels is written as pooling, too: where a
            # convolution knows better, it does not count
            filters = [op for op in over_images if len(op.operands) > 1]
            pools = [op for op in over_images if len(op.operands) == 1]
            self._roles = [self._roles_by(filters), self._roles_by(pools), {}]
            self._pass_roles_on([r for op in ops for r in axis_relations(op, weights)])

    def layout(self, value: Value) -> str | None:
        """Return the image layout that fits a value; None if none does, or several do.

        It is the only one that what is known of the axes does not contradict.
        """
        fitting = self._fitting_layouts(value)
        return fitting[0] if len(fitting) == 1 else None

    def is_ambiguous(self, value: Value) -> bool:
        """Return whether a value is an image whose known roles fit several layouts."""
        return len(self._fitting_layouts(value)) > 1

    def _fitting_layouts(self, value: Value) -> list[str]:
        """Return the image layouts that agree with the known roles of a value's
        axes.
        """
        shape = Tensor.of(value).shape
        if len(shape) not in IMAGE_RANKS:
            return []
        roles = [self._roles_of((value, axis)) for axis in range(len(shape))]
        if not any(roles[1:]) or not (roles[0] or shape[0] == 1):
            return []
        return [layout for layout in IMAGE_LAYOUTS if _fits(roles, layout, len(shape))]

    def _tie(self, ops: Sequence[GraphOp], weights: set[Value]) -> None:
        """Unite the axes that ops keep from operand to result, except in weights."""
        for op in ops:
            for one, other in _tied_axes(op):
                if one[0] not in weights and other[0] not in weights:
                    self._sets.unite(one, other)

    def _roles_by(self, ops: Sequence[GraphOp]) -> _Roles:
        """Map axes of images that convolutions or pools take or give to roles (n, c,
        s).
        """
        found: _Roles = defaultdict(set)
        for op in ops:
            for image in (op.operands[0], op.results[0]):
                last = Tensor.of(image).rank - 1
                for axis in range(last + 1):
                    role = {0: "n", last: "c"}.get(axis, "s")
                    found[self._sets.root((image, axis))].add(role)
        return found

    def _pass_roles_on(self, relations: Sequence[Relation]) -> None:
        """Propagate roles through the relations until a fixed point."""
        while any([self._pass_on(relation) for relation in relations]):
            pass

    def _pass_on(self, relation: Relation) -> bool:
        """Propagate roles through one relation; return whether a new role was
        recorded.
        """
        known = [self._roles_of(part) for part in relation.parts]
        own = self._roles_of(relation.result)
        through = [self._roles_of(axis) for axis in relation.through or ()]
        if through and not (any(through) and set().union(*through) <= _SPATIAL):
            return False
        if relation.role:
            is_new = known[0] == {"r"} and not own
            return is_new and self._set(relation.result, {relation.role})
        if own:
            is_same = len(known) == 1 and not relation.is_part
            return is_same and not known[0] and self._set(relation.parts[0], own)
        found = _merged(known)
        if relation.is_part:
            found = {_PART_OF[role] for role in found if role in _PART_OF}
        return bool(found) and self._set(relation.result, found)

    def _set(self, axis: _Axis, roles: set[str]) -> bool:
        """Record the roles of an axis; return True."""
        self._roles[-1][self._sets.root(axis)] = roles
        return True

    def _roles_of(self, axis: _Axis) -> set[str]:
        """Return the roles of an axis; empty if none is known."""
        root = self._sets.root(axis)
        known = (roles[root] for roles in self._roles if root in roles)
        return next(known, set())


def _fits(roles: Sequence[set[str]], layout: str, rank: int) -> bool:
    """Return whether the known roles of axes are possible under a layout such as
    NCHW.
    """
    letters = layout_of_rank(layout, rank)
    return all(
        known <= _ROLES_OF.get(letter, _SPATIAL)
        for known, letter in zip(roles, letters, strict=True)
    )


_SPATIAL = {"s", "q"}
_ROLES_OF = {"n": {"n"}, "c": {"c", "p"}}


def _merged(roles: Sequence[set[str]]) -> set[str]:
    """Return the roles of an axis that a reshape merged from axes with the given roles.

    Those of the one that is no part of a split axis, as parts go into it. Several such
    ones make it none of an image.
    """
    whole = [each for each in roles if each - {"p", "q"}]
    if len(whole) > 1:
        return {"r" if set().union(*whole) <= {"n", "s"} else "x"}
    return whole[0] if whole else set().union(*roles)


def _tied_axes(op: GraphOp) -> Iterator[tuple[_Axis, _Axis]]:
    """Yield pairs of axes, one of a result and one of an operand, that are the same."""
    if op.takes_images:
        yield (op.operands[0], 0), (op.results[0], 0)
        return
    if has_effect(op):
        return
    for result in op.results:
        for number, operand in enumerate(op.operands):
            kept = _kept_axes(op, number, Tensor.of(result).rank)
            for source, axis in kept.items():
                yield (result, axis), (operand, source)


def _kept_axes(op: GraphOp, number: int, rank: int) -> dict[int, int]:
    """Map axes of operand `number` to the result axes of an op that keep them."""
    cls = type(op)
    if not hasattr(cls, "reorder"):
        is_view = cls.rearranges and cls.is_merged(op)
        return cls.kept_axes(op, number) if is_view else {}
    every = range(Tensor.of(op.operands[number]).rank)
    attributes = cls.attributes_of(op)
    reduced = attributes.get("axes", (attributes.get("axis"),))
    kept = [axis for axis in every if len(every) == rank or axis not in reduced]
    return {a: at for at, a in enumerate(kept)} if len(kept) == rank else {}
