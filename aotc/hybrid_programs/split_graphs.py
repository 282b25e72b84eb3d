"""A graph in pieces: regions are compiled for calls, a framework has the rest."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

from aotc.errors import InputError
from aotc.hybrid_programs.boundaries import Boundary
from aotc.hybrid_programs.pieces import Node, Piece, connect, split

Values = Mapping[Any, Any]  # arrays by the keys of values
Code = Callable[[Values], Values]  # the outputs of a piece, from its inputs

_CALLERS = ("shape-mismatch", "dtype-mismatch")  # errors of a call, not of the graph


class SplitGraph(ABC):
    """A graph of which what can be imported is compiled.

    Args:
        name: of the graph.
        nodes: a node comes after those that it reads from.
        inputs: the values that a call gives.
        outputs: those that it wants.
        stored: those that each piece has by itself, such as constants.
        tokens: those that only say what comes after what, and are not handed over.
    """

    def __init__(
        self,
        name: str,
        nodes: Sequence[Node],
        inputs: Iterable[Any],
        outputs: Iterable[Any],
        stored: Iterable[Any] = (),
        tokens: Iterable[Any] = (),
    ) -> None:
        self.name, self.nodes = name, [*nodes]
        self._outputs, self._stored = {*outputs}, ({*stored} - {*inputs}) | {*tokens}
        self._known = {*inputs, *stored}
        self._codes: dict[Hashable, Code] = {}
        self._lock = threading.RLock()
        self._pieces = self._split(range(len(self.nodes)), self._known)

    @property
    def boundaries(self) -> tuple[Boundary, ...]:
        """The islands, in the order in which they are computed."""
        return tuple(each.boundary for each in self._pieces if each.boundary)

    def report(self) -> dict[str, Any]:
        """Boundaries and regions: schema `aotc.hybrid-graph/1`."""
        regions = [each for each in self._pieces if each.boundary is None]
        return {
            "schema": "aotc.hybrid-graph/1",
            "graph": self.name,
            "graph_breaks": len(self.boundaries),
            "boundaries": [each.to_json() for each in self.boundaries],
            "regions": [{"nodes": len(each.nodes)} for each in regions],
        }

    def compute(self, given: Values) -> dict[Any, Any]:
        """The results for the inputs of a call, among all values that pieces hand over.

        Raises:
            InputError: the graph does not take them; an op that the framework does not
                compute either: `framework-cannot-load`.
        """
        env, pieces, done = dict(given), self._pieces, 0
        while done < len(pieces):
            piece = pieces[done]
            own = {value: env[value] for value in piece.inputs}
            try:
                code = self._code(piece, own)
            except InputError as error:
                if piece.boundary is not None or error.code in _CALLERS:
                    raise
                pieces = self._split_again(pieces, done, error)
                continue
            env |= _computed(piece, code, own)
            done += 1
        return env

    # ---- what a kind of graph tells of itself

    @abstractmethod
    def compiled(self, piece: Piece, given: Values) -> Code:
        """Code for a region and inputs like these.

        Raises:
            InputError: it cannot be compiled.
        """

    @abstractmethod
    def loaded(self, piece: Piece, given: Values) -> Code:
        """The framework's code for an island and inputs like these.

        Raises:
            InputError: `framework-cannot-load`.
        """

    def kind_of(self, piece: Piece, given: Values) -> Hashable:
        """What inputs of a piece share that one code computes."""
        return tuple((each.dtype, each.shape) for each in given.values())

    def nodes_at_fault(self, piece: Piece) -> Sequence[int]:
        """Those that kept a region from being compiled, as far as it is known."""
        return piece.nodes

    # ---- pieces

    def _code(self, piece: Piece, given: Values) -> Code:
        is_island = piece.boundary is not None
        key = is_island, *piece.nodes, self.kind_of(piece, given)
        with self._lock:
            if key not in self._codes:
                make = self.loaded if is_island else self.compiled
                self._codes[key] = make(piece, given)
            return self._codes[key]

    def _split(self, numbers: Iterable[int], known: Iterable[Any]) -> list[Piece]:
        found = split(self.name, self.nodes, numbers, known)
        connect(found, self.nodes, self._outputs, self._stored)
        return found

    def _split_again(
        self, pieces: list[Piece], done: int, error: InputError
    ) -> list[Piece]:
        """The pieces anew from a region on that cannot be compiled as it is."""
        reason = error.message.partition("\n")[0]
        with self._lock:
            for number in self.nodes_at_fault(pieces[done]):
                self.nodes[number].reason = reason
            before = [number for each in pieces[:done] for number in each.nodes]
            left = sorted({*range(len(self.nodes))} - {*before})
            made = {value for number in before for value in self.nodes[number].makes}
            rest = self._split(left, self._known | made)
            counted = {(*each.nodes,): each.boundary for each in pieces[done:]}
            for each in rest:
                if each.boundary is not None:
                    each.boundary = counted.get((*each.nodes,)) or each.boundary
            found = [*pieces[:done], *rest]
            if self._pieces is pieces:
                self._pieces = found
        return found


def _computed(piece: Piece, code: Code, given: Values) -> Values:
    if piece.boundary is None:
        return code(given)
    with piece.boundary.crossing(given.values()) as returned:
        found = code(given)
        returned += found.values()
    return found
