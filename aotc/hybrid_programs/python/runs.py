"""A run of statements: regions and islands, as tracing finds them."""

from __future__ import annotations

import ast
import linecache
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FunctionType, ModuleType

from aotc.hybrid_programs.boundaries import Boundary
from aotc.hybrid_programs.python.making import make_function, value_outside
from aotc.hybrid_programs.python.names import (
    assigned_names,
    live_before,
    needed_names,
    reads,
    stores,
)
from aotc.hybrid_programs.python.regions import Broken, JitOptions, StatementRegion
from aotc.hybrid_programs.python.rewriting import Rewriter, head_of
from aotc.hybrid_programs.python.statements import (
    AUGMENTED,
    AUGMENTED_ATTRIBUTE,
    AUGMENTED_PART,
    computes,
    operations,
    without_changes_of_constants,
)
from aotc.just_in_time import JitFunction
from aotc.runtime.in_place import augmented, augmented_attribute, augmented_part
from aotc.tracing.entry import Weights


class Island:
    """Statements of a hybrid function that Python computes.

    Args:
        body: as the user wrote them, or operations of such a statement.
        inside: the same with calls of runs.
        inputs: names that they read.
        outputs: names that are read after them.
        run: computes the outputs, in order.
        boundary: where that is and why; None where nothing is computed.
    """

    def __init__(
        self,
        body: list[ast.stmt],
        inside: list[ast.stmt],
        inputs: Sequence[str],
        outputs: Sequence[str],
        run: Callable[..., tuple[object, ...]],
        boundary: Boundary | None,
    ) -> None:
        self.inside = inside
        self.body, self.inputs, self.outputs = body, [*inputs], [*outputs]
        self._run = run
        self.boundary = boundary
        # what a block is given goes to what is in it
        head = head_of(body[0])
        self._is_block = head is not None
        self._read = (reads(head) if head else needed_names(body)) & set(inputs)

    def __call__(self, env: dict[str, object]) -> None:
        """Compute the statements by Python; store their outputs in `env`."""
        values = [env[name] for name in self.inputs]
        if self.boundary is None:
            env.update(zip(self.outputs, self._run(*values), strict=True))
            return
        given = [env[name] for name in self._read]
        with self.boundary.crossing(given) as returned:
            try:
                found = self._run(*values)
            except Exception as error:
                at = self.boundary
                error.add_note(f"{at.place} is computed by Python: {at.reason}")
                raise
            returned += () if self._is_block else found
        env.update(zip(self.outputs, found, strict=True))


class Run:
    """Consecutive statements of a hybrid function, called as one; compiled as far as
    possible.

    It begins as one region. Where that cannot be traced it ends, the operation is an
    island, and what follows is a region again.

    Args:
        body: the statements.
        inputs: names that they read.
        outputs: names that are read after them.
        before: names that have values.
        owner: of what all runs share.
    """

    def __init__(
        self,
        body: list[ast.stmt],
        inputs: list[str],
        outputs: list[str],
        before: set[str],
        owner: Workshop,
    ) -> None:
        self.inputs, self.outputs = inputs, outputs
        self._before, self._owner = before, owner
        self._lock = threading.Lock()
        self._parts: dict[
            int, list[StatementRegion | Island]
        ] = {}  # of split ones, by identity
        self._split_pieces: list[
            StatementRegion | Island
        ] = []  # which live as long as that
        self._first = self._regions(body, {*outputs})

    @property
    def pieces(self) -> list[StatementRegion | Island]:
        """The current regions and islands of the run, in order."""
        return [x for each in self._first for x in self._parts_of(each)]

    def _parts_of(
        self, piece: StatementRegion | Island
    ) -> list[StatementRegion | Island]:
        """Return the pieces that a piece was split into; the piece itself if it was
        not.
        """
        if id(piece) not in self._parts:
            return [piece]
        return [x for each in self._parts[id(piece)] for x in self._parts_of(each)]

    def __call__(self, *values: object) -> tuple[object, ...]:
        """Compute the statements for values of the inputs; return the outputs in
        order.
        """
        env = dict(zip(self.inputs, values, strict=True))
        # other calls, in other threads or in an island of this one, may split pieces
        left = self.pieces[::-1]
        while left:
            piece = left.pop()
            try:
                piece(env)
            except Broken as broken:
                left += self._split(piece, broken)[::-1]
        return tuple(env[name] for name in self.outputs)

    def _split(
        self, piece: StatementRegion | Island, broken: Broken
    ) -> list[StatementRegion | Island]:
        """Split a region where tracing ended, unless that was done before; return the
        pieces that it now consists of.
        """
        with self._lock:
            if id(piece) not in self._parts:
                made = self._pieces(piece.body, broken, {*piece.outputs})
                self._parts[id(piece)] = made
                self._split_pieces.append(piece)
            return self._parts_of(piece)

    def _pieces(
        self, body: list[ast.stmt], broken: Broken, after: set[str]
    ) -> list[StatementRegion | Island]:
        """Return the regions and islands that replace statements of which one cannot be
        compiled.
        """
        at = broken.position
        if at is None:
            inputs, outputs = self._ends(body, after)
            return [self._python(body, inputs, outputs, broken.reason, after)]
        rewriter = self._owner.rewriter
        split = operations(body[at], rewriter.fresh, rewriter.names, rewriter.is_module)
        if split is not None:
            taken, rest = split
            return self._regions([*body[:at], *taken, rest, *body[at + 1 :]], after)
        live = live_before(body, after)
        found: list[StatementRegion | Island] = []
        if at:
            found += self._regions(body[:at], live[at])
        found.append(self._python_island(body[at], live[at + 1], broken.reason))
        if body[at + 1 :]:
            found += self._regions(body[at + 1 :], after)
        return found

    def _ends(
        self, body: list[ast.stmt], live_after: set[str]
    ) -> tuple[list[str], ...]:
        """Return the names of the inputs of statements, and of their outputs that are
        live after them.
        """
        names = self._owner.rewriter.names
        outputs = stores(*body) & live_after & names
        inputs = (needed_names(body) | (outputs - assigned_names(body))) & names
        return sorted(inputs), sorted(outputs)

    def _regions(
        self, body: list[ast.stmt], live_after: set[str]
    ) -> list[StatementRegion | Island]:
        """Return statements as one region, or as an island if they compute nothing;
        without live outputs, the last statement is an island.
        """
        inputs, outputs = self._ends(body, live_after)
        owner = self._owner
        if not computes(body):
            return [self._python(body, inputs, outputs, "")]
        if outputs:
            name, given = owner.next_name(), (owner.options, owner.sources)
            return [
                StatementRegion(body, inputs, outputs, owner.function, name, *given)
            ]
        *first, last = body
        rewriter = owner.rewriter
        split = operations(last, rewriter.fresh, rewriter.names, rewriter.is_module)
        taken, last = split or ([], last)
        first += taken
        island = self._python_island(last, live_after, "its result is not used")
        needs = live_before([last], live_after)[0]
        return [*self._regions(first, needs), island] if first else [island]

    def _python_island(
        self, statement: ast.stmt, live_after: set[str], reason: str
    ) -> Island:
        """Return an Island: a statement that Python runs, its inputs, live outputs."""
        inputs, outputs = self._ends([statement], live_after)
        return self._python([statement], inputs, outputs, reason, live_after)

    def _python(
        self,
        body: list[ast.stmt],
        inputs: list[str],
        outputs: list[str],
        reason: str,
        live_after: set[str] = frozenset(),  # type: ignore[assignment]
    ) -> Island:
        """Return an Island of statements, whose blocks may have compiled `Run`s in
        them.
        """
        owner = self._owner
        before, inside = self._before | {*inputs}, list[ast.stmt]()
        for each, after in zip(body, live_before(body, {*live_after})[1:], strict=True):
            part = owner.rewriter.descend(each, before, after)
            inside.append(without_changes_of_constants(part))
            before = before | assigned_names([each])
        run = make_function(
            owner.function, "island", inputs, inside, outputs, owner.tools
        )
        boundary = owner.boundary(body[0], reason) if computes(body) else None
        return Island(body, inside, inputs, outputs, run, boundary)


