"""Messages between `replay` and `serve`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aotc.artifacts.manifest import Leaf
from aotc.evidence.requests import RequestSequence
from aotc.timing.messages import TimedBundle


@dataclass(frozen=True)
class ReplayOrder:
    """A message to a child process: the player to load and the calls to replay.

    Args:
        player: what makes the calls, out of `aotc.evidence.serve.PLAYERS`.
        subject: what to load, without inputs.
        requests: the calls.
        seed: of random inputs.
        inputs: of the entry, for a peer, whose file does not have them.
    """

    player: str
    subject: TimedBundle
    requests: RequestSequence
    seed: int
    inputs: tuple[Leaf, ...] = ()


@dataclass(frozen=True)
class OutputsOf:
    """A message that asks for the outputs of one call, from the initial states.

    Args:
        place: of the sizes in those of the requests.
    """

    place: int


# by name, which is empty where there is none, in their order
Outputs = tuple[tuple[str, np.ndarray], ...]


@dataclass(frozen=True)
class LoadedContender:
    """A message with the facts of a loaded model, and the time and memory of loading.

    Args:
        title: name, version and identity.
        variant: that runs here.
        threads: that compute; None where no processor does.
        codes: how many codes calls can have; None if that shows in calls only.
        dispatches: of all of them; None if that is not known.
        artifact_bytes: on the disk.
        load_ns: what loading took.
        memory: before it.
        warnings: of loading.
        partitions: compiled functions that a call goes through, one after the other;
            None if that is not known.
        islands: what Python computes between regions of the hybrid program that a
            bundle belongs to; it is no part of a replay.
    """

    title: str
    variant: str
    threads: int | None
    codes: int | None
    dispatches: int | None
    artifact_bytes: int
    load_ns: int
    memory: int | None
    warnings: tuple[str, ...]
    partitions: int | None = None
    islands: int = 0


# How calls are computed.
OWN, PADDED, ANY, ROUTED, EAGER, REFUSED = PATHS = (
    "own", "padded", "any", "routed", "eager", "refused",
)  # fmt: skip
FALLBACKS = (ROUTED, EAGER)  # not by compiled code of the entry


@dataclass(frozen=True)
class Way:
    """The kind of code that computes calls of certain sizes, and the padding it adds.

    Args:
        path: by code for just these sizes, padded to those of other code, by code for
            any sizes, by another entry, op by op, or not at all: one of `PATHS`.
        code: that computes them; empty if none does.
        elements: of all inputs, as they are given.
        added: elements that padding adds to them.
    """

    path: str
    code: str
    elements: int
    added: int = 0


@dataclass(frozen=True)
class Replayed:
    """The times and computation paths of one replay of all calls.

    Args:
        times: nanoseconds of each call, in their order; None if it was refused.
        ways: of distinct sizes.
        compiles: how many calls waited for a compiler.
        peak_memory: bytes that the process had at most so far.
    """

    times: tuple[int | None, ...]
    ways: tuple[Way, ...]
    compiles: int
    peak_memory: int | None
