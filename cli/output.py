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
    """Print an answer: `document` if `form` is ``json``, else `text`."""
    print_form(text_of(document, text, form), form)


def print_form(answer: str, form: str) -> None:
    """Print an answer; a terminal shows the form ``text`` without broken words."""
    print_answer(layout.wrap(answer, _width()) if form == "text" else answer)


def text_of(document: Mapping[str, object], text: str, form: str) -> str:
    """Return the text that `emit` prints."""
    return (
        json.dumps(document, indent=2)
        if form == "json"
        else escape_control_characters(text)
    )


def quantity(number: int, one: str, many: str = "") -> str:
    """Return a number with its noun: `1 step`, `2 steps`.

    Args:
        number: of things.
        one: the noun for one of them.
        many: for several, where that is not `one` and an s.
    """
    return f"{number} {one if number == 1 else many or one + 's'}"


def print_answer(text: str | bytes, *, nl: bool = True) -> None:
    """Print text on standard output at once, which nothing but answers reaches."""
    with _reporting_write_errors(_answers or sys.stdout):
        shown = redact(text) if isinstance(text, str) else text
        click.echo(shown, nl=nl, file=_answers)


@contextmanager
def reserved_for_answers() -> Iterator[None]:
    """Reserve standard output for `print_answer` within this block.

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
    """Return the stream that answers go to."""
    return _answers or sys.stdout


@contextmanager
def _kept_descriptor() -> Iterator[int]:
    """Redirect standard output to standard error within this block; yield a copy."""
    kept = os.dup(_STDOUT)
    os.dup2(_STDERR, _STDOUT)
    try:
        yield kept
    finally:
        os.dup2(kept, _STDOUT)
        os.close(kept)


def _answer_stream(kept: int) -> TextIO:
    """A stream like `sys.stdout`, which for a test may be no file."""
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
    """Raise `cannot-write` for failed writes of this block, such as on a full disk."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        discard(stream)
        raise cannot_write("standard output", error, "the answer") from error


def discard(stream: TextIO) -> None:
    """Redirect an unwritable stream to nowhere, with its buffered text.

    Python would write it at its end, fail once more, and print a traceback.
    """
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        stream.flush()


def _flush_c_streams() -> None:
    """Flush the output that C code has printed and its library still buffers."""
    import ctypes

    ctypes.CDLL(None).fflush(None)


def escape_control_characters(text: str) -> str:
    """`text` with control characters spelled out.

    Text from a stranger's bundle could otherwise command the terminal.
    """
    return "\n".join(
        line if line.isprintable() else "".join(map(_spell_out, line))
        for line in text.split("\n")
    )


def _spell_out(char: str) -> str:
    return char if char.isprintable() or char == "\t" else ascii(char)[1:-1]


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return columns of text under a header, laid out for where answers go."""
    return layout.table(header, rows, _width())


def _width() -> int | None:
    """The columns of the terminal that answers go to; None where they go elsewhere."""
    return layout.width_of(_answers or sys.stdout)


def size(count: int) -> str:
    """A number of bytes for people, such as ``1.5 MiB``."""
    amount = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024 or unit == "GiB":
            break
        amount /= 1024
    return f"{count} B" if unit == "B" else f"{amount:.1f} {unit}"
