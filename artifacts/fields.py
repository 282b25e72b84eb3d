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
    """Raised for a value that does not fit the schema; carries the path to it."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self._message = message
        self._steps: list[str] = []

    def below(self, step: str) -> Invalid:
        """Prepend `step` to the path of the error; return the error."""
        self._steps.append(short_text(step))
        return self

    def __str__(self) -> str:
        path = "".join(reversed(self._steps))
        return f"${path}: {self._message}"


@contextmanager
def within(step: str) -> Iterator[None]:
    """Prepend `step` to the path of any `Invalid` that the block raises."""
    try:
        yield
    except Invalid as error:
        error.below(step)
        raise


def short_text(text: str) -> str:
    """Return `text` shortened to what an error message shows."""
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def fail(expected: str, got: object) -> NoReturn:
    """Raise `Invalid`: `expected` this, got that value."""
    raise Invalid(f"expected {expected}, got {short_text(repr(got))}")


def anything(value: object) -> None:
    """Check that accepts every value."""


def boolean(value: object) -> None:
    """Check that a value is true or false."""
    if not isinstance(value, bool):
        fail("true or false", value)


def text(pattern: str = "", what: str = "a string") -> Check:
    """Return a check for strings that match all of `pattern`; its errors call them
    `what`.
    """
    regex = re.compile(pattern) if pattern else None

    def check(value: object) -> None:
        if not isinstance(value, str) or (regex and not regex.fullmatch(value)):
            fail(what, value)

    return check


def integer(low: int) -> Check:
    """Return a check that raises for all but integers of at least `low`."""

    def check(value: object) -> None:
        if not isinstance(value, int) or isinstance(value, bool) or value < low:
            fail(f"an integer of at least {low}", value)

    return check


def number(value: object) -> None:
    """Check that a value is a number (never a boolean)."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        fail("a number", value)


def one_of(*values: str) -> Check:
    """Return a check for the given strings."""

    def check(value: object) -> None:
        if not isinstance(value, str) or value not in values:
            fail("one of " + ", ".join(values), value)

    return check


def nullable(inner: Check) -> Check:
    """Return a check for null, or values that `inner` accepts."""

    def check(value: object) -> None:
        if value is not None:
            inner(value)

    return check


def listing(item: Check, least: int = 0) -> Check:
    """Return a check for lists of at least `least` values that each pass `item`."""

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
    """Return a check for objects whose keys pass `key` and whose values pass `item`."""

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
    """Return a check for objects with these fields; unknown fields are accepted."""
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
