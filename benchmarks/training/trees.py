"""Parameters in files: nested dicts and lists of arrays, by names with dots."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np


def read_tree(file: Path) -> Any:
    """Read a file of named leaves as a pytree; numeric keys become lists."""
    with np.load(file) as arrays:
        return nested(dict(arrays))


def nested(arrays: Mapping[str, Any]) -> Any:
    """Return the pytree of arrays by dotted names: `a.0.b` is `["a"][0]["b"]`."""
    tree: dict[str, Any] = {}
    for name, array in arrays.items():
        *path, last = name.split(".")
        place = tree
        for part in path:
            place = place.setdefault(part, {})
        place[last] = array
    return _with_lists(tree)


def _with_lists(tree: Any) -> Any:
    """Return nested dicts with lists in place of dicts with numeric keys."""
    if not isinstance(tree, dict):
        return tree
    if all(key.isdigit() for key in tree):
        return [_with_lists(tree[str(number)]) for number in range(len(tree))]
    return {key: _with_lists(each) for key, each in tree.items()}


def map_tree(function: Callable[[Any], Any], tree: Any) -> Any:
    """Apply a function to each leaf; return the new tree."""
    if isinstance(tree, dict):
        return {key: map_tree(function, each) for key, each in tree.items()}
    if isinstance(tree, list):
        return [map_tree(function, each) for each in tree]
    return function(tree)
