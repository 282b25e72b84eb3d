"""Nested containers: torch's `TreeSpec`s and the pytrees of aotc.

Lists, tuples, dicts and named tuples stay what they are. Other containers that are
registered with torch (dataclasses, the outputs of `transformers`) become dicts where
their fields have names, else tuples.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.utils._pytree import TreeSpec


def tree_of(spec: TreeSpec, leaves: Iterator[object]) -> Any:
    """Build the pytree of a TreeSpec from leaves, which it takes from the iterator."""
    if spec.is_leaf():
        return next(leaves)
    parts = [tree_of(child, leaves) for child in spec.children()]
    keys = _keys(spec)
    if keys is not None:
        return dict(zip(keys, parts, strict=True))
    if spec.type.__name__ == "namedtuple":
        return spec.context(*parts)
    return parts if spec.type is list else tuple(parts)


def leaves_of(spec: TreeSpec, tree: Any) -> list[Any]:
    """Return the leaves of a pytree of `tree_of`, in the order of the TreeSpec."""
    if spec.is_leaf():
        return [tree]
    keys = _keys(spec)
    parts = tree if keys is None else [tree[key] for key in keys]
    return [
        leaf
        for child, part in zip(spec.children(), parts, strict=True)
        for leaf in leaves_of(child, part)
    ]


def _keys(spec: TreeSpec) -> list[str] | None:
    """Return the keys of a TreeSpec's children; None if they have none."""
    context = spec.context
    if not isinstance(context, (list, tuple)):
        return None
    # dataclasses and some dicts keep more than their keys
    for keys in (context, *context):
        if _are_names(keys) and len(keys) == spec.num_children:
            return [str(key) for key in keys]
    return None


def _are_names(keys: object) -> bool:
    """Return whether a value is a list of names or numbers."""
    return isinstance(keys, (list, tuple)) and all(
        isinstance(key, (str, int)) for key in keys
    )
