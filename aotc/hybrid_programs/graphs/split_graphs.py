"""A graph in pieces: regions are compiled for calls, a framework has the rest."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Generic

from aotc.core.json_values import JsonObject
from aotc.errors import CompileError, InputError
from aotc.hybrid_programs.boundaries import Boundary
from aotc.hybrid_programs.graphs.piece_codes import (
    Code,
    Faults,
    PieceCode,
    PieceCodeCache,
    PieceKind,
    V,
)
from aotc.hybrid_programs.graphs.pieces import GraphNode, Key, Piece, connect, split
from aotc.just_in_time.code_cache import require_limits
from aotc.just_in_time.shapes import Sizes

# errors of a call, or of compiled code, that say nothing of what can be compiled
_RAISED = ("shape-mismatch", "dtype-mismatch", "self-check")
_GUARDS = ("shape-contract", "shape-guard", "shape-mismatch")  # of code with symbols

Limits = tuple[int, int]  # codes of a piece that are kept, and that are made
LIMITS = (8, 32)


@dataclass(eq=False)
class PiecePlan(Generic[Key]):
    """The sequence of pieces that computes calls of some kinds of inputs.

    Args:
        pieces: all of them.
        was_used: whether a call has been.
    """

    pieces: list[Piece[Key]]
    was_used: bool = False


class SplitGraph(ABC, Generic[Key, V]):
    """A graph split into compiled regions and islands that its framework computes.

    A region that cannot be compiled for a call is split again, for calls of this kind:
    the nodes at fault are islands in these.

    Args:
        name: of the graph.
        nodes: in any order in which they can be computed.
        inputs: the values that a call gives.
        outputs: those that it wants.
        stored: those that each piece has by itself, such as constants.
        tokens: those that only say what comes after what, and are not handed over.
        limits: how many codes of each piece are kept and made; see `CodeCache`.

    Raises:
        InputError: `bad-graph`: a node reads what nothing gives; `bad-option`.
    """

    has_symbols = False  # whether code can be made for sizes that vary

    def __init__(
        self,
        name: str,
        nodes: Sequence[GraphNode[Key]],
        inputs: Iterable[Key],
        outputs: Iterable[Key],
        stored: Iterable[Key] = (),
        tokens: Iterable[Key] = (),
        limits: Limits = LIMITS,
    ) -> None:
        self.name, self.nodes = name, [*nodes]
        self._outputs, self._stored = {*outputs}, ({*stored} - {*inputs}) | {*tokens}
        self._known = {*inputs, *stored}
        self._limits = require_limits(*limits)
        self._codes: dict[tuple[bool, tuple[int, ...]], PieceCodeCache[Key, V]] = {}
        self._boundaries: dict[tuple[int, ...], Boundary] = {}
        self._lock = threading.RLock()
        self._plans: dict[Hashable, PiecePlan[Key]] = {}
        self._first = self._plan([], {})

    @property
    def boundaries(self) -> tuple[Boundary, ...]:
        """The boundaries of the islands of all calls so far, in the order of the graph.

        Before the first call they are those that are known beforehand.
        """
        pieces = self._pieces()
        return tuple(each.boundary for each in pieces if each.boundary is not None)

    @property
    def was_used(self) -> bool:
        """Return whether a call has ended without an error."""
        with self._lock:
            return any(each.was_used for each in self._plans.values())

    def report(self) -> JsonObject:
        """Return the boundaries and the regions' statistics: schema
        `aotc.hybrid-graph/1`.
        """
        regions = [each for each in self._pieces() if each.boundary is None]
        return {
            "schema": "aotc.hybrid-graph/1",
            "graph": self.name,
            "graph_breaks": len(self.boundaries),
            "boundaries": [each.to_json() for each in self.boundaries],
            "regions": [self._region_report(each) for each in regions],
        }

    def _region_report(self, region: Piece[Key]) -> dict[str, int]:
        """Return a region's counts of nodes, cached codes, compilations and
        evictions.
        """
        codes = self._codes_of(region)
        return {
            "nodes": len(region.nodes),
            "variants": len(codes.items),
            "compiles": codes.compiles,
            "evictions": codes.evictions,
        }

    def compute(self, given: Mapping[Key, V]) -> dict[Key, V]:
        """Compute the graph for a call's inputs; return its results and intermediate
        values.

        Raises:
            InputError: the graph does not take them; an op that the framework does not
                compute either: `framework-cannot-load`, `framework-refused`;
                `recompile-storm`.
        """
        env, plan, done, faults = dict(given), self._first, 0, dict[int, str]()
        while done < len(plan.pieces):
            piece = plan.pieces[done]
            own = {value: env[value] for value in piece.inputs}
            found = self._outputs_of(piece, own, faults)
            if found is None:
                plan = self._plan(plan.pieces[:done], faults)
                continue
            env |= found
            done += 1
        plan.was_used = True
        return env

    # ---- what a kind of graph tells of itself

    @abstractmethod
    def compile_region(
        self, piece: Piece[Key], given: Mapping[Key, V], sizes: Sizes
    ) -> Code[Key, V]:
        """Compile a region for given inputs; return a function of such inputs.

        Args:
            piece: the region.
            given: its inputs in a call.
            sizes: of the arrays among them; with `has_symbols`, Dims where they vary.

        Raises:
            InputError: it cannot be compiled.
        """

    @abstractmethod
    def load_island(self, piece: Piece[Key], given: Mapping[Key, V]) -> Code[Key, V]:
        """Return a function that computes an island for such inputs by its framework.

        Raises:
            InputError: `framework-cannot-load`.
        """

    @abstractmethod
    def kind_of(self, piece: Piece[Key], given: Mapping[Key, V]) -> PieceKind:
        """Return the key of a piece's inputs that selects its code."""

    def nodes_at_fault(self, piece: Piece[Key]) -> Sequence[int]:
        """Return the nodes that kept a region from being compiled; all if unknown."""
        return piece.nodes

    # ---- one piece

    def _outputs_of(
        self, piece: Piece[Key], given: Mapping[Key, V], faults: dict[int, str]
    ) -> Mapping[Key, V] | None:
        """Compute a piece by cached or new code; return None and fill `faults` if none
        can be made.
        """
        kind = self.kind_of(piece, given)
        while isinstance(code := self._code(piece, kind, given), PieceCode):
            try:
                return _run_code(piece, code.run, given)
            except InputError as error:
                if not code.is_dynamic or error.code not in _GUARDS:
                    raise
                code.refused.add(kind.shapes)
        faults |= code
        return None

    def _code(
        self, piece: Piece[Key], kind: PieceKind, given: Mapping[Key, V]
    ) -> PieceCode[Key, V] | Faults:
        """Return cached or new code of a piece for a key of inputs, or why each node
        prevents it.
        """
        with self._lock:
            codes = self._codes_of(piece)
            found = codes.find(kind) or codes.refusal(kind)
            if found is not None:
                return found
            codes.require_room_for(kind)
            if piece.boundary is not None:
                run = self.load_island(piece, given)
                return codes.add(kind, PieceCode(run, kind.form, kind.shapes))
            try:
                return codes.add(kind, self._compile(piece, kind, given))
            except (InputError, CompileError) as error:
                if error.code in _RAISED:
                    raise
                reason = error.message.partition("\n")[0]
                known = {*self.nodes_at_fault(piece)} & {*piece.nodes}
                return codes.refuse(kind, dict.fromkeys(known or piece.nodes, reason))

    def _compile(
        self, piece: Piece[Key], kind: PieceKind, given: Mapping[Key, V]
    ) -> PieceCode[Key, V]:
        """Compile a region for symbolic sizes where possible, else for the exact
        shapes.
        """
        codes = self._codes_of(piece)
        sizes = codes.sizes_for(kind) if self.has_symbols else None
        if sizes is not None:
            with suppress(InputError, CompileError):
                return PieceCode(
                    self.compile_region(piece, given, sizes), kind.form, sizes
                )
        run = self.compile_region(piece, given, kind.shapes)
        if sizes is not None:  # which can be compiled, but not for others like it
            codes.require_exact(kind)
        return PieceCode(run, kind.form, kind.shapes)

    def _codes_of(self, piece: Piece[Key]) -> PieceCodeCache[Key, V]:
        """Return the code cache of a piece; create it at the first use."""
        key = piece.boundary is not None, (*piece.nodes,)
        if key not in self._codes:
            kind = "island" if piece.boundary else "region"
            place = self.nodes[piece.nodes[0]].place
            owner = f"{self.name}: the {kind} from {place} on"
            self._codes[key] = PieceCodeCache(owner, *self._limits)
        return self._codes[key]

    # ---- all pieces

    def _pieces(self) -> list[Piece[Key]]:
        """Return the pieces that calls have used, in graph order; before any call, the
        first ones.
        """
        with self._lock:
            plans = [each for each in self._plans.values() if each.was_used]
        found = {
            (each.boundary is None, *each.nodes): each
            for plan in plans or [self._first]
            for each in plan.pieces
        }
        return sorted(found.values(), key=lambda each: each.nodes)

    def _plan(self, before: Sequence[Piece[Key]], faults: Faults) -> PiecePlan[Key]:
        """Return the plan that keeps the pieces `before` and makes the nodes in
        `faults` islands.
        """
        with self._lock:
            done = [number for each in before for number in each.nodes]
            key = (*done,), len(before), frozenset(faults)
            if key not in self._plans:
                self._plans[key] = PiecePlan([*before, *self._split(done, faults)])
            return self._plans[key]

    def _split(self, done: Sequence[int], faults: Faults) -> list[Piece[Key]]:
        """Partition and connect the nodes that are not `done`; those in `faults` are
        islands.
        """
        nodes = [
            replace(each, reason=each.reason or faults.get(number, ""))
            for number, each in enumerate(self.nodes)
        ]
        made = {value for number in done for value in nodes[number].makes}
        left = sorted({*range(len(nodes))} - {*done})
        found = split(self.name, nodes, left, self._known | made)
        connect(found, nodes, self._outputs, self._stored)
        for each in found:
            if each.boundary is not None:  # one for all plans that have it
                key = (*each.nodes,)
                each.boundary = self._boundaries.setdefault(key, each.boundary)
        return found


def _run_code(
    piece: Piece[Key], code: Code[Key, V], given: Mapping[Key, V]
) -> Mapping[Key, V]:
    """Run a piece's code on its inputs; an island's is counted and timed by its
    boundary.
    """
    if piece.boundary is None:
        return code(given)
    with piece.boundary.crossing(given.values()) as returned:
        found = code(given)
        returned += found.values()
    return found
