"""`python -m aotc.evidence.serve PARENT`: the other side of `replay`.

The first message is an `Order`, every other one, whatever it says, asks for a replay.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Protocol

from aotc.evidence.messages import Loaded, Order, Replayed
from aotc.timing.serve import serve_parent

# what makes the calls → the class that does, which takes an `Order`
PLAYERS = {
    "bundle": "aotc.evidence.player:BundlePlayer",
    "jit": "aotc.evidence.functions:JitPlayer",
    "eager": "aotc.evidence.functions:EagerPlayer",
}


class Player(Protocol):
    """Something that is loaded, and makes the calls of a replay."""

    loaded: Loaded

    def play(self) -> Replayed:
        """Make all calls, one after the other."""


def load_player(order: Order) -> Player:
    """What makes the calls of an order.

    Raises:
        AotcError: as it is raised where that is loaded.
    """
    module, name = PLAYERS[order.player].split(":")
    player: Player = getattr(import_module(module), name)(order)
    return player


def main(arguments: Sequence[str] = tuple(sys.argv[1:])) -> None:
    """Serve the process that the command line names."""
    parent = int(arguments[0])
    serve_parent(parent, load_player, lambda it: it.loaded, lambda it, _: it.play())


if __name__ == "__main__":
    main()
