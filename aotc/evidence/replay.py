"""Replays of the same calls on all contenders, in rounds that take turns."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np

from aotc.errors import AotcError
from aotc.evidence.contenders import Contender
from aotc.evidence.messages import Loaded, Order, Replayed
from aotc.evidence.queueing import Times
from aotc.evidence.requests import Requests
from aotc.timing.process import Server

_LEAST_ROUNDS, _MOST_ROUNDS = 3, 50


@dataclass(frozen=True)
class Measurement:
    """The replays of one contender.

    Args:
        contender: that made the calls.
        loaded: what loading it cost.
        cold: the first replay of the process.
        rounds: those after it.
    """

    contender: Contender
    loaded: Loaded
    cold: Replayed
    rounds: tuple[Replayed, ...]

    @property
    def recompiles(self) -> tuple[int, int]:
        """Calls that waited for a compiler: in the first replay, and in all others.

        The first one of the process is not counted.
        """
        cold, warm = self.cold.compiles, sum(each.compiles for each in self.rounds)
        return (cold - 1, warm) if cold else (0, max(warm - 1, 0))

    @property
    def medians(self) -> Times:
        """Milliseconds of each call that was not refused, its median over the rounds.

        What disturbs one round alone is not in it.
        """
        return np.median(self._times, axis=0)

    @property
    def minima(self) -> Times:
        """The same by its quickest round."""
        found: Times = self._times.min(axis=0, initial=np.inf)
        return found

    @property
    def _times(self) -> Times:
        """By round and call."""
        rows = [
            [time / 1e6 for time in each.times if time is not None]
            for each in self.rounds
        ]
        return np.array(rows, np.float64)


def measure(
    contenders: Sequence[Contender],
    requests: Requests,
    seed: int,
    seconds: float,
    *,
    may_leave_out: bool = False,
) -> tuple[list[Measurement], tuple[str, ...]]:
    """Replay all calls on each contender, in a process of its own.

    The first replay begins with the first call of the process. The rounds after it take
    turns, every other one backwards, so that none is always the one that follows
    another.

    Args:
        contenders: at least one.
        requests: the calls.
        seed: of random inputs.
        seconds: how long the rounds of each may take, of which there are 3 to 50.
        may_leave_out: go on without contenders whose first replay fails, if there are
            others.

    Returns:
        What was measured, and why contenders were left out.

    Raises:
        AotcError: as the loader and the calls raise it.
    """
    with ExitStack() as stack:
        started: list[_Started] = []
        errors: dict[str, AotcError] = {}
        for each in contenders:
            try:
                started.append(_start(stack, each, requests, seed))
            except AotcError as error:
                if not may_leave_out:
                    raise
                errors[each.name] = error
        if not started:
            raise next(iter(errors.values()))
        rounds = _take_turns([each.server for each in started], seconds)
        measured = [
            Measurement(each.contender, each.server.loaded, each.cold, tuple(played))
            for each, played in zip(started, rounds, strict=True)
        ]
    notes = (f"{name} is left out: {x.message}" for name, x in errors.items())
    return measured, tuple(notes)


@dataclass(frozen=True)
class _Started:
    """A contender that has made its first replay."""

    contender: Contender
    server: Server
    cold: Replayed


def _start(
    stack: ExitStack, contender: Contender, requests: Requests, seed: int
) -> _Started:
    order = Order(contender.player, contender.subject, requests, seed)
    server = stack.enter_context(
        Server(contender.subject, order, "aotc.evidence.serve")
    )
    return _Started(contender, server, _play(server))


def _take_turns(servers: Sequence[Server], seconds: float) -> list[list[Replayed]]:
    """The rounds of each."""
    found = [[_play(server)] for server in servers]
    turn = list(range(len(servers)))
    for _ in range(_round_count([rounds[0] for rounds in found], seconds) - 1):
        turn.reverse()
        for number in turn:
            found[number].append(_play(servers[number]))
    return found


def _play(server: Server) -> Replayed:
    played: Replayed = server.ask("play")
    return played


def _round_count(played: Sequence[Replayed], seconds: float) -> int:
    """How many replays of the slowest contender fit into a time."""
    slowest = max(sum(time or 0 for time in each.times) for each in played)
    fitting = int(seconds * 1e9 / max(slowest, 1))
    return min(max(fitting, _LEAST_ROUNDS), _MOST_ROUNDS)
