"""Python programs that are run to their end in a process of their own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from aotc.core import options


class RunningProcesses:
    """A set of running processes, to be killed together."""

    def __init__(self) -> None:
        self.processes: set[subprocess.Popen[bytes]] = set()
        self.is_stopped = False

    def stop(self) -> None:
        """Kill all processes in the set, and those that are added later."""
        self.is_stopped = True
        for process in tuple(self.processes):
            process.kill()

    @contextmanager
    def including(self, process: subprocess.Popen[bytes]) -> Iterator[None]:
        """Have the process in the set within the `with` block."""
        self.processes.add(process)
        if self.is_stopped:
            process.kill()
        try:
            yield
        finally:
            self.processes.discard(process)


@dataclass(frozen=True)
class Finished:
    """The exit code, output and log of a finished program.

    Args:
        code: its exit code, negative for a signal.
        output: its standard output.
        log: its standard error.
    """

    code: int
    output: bytes
    log: str


def run_python(
    *arguments: str,
    given: bytes = b"",
    environment: Mapping[str, str] | None = None,
    seconds: float | None = None,
    running: RunningProcesses | None = None,
) -> Finished:
    """Run a Python program to its end; return its exit code, output and log.

    Args:
        arguments: of the interpreter.
        given: standard input.
        environment: by default that of this process without secrets.
        seconds: that it may take at most.
        running: what may stop it.

    Raises:
        TimeoutError: it was ended, as it took longer.
    """
    # -P: the user's folder may hold a json.py
    command = [sys.executable, "-P", *arguments]
    own = options.child_environment() if environment is None else environment
    pipe = subprocess.PIPE
    with (
        subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=own) as it,
        (running or RunningProcesses()).including(it),
    ):
        try:
            output, log = it.communicate(given, seconds)
        except subprocess.TimeoutExpired as late:
            raise TimeoutError(f"it took more than {late.timeout:.0f} s") from None
        finally:
            it.kill()  # unless it has ended
    return Finished(it.returncode, output, log.decode(errors="replace"))
