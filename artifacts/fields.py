"""Checks for parsed JSON that say where and what: `$.files[2].size: expected …, got …`.

A check is a function `(value, path) -> None` that raises `Invalid`; `record`, `listing`
and `mapping` build checks out of checks, so that a schema reads like the data.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

Check = Callable[[Any, str], None]


class Invalid(ValueError):
    """A value does not have the form that the schema asks for."""


def fail(path: str, expected: str, got: Any) -> None:
    """Raise `Invalid` for the value `got` at `path`."""
    found = repr(got)
    if len(found) > 60:
        found = found[:57] + "..."
    raise Invalid(f"{path}: expected {expected}, got {found}")


def anything(value: Any, path: str) -> None:
    """Accept every value."""


def boolean(value: Any, path: str) -> None:
    """Accept true and false."""
    if not isinstance(value, bool):
        fail(path, "true or false", value)


def text(pattern: str = "", what: str = "a string") -> Check:
    """Accept a string that matches all of `pattern`."""
    regex = re.compile(pattern) if pattern else None

    def check(value: Any, path: str) -> None:
        if not isinstance(value, str) or (regex and not regex.fullmatch(value)):
            fail(path, what, value)

    return check


def integer(low: int) -> Check:
    """Accept an integer that is at least `low` (and never a boolean)."""

    def check(value: Any, path: str) -> None:
        if not isinstance(value, int) or isinstance(value, bool) or value < low:
            fail(path, f"an integer of at least {low}", value)

    return check


def number(value: Any, path: str) -> None:
    """Accept a number (and never a boolean)."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        fail(path, "a number", value)


def one_of(*values: str) -> Check:
    """Accept one of the given strings."""

    def check(value: Any, path: str) -> None:
        if not isinstance(value, str) or value not in values:
            fail(path, "one of " + ", ".join(values), value)

    return check


def nullable(inner: Check) -> Check:
    """Accept null, or what `inner` accepts."""

    def check(value: Any, path: str) -> None:
        if value is not None:
            inner(value, path)

    return check


def listing(item: Check, least: int = 0) -> Check:
    """Accept a list of at least `least` values that each pass `item`."""

    def check(value: Any, path: str) -> None:
        if not isinstance(value, list) or len(value) < least:
            fail(path, f"a list of at least {least}", value)
        for index, element in enumerate(value):
            item(element, f"{path}[{index}]")

    return check


def mapping(key: Check, item: Check) -> Check:
    """Accept an object whose keys pass `key` and whose values pass `item`."""

    def check(value: Any, path: str) -> None:
        if not isinstance(value, dict):
            fail(path, "an object", value)
        for name, element in value.items():
            key(name, f"{path} key")
            item(element, f"{path}.{name}")

    return check


def record(
    required: Mapping[str, Check], optional: Mapping[str, Check] | None = None
) -> Check:
    """Accept an object with these fields; fields of other names are let through."""
    checks = {**required, **(optional or {})}

    def check(value: Any, path: str) -> None:
        if not isinstance(value, dict):
            fail(path, "an object", value)
        for name in required:
            if name not in value:
                raise Invalid(f"{path}.{name}: this field is missing")
        for name, element in value.items():
            checks.get(name, anything)(element, f"{path}.{name}")

    return check
