"""`python -m aotc.checks.serve PARENT`: the other side of `process`.

The first question is what to load, the others are calls.
"""

from __future__ import annotations

import warnings
from typing import Any

from aotc.checks.compiled import Arrays, Call, Loadable
from aotc.processes.answering import answer_parent


def _load(code: Loadable) -> Call:
    """Load code; return the function that makes calls."""
    return code.load()


def _call(call: Call, arguments: tuple[Any, ...]) -> tuple[Arrays, Arrays]:
    """Make the call that the parent process asked for; return outputs and states."""
    return call(*arguments)


def main() -> None:
    """Answer calls for the parent process that the command line names."""
    warnings.simplefilter("ignore")
    answer_parent(_load, lambda call: None, _call)


if __name__ == "__main__":
    main()
