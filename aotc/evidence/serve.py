"""`python -m aotc.evidence.serve PARENT`: the other side of `replay`.

The first message is a `ReplayOrder`. Every other one asks for a replay, whatever it
says, or is an `OutputsOf`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Protocol

from aotc.evidence.messages import (
    LoadedContender,
    Outputs,
    OutputsOf,
    Replayed,
    ReplayOrder,
)
from aotc.evidence.peers import PEERS
from aotc.processes.answering import answer_parent

# what makes the calls → the class that does, which takes a `ReplayOrder`
PLAYERS = {
    "bundle": "aotc.evidence.player:BundlePlayer",
    "jit": "aotc.evidence.functions:JitPlayer",
    "eager": "aotc.evidence.functions:EagerPlayer",
    **dict.fromkeys(PEERS, "aotc.evidence.peers.player:PeerPlayer"),
}


class Player(Protocol):
    """Protocol of a loaded contender that makes the calls of a replay."""

    loaded: LoadedContender

    def play(self) -> Replayed:
        """Time all calls of the replay in order; return times, code, compiles and peak
        memory.
        """

    def outputs(self, place: int) -> Outputs:
        """Make one call, with the sizes at index `place`; return its outputs by
        name.
        """


def load_player(order: ReplayOrder) -> Player:
    """Load the model of a replay order; return its player.

    Raises:
        AotcError: as it is raised where that is loaded.
    """
    module, name = PLAYERS[order.player].split(":")
    player: Player = getattr(import_module(module), name)(order)
    return player


def answer(player: Player, question: object) -> Outputs | Replayed:
    """Answer the parent's question: outputs of one call, or a replay of all."""
    if isinstance(question, OutputsOf):
        return player.outputs(question.place)
    return player.play()


def main() -> None:
    """Make replays for the parent process that the command line names."""
    answer_parent(load_player, lambda player: player.loaded, answer)


if __name__ == "__main__":
    main()
