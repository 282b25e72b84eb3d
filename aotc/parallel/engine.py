"""The interface of engines, which move arrays between ranks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

import numpy as np

from aotc.errors import InputError, SetupError

Array = np.ndarray
Arrays = Sequence[Array]


class Engine(Protocol):
    """Protocol of a transport that exchanges arrays between the ranks of a group.

    `rank` is the number of this process among `size`, from 0.
    """

    name: str
    rank: int
    size: int

    def exchange(
        self, what: str, arrays: Arrays
    ) -> AbstractContextManager[list[list[Array]]]:
        """Send arrays to all ranks; wait for and return the arrays of each rank.

        Args:
            what: what they are for; all ranks must say the same.
            arrays: C-contiguous, and as many as each other rank gives.

        Returns:
            The arrays of each rank, which are there within the block and read-only.

        Raises:
            SetupError: `rank-lost`.
            InputError: `devices-diverge`.
        """
        ...

    def lost_ranks(self) -> set[int]:
        """Return the ranks whose processes are known to have ended."""
        ...

    def close(self) -> None:
        """Leave the group; ranks that wait for this one fail with `rank-lost`."""
        ...


class Alone:
    """The engine of a group with one rank."""

    name = "alone"
    rank = 0
    size = 1

    @contextmanager
    def exchange(self, what: str, arrays: Arrays) -> Iterator[list[list[Array]]]:
        """Yield this process's own arrays."""
        yield [list(arrays)]

    def lost_ranks(self) -> set[int]:
        """Return none: there are no others."""
        return set()

    def close(self) -> None:
        """Do nothing: nobody waits."""


def rank_lost(
    rank: int | None, size: int, said: str = "its process has ended"
) -> SetupError:
    """Return the error for a rank whose process has ended while others wait for it.

    Args:
        rank: which; None if the engine does not know.
        size: of the group.
        said: what became of it.
    """
    which = f"all {size} ranks" if rank is None else f"rank {rank} of {size}"
    return SetupError(
        "rank-lost",
        f"expected {which} to take part: {said}",
        hint="see what that process said, and start all ranks again",
    )


def require_same(what: Sequence[str]) -> None:
    """Raise if the ranks are in different collectives.

    Args:
        what: that each of them is at, in their order.

    Raises:
        InputError: `devices-diverge`.
    """
    for rank, each in enumerate(what):
        if each != what[0]:
            raise InputError(
                "devices-diverge",
                f"expected all ranks to meet in the same collectives; rank 0 is at "
                f"{what[0]}, rank {rank} at {each}",
                hint="give each rank the same program and inputs of the same shapes, "
                "and keep collectives out of branches that only some take",
            )
