"""Interface of a peer's engine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from aotc.errors import AotcError, InputError

Array = np.ndarray


@dataclass(frozen=True)
class PeerInput:
    """An input of a peer's model file: its name, dtype and shape.

    Args:
        name: that it has there.
        dtype: by aotc's name, or as the peer calls what aotc has not.
        shape: None for a size that calls decide.
    """

    name: str
    dtype: str
    shape: tuple[int | None, ...]

    def __str__(self) -> str:
        sizes = ("?" if size is None else str(size) for size in self.shape)
        return f"{self.name}: {self.dtype}[{', '.join(sizes)}]"


class PeerEngine(Protocol):
    """Protocol of a peer's runtime that has loaded a model file.

    Attributes:
        version: of the package.
        path: how it computes calls, out of `messages.PATHS`.
        inputs: in the order in which `prepare` takes them.
        outputs: their names, empty where there are none, in the order of `call`.
    """

    version: str
    path: str
    inputs: tuple[PeerInput, ...]
    outputs: tuple[str, ...]

    @property
    def compiles(self) -> int:
        """The number of calls that have waited for a compiler so far."""

    def prepare(self, arrays: Sequence[Array]) -> Any:
        """Convert arrays to the runtime's arguments of a call, outside the timing."""

    def call(self, prepared: Any) -> list[Array]:
        """Make a call with prepared arguments; return its outputs."""


@contextmanager
def peer_errors(peer: str, file: str) -> Iterator[None]:
    """Turn exceptions of a peer's runtime into `InputError` `peer-failed`.

    Args:
        peer: its name.
        file: that it runs.

    Raises:
        InputError: `peer-failed`.
    """
    try:
        yield
    except (AotcError, MemoryError):
        raise
    except Exception as error:  # whatever a package of somebody else's raises
        said = str(error).strip().partition("\n")[0]
        raise InputError(
            "peer-failed",
            f"{peer}: {type(error).__name__}: {said}",
            where=file,
            hint=f"this is what the package says; leave {peer} out of --against, or "
            "export the file anew",
        ) from error
