"""Check of one call of a loaded entry against the reference, with its own arguments.

For code that is made when it is called: a build compares entries on inputs that it
draws (`self_check`), these are compared on what they are called with. Judged alike.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, NamedTuple

import numpy as np

from aotc.backend import CompiledVariant
from aotc.checks.bisect import locate_divergence
from aotc.checks.checked_entry import Arrays, CheckedEntry
from aotc.checks.judging import Rounding, RoundingRule, Verdict, judge
from aotc.checks.rounding import Noise
from aotc.checks.samples import CallSequence
from aotc.checks.work import NoMemoryToCompare, NothingToCompare, OverBudget, WorkBudget
from aotc.core.dtypes import to_numpy
from aotc.core.pytree import flatten
from aotc.dialects import context
from aotc.dialects.graph import GraphOp
from aotc.errors import CompileError, InputError
from aotc.mlir import ir
from aotc.passes import run_passes
from aotc.programs.program import Program
from aotc.runtime import Model

_WORK_PER_SECOND = 1e9  # of the reference evaluator, about: see `self_check`
_ELEMENTS = 2**28  # of the largest array
_NOISY = 8.0  # how many times longer rounding may be measured where results differ
_LOCATED = 20.0  # seconds: what took longer to compile is not compiled again in parts
_HINT = (
    "the compiler is at fault, not the function: please report it; with "
    "AOTC_CHECK=off it is called all the same"
)


class Refused(NothingToCompare):
    """The model itself rejects the arguments, or may do so by rounding."""

    kind = "refused"


class Failed(NothingToCompare):
    """The reference evaluator fails; the call itself may be right."""

    kind = "evaluator"


class Undecided(NothingToCompare):
    """Rounding alone decides which results are finite, so none is compared."""

    kind = "rounding"


class CallCheckResult(NamedTuple):
    """The compiled results of a checked call, and why they were not compared, if so.

    Args:
        results: its leaves, compiled.
        skipped: why they could not be compared; None where they are right.
    """

    results: Sequence[Any]
    skipped: NothingToCompare | None = None


@dataclass
class CallCheck:
    """Compares each call of a loaded model's entry with the reference evaluator.

    Args:
        program: a copy of what was compiled, which is used up.
        entry: its name.
        model: the compiled code.
        seconds: that the reference evaluator may take, about; None for any time.
        compiled: the code as the compiler gave it, by which the line is found where a
            difference begins; None where it is not at hand.
    """

    program: Program
    entry: str
    model: Model
    seconds: float | None
    compiled: CompiledVariant | None

    def __post_init__(self) -> None:
        run_passes(self.program.module, ("autodiff",), silently=True)
        declared = self.program.entry(self.entry)
        self._checked = CheckedEntry(self.program, self.program.module, declared)

    def call(self, leaves: Sequence[object]) -> CallCheckResult:
        """Compute a call by the compiled code and by the reference; return the compiled
        result.

        States are updated by it as by any other call, unless it fails.

        Raises:
            CompileError: `self-check`: the results differ.
            AotcError: what the compiled code raises.
        """
        # what overflows in here is no warning to the user
        with context(), ir.Location.unknown(), np.errstate(all="ignore"):
            before = self._states()
            run = self.model.entry(self.entry).call_flat
            try:
                arrays = [np.asarray(leaf) for leaf in leaves]
                expected, calls = self._expected(arrays, before)
            except NothingToCompare as reason:
                return CallCheckResult(run(leaves), reason)
            found = run(leaves)
            try:
                self._require_right(found, expected, calls)
            except NothingToCompare as reason:
                return CallCheckResult(found, reason)
            except CompileError:
                self._restore(before)
                raise
            return CallCheckResult(found)

    # ---- states

    def _states(self) -> dict[str, object]:
        """Return the values of all states of the model, by name."""
        return {s.name: self.model.read_state(s.name) for s in self.program.states}

    def _restore(self, states: dict[str, object]) -> None:
        """Write values of states back into the model."""
        for name, tree in states.items():
            self.model.write_state(tree, name)

    # ---- what it should be

    def _expected(
        self, leaves: Sequence[np.ndarray], states: Mapping[str, object]
    ) -> tuple[tuple[Arrays, Arrays], CallSequence]:
        """Return the arguments and results of a call by the reference evaluator, and
        the call itself.

        Raises:
            NothingToCompare: it makes nothing of them.
        """
        stored = {
            leaf: array
            for state in self.program.states
            for leaf, array in zip(
                state.leaves, flatten(states[state.name])[0], strict=True
            )
        }
        work = (
            WorkBudget(inf, inf)
            if self.seconds is None
            else WorkBudget(self.seconds * _WORK_PER_SECOND, _ELEMENTS)
        )
        try:
            calls = CallSequence({}, (self._inputs(leaves),), stored)
            (expected,) = self._checked.reference_results(calls, work)
        except MemoryError:
            raise NoMemoryToCompare from None
        except InputError as error:
            raise Refused(error.message) from None
        except NothingToCompare:
            raise
        except Exception as error:
            raise Failed(f"{type(error).__name__}: {error}") from error
        return expected, calls

    def _inputs(self, leaves: Sequence[np.ndarray]) -> Arrays:
        """Return the leaves of a call as arrays of the entry's dtypes."""
        ports = self._checked.entry.ports("input")
        return [
            np.asarray(leaf, to_numpy(port.type.dtype))
            for leaf, port in zip(leaves, ports, strict=True)
        ]

    # ---- what is said of it

    def _require_right(
        self,
        found: Sequence[np.ndarray],
        expected: tuple[Arrays, Arrays],
        calls: CallSequence,
    ) -> None:
        """Raise if compiled results or updated states differ from the expected ones."""
        arguments, results = expected
        updated = self._checked.entry.updates
        after = [
            leaf
            for state in self.program.states
            if state.name in updated
            for leaf in flatten(self.model.read_state(state.name))[0]
        ]
        rounding = Rounding(results, _Noisy(self._checked, calls, self.seconds))
        try:
            arrays = [np.asarray(each) for each in (*found, *after)]
            verdicts = judge(self._checked.names, arrays, results, rounding)
        except InputError as error:
            raise Refused(
                f"rounding decides a check of the model: {error.message}"
            ) from None
        except MemoryError:
            raise NoMemoryToCompare from None
        wrong = [each for each in verdicts if not each.passed]
        if rounding.is_all:
            raise Undecided("rounding alone decides what is finite")
        if wrong:
            raise self._failure(wrong, arguments, results)

    def _failure(
        self, wrong: Sequence[Verdict], arguments: Arrays, results: Arrays
    ) -> CompileError:
        """Return the error for wrong results: verdicts, input shapes, and the source
        line.
        """
        where, begins = self._locate(arguments, results)
        lines = [*(f"  FAIL {each}" for each in wrong), *begins]
        shapes = ", ".join(
            f"{port.name} {port.type.dtype}{list(x.shape)}"
            for port, x in zip(self._checked.entry.arguments, arguments, strict=True)
            if port.kind == "input"
        )
        return CompileError(
            "self-check",
            f"{self.entry}, compiled for '{self.model.variant.id}', does not compute "
            f"what its graph says in this call ({shapes}):\n" + "\n".join(lines),
            where=where,
            hint=_HINT,
        )

    def _locate(
        self, arguments: Arrays, results: Arrays
    ) -> tuple[str | None, list[str]]:
        """Return the source line where a call begins to differ, and message lines, if
        quick.
        """
        if self.compiled is None or self.compiled.seconds > _LOCATED:
            return None, []
        checked = self._checked
        outputs = results[: len(checked.entry.ports("output"))]
        where, begins = locate_divergence(
            checked.program,
            checked.graph,
            checked.entry,
            self.compiled,
            arguments,
            outputs,
            RoundingRule(),
        )
        return where, [f"  {begins}"]


@dataclass
class _Noisy:
    """Evaluates a call with rounding noise by the reference, within a time limit."""

    checked: CheckedEntry
    calls: CallSequence
    seconds: float | None

    def __post_init__(self) -> None:
        most = inf if self.seconds is None else _NOISY * self.seconds
        self._end = time.monotonic() + most

    def __call__(self, noise: Noise) -> Arrays:
        """Return the results with this noise; raise `OverBudget` when the time is
        up.
        """

        def with_op(
            op: GraphOp, operands: Sequence[np.ndarray], symbols: Sequence[int]
        ) -> list[np.ndarray]:
            if time.monotonic() > self._end:
                raise OverBudget("rounding would take too long to be measured")
            return noise(op, operands, symbols)

        ((_, results),) = self.checked.reference_results(self.calls, with_op)
        return results
