"""Pytrees as the manifest spells them.

A leaf is the index of an input or output; `{"dict": {...}}`, `{"list": [...]}` and
`{"tuple": [...]}` are containers, `null` is None.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from aotc.artifacts.fields import Invalid, fail

Tree = object


def check(tree: Tree, count: int, *, each_once: bool) -> None:
    """Raise `Invalid` unless `tree` is a well-formed pytree over `count` leaves."""
    found: list[int] = []
    _collect(tree, found)
    for index in found:
        if not 0 <= index < count:
            fail(f"leaf indexes below {count}", index)
    if each_once and sorted(found) != list(range(count)):
        fail(f"each of the {count} leaves exactly once", found)


def _collect(tree: Tree, found: list[int]) -> None:
    """Append all leaf indices of a tree to `found`; raise `Invalid` for bad nodes."""
    if tree is None:
        return
    if type(tree) is int:
        found.append(tree)
        return
    kind, body = _kind_and_body(tree)
    children = body.items() if kind == "dict" else enumerate(body)
    for key, child in children:
        try:
            _collect(child, found)
        except Invalid as error:
            raise error.below(f".{kind}[{key!r}]") from None


def _kind_and_body(tree: Tree) -> tuple[str, Any]:
    """Return a container's kind (dict, list, tuple) and its children; raise for
    others.
    """
    if isinstance(tree, dict) and len(tree) == 1:
        kind, body = next(iter(tree.items()))
        if isinstance(body, {"dict": dict, "list": list, "tuple": list}.get(kind, ())):
            return kind, body
    fail('a leaf index, null or {"dict"|"list"|"tuple": …}', tree)
    raise AssertionError  # `fail` raises


def builder(tree: Tree) -> Callable[[Sequence[object]], Any]:
    """Return a function that arranges a flat sequence of leaves in the structure of
    `tree`.

    Dicts have their keys in the order of the leaves.
    """
    if tree is None:
        return lambda leaves: None
    if isinstance(tree, int):
        return lambda leaves: leaves[tree]
    kind, body = _kind_and_body(tree)
    if kind == "dict":
        rows = sorted(body.items(), key=lambda row: _first_leaf(row[1]))
        items = [(key, builder(child)) for key, child in rows]
        return lambda leaves: {key: build(leaves) for key, build in items}
    parts = [builder(child) for child in body]
    if kind == "list":
        return lambda leaves: [build(leaves) for build in parts]
    return lambda leaves: tuple(build(leaves) for build in parts)


def _first_leaf(tree: Tree) -> int:
    """Return the least leaf index in a tree, as JSON keeps no order of a dict."""
    found: list[int] = []
    _collect(tree, found)
    return min(found, default=-1)


def flatten(tree: Tree, value: Any) -> dict[int, Any]:
    """Return the leaves of `value`, which has the structure of `tree`, by leaf index.

    ``builder(tree)(flatten(tree, value)) == value``
    """
    leaves: dict[int, Any] = {}
    _flatten(tree, value, leaves)
    return leaves


def _flatten(tree: Tree, value: Any, into: dict[int, Any]) -> None:
    """Add the leaves of `value` to `into`, by leaf index."""
    if isinstance(tree, int):
        into[tree] = value
    elif tree is not None:
        kind, body = _kind_and_body(tree)
        for key, child in body.items() if kind == "dict" else enumerate(body):
            _flatten(child, value[key], into)
