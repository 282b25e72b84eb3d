"""Errors and warnings as annotations of GitHub Actions, at the lines they are about.

Workflow commands, printed on standard output:
https://docs.github.com/actions/reference/workflows-and-actions/workflow-commands
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from aotc.cli import output

if TYPE_CHECKING:
    from aotc.errors import AotcError

_LINE = re.compile(r"(?P<file>[^:\s][^:]*):(?P<line>[0-9]+)\b")


def of_error(error: AotcError) -> str:
    """The annotation of an error, with its hint."""
    lines = [error.message, f"hint: {error.hint}" if error.hint else ""]
    return _annotation("error", error.code, error.where, "\n".join(filter(None, lines)))


def of_warning(message: str) -> str:
    """The annotation of a warning, whose line may stand in it."""
    return _annotation("warning", "aotc", message, message)


def _annotation(kind: str, title: str, place: str | None, text: str) -> str:
    found = _LINE.search(place or "")
    properties = {"title": title}
    if found:
        properties = {"file": found["file"], "line": found["line"], **properties}
    said = ",".join(f"{key}={_property(value)}" for key, value in properties.items())
    return f"::{kind} {said}::{_data(output.printable(text))}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    plain = _data(output.printable(text))
    return plain.replace(":", "%3A").replace(",", "%2C")
