"""Pytrees: nested dicts, lists, tuples, named tuples, nodes and None around leaves.

`flatten` takes a tree apart into leaves and a `Structure`, `Structure.unflatten` puts
it together again: ``structure.unflatten(leaves) == tree``. Dict keys are strings and
are visited in sorted order, so that equal trees have equal structures; those of an
`OrderedTree` in its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from aotc.errors import InputError

if TYPE_CHECKING:
    from aotc.core.json_values import JsonObject

# A tree of any of these kinds around leaves of any type, or a leaf alone: `flatten`
# finds out which. Functions that give back the kind of tree that they take say so with
# a type variable.
PyTree: TypeAlias = object


class OrderedTree(dict[str, Any]):
    """A dict whose leaves are visited in the order of its keys, not sorted."""


class PytreeNode(ABC):
    """Base class of objects with named parts, which are nodes of pytrees."""

    @abstractmethod
    def parts(self) -> tuple[dict[str, PyTree], Callable[..., PyTree]]:
        """Return the parts by name, and a function that rebuilds the object from
        others.

        Of two objects that differ in nothing but their parts, the second is equal.
        """

    def check(self) -> None:  # noqa: B027 - most have nothing to check
        """Refuse arrays that do not fit each other; called when a tree of them is
        stored.
        """


@dataclass(frozen=True)
class Structure:
    """The structure of a pytree: its containers and keys, without the leaves.

    Args:
        kind: leaf, none, dict, list, tuple or namedtuple, as which a `PytreeNode`
            counts.
        keys: of a dict or a named tuple.
        children: what it has in it.
        factory: the class of a named tuple, or of a dict that is no plain one; what
            makes a `PytreeNode` of its parts.
    """

    kind: str
    keys: tuple[Any, ...] = ()
    children: tuple[Structure, ...] = ()
    factory: Callable[..., Any] | None = None

    @classmethod
    def of_dict(cls, keys: tuple[str, ...], children: tuple[Structure, ...]) -> Self:
        """Return the structure of a dict with its keys in this order."""
        is_sorted = list(keys) == sorted(keys)
        return cls("dict", keys, children, None if is_sorted else OrderedTree)

    @property
    def leaf_count(self) -> int:
        """The number of leaves."""
        return 1 if self.kind == "leaf" else sum(c.leaf_count for c in self.children)

    def unflatten(self, leaves: Sequence[object]) -> Any:
        """Return a tree of this structure with these leaves, in the order of
        `flatten`.
        """
        iterator = iter(leaves)
        return self._build(iterator)

    def _build(self, leaves: Iterator[object]) -> object:
        """Build a tree from an iterator of leaves."""
        if self.kind == "leaf":
            return next(leaves)
        if self.kind == "none":
            return None
        parts = [child._build(leaves) for child in self.children]
        if self.kind == "dict":
            return (self.factory or dict)(zip(self.keys, parts, strict=True))
        if self.kind == "namedtuple" and self.factory:
            return self.factory(*parts)
        return parts if self.kind == "list" else tuple(parts)

    def to_json(self, first: int = 0) -> int | JsonObject | None:
        """Return the structure in the manifest's form, with leaves numbered from
        `first`.
        """
        if self.kind == "leaf":
            return first
        if self.kind == "none":
            return None
        parts = []
        for child in self.children:
            parts.append(child.to_json(first))
            first += child.leaf_count
        if self.kind == "dict":
            return {"dict": dict(zip(self.keys, parts, strict=True))}
        return {"list" if self.kind == "list" else "tuple": parts}

    def __str__(self) -> str:
        marks = {"leaf": "*", "none": "None"}
        if self.kind in marks:
            return marks[self.kind]
        if self.kind == "dict":
            pairs = zip(self.keys, self.children, strict=True)
            return "{" + ", ".join(f"{key}: {child}" for key, child in pairs) + "}"
        inner = ", ".join(map(str, self.children))
        return f"[{inner}]" if self.kind == "list" else f"({inner})"


_LEAF = Structure("leaf")


def flatten(tree: PyTree) -> tuple[list[Any], Structure]:
    """Return the leaves of a tree, dicts by sorted keys, and its structure.

    Raises:
        InputError: a dict has a key that is not a string.
    """
    leaves: list[Any] = []
    return leaves, _flatten(tree, leaves)


def _flatten(tree: PyTree, leaves: list[object]) -> Structure:
    """Append the leaves of a tree to `leaves`; return its structure."""
    if tree is None:
        return Structure("none")
    if isinstance(tree, dict):
        return _flatten_dict(tree, leaves)
    if isinstance(tree, (list, tuple)):
        children = tuple(_flatten(child, leaves) for child in tree)
        if hasattr(tree, "_fields"):
            return Structure("namedtuple", tree._fields, children, type(tree))
        return Structure("list" if isinstance(tree, list) else "tuple", (), children)
    if isinstance(tree, PytreeNode):
        parts, factory = tree.parts()
        children = tuple(_flatten(part, leaves) for part in parts.values())
        return Structure("namedtuple", (*parts,), children, factory)
    leaves.append(tree)
    return _LEAF


def _flatten_dict(tree: dict[str, PyTree], leaves: list[object]) -> Structure:
    """Append the leaves of a dict to `leaves`; return its structure."""
    for key in tree:
        if not isinstance(key, str):
            raise InputError(
                "bad-tree", f"expected dict keys that are strings; got {key!r}"
            )
    keys = tuple(tree if isinstance(tree, OrderedTree) else sorted(tree))
    return Structure.of_dict(keys, tuple(_flatten(tree[key], leaves) for key in keys))


def nodes_in(tree: PyTree) -> Iterator[PytreeNode]:
    """Yield the PytreeNodes in a tree, outer ones first."""
    if isinstance(tree, PytreeNode):
        yield tree
        tree = tree.parts()[0]
    if isinstance(tree, (dict, list, tuple)):
        for child in tree.values() if isinstance(tree, dict) else tree:
            yield from nodes_in(child)


def flatten_in_order(tree: PyTree) -> tuple[list[Any], Structure]:
    """Return the leaves of a tree, dicts in insertion order, and its structure.

    Only dicts, lists and tuples themselves are taken apart, and named tuples: objects
    of other classes that inherit from these are leaves. So are dicts of which a key is
    no text and no whole number, and what contains itself.
    """
    leaves: list[Any] = []
    return leaves, _flatten_in_order(tree, leaves, frozenset())


def _flatten_in_order(
    tree: Any, leaves: list[object], above: frozenset[int]
) -> Structure:
    """Append leaves in insertion order to `leaves`; return the tree's structure."""
    if tree is None:
        return Structure("none")
    inside = above | {id(tree)}
    is_new = id(tree) not in above
    is_dict = type(tree) in (dict, OrderedTree)
    if is_new and is_dict and all(type(key) in (str, int) for key in tree):
        parts = tuple(_flatten_in_order(each, leaves, inside) for each in tree.values())
        form = None if type(tree) is dict else type(tree)
        return Structure("dict", tuple(tree), parts, form)
    is_named = isinstance(tree, tuple) and hasattr(tree, "_fields")
    if is_new and (type(tree) in (list, tuple) or is_named):
        parts = tuple(_flatten_in_order(child, leaves, inside) for child in tree)
        if is_named:
            return Structure("namedtuple", tree._fields, parts, type(tree))
        return Structure("list" if type(tree) is list else "tuple", (), parts)
    if is_new and isinstance(tree, PytreeNode):
        named, factory = tree.parts()
        parts = tuple(_flatten_in_order(x, leaves, inside) for x in named.values())
        return Structure("namedtuple", (*named,), parts, factory)
    leaves.append(tree)
    return _LEAF


