"""`python -m aotc.checks.serve PARENT`: the other side of `process`.

Questions come on standard input, first what to load; answers go to standard output.
What the model itself writes goes to standard error. The process ends when nobody asks
any more.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any, BinaryIO

from aotc.errors import AotcError
from aotc.errors.system import system_errors
from aotc.worker.messages import receive, send
from aotc.worker.parent import end_with


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Load some code and make the calls that are asked for, until there are no more."""
    call = _answer(answers, lambda: receive(requests).load())
    if call is None:
        return
    with suppress(EOFError):  # nobody asks any more
        while True:
            _answer(answers, lambda: call(*receive(requests)))


def _answer(answers: BinaryIO, compute: Callable[[], Any]) -> Any:
    """Compute and send the result, or the error; return the result, or None."""
    try:
        with system_errors():  # also of receiving and sending
            found = compute()
            send(answers, ("done", found if isinstance(found, tuple) else None))
            return found
    except AotcError as error:
        facts = (error.code, error.message, error.where, error.hint)
        send(answers, ("error", (type(error), *facts)))
        return None


def main() -> None:
    """Serve the process that the command line names."""
    end_with(int(sys.argv[1]))
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    warnings.simplefilter("ignore")
    serve(sys.stdin.buffer, answers)


if __name__ == "__main__":
    main()
