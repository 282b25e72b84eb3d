"""The contenders of a comparison: a player of the calls, and the cost of its build."""

from __future__ import annotations

from dataclasses import dataclass

from aotc.artifacts.manifest import Leaf
from aotc.core.json_values import JsonObject
from aotc.evidence.peers import PEERS
from aotc.timing.messages import TimedBundle


@dataclass(frozen=True)
class BuildCost:
    """The time of a build and the number of graph ops before and after passes.

    Args:
        seconds: without the self-check, and with nothing taken from the cache.
        ops_before: ops of the graph dialect as the model was imported.
        ops_after: after all passes on the graph, in all codes together.
    """

    seconds: float
    ops_before: int | None
    ops_after: int | None

    def to_json(self) -> JsonObject:
        """Return the fields by name."""
        return dict(vars(self))


@dataclass(frozen=True)
class Contender:
    """One of the compared ways to execute an entry: an execution model, a peer, or a
    bundle.

    Args:
        name: of the execution model or the peer, or the path of the bundle.
        subject: what to load, without inputs.
        build: None for a bundle that was there.
        player: what makes the calls, out of `aotc.evidence.serve.PLAYERS`.
        inputs: of the entry, which a peer has to know.
    """

    name: str
    subject: TimedBundle
    build: BuildCost | None = None
    player: str = "bundle"
    inputs: tuple[Leaf, ...] = ()

    @property
    def is_peer(self) -> bool:
        """Return whether another project's runtime makes the calls."""
        return self.player in PEERS
