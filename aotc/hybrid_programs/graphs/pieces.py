"""The nodes of a graph taken apart into regions and islands.

Each is as large as it can be: all nodes of one kind that are ready come before those of
the other one (list scheduling).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from aotc.errors import InputError
from aotc.hybrid_programs.boundaries import Boundary

if TYPE_CHECKING:
    from _typeshed import SupportsRichComparison

Key = TypeVar("Key", bound="SupportsRichComparison")  # of a value: a name or a number


@dataclass
class GraphNode(Generic[Key]):
    """An op of a graph, with the keys of the values that it reads and makes.

    Args:
        reads: the values that it needs, those for graphs inside it included.
        makes: the values that it gives.
        operation: the name of its op.
        place: where it is, for people.
        reason: why it cannot be compiled; empty, and it is part of a region.
    """

    reads: frozenset[Key]
    makes: tuple[Key, ...]
    operation: str
    place: str
    reason: str = ""


@dataclass
class Piece(Generic[Key]):
    """Nodes of a graph that are compiled together, or left to a framework together.

    Args:
        nodes: numbers in the graph, in order.
        inputs: values that other pieces or the caller give.
        outputs: values that others read.
        boundary: of an island.
    """

    nodes: list[int]
    inputs: list[Key] = field(default_factory=list)
    outputs: list[Key] = field(default_factory=list)
    boundary: Boundary | None = None


def split(
    owner: str,
    nodes: Sequence[GraphNode[Key]],
    numbers: Iterable[int],
    known: Iterable[Key],
) -> list[Piece[Key]]:
    """Partition nodes of a graph into regions and islands, in an order of computation.

    Args:
        owner: the name of the graph.
        nodes: all of them.
        numbers: which ones to split, in order.
        known: values that are there before.

    Raises:
        InputError: `bad-graph`: a node reads what nobody makes, or needs itself.
    """
    ready, left, found = {*known}, [*numbers], list[Piece[Key]]()
    is_island, rounds_without = False, 0
    while left:
        taken = list[int]()
        for number in left:
            node = nodes[number]
            if bool(node.reason) == is_island and node.reads <= ready:
                taken.append(number)
                ready |= {*node.makes}
        if taken:
            found.append(Piece(taken))
            if is_island:
                found[-1].boundary = _boundary(owner, [nodes[n] for n in taken])
        rounds_without = 0 if taken else rounds_without + 1
        if rounds_without == 2:
            raise _never_ready(nodes, left, ready)
        left = [number for number in left if number not in {*taken}]
        is_island = not is_island
    return found


def _never_ready(
    nodes: Sequence[GraphNode[Key]], left: Sequence[int], ready: set[Key]
) -> InputError:
    """Return the error for nodes whose operands are never computed; it names a
    cause.
    """
    made = {value for number in left for value in nodes[number].makes}
    waiting = [nodes[number] for number in left]
    first = next((x for x in waiting if x.reads - ready - made), waiting[0])
    missing = min(first.reads - ready - made or first.reads - ready)
    why = "which no node computes"
    if missing in made:
        why = "and nodes that compute it wait for each other"
    message = f"{first.operation} reads '{missing}', {why}"
    return InputError("bad-graph", message, where=first.place)


def _boundary(owner: str, nodes: Sequence[GraphNode[Key]]) -> Boundary:
    """Return the Boundary of an island of these nodes."""
    kinds = ", ".join(dict.fromkeys(each.operation for each in nodes))
    return Boundary(owner, nodes[0].place, kinds, nodes[0].reason)


def connect(
    pieces: Sequence[Piece[Key]],
    nodes: Sequence[GraphNode[Key]],
    wanted: Iterable[Key],
    stored: Iterable[Key],
) -> None:
    """Set the inputs and outputs of pieces: the values that they pass to each other.

    Args:
        pieces: of a graph, in order.
        nodes: of the graph.
        wanted: the graph's results.
        stored: values that each piece has by itself, such as constants.
    """
    later, own = {*wanted}, {*stored}
    for piece in reversed(pieces):
        members = [nodes[number] for number in piece.nodes]
        made = {value for each in members for value in each.makes}
        read = {value for each in members for value in each.reads}
        piece.inputs = sorted(read - made - own)
        piece.outputs = sorted(made & later)
        later |= {*piece.inputs}
