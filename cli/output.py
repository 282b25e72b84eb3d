"""Answers on standard output: text for people or one JSON document for scripts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click


def emit(document: Mapping[str, Any], text: str, form: str) -> None:
    """Print an answer: `document` if `form` is ``json``, else `text`."""
    click.echo(json.dumps(document, indent=2) if form == "json" else printable(text))


def printable(text: str) -> str:
    """`text` with control characters spelled out.

    Text from a stranger's bundle could otherwise command the terminal.
    """
    return "".join(
        char if char.isprintable() or char in "\n\t" else ascii(char)[1:-1]
        for char in text
    )


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Columns of text under a header, padded with spaces."""
    lines = [[str(cell) for cell in row] for row in (header, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) for cell, width in zip(line, widths, strict=True)
        ).rstrip()
        for line in lines
    )


def size(count: int) -> str:
    """A number of bytes for people, such as ``1.5 MiB``."""
    amount = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024 or unit == "GiB":
            break
        amount /= 1024
    return f"{count} B" if unit == "B" else f"{amount:.1f} {unit}"
