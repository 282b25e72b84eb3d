"""Find the group of this process by the variables that its starter has set."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache

from aotc.core import options
from aotc.errors import SetupError
from aotc.parallel.engine import Alone, Engine
from aotc.parallel.group import Group

# Variables with the number of processes that starters of MPI set.
_MPI = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS")
_TORCH = ("RANK", "WORLD_SIZE", "MASTER_ADDR")


@cache
def current() -> Group:
    """Return the group of this process; the first call joins it.

    `aotc run --ranks` sets `AOTC_GROUP`; variables of torchrun and mpirun are known.
    A process that none of them has started is a group of its own.

    Raises:
        SetupError: `no-engine`: torch or mpi4py is missing.
        InputError: `bad-option`.
    """
    return Group(_engine())


def starter() -> tuple[str, str] | None:
    """Return the name of the launcher that started this process, and the number of
    ranks.

    None for `aotc run --ranks`, and where there is but one.
    """
    size = os.environ.get("WORLD_SIZE", "1")
    if all(name in os.environ for name in _TORCH) and size != "1":
        return "torchrun", size
    sizes = (os.environ.get(name, "1") for name in _MPI)
    return next((("mpirun", size) for size in sizes if size != "1"), None)


def _engine() -> Engine:
    """Make the engine that the environment variables ask for."""
    described = options.get("AOTC_GROUP")
    if described is not None:
        from aotc.parallel.shared_memory import described_engine

        return described_engine(described)
    known = starter()
    if known is None:
        return Alone()
    name, _ = known
    return _adapter(name, *_ENGINES[name])


def _adapter(started_by: str, package: str, make: Callable[[], Engine]) -> Engine:
    """Make a launcher's engine; raise if its package is not installed."""
    try:
        return make()
    except ImportError as error:
        raise SetupError(
            "no-engine",
            f"{started_by} has started this process, and its ranks exchange arrays "
            f"through '{package}', which cannot be imported: {error}",
            hint=f"pip install {package}, or start ranks by aotc run --ranks",
        ) from None


def _gloo() -> Engine:
    """Make the engine of torch.distributed."""
    from aotc.parallel.gloo import GlooEngine

    return GlooEngine()


def _mpi() -> Engine:
    """Make the engine of mpi4py."""
    from aotc.parallel.mpi import MpiEngine

    return MpiEngine()


# the package that each starter's ranks exchange arrays through, and its engine
_ENGINES: dict[str, tuple[str, Callable[[], Engine]]] = {
    "torchrun": ("torch", _gloo),
    "mpirun": ("mpi4py", _mpi),
}
