"""The engine of one machine: shared memory for arrays, and sockets that say "look".

Whoever starts the processes makes a pair of sockets for each two of them
(`launching`), and one for each of them and itself. A rank writes its arrays to memory
of its own that the others map (`memfd_create`, whose descriptor goes over a socket),
and sends each of them a short message. Nobody polls: a rank waits in `poll`, where the
system also tells of a process that has ended, at once and however it ended. Nothing of
all this has a name in a file system, so nothing is left of it.

Note [two halves]: arrays are written to one half of the memory in even rounds and to
the other in odd ones. A rank sends its message of a round when it has read all of the
round before. So whoever has the messages of round r may write over what belongs to
round r - 1.
"""

from __future__ import annotations

import json
import mmap
import os
import select
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from aotc.errors import InputError
from aotc.errors.system import raise_system_error
from aotc.parallel.engine import Array, Arrays, rank_lost, require_same
from aotc.parallel.messages import layout, view, write

_LEAST = 1 << 16  # bytes of a half
_LONGEST = 1 << 16  # bytes of a message
STARTER = -1  # in the place of a rank: the process that has started them


class SharedMemoryEngine:
    """An engine between processes of one machine, by shared memory and Unix sockets.

    Args:
        rank: of this process.
        size: of the group.
        sockets: to each other rank, and to `STARTER`, of type SOCK_SEQPACKET.
    """

    name = "shared-memory"

    def __init__(
        self, rank: int, size: int, sockets: Mapping[int, socket.socket]
    ) -> None:
        self.rank, self.size = rank, size
        self._sockets = dict(sockets)
        self._round = 0
        self._half = 0  # bytes
        self._own: mmap.mmap | None = None
        self._theirs: dict[int, mmap.mmap] = {}

    @contextmanager
    def exchange(self, what: str, arrays: Arrays) -> Iterator[list[list[Array]]]:
        """Exchange as `Engine.exchange`; the arrays are views of the senders'
        memory.
        """
        rows, size = layout(arrays)
        descriptor = self._reserve(size)
        start = self._round % 2 * self._half
        try:
            for array, row in zip(arrays, rows, strict=True):
                assert self._own is not None  # as `_reserve` has made it
                write(array, self._own, row, start)
            self._send(json.dumps([self._round, what, start, rows]), descriptor)
        finally:
            if descriptor is not None:
                os.close(descriptor)
        said: dict[int, str] = {self.rank: what}
        found: dict[int, list[Array]] = {self.rank: list(arrays)}
        for rank, (message, descriptors) in self._receive().items():
            self._map(rank, descriptors)
            _, said[rank], first, theirs = json.loads(message)
            memory = self._theirs[rank]
            found[rank] = [view(memory, row, first) for row in theirs]
        self._round += 1
        require_same([said[rank] for rank in range(self.size)])
        yield [found[rank] for rank in range(self.size)]

    def lost_ranks(self) -> set[int]:
        """Return the ranks that have ended, and `STARTER` if that has."""
        return {rank for rank, each in self._sockets.items() if _has_ended(each)}

    def close(self) -> None:
        """Leave the group."""
        for each in self._sockets.values():
            each.close()

    def _reserve(self, size: int) -> int | None:
        """Allocate shared memory with two halves of `size` bytes, if there is less so
        far; return its descriptor, None if there was enough.

        Others go on reading the old memory, which they have mapped.
        """
        if self._own is not None and size <= self._half:
            return None
        self._half = max(_LEAST, 1 << max(size - 1, 0).bit_length())
        descriptor = os.memfd_create("aotc")
        try:
            # Pages are there when they are written: a half that is unused costs none.
            os.ftruncate(descriptor, 2 * self._half)
            self._own = mmap.mmap(descriptor, 2 * self._half)
        except (OSError, ValueError) as error:
            os.close(descriptor)
            raise_system_error(error)
            raise
        return descriptor

    def _send(self, message: str, descriptor: int | None) -> None:
        """Send a message, and perhaps a memory descriptor, to all other ranks."""
        data = message.encode()
        if len(data) > _LONGEST:
            raise InputError(
                "bad-argument",
                f"expected collectives of at most {_LONGEST} bytes without their "
                f"arrays; got one of {len(data)}",
            )
        given = [] if descriptor is None else [descriptor]
        for rank, each in self._sockets.items():
            if rank == STARTER:
                continue
            with suppress(BrokenPipeError, ConnectionResetError):  # told when received
                socket.send_fds(each, [data], given)

    def _receive(self) -> dict[int, tuple[bytes, list[int]]]:
        """Wait for the next message of each other rank; return them and their
        descriptors.
        """
        found: dict[int, tuple[bytes, list[int]]] = {}
        ranks = {each.fileno(): rank for rank, each in self._sockets.items()}
        waiting = select.poll()
        for number in ranks:
            waiting.register(number, select.POLLIN)
        while len(found) < self.size - 1:
            for number, _ in waiting.poll():
                rank = ranks[number]
                message = self._take(rank)
                if message is None:
                    raise self._lost(rank)
                found[rank] = message
                waiting.unregister(number)  # its next message belongs to the next round
        return found

    def _take(self, rank: int) -> tuple[bytes, list[int]] | None:
        """Receive a message of a rank and its file descriptors; None if its process has
        ended.
        """
        try:
            data, descriptors, *_ = socket.recv_fds(self._sockets[rank], _LONGEST, 1)
        except ConnectionResetError:
            return None
        return (data, list(descriptors)) if data else None

    def _lost(self, rank: int) -> Exception:
        """Return the error for a rank, or the starter, that has ended."""
        if rank == STARTER:
            said = "the process that started it has ended"
            return rank_lost(self.rank, self.size, said)
        return rank_lost(rank, self.size)

    def _map(self, rank: int, descriptors: list[int]) -> None:
        """Map shared memory that another rank sent a file descriptor of."""
        for descriptor in descriptors:
            size = os.fstat(descriptor).st_size
            self._theirs[rank] = mmap.mmap(descriptor, size, prot=mmap.PROT_READ)
            os.close(descriptor)


def _has_ended(other: socket.socket) -> bool:
    """Return whether the peer of a socket has closed it and no message is left."""
    try:
        flags = socket.MSG_PEEK | socket.MSG_DONTWAIT
        return not other.recv(1, flags)
    except BlockingIOError:
        return False
    except OSError:
        return True


def described_engine(described: str) -> SharedMemoryEngine:
    """Return the engine that the text in `AOTC_GROUP` describes.

    Raises:
        InputError: `bad-option`.
    """
    try:
        rank, *numbers = map(int, described.split(","))
        others = [each for each in range(len(numbers)) if each != rank]
        sockets = {}
        for other, number in zip((STARTER, *others), numbers, strict=True):
            os.set_inheritable(number, False)
            sockets[other] = socket.socket(fileno=number)
    except (ValueError, OSError):
        raise InputError(
            "bad-option",
            f"AOTC_GROUP={described[:60]!r} tells of no sockets that this process has",
            hint="aotc run --ranks sets it; it means nothing to other processes",
        ) from None
    return SharedMemoryEngine(rank, len(numbers), sockets)


def describe_group(rank: int, starter: int, others: list[int]) -> str:
    """Return the text for `AOTC_GROUP`: a rank, and the descriptors of its sockets.

    Args:
        rank: of the process.
        starter: the descriptor of the socket to the process that starts it.
        others: likewise to each other rank, in their order.
    """
    return ",".join(map(str, [rank, starter, *others]))
