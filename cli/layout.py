"""Lay text out for the width of a terminal, so that no word is broken.

Where text does not go to a terminal, its lines and tables stay as they are: scripts
read them by lines.
"""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Iterable, Sequence
from typing import TextIO

_GAP = 2  # spaces between columns
_NARROWEST = 12  # a column of text is not wrapped to less
# what stands before the text of a line: spaces, or a name in a column of its own
_PREFIX = re.compile(r" *(?:\S+(?: \S+)?  +)?")


def width_of(stream: TextIO | None) -> int | None:
    """Return the columns of the terminal behind a stream; None if it is no terminal."""
    try:
        is_terminal = stream is not None and stream.isatty()
    except ValueError:  # it is closed
        return None
    return shutil.get_terminal_size().columns if is_terminal else None


def wrap(text: str, width: int | None) -> str:
    """Wrap lines longer than `width` at word boundaries.

    What follows stands below the text of the line: after its indentation, or after the
    name at its beginning. A word that is longer than the width stays whole, and so does
    a line with colours.
    """
    if width is None:
        return text
    return "\n".join(_wrapped_line(line, width) for line in text.split("\n"))


def _wrapped_line(line: str, width: int) -> str:
    """Wrap one line, with a hanging indent behind its prefix; keep coloured lines."""
    if len(line) <= width or "\x1b" in line:
        return line
    prefix = _PREFIX.match(line)
    start = prefix[0] if prefix else ""
    hang = len(start) if start.strip() else len(start) + 2
    if width - hang < _NARROWEST:
        start, hang = "", 2
    lines = textwrap.wrap(
        line[len(start) :],
        width,
        initial_indent=start,
        subsequent_indent=" " * hang,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join(lines) or line


def _wrapped(text: str, width: int) -> list[str]:
    """Return the lines of a cell's text wrapped to `width`."""
    return textwrap.wrap(
        text, width, break_long_words=False, break_on_hyphens=False
    ) or [""]


def table(
    header: Sequence[str], rows: Iterable[Sequence[object]], width: int | None = None
) -> str:
    """Return an aligned text table, wrapped or as records to fit `width`.

    Args:
        header: names of the columns.
        rows: their cells.
        width: of the terminal. Cells of a wider table are wrapped between words; where
            not even its longest words fit side by side, each row is a list of names and
            values. None: lines may be of any length.
    """
    cells = [[str(cell) for cell in row] for row in rows]
    lines = [[*header], *cells]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    if width is not None and _total(widths) > width:
        least = [_least_width(column) for column in zip(*lines, strict=True)]
        if _total(least) > width:
            return "\n\n".join(_record(header, row, width) for row in cells)
        widths = _shrunk(widths, least, width)
    return "\n".join(line for row in lines for line in _row_lines(row, widths))


def _total(widths: Sequence[int]) -> int:
    """Return the total width of columns with the gaps between."""
    return sum(widths) + _GAP * (len(widths) - 1)


def _least_width(column: Iterable[str]) -> int:
    """Return the least width of a column: its longest word or 12, at most its full
    width.
    """
    column = list(column)
    natural = max(map(len, column))
    words = max((len(word) for cell in column for word in cell.split()), default=0)
    return min(natural, max(words, _NARROWEST))


def _shrunk(widths: list[int], least: Sequence[int], width: int) -> list[int]:
    """Reduce the widest columns until the table fits in `width`; return all widths."""
    widths = list(widths)
    while _total(widths) > width:
        spare = [w if w > low else 0 for w, low in zip(widths, least, strict=True)]
        widths[spare.index(max(spare))] -= 1
    return widths


def _row_lines(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    """Return the text lines of a row; several if a cell is wrapped."""
    columns = [
        [cell] if len(cell) <= size else _wrapped(cell, size)
        for cell, size in zip(row, widths, strict=True)
    ]
    height = max(map(len, columns), default=0)
    return [
        (" " * _GAP)
        .join(
            (column[at] if at < len(column) else "").ljust(size)
            for column, size in zip(columns, widths, strict=True)
        )
        .rstrip()
        for at in range(height)
    ]


def _record(header: Sequence[str], row: Sequence[str], width: int) -> str:
    """Return a row as lines of `name  value`, for terminals too narrow for a table.

    Cells without a value are left out, but the first, whose name may be a unit.
    """
    names = max(map(len, header)) + _GAP
    pairs = enumerate(zip(header, row, strict=True))
    lines = [f"{k:<{names}}{v}".rstrip() for at, (k, v) in pairs if v or not at]
    return wrap("\n".join(lines), width)
