"""Errors and warnings as annotations of GitHub Actions, at the lines they are about.

Workflow commands, printed on standard output:
https://docs.github.com/actions/reference/workflows-and-actions/workflow-commands
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from aotc.cli import output

if TYPE_CHECKING:
    from aotc.errors import AotcError

_LINE = re.compile(r"(?P<file>[^:\s]+):(?P<line>[0-9]+)\b")
_WHERE = re.compile(r"(?P<file>[^:\s][^:]*):(?P<line>[0-9]+)\b")


def of_error(error: AotcError, arguments: Sequence[str]) -> str:
    """Return the GitHub annotation (`::error …`) for an error, with its hint."""
    lines = [error.message, f"hint: {error.hint}" if error.hint else ""]
    text = "\n".join(filter(None, lines))
    place = _WHERE.match(error.where or "")
    return _annotation("error", error.code, place, text, arguments)


def of_warning(message: str, arguments: Sequence[str]) -> str:
    """Return the GitHub annotation (`::warning …`) for a warning, at the line it
    names.
    """
    return _annotation("warning", "aotc", _LINE.search(message), message, arguments)


def _annotation(
    level: str,
    title: str,
    place: re.Match[str] | None,
    text: str,
    arguments: Sequence[str],
) -> str:
    """Return a GitHub workflow command with title, place and escaped text."""
    properties = {"title": title}
    if place and (file := _path(place["file"], arguments)):
        properties = {"file": file, "line": place["line"], **properties}
    said = ",".join(f"{key}={_property(value)}" for key, value in properties.items())
    return f"::{level} {said}::{_data(output.escape_control_characters(text))}"


def _path(name: str, arguments: Sequence[str]) -> str | None:
    """Find a source file here, or beside the files that the arguments name; None if it
    is nowhere.
    """
    folders = (Path(argument.partition(":")[0]).parent for argument in arguments)
    paths = (Path(name), *(folder / name for folder in folders))
    return next((str(path) for path in paths if path.is_file()), None)


def _data(text: str) -> str:
    """Escape the text of a workflow command."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    """Escape a property value of a workflow command."""
    plain = _data(output.escape_control_characters(text))
    return plain.replace(":", "%3A").replace(",", "%2C")
