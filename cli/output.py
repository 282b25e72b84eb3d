"""Answers on standard output: text for people or one JSON document for scripts."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from typing import TextIO

import click

from aotc.cli import layout
from aotc.errors.redaction import redact
from aotc.errors.system import cannot_write

# where answers go while standard output is reserved for them; None for sys.stdout
_answers: TextIO | None = None

_STDOUT, _STDERR = 1, 2  # file descriptors


def emit(document: Mapping[str, object], text: str, form: str) -> None:
    """Print an answer to standard output: `document` as JSON, or `text`, by `form`."""
    print_form(text_of(document, text, form), form)


def print_form(answer: str, form: str) -> None:
    """Print an answer in its form; text is wrapped to a terminal."""
    print_answer(layout.wrap(answer, _width()) if form == "text" else answer)


def text_of(document: Mapping[str, object], text: str, form: str) -> str:
    """Return what `emit` prints: `document` as JSON, or escaped `text`, by `form`."""
    return (
        json.dumps(document, indent=2)
        if form == "json"
        else escape_control_characters(text)
    )


def quantity(number: int, one: str, many: str = "") -> str:
    """Format a count with its noun: `1 step`, `2 steps`.

    Args:
        number: of things.
        one: the noun for one of them.
        many: for several, where that is not `one` and an s.
    """
    return f"{number} {one if number == 1 else many or one + 's'}"


def print_answer(text: str | bytes, *, nl: bool = True) -> None:
    """Print text on the real standard output, and flush it."""
    with _reporting_write_errors(_answers or sys.stdout):
        shown = redact(text) if isinstance(text, str) else text
        click.echo(shown, nl=nl, file=_answers)


@contextmanager
def reserved_for_answers() -> Iterator[None]:
    """Send all other output of the block to standard error.

    What a model or a library prints meanwhile, to Python's stream or to the file
    descriptor, goes to standard error: the answer may be a document for a script.
    """
    global _answers
    if sys.stdout is None or sys.stderr is None:  # closed by whoever started us
        yield
        return
    sys.stdout.flush()
    with _kept_descriptor() as kept:
        before, _answers = _answers, _answer_stream(kept)
        try:
            with redirect_stdout(sys.stderr):
                yield
        finally:
            _flush_c_streams()  # into standard error, before the descriptor is back
            answers, _answers = _answers, before
            with _reporting_write_errors(answers):
                answers.flush()


def answers() -> TextIO:
    """Return the text stream that answers are written to."""
    return _answers or sys.stdout


@contextmanager
def _kept_descriptor() -> Iterator[int]:
    """Redirect descriptor 1 to 2 within the block; yield a copy of the original."""
    kept = os.dup(_STDOUT)
    os.dup2(_STDERR, _STDOUT)
    try:
        yield kept
    finally:
        os.dup2(kept, _STDOUT)
        os.close(kept)


def _answer_stream(kept: int) -> TextIO:
    """Return the text stream for answers: to the descriptor `kept`, if stdout is
    descriptor 1.
    """
    stream = sys.stdout
    try:
        if stream.fileno() != _STDOUT:
            return stream
    except io.UnsupportedOperation:
        return stream
    return open(
        kept, "w", encoding=stream.encoding, errors=stream.errors, closefd=False
    )


@contextmanager
def _reporting_write_errors(stream: TextIO) -> Iterator[None]:
    """Convert failed writes of the block, as on a full disk, to `cannot-write`."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        discard(stream)
        raise cannot_write("standard output", error, "the answer") from error


def discard(stream: TextIO) -> None:
    """Drop the buffered text of an unwritable stream, and redirect it to nowhere.

    Python would write it at its end, fail once more, and print a traceback.
    """
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        stream.flush()


def _flush_c_streams() -> None:
    """Flush what C code has printed into the buffers of the C library."""
    import ctypes

    ctypes.CDLL(None).fflush(None)


def escape_control_characters(text: str) -> str:
    """Return `text` with control characters as visible escapes.

    Text from a stranger's bundle could otherwise command the terminal.
    """
    return "\n".join(
        line if line.isprintable() else "".join(map(_spell_out, line))
        for line in text.split("\n")
    )


def _spell_out(char: str) -> str:
    """Return a character, or its escape if it is not printable."""
    return char if char.isprintable() or char == "\t" else ascii(char)[1:-1]


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return an aligned text table, wrapped to the terminal that answers go to."""
    return layout.table(header, rows, _width())


def _width() -> int | None:
    """Return the columns of the terminal that answers go to; None if it is no
    terminal.
    """
    return layout.width_of(_answers or sys.stdout)


def size(count: int) -> str:
    """Format a number of bytes for people, such as ``1.5 MiB``."""
    amount = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024 or unit == "GiB":
            break
        amount /= 1024
    return f"{count} B" if unit == "B" else f"{amount:.1f} {unit}"