class Workshop:
    """State shared by the runs of one hybrid function.

    Args:
        function: of the user.
        names: of its variables.
        late_bound: those that functions inside see change.
        options: of `aotc.jit`.
        sources: Weights by the names of parameters.
    """

    def __init__(
        self,
        function: FunctionType,
        names: set[str],
        late_bound: set[str],
        options: JitOptions,
        sources: Mapping[str, Weights],
    ) -> None:
        self.function, self.options, self.sources = function, options, sources
        self.name, self._file = function.__name__, function.__code__.co_filename
        self.runs: list[Run] = []
        self.rewriter = Rewriter(
            names, late_bound, self._is_module, self._add, self._note
        )
        self.listed: list[Boundary] = []
        self._count = 0

    def _is_module(self, name: str) -> bool:
        """Return whether a free name of the function refers to a module."""
        try:
            return isinstance(value_outside(self.function, name), ModuleType)
        except NameError:
            return False

    def _add(
        self,
        body: list[ast.stmt],
        inputs: list[str],
        outputs: list[str],
        assigned_before: set[str],
    ) -> int:
        """Add a `Run` of statements; return its number."""
        self.runs.append(Run(body, inputs, outputs, assigned_before, self))
        return len(self.runs) - 1

    def _note(self, node: ast.stmt, reason: str) -> int:
        """List a statement as computed by Python; return the number of its boundary."""
        self.listed.append(self.boundary(node, reason))
        return len(self.listed) - 1

    @property
    def tools(self) -> dict[str, object]:
        """The names and values that rewritten code refers to."""
        return {
            "_aotc_runs": self.runs,
            "_aotc_python": self.listed,
            AUGMENTED: augmented,
            AUGMENTED_ATTRIBUTE: augmented_attribute,
            AUGMENTED_PART: augmented_part,
        }

    def next_name(self) -> str:
        """Return a fresh name for a compiled function."""
        self._count += 1
        return f"{self.name}_{self._count}"

    def boundary(self, node: ast.stmt, reason: str) -> Boundary:
        """Return the Boundary of a statement, with its location and source line."""
        place = f"{Path(self._file).name}:{node.lineno}"
        line = linecache.getline(self._file, node.lineno).strip()
        return Boundary(self.name, place, line, reason)

    @property
    def regions(self) -> list[StatementRegion]:
        """The current regions of all runs that are compiled."""
        pieces = (piece for run in self.runs for piece in run.pieces)
        regions = [each for each in pieces if isinstance(each, StatementRegion)]
        return [each for each in regions if not each.is_python]

    @property
    def compiled(self) -> list[JitFunction]:
        """The `aotc.jit` functions of the regions."""
        return [each.jit for each in self.regions]
