"""Sizes for symbols on the command line: `--sizes batch=4,length=128`."""

from __future__ import annotations

from collections.abc import Iterable

from aotc.errors import InputError


def read_sizes(text: str | None, option: str = "--sizes") -> dict[str, int]:
    """Parse sizes by symbol name from a text such as ``batch=4,length=128``.

    Args:
        text: None for none.
        option: that it was given with, for messages.

    Raises:
        InputError: `bad-option` or `bad-size`.
    """
    found: dict[str, int] = {}
    for part in text.split(",") if text else ():
        name, value = split_assignment(part, f"{option} batch=4")
        if name in found:
            raise InputError("bad-option", f"the size {name!r} is given twice")
        found[name] = _number(name, value)
    return found


def assignments_by_name(texts: Iterable[str], example: str) -> dict[str, str]:
    """Parse comma-separated assignments, such as ``length=bucket,batch=error``, to a
    dict.

    Args:
        texts: with commas between pairs.
        example: of the option, for messages.

    Raises:
        InputError: `bad-option`.
    """
    found: dict[str, str] = {}
    for part in (part for text in texts for part in text.split(",")):
        name, value = split_assignment(part, example)
        if found.setdefault(name, value) != value:
            raise InputError(
                "bad-option", f"the policy of {name!r} is given twice", hint=example
            )
    return found


def split_assignment(text: str, example: str) -> tuple[str, str]:
    """Split ``NAME=VALUE`` into both sides; raise if it has another form.

    Raises:
        InputError: `bad-option`.
    """
    name, equals, value = text.partition("=")
    if not equals:
        raise InputError(
            "bad-option", f"expected NAME=VALUE, got {text!r}", hint=example
        )
    return name.strip(), value.strip()


def _number(name: str, text: str) -> int:
    """Parse a non-negative whole number of ASCII digits."""
    # Not isdigit alone, which takes "²" and Arabic digits; and 18 digits are enough.
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise InputError(
            "bad-size", f"expected a whole number for {name}, got {text[:60]!r}"
        )
    return int(text)
