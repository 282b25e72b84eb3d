"""`python -m aotc.checks.serve BUNDLE TARGET PARENT`: the other side of `process`.

Answers are pickled to standard output. What the model itself writes goes to standard
error. The process ends when nobody asks any more.
"""

from __future__ import annotations

import os
import pickle
import sys
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, BinaryIO

from aotc.errors import AotcError
from aotc.pytree import flatten
from aotc.runtime import Model, load
from aotc.worker.parent import end_with


def serve(bundle: str, target: str, requests: BinaryIO, answers: BinaryIO) -> None:
    """Load a bundle and make the calls that are asked for, until there are no more."""
    model = _answer(answers, lambda: load(bundle, allow_unsigned=True, target=target))
    if model is None:
        return
    while True:
        try:
            request = pickle.load(requests)
        except EOFError:
            return
        _answer(answers, partial(_call, model, *request))


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


def _call(
    model: Model,
    entry: str,
    arrays: list[Any],
    before: Mapping[str, list[Any]],
    after: list[str],
) -> tuple[list[Any], list[Any]]:
    for name, leaves in before.items():
        _, tree = flatten(model.read_state(name))
        model.write_state(tree.unflatten(leaves), name)
    outputs = model.entry(entry).call_flat(arrays)
    states = [leaf for name in after for leaf in flatten(model.read_state(name))[0]]
    return list(outputs), states


def main() -> None:
    """Serve the bundle and the variant that the command line names."""
    end_with(int(sys.argv[3]))
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    warnings.simplefilter("ignore")
    serve(sys.argv[1], sys.argv[2], sys.stdin.buffer, answers)


if __name__ == "__main__":
    main()
