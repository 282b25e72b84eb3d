"""Replays of the same calls on all contenders, in rounds that take turns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from aotc.errors import AotcError, InputError
from aotc.evidence.contenders import Contender
from aotc.evidence.messages import LoadedContender, OutputsOf, Replayed, ReplayOrder
from aotc.evidence.peers.agreement import Agreement, require_agreement
from aotc.evidence.queueing import Times
from aotc.evidence.requests import RequestSequence
from aotc.timing.process import Server

_LEAST_ROUNDS, _MOST_ROUNDS = 3, 50
_PLAY = "play"


@dataclass(frozen=True)
class ReplayMeasurement:
    """All replays of one contender, cold and warm.

    Args:
        contender: that made the calls.
        loaded: what loading it cost.
        cold: the first replay of the process.
        rounds: those after it.
        agreement: of a peer with the first contender of aotc.
    """

    contender: Contender
    loaded: LoadedContender
    cold: Replayed
    rounds: tuple[Replayed, ...]
    agreement: Agreement | None = None

    @property
    def recompiles(self) -> tuple[int, int]:
        """Counts of calls that waited for a compiler: in the first replay, in later
        ones.

        The first one of the process is not counted.
        """
        cold, warm = self.cold.compiles, sum(each.compiles for each in self.rounds)
        return (cold - 1, warm) if cold else (0, max(warm - 1, 0))

    @property
    def medians(self) -> Times:
        """Median milliseconds over the warm rounds of each call that was not refused.

        What disturbs one round alone is not in it.
        """
        return np.median(self._times, axis=0)

    @property
    def minima(self) -> Times:
        """Least milliseconds over the warm rounds of each call that was not refused."""
        found: Times = self._times.min(axis=0, initial=np.inf)
        return found

    @property
    def _times(self) -> Times:
        """The milliseconds of all warm calls, as [round, call]."""
        rows = [
            [time / 1e6 for time in each.times if time is not None]
            for each in self.rounds
        ]
        return np.array(rows, np.float64)


def measure(
    contenders: Sequence[Contender],
    requests: RequestSequence,
    seed: int,
    seconds: float,
    *,
    may_leave_out: bool = False,
    begin: Callable[[str], None] = lambda _: None,
) -> tuple[list[ReplayMeasurement], tuple[str, ...]]:
    """Replay all calls on each contender in its own process; return the measurements.

    The first replay begins with the first call of the process. The rounds after it take
    turns, every other one backwards, so that none is always the one that follows
    another.

    Args:
        contenders: at least one.
        requests: the calls.
        seed: of random inputs.
        seconds: how long the rounds of each may take, of which there are 3 to 50.
        may_leave_out: go on without contenders whose first replay fails, if there are
            others. Peers are not left out.
        begin: is told what comes next, while nothing is measured.

    Returns:
        What was measured, and why contenders were left out.

    Raises:
        AotcError: as the loader and the calls raise it.
        InputError: `peer-failed`; `peer-mismatch` or `peer-differs`: a peer does not
            compute what the first contender of aotc does.
    """
    with ExitStack() as stack:
        started: list[_Started] = []
        errors: dict[str, AotcError] = {}
        for each in contenders:
            begin(f"first replay of {each.name}")
            try:
                started.append(_start(stack, each, requests, seed))
            except AotcError as error:
                if each.is_peer or not may_leave_out:
                    raise
                errors[each.name] = error
        if not started:
            raise next(iter(errors.values()))
        started = _with_agreement(started, requests)
        rounds = _take_turns(started, seconds, begin)
        measured = [
            ReplayMeasurement(
                each.contender,
                each.server.loaded,
                each.cold,
                tuple(played),
                each.agreement,
            )
            for each, played in zip(started, rounds, strict=True)
        ]
    notes = (f"{name} is left out: {x.message}" for name, x in errors.items())
    return measured, tuple(notes)


@dataclass(frozen=True)
class _Started:
    """A contender in its running child process, after the first replay."""

    contender: Contender
    server: Server
    cold: Replayed
    agreement: Agreement | None = None

    def ask(self, question: object) -> Any:
        """Send a question to the contender's process and return the answer."""
        with _peer_deaths(self.contender):
            return self.server.ask(question)


def _start(
    stack: ExitStack, contender: Contender, requests: RequestSequence, seed: int
) -> _Started:
    """Start a contender's process and make its first replay; return both as
    `_Started`.
    """
    subject = contender.subject
    order = ReplayOrder(contender.player, subject, requests, seed, contender.inputs)
    with _peer_deaths(contender):
        server = stack.enter_context(Server(subject, order, "aotc.evidence.serve"))
        return _Started(contender, server, server.ask(_PLAY))


@contextmanager
def _peer_deaths(contender: Contender) -> Iterator[None]:
    """Turn the death of a peer's process into an error that names the peer."""
    try:
        yield
    except AotcError as error:
        if not contender.is_peer or error.code != "compiled-code-died":
            raise
        raise InputError(
            "peer-failed",
            f"{contender.name}: {error.message}",
            where=contender.subject.bundle,
            hint=f"leave {contender.name} out of --against",
        ) from error


def _with_agreement(
    started: Sequence[_Started], requests: RequestSequence
) -> list[_Started]:
    """Compare each peer's outputs with aotc's; return the contenders with the
    agreement.

    Their outputs are those of the first call that this one serves.
    """
    peers = [each for each in started if each.contender.is_peer]
    if not peers:
        return [*started]
    first = next(each for each in started if not each.contender.is_peer)
    calls = zip(requests.order, first.cold.times, strict=True)
    place = next((place for place, time in calls if time is not None), None)
    if place is None:
        raise InputError(
            "peer-mismatch",
            f"expected a call that {first.contender.name} serves, to compare "
            f"{peers[0].contender.name} with; it refuses all of the traffic",
            hint="name another execution model first, such as dynamic",
        )
    expected = first.ask(OutputsOf(place))
    return [
        replace(
            each,
            agreement=require_agreement(
                each.contender.name,
                each.ask(OutputsOf(place)),
                first.contender.name,
                expected,
            ),
        )
        if each.contender.is_peer
        else each
        for each in started
    ]


def _take_turns(
    started: Sequence[_Started], seconds: float, begin: Callable[[str], None]
) -> list[list[Replayed]]:
    """Replay warm rounds on all contenders in turns; return each one's rounds."""
    begin("first round")
    found: list[list[Replayed]] = [[each.ask(_PLAY)] for each in started]
    turn = list(range(len(started)))
    count = _round_count([rounds[0] for rounds in found], seconds)
    for turn_number in range(2, count + 1):
        begin(f"round {turn_number} of {count}")
        turn.reverse()
        for number in turn:
            found[number].append(started[number].ask(_PLAY))
    return found


def _round_count(played: Sequence[Replayed], seconds: float) -> int:
    """Return how many rounds of the slowest contender fit into `seconds`, within
    limits.
    """
    slowest = max(sum(time or 0 for time in each.times) for each in played)
    fitting = int(seconds * 1e9 / max(slowest, 1))
    return min(max(fitting, _LEAST_ROUNDS), _MOST_ROUNDS)