def leaf_names(structure: Structure, prefix: str = "") -> list[str]:
    """Return the dotted path of each leaf, such as `params.conv.kernel` or
    `layers.0.bias`.

    Raises:
        InputError: two leaves have one path, because of dots in dict keys.
    """
    names = _leaf_names(structure, prefix)
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError("bad-tree", f"two leaves of the tree are called '{twice}'")
    return names


def _leaf_names(structure: Structure, prefix: str) -> list[str]:
    """Return the dotted path of each leaf, below a prefix."""
    if structure.kind == "leaf":
        return [prefix]
    names = []
    for number, child in enumerate(structure.children):
        key = structure.keys[number] if structure.keys else number
        names += _leaf_names(child, f"{prefix}.{key}" if prefix else str(key))
    return names


def tree_map(function: Callable[..., object], tree: PyTree, *others: object) -> Any:
    """Apply a function to the leaves of trees of one structure; return the tree of
    results.

    Raises:
        InputError: the trees differ in structure.
    """
    leaves, structure = flatten(tree)
    columns = [leaves]
    for other in others:
        more, found = flatten(other)
        if found != structure:
            raise InputError(
                "tree-mismatch",
                f"expected trees of one form; got {structure} and {found}",
            )
        columns.append(more)
    return structure.unflatten([function(*row) for row in zip(*columns, strict=True)])


def subtrees(tree: PyTree, prefix: Structure) -> list[Any]:
    """Return the subtrees at the leaves of a prefix structure, in order.

    ``prefix.unflatten(subtrees(tree, prefix)) == tree``

    Raises:
        InputError: the tree is of another form.
    """
    leaves, structure = flatten(tree)
    remaining = iter(leaves)
    branches = _branches(structure, prefix)
    if branches is None:
        raise InputError(
            "tree-mismatch",
            f"expected a tree that starts with {prefix}; got {structure}",
        )
    return [branch._build(remaining) for branch in branches]


def _branches(structure: Structure, prefix: Structure) -> list[Structure] | None:
    """Return the substructures at the leaves of `prefix`; None if it is no prefix."""
    if prefix.kind == "leaf":
        return [structure]
    if replace(structure, children=()) != replace(prefix, children=()):
        return None
    if len(structure.children) != len(prefix.children):
        return None
    found: list[Structure] = []
    for child, wanted in zip(structure.children, prefix.children, strict=True):
        below = _branches(child, wanted)
        if below is None:
            return None
        found += below
    return found
