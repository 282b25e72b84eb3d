"""`python -m aotc.checks.serve PARENT`: the other side of `process`.

Questions come pickled on standard input, first what to load; answers go pickled to
standard output. What the model itself writes goes to standard error. The process ends
when nobody asks any more.
"""

from __future__ import annotations

import os
import pickle
import sys
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, BinaryIO

from aotc.errors import AotcError
from aotc.worker.parent import end_with


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Load some code and make the calls that are asked for, until there are no more."""
    call = _answer(answers, lambda: pickle.load(requests).load())
    while call is not None:
        try:
            request = pickle.load(requests)
        except EOFError:
            return
        _answer(answers, partial(call, *request))


def _answer(answers: BinaryIO, compute: Callable[[], Any]) -> Any:
    """Send what is computed, or the error; returns it, or None."""
    found = None
    try:
        found = compute()
        message: tuple[str, Any] = "done", found if isinstance(found, tuple) else None
    except AotcError as error:
        facts = (error.code, error.message, error.where, error.hint)
        message = "error", (type(error), *facts)
    pickle.dump(message, answers)
    answers.flush()
    return found


def main() -> None:
    """Serve the process that the command line names."""
    end_with(int(sys.argv[1]))
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    warnings.simplefilter("ignore")
    serve(sys.stdin.buffer, answers)


if __name__ == "__main__":
    main()
