"""Flattening of a pytree of inputs by the tree that the manifest declares."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import TypeVar

from aotc.core.json_values import JsonObject
from aotc.core.pytree import PyTree, PytreeNode
from aotc.errors import InputError

_T = TypeVar("_T")
Flatten = Callable[[PyTree, list[object], str], None]


def flattener(owner: str, tree: int | JsonObject | None) -> Flatten:
    """Return a function `(value, leaves, path)` that stores the leaves of a pytree in
    `leaves`.

    Raises (when called):
        InputError: `missing-input`, `unknown-input` or `input-structure`.
    """
    if isinstance(tree, int):

        def leaf(value: object, leaves: list[object], path: str) -> None:
            leaves[tree] = value

        return leaf
    if tree is None:

        def nothing(value: object, leaves: list[object], path: str) -> None:
            if value is not None:
                raise _structure_error(owner, path, "None", value)

        return nothing
    if "dict" in tree:
        return _dict_flattener(owner, tree["dict"])
    kind = list if "list" in tree else tuple
    return _sequence_flattener(owner, next(iter(tree.values())), kind)


def _dict_flattener(owner: str, tree: JsonObject) -> Flatten:
    """Return a function that stores the leaves of a dict with the keys of `tree`."""
    # Plain inputs are the common case, and quicker without a function for each.
    direct = [(key, child) for key, child in tree.items() if isinstance(child, int)]
    nested = [
        (key, flattener(owner, child))
        for key, child in tree.items()
        if not isinstance(child, int)
    ]
    expected = frozenset(tree)

    def flatten(value: object, leaves: list[object], path: str) -> None:
        if not isinstance(value, (dict, Mapping)):
            raise _structure_error(owner, path, "a dict", value)
        if value.keys() != expected:
            raise _names_error(owner, path, expected, value)
        for key, index in direct:
            leaves[index] = value[key]
        for key, part in nested:
            part(value[key], leaves, f"{path}.{key}" if path else key)

    return flatten


def _sequence_flattener(
    owner: str, tree: Sequence[int | JsonObject | None], kind: type
) -> Flatten:
    """Return a flattener of lists or tuples of a fixed length."""
    parts = [flattener(owner, child) for child in tree]
    expected = f"a {kind.__name__} of {len(parts)}"

    def flatten(value: object, leaves: list[object], path: str) -> None:
        if isinstance(value, PytreeNode):
            value = (*value.parts()[0].values(),)
        if not isinstance(value, (list, tuple)) or len(value) != len(parts):
            raise _structure_error(owner, path, expected, value)
        for index, (part, each) in enumerate(zip(parts, value, strict=True)):
            part(each, leaves, f"{path}[{index}]")  # value[0] of a Complex is another

    return flatten


def _names_error(
    owner: str, path: str, expected: frozenset[str], got: Mapping[str, object]
) -> InputError:
    """Return the error for unknown or missing input names."""
    within = f"{owner}: input {path!r}" if path else owner
    wanted = ", ".join(sorted(expected)) or "none"
    for name in got:
        if name not in expected:
            return InputError(
                "unknown-input",
                f"{within}: expected the inputs {wanted}, got {name!r}",
                hint=suggestion(str(name), expected),
            )
    missing = ", ".join(sorted(expected.difference(got)))
    return InputError(
        "missing-input", f"{within}: expected the inputs {wanted}, {missing} is missing"
    )


def look_up(kind: str, table: Mapping[str, _T], name: str) -> _T:
    """Return `table[name]`, or raise an error that lists the names.

    Raises:
        InputError: `unknown-entry` or `unknown-state`.
    """
    is_name = isinstance(name, str)
    if is_name and name in table:
        return table[name]
    names = ", ".join(table) or "none"
    raise InputError(
        f"unknown-{kind}",
        f"expected one of the model's {kind} names ({names}), got {name!r}",
        hint=suggestion(name, table) if is_name else None,
    )


def suggestion(name: str, known: Iterable[str]) -> str | None:
    """Return a question that names the closest spelling to `name`, if there is one."""
    folded = {candidate.lower(): candidate for candidate in known}
    close = get_close_matches(name.lower(), folded, n=1)
    return f"did you mean {folded[close[0]]!r}?" if close else None


def _structure_error(owner: str, path: str, expected: str, value: object) -> InputError:
    """Return the error for an input of another pytree structure."""
    size = f" of {len(value)}" if isinstance(value, (list, tuple, dict)) else ""
    return InputError(
        "input-structure",
        f"{owner}: input {path!r}: expected {expected}, "
        f"got {type(value).__name__}{size}",
    )
