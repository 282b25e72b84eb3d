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
    """A loaded contender that makes the calls of a replay."""

    loaded: LoadedContender

    def play(self) -> Replayed:
        """Make all calls, one after the other."""

    def outputs(self, place: int) -> Outputs:
        """The outputs of a call of the sizes at a place of the requests."""


def load_player(order: ReplayOrder) -> Player:
    """Load the player of an order.

    Raises:
        AotcError: as it is raised where that is loaded.
    """
    module, name = PLAYERS[order.player].split(":")
    player: Player = getattr(import_module(module), name)(order)
    return player


def answer(player: Player, question: object) -> Outputs | Replayed:
    """Answer a question to a player."""
    if isinstance(question, OutputsOf):
        return player.outputs(question.place)
    return player.play()


def main() -> None:
    """Make replays for the process that the command line names."""
    answer_parent(load_player, lambda player: player.loaded, answer)


if __name__ == "__main__":
    main()
