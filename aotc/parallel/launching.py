"""Start the ranks of a group on this machine, and see to it that they end together."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from types import FrameType
from typing import IO, Any

from aotc.parallel.shared_memory import describe_group

_GRACE = 30.0  # seconds that others get to end in order when a rank has failed
_POLL = 0.02


@dataclass(frozen=True)
class Ended:
    """The exit code of a rank's process, and its errors.

    Args:
        code: its exit code, negative for a signal.
        errors: what it wrote to standard error, if it was kept.
    """

    code: int
    errors: str = ""


def run_ranks(
    command: Sequence[str], count: int, *, answers: IO[Any] | None = None
) -> list[Ended]:
    """Run a command in `count` processes that form a group; return how each ended.

    Rank 0 has the standard streams of this process. The others write nothing to
    standard output, and what they write to standard error is kept. Signals that ask
    this process to end go to all ranks. When one has failed, the others are given time
    to end in order.

    Args:
        command: what to run; each process finds its rank in its environment.
        count: how many.
        answers: the standard output of rank 0, if it is not that of this process.
    """
    with ExitStack() as stack:
        logs = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(count)]
        first = {"stdout": answers}
        streams = [first, *({**_SILENT, "stderr": log} for log in logs[1:])]
        processes = _start(command, streams, stack)
        stack.enter_context(_Forwarding(processes))
        _wait(processes)
        return [
            Ended(process.returncode, _text(log))
            for process, log in zip(processes, logs, strict=True)
        ]


def _start(
    command: Sequence[str], streams: Sequence[Mapping[str, Any]], stack: ExitStack
) -> list[subprocess.Popen[bytes]]:
    """Start the rank processes, with sockets between each two and to this process.

    Args:
        command: what they run.
        streams: the standard streams of each.
        stack: keeps the sockets that say that this process lives, and ends the ranks.
    """
    count = len(streams)
    ours = [_pair() for _ in range(count)]
    for kept, _ in ours:
        stack.callback(kept.close)
    between = {(one, other): _pair() for other in range(count) for one in range(other)}
    given = [theirs for _, theirs in ours] + [
        x for pair in between.values() for x in pair
    ]
    processes: list[subprocess.Popen[bytes]] = []
    stack.callback(_end_all, processes)
    try:
        for rank in range(count):
            others = [
                between[min(rank, other), max(rank, other)][rank > other].fileno()
                for other in range(count)
                if other != rank
            ]
            starter = ours[rank][1].fileno()
            group = {"AOTC_GROUP": describe_group(rank, starter, others)}
            processes.append(
                subprocess.Popen(
                    command,
                    env={**os.environ, **group},
                    pass_fds=[starter, *others],
                    start_new_session=True,  # a terminal's Ctrl-C comes once, from here
                    **streams[rank],
                )
            )
    finally:
        for each in given:
            each.close()
    return processes


def _pair() -> tuple[socket.socket, socket.socket]:
    """Return a connected pair of Unix sockets that keep message bounds."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


_SILENT: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}


def _wait(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Wait until all processes end; kill those that outlive a failed one for long."""
    failed_at: float | None = None
    while any(each.poll() is None for each in processes):
        if failed_at is None and any(each.returncode for each in processes):
            failed_at = time.monotonic()
        if failed_at is not None and time.monotonic() - failed_at > _GRACE:
            _end_all(processes)
        time.sleep(_POLL)


def _end_all(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Kill all processes that still run, and wait for them."""
    for each in processes:
        if each.poll() is None:
            each.kill()
    for each in processes:
        each.wait()


def _text(log: IO[bytes]) -> str:
    """Return the contents of a log file as text."""
    log.seek(0)
    return log.read().decode(errors="replace")


class _Forwarding:
    """A context in which signals that end this process are forwarded to the ranks."""

    def __init__(self, processes: Sequence[subprocess.Popen[bytes]]) -> None:
        self._processes = processes
        self._before: dict[int, Any] = {}

    def __enter__(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._forward)

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _forward(self, number: int, frame: FrameType | None) -> None:
        """Send the received signal to all ranks."""
        for each in self._processes:
            if each.poll() is None:
                each.send_signal(number)
