"""Find the group of this process by the variables that its starter has set."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache

from aotc import options
from aotc.errors import SetupError
from aotc.parallel.engine import Alone, Engine
from aotc.parallel.group import Group

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
        from aotc.parallel.shared_memory import described_engine

        return described_engine(described)
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
