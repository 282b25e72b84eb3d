"""Which group this process belongs to, as whoever started it says."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from functools import cache

from aotc import options
from aotc.errors import InputError, SetupError
from aotc.parallel.engine import Alone, Engine
from aotc.parallel.group import Group
from aotc.parallel.shared_memory import STARTER, SharedMemoryEngine

# Variables with the number of processes that starters of MPI set.
_MPI = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS")
_TORCH = ("RANK", "WORLD_SIZE", "MASTER_ADDR")


@cache
def current() -> Group:
    """Return the group of this process, which it joins when it is first asked for.

    `aotc run --ranks` sets `AOTC_GROUP`; variables of torchrun and mpirun are known.
    A process that none of them has started is a group of its own.

    Raises:
        SetupError: `no-engine`: torch or mpi4py is missing.
        InputError: `bad-option`.
    """
    return Group(_engine())


def _engine() -> Engine:
    described = options.get("AOTC_GROUP")
    if described is not None:
        return shared_memory_engine(described)
    if all(name in os.environ for name in _TORCH):
        return _adapter("torchrun", "torch", _gloo, os.environ["WORLD_SIZE"])
    for name in _MPI:
        if name in os.environ:
            return _adapter("mpirun", "mpi4py", _mpi, os.environ[name])
    return Alone()


def _adapter(
    starter: str, package: str, make: Callable[[], Engine], size: str
) -> Engine:
    if size == "1":
        return Alone()
    try:
        return make()
    except ImportError as error:
        raise SetupError(
            "no-engine",
            f"{starter} has started this process, and its ranks exchange arrays "
            f"through '{package}', which cannot be imported: {error}",
            hint=f"pip install {package}, or start ranks by aotc run --ranks",
        ) from None


def _gloo() -> Engine:
    from aotc.parallel.gloo import GlooEngine

    return GlooEngine()


def _mpi() -> Engine:
    from aotc.parallel.mpi import MpiEngine

    return MpiEngine()


def shared_memory_engine(described: str) -> Engine:
    """The engine that a text of `describe_group` tells of.

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
