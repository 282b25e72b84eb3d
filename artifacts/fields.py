"""Checks of parsed JSON with places in errors: `$.files[2].size: expected …, got …`.

A check is a function of a value that raises `Invalid`; `record`, `listing`, `mapping`
build checks out of checks, so that a schema reads like the data. The path to a wrong
value is put together while the error rises, so that values that are right cost nothing,
however long the names on the way to them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import NoReturn

Check = Callable[[object], None]

_SHOWN = 60  # characters of a value or a name in a message


class Invalid(ValueError):
    """A value does not have the form that the schema asks for."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self._message = message
        self._steps: list[str] = []

    def below(self, step: str) -> Invalid:
        """Return the error, seen from the value that holds the wrong one at `step`."""
        self._steps.append(short_text(step))
        return self

    def __str__(self) -> str:
        path = "".join(reversed(self._steps))
        return f"${path}: {self._message}"


@contextmanager
def within(step: str) -> Iterator[None]:
    """Add `step` to the path of an `Invalid` that the block raises."""
    try:
        yield
    except Invalid as error:
        error.below(step)
        raise


def short_text(text: str) -> str:
    """`text` as far as a message shows it."""
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def fail(expected: str, got: object) -> NoReturn:
    """Raise `Invalid` for the value `got`."""
    raise Invalid(f"expected {expected}, got {short_text(repr(got))}")


def anything(value: object) -> None:
    """Accept every value."""


def boolean(value: object) -> None:
    """Accept true and false."""
    if not isinstance(value, bool):
        fail("true or false", value)


def text(pattern: str = "", what: str = "a string") -> Check:
    """Accept a string that matches all of `pattern`."""
    regex = re.compile(pattern) if pattern else None

    def check(value: object) -> None:
        if not isinstance(value, str) or (regex and not regex.fullmatch(value)):
            fail(what, value)

    return check


def integer(low: int) -> Check:
    """Accept an integer that is at least `low` (and never a boolean)."""

    def check(value: object) -> None:
        if not isinstance(value, int) or isinstance(value, bool) or value < low:
            fail(f"an integer of at least {low}", value)

    return check


def number(value: object) -> None:
    """Accept a number (and never a boolean)."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        fail("a number", value)


def one_of(*values: str) -> Check:
    """Accept one of the given strings."""

    def check(value: object) -> None:
        if not isinstance(value, str) or value not in values:
            fail("one of " + ", ".join(values), value)

    return check


def nullable(inner: Check) -> Check:
    """Accept null, or a value that `inner` accepts."""

    def check(value: object) -> None:
        if value is not None:
            inner(value)

    return check


def listing(item: Check, least: int = 0) -> Check:
    """Accept a list of at least `least` values that each pass `item`."""

    def check(value: object) -> None:
        if not isinstance(value, list) or len(value) < least:
            fail(f"a list of at least {least}", value)
        for index, element in enumerate(value):
            try:
                item(element)
            except Invalid as error:
                raise error.below(f"[{index}]") from None

    return check


def mapping(key: Check, item: Check) -> Check:
    """Accept an object whose keys pass `key` and whose values pass `item`."""

    def check(value: object) -> None:
        if not isinstance(value, dict):
            fail("an object", value)
        for name, element in value.items():
            try:
                key(name)
                item(element)
            except Invalid as error:
                raise error.below(f".{name}") from None

    return check


def record(
    required: Mapping[str, Check], optional: Mapping[str, Check] | None = None
) -> Check:
    """Accept an object with these fields; fields of other names are let through."""
    checks = {**required, **(optional or {})}

    def check(value: object) -> None:
        if not isinstance(value, dict):
            fail("an object", value)
        for name in required:
            if name not in value:
                raise Invalid("this field is missing").below(f".{name}")
        for name, element in value.items():
            try:
                checks.get(name, anything)(element)
            except Invalid as error:
                raise error.below(f".{name}") from None

    return check
