"""Compares code that is made at a call with the reference evaluator, in that call.

IREE has compiled wrong results without a word. A build compares its entries before it
signs (`aotc.checks`); what is made when it is called is compared at its first call,
with the arguments of that (AOTC_CHECK). The reference evaluator may take about as long
as the code took to be made; what would take longer is counted as not checked. Code of
which a call was wrong computes no other one, here or in a process that finds it in the
cache; what was found right is not compared again there.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aotc.counting import counters
from aotc.errors import CompileError
from aotc.just_in_time.kept_bundles import KeptBundle
from aotc.runtime import Model

if TYPE_CHECKING:
    from aotc.backend import CompiledVariant
    from aotc.checks.call_check import CallCheck
    from aotc.programs.program import Program

_LEAST = 1.0  # seconds that the reference evaluator may take in any case


@dataclass(frozen=True)
class Unchecked:
    """A program and its code, which a first call is to compare by the reference
    evaluator.

    Args:
        program: a copy of what it was compiled from.
        seconds: that making it took.
        compiled: the code as the compiler gave it; None where the cache had it.
        kept: where the cache has its bundle; None for nowhere.
        always: whether each of its calls is compared, and in any time.
    """

    program: Program
    seconds: float
    compiled: CompiledVariant | None
    kept: KeptBundle | None
    always: bool


class FirstCall:
    """A callable that computes an entry, and compares its first call with the
    reference.

    Threads wait for the first one. A call that raises, as for arguments that the entry
    does not take, says nothing of the code.

    Args:
        model: that has the code.
        entry: name of the entry.
        unchecked: what is known of the code.
        done: is called when no further call is to be compared.
    """

    def __init__(
        self,
        model: Model,
        entry: str,
        unchecked: Unchecked,
        done: Callable[[], None],
    ) -> None:
        self._model, self._name = model, entry
        self._run = model.entry(entry).call_flat
        self._unchecked: Unchecked | None = unchecked
        self._check: CallCheck | None = None
        self._lock = threading.Lock()
        self._error: CompileError | None = None
        self._done = done

    def __call__(self, leaves: Sequence[object]) -> Sequence[object]:
        """Compute a call from its leaves; return the leaves of the result.

        Raises:
            CompileError: `self-check`: this call, or one before, was computed wrongly.
        """
        with self._lock:
            if self._error is not None:
                raise _without_traceback(self._error)
            if self._unchecked is not None:
                return self._call_and_compare(self._unchecked, leaves)
        return self._run(leaves)

    def _call_and_compare(
        self, unchecked: Unchecked, leaves: Sequence[object]
    ) -> Sequence[object]:
        """Compute a call by the code and by the reference evaluator; record the
        outcome, and return the compiled leaves.
        """
        from aotc.checks.call_check import CallCheck  # with the compiler's side

        check = self._check
        if check is None:
            seconds = None if unchecked.always else max(unchecked.seconds, _LEAST)
            check = self._check = CallCheck(
                unchecked.program, self._name, self._model, seconds, unchecked.compiled
            )
        try:
            results, skipped = check.call(leaves)
        except CompileError as error:
            if error.code == "self-check":
                self._error = _without_traceback(error)
                self._unchecked = self._check = None
                self._note(unchecked, "failed", error=error)
            raise
        if skipped is None:
            self._note(unchecked, "passed")
        else:
            self._note(unchecked, "skipped", skipped.kind)
        if not unchecked.always:
            self._unchecked = self._check = None
            self._done()
        return results

    def _note(
        self,
        unchecked: Unchecked,
        outcome: str,
        reason: str = "",
        error: CompileError | None = None,
    ) -> None:
        """Count the outcome of a comparison, and store it in the cache beside the
        code.
        """
        manifest = self._model.manifest
        labels = {
            "model": manifest.name,
            "version": manifest.version,
            "target": self._model.variant.id,
            "entry": self._name,
            "outcome": outcome,
            "reason": reason,
        }
        counters.counter("call_checks", labels).add()
        if unchecked.kept is not None:
            unchecked.kept.note_check({"error": error and _facts(error)})


def require_right(kept: KeptBundle) -> bool:
    """Return whether a comparison of cached code is on record, passed or skipped; raise
    if it has failed.

    Raises:
        CompileError: `self-check`: it was, and computes something else.
    """
    found = kept.check()
    if found is None:
        return False
    if found["error"] is not None:
        message, where, hint = found["error"]
        raise CompileError("self-check", message, where=where, hint=hint)
    return True


def _facts(error: CompileError) -> list[str | None]:
    """Return an error's message, location and hint, for the cache."""
    return [error.message, error.where, error.hint]


def _without_traceback(error: CompileError) -> CompileError:
    """Return a copy of an error without the traceback of the call that raised it."""
    return CompileError(error.code, error.message, where=error.where, hint=error.hint)
