"""`Survey`: what became of each op of a source while it was imported.

Every import is surveyed; the counts go into the manifest. A tolerant survey goes on
after an op that cannot be imported, with zeros in the place of its results, so that one
run finds them all: `aotc explain`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVar

from aotc.errors import AotcError
from aotc.tracing.array import Array
from aotc.tracing.findings import OpFinding, require_none
from aotc.tracing.source_locations import user_line

_T = TypeVar("_T")
Watch = Callable[[Hashable, str, str, object], None]


@dataclass
class Survey:
    """The record of an import: which ops were captured, folded or unsupported.

    Args:
        tolerant: whether to go on after what cannot be imported.
    """

    tolerant: bool = False
    _captured: set[Hashable] = field(default_factory=set)
    _folded: set[Hashable] = field(default_factory=set)
    _found: dict[tuple[str, str, str, str, str], dict[Any, str]] = field(
        default_factory=dict
    )

    @property
    def findings(self) -> list[OpFinding]:
        """The findings so far, in the order of first use."""
        return [
            OpFinding(op, reason, tuple(uses.values()), advice, kind, code)
            for (kind, code, op, reason, advice), uses in self._found.items()
        ]

    def coverage(self, graph_ops: int) -> dict[str, int]:
        """Return counts of ops by outcome, for the manifest."""
        captured = len(self._captured)
        folded = len(self._folded - self._captured)
        if not captured + folded:
            captured = graph_ops
        return {
            "ops": captured + folded,
            "captured": captured,
            "folded": folded,
            "decomposed": self._count("decomposed"),
            "approximated": self._count("approximated"),
            "graph_ops": graph_ops,
        }

    def _count(self, kind: str) -> int:
        """Return the number of uses of ops that findings of a kind list."""
        return sum(each.count for each in self.findings if each.kind == kind)

    def note(
        self,
        kind: str,
        op: str,
        reason: str,
        place: str,
        advice: str = "",
        *,
        code: str = "",
        node: Hashable = None,
    ) -> None:
        """Record a finding on one use of an op; a node counts once."""
        uses = self._found.setdefault((kind, code or kind, op, reason, advice), {})
        uses[node if node is not None else (len(uses), place)] = place

    def refuse(self, op: str, error: AotcError, node: Hashable = None) -> None:
        """Record an error as a finding that the op is unsupported."""
        if error.code == "unsupported-ops" and self._is_unsupported(op):
            return  # it was found before the model was traced
        place, hint = error.where or op, error.hint or ""
        self.note(
            "unsupported", op, error.message, place, hint, code=error.code, node=node
        )

    def _is_unsupported(self, op: str) -> bool:
        """Return whether an op has a finding of being unsupported."""
        return any(key[0] == "unsupported" and key[2] == op for key in self._found)

    def record_result(self, node: Hashable, results: object) -> None:
        """Record a node as captured, if a result is a graph value, or else as
        folded.
        """
        if any(isinstance(x, Array) and x._data is None for x in _leaves(results)):
            self._captured.add(node)
        else:
            self._folded.add(node)


def _leaves(results: object) -> Iterator[object]:
    """Yield the leaves of nested results, padded ones by their arrays."""
    if isinstance(results, (list, tuple)):
        for each in results:
            yield from _leaves(each)
    else:  # the array of a `padded.Padded`, which is imported after this module
        yield getattr(results, "data", results)


_current: ContextVar[Survey | None] = ContextVar("aotc_survey", default=None)
_watch: ContextVar[Watch | None] = ContextVar("aotc_watch", default=None)
_node: ContextVar[tuple[Hashable, str]] = ContextVar("aotc_node", default=(None, ""))


@contextmanager
def survey_imports(tolerant: bool = False) -> Iterator[Survey]:
    """Record imports within the `with` block, in the outer survey if there is one."""
    survey = _current.get() or Survey(tolerant)
    token = _current.set(survey)
    try:
        yield survey
    finally:
        _current.reset(token)


@contextmanager
def without_survey() -> Iterator[None]:
    """Suspend the survey within the `with` block, so that errors end it."""
    token = _current.set(None)
    try:
        yield
    finally:
        _current.reset(token)


def import_node(
    node: Hashable, op: str, compute: Callable[[], _T], placeholder: Callable[[], _T]
) -> _T:
    """Return a node's results and record the outcome; placeholders in a tolerant
    survey.

    Args:
        node: tells one node of the source from another; the same one may come again,
            as in a body that two entries share.
        op: its operator, by the source's own name.
        compute: gives the results.
        placeholder: gives some of the same types, for a tolerant survey to go on with;
            it raises where the types are not known.
    """
    watch = _watch.get()
    if watch is not None:
        results = compute()
        watch(node, op, user_line() or op, results)
        return results
    survey = _current.get()
    if survey is None:
        return compute()
    token = _node.set((node, op))
    try:
        results = compute()
    except AotcError as error:
        if not survey.tolerant:
            raise
        survey.refuse(op, error, node)
        return placeholder()
    finally:
        _node.reset(token)
    survey.record_result(node, results)
    return results


@contextmanager
def watch_nodes(watch: Watch) -> Iterator[None]:
    """Call `watch` with each node imported within the `with` block: key, op, place,
    results.
    """
    token = _watch.set(watch)
    try:
        yield
    finally:
        _watch.reset(token)


def note_approximation(reason: str, advice: str = "") -> None:
    """Record that the current node is imported as an approximation of it."""
    _note_here("approximated", reason, advice)


def note_decomposition(reason: str) -> None:
    """Record that the current node is imported as several simpler ops."""
    _note_here("decomposed", reason)


def note(kind: str, op: str, reason: str, place: str) -> None:
    """Record a finding on an op outside of any node."""
    survey = _current.get()
    if survey is not None:
        survey.note(kind, op, reason, place)


def _note_here(kind: str, reason: str, advice: str = "") -> None:
    """Record a finding on the current node."""
    survey, (node, op) = _current.get(), _node.get()
    if survey is not None and node is not None:
        survey.note(kind, op, reason, user_line() or op, advice, node=node)


def require_importable(findings: Sequence[OpFinding]) -> None:
    """Refuse a model with findings; a tolerant survey records them instead.

    Raises:
        InputError: there are findings; `unsupported-ops`.
    """
    survey = _current.get()
    if survey is None or not survey.tolerant:
        require_none(findings)
        return
    for each in findings:
        for place in each.places:
            survey.note(
                each.kind, each.op, each.reason, place, each.help, code=each.code
            )


@contextmanager
def tolerate_errors(what: str) -> Iterator[None]:
    """Record an error of the `with` block and go on, if the survey is tolerant."""
    survey = _current.get()
    try:
        yield
    except AotcError as error:
        if survey is None or not survey.tolerant:
            raise
        survey.refuse(what, error)
