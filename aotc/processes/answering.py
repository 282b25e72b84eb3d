"""The side of a child that answers the questions of `asking`.

Questions come on standard input, answers go to standard output. What other code writes
there goes to standard error.
"""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import BinaryIO, TypeVar

from aotc.errors import AotcError
from aotc.errors.system import translate_system_errors
from aotc.processes.messages import receive, send
from aotc.worker.parent import end_with

T = TypeVar("T")
Q = TypeVar("Q")


def answer_parent(
    load: Callable[[Q], T],
    facts: Callable[[T], object],
    compute: Callable[[T, Q], object],
    work_ahead: Callable[[T], bool] = lambda loaded: False,
) -> None:
    """Answer questions of the parent process on standard input until that is closed.

    Args:
        load: makes what answers, from the first question.
        facts: the answer to that one.
        compute: the answer to any other.
        work_ahead: does a part of the work that later questions may ask for, while none
            waits; returns whether there is more of it.
    """
    end_with(int(sys.argv[1]))
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    loaded = _answer(answers, lambda: load(receive(requests)), facts)
    if loaded is None:
        return
    with suppress(EOFError):  # nobody asks any more
        while True:
            while not _has_question(requests) and work_ahead(loaded):
                pass
            _answer(answers, lambda: compute(loaded, receive(requests)), lambda x: x)


def _has_question(requests: BinaryIO) -> bool:
    """Return whether a question waits, or the end of all: none is read in part."""
    return bool(select.select([requests], [], [], 0)[0])


def _answer(
    answers: BinaryIO, compute: Callable[[], T], facts: Callable[[T], object]
) -> T | None:
    """Compute a value and send facts on it, or the error; return the value, or None."""
    try:
        with translate_system_errors():  # also of receiving and sending
            found = compute()
            send(answers, ("done", facts(found)))
            return found
    except AotcError as error:
        said = (error.code, error.message, error.where, error.hint)
        send(answers, ("error", (type(error), *said)))
        return None
