"""Messages between `process` and `serve`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class TimedBundle:
    """A bundle to load and an entry to time, with its inputs and how to load it.

    Args:
        bundle: its path.
        entry: the name of the entry.
        inputs: an array for each input, by name.
        given: the names of those that are not random.
        keys: files of the public keys to trust; none for the user's development key.
        allow_unsigned: as `aotc.load` takes it, like the three that follow.
        threads: see there.
        target: see there.
        fallback: see there.
        states: a file of states to begin with.
    """

    bundle: str
    entry: str
    inputs: Mapping[str, Any] = field(default_factory=dict)
    given: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    allow_unsigned: bool = False
    threads: int | None = None
    target: str | None = None
    fallback: bool = True
    states: str | None = None


@dataclass(frozen=True)
class Budget:
    """The end of a round of calls: after at least so many calls and seconds."""

    calls: int = 1
    seconds: float = 0.0


@dataclass(frozen=True)
class LoadedBundle:
    """A loaded bundle: its facts, and the time and memory of loading and the first
    call.
    """

    name: str
    version: str
    digest: str
    compiler: str
    runtime: str
    variant: str
    threads: int | None
    fallback: bool
    states: tuple[str, ...]
    load_ns: int
    first_call_ns: int
    memory_before_load: int | None
    memory_after_load: int | None
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class Round:
    """A round of calls: the nanoseconds of each, and what the process used.

    `page_faults` are pages that it took from the system without reading a disk.
    """

    times: list[int]
    wall_ns: int
    processor_ns: int
    page_faults: int
    memory: int | None
    peak_memory: int | None
