"""The systems that take steps: aotc at each level of processors, and its peers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple

from inference.systems import Aotc, Artifact, System

# Of losses, relative. Optax rounds what Adam divides by (2e-4 after 6 steps of mlp);
# round-off decides whether ReLUs that are nearly zero are on (1e-3, of resnet).
TOLERANCE, MIXED_TOLERANCE = 5e-3, 2e-2
BF16 = "mixed:bf16"


@dataclass(frozen=True)
class Peer(System):
    """A system that trains from the exported parameters."""

    package: ClassVar[str] = "training"

    @property
    def tolerance(self) -> float:
        """The largest relative difference of losses."""
        return TOLERANCE if self.precision is None else MIXED_TOLERANCE

    def prepare(self, case: Path, folder: Path) -> Artifact:
        """Return the exported parameters' file."""
        file = case / "params.npz"
        return Artifact(file, file.stat().st_size)


@dataclass(frozen=True)
class AotcStep(Aotc):
    """aotc, which loads a bundle with a training entry."""

    package: ClassVar[str] = "training"

    @property
    def tolerance(self) -> float:
        """The largest relative difference of losses."""
        return TOLERANCE if self.precision is None else MIXED_TOLERANCE


class PeerRow(NamedTuple):
    """The recipe of a peer system: its runners and its environment.

    Attributes:
        runner: its module in `runners`.
        environment: the package that it is, after which its environment is named.
        mixed_runner: its module for mixed precision; none where that is not compared.
    """

    runner: str
    environment: str
    mixed_runner: str | None = None


PEERS = {
    "jax": PeerRow("jax_jit", "jax"),
    "torch": PeerRow("eager", "torch", "eager_bf16"),
    "torch-compile": PeerRow("compiled", "torch", "compiled_bf16"),
}
