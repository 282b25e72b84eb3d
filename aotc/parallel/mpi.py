"""The engine of `mpirun`: mpi4py. A rank that dies ends all others, by MPI itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aotc.parallel.engine import rank_lost
from aotc.parallel.messages import MessageEngine

if TYPE_CHECKING:
    from mpi4py import MPI


class MpiEngine(MessageEngine):
    """An engine that exchanges messages by mpi4py, between the ranks of MPI's world.

    Args:
        communicator: of mpi4py; by default a copy of the world's, so that a program
            may use that itself.
    """

    name = "mpi"

    def __init__(self, communicator: MPI.Comm | None = None) -> None:
        from mpi4py import MPI

        self._mpi = MPI
        self._ranks = MPI.COMM_WORLD.Dup() if communicator is None else communicator
        super().__init__(self._ranks.Get_rank(), self._ranks.Get_size())

    def gather(self, message: bytes) -> list[bytes]:
        """Send a message to all ranks; return the messages of all ranks in order."""
        try:
            return list(self._ranks.allgather(message))
        except self._mpi.Exception as error:
            raise rank_lost(None, self.size, f"MPI says: {error}") from error

    def close(self) -> None:
        """Do nothing: MPI ends with the process, and all ranks wait for that."""
