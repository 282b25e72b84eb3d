"""Causes of the end of a child process, from its exit code."""

from __future__ import annotations

import signal


def exit_cause(code: int) -> str:
    """Return the cause of a process's end in words: "exit code 3", "SIGSEGV" or "signal
    35".

    Args:
        code: as `subprocess` and `multiprocessing` give it, negative for a signal.
            Python has no names for signals of the real-time range.
    """
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
