"""Values that a trace has looked at, and how a later call is held to them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from aotc.dialects import context
from aotc.dialects.functions import functions_of, signature
from aotc.dialects.graph import Evaluator, GraphOp
from aotc.mlir import ir
from aotc.reference import bind_symbols
from aotc.tracing.array import Array
from aotc.tracing.source_locations import fail, user_line
from aotc.tracing.tracing import Trace

_LISTED = 16
Values = Sequence[Any]  # the arguments of a call, in the order of the function's


@dataclass
class ValueGuard:
    """A value that code was made for.

    Args:
        where: the line that looked at it.
        value: that it had.
        number: of the argument that it is, or else of the op that computes it.
        result: of that op; None for an argument.
        failures: how often calls had another value, by the text of that; of all but
            the first 16 values together.
    """

    where: str
    value: np.ndarray[Any, Any]
    number: int
    result: int | None
    failures: Counter[str] = field(default_factory=Counter)

    @property
    def name(self) -> str:
        """What messages and counters call it."""
        return f"value at {self.where}"

    def holds(self, found: np.ndarray[Any, Any]) -> bool:
        """Whether a call has the value, bit for bit."""
        is_same = found.tobytes() == self.value.tobytes()
        if not is_same:
            text = _text(found)
            is_new = text not in self.failures and len(self.failures) >= _LISTED
            self.failures["others" if is_new else text] += 1
        return is_same

    def __str__(self) -> str:
        return f"{self.where} is {_text(self.value)}"


class CallValues:
    """The values of the call that a function is traced for; a `Specializer`.

    Args:
        values: of its arguments.
        guards_branches: whether Python may decide on values.
    """

    def __init__(self, values: Values, *, guards_branches: bool) -> None:
        self.guards_branches = guards_branches
        self.guards: list[ValueGuard] = []
        self._values = values
        self._known: dict[Any, Any] = {}

    def value_of(self, array: Array) -> np.ndarray[Any, Any]:
        """See `Specializer`."""
        trace = array._trace
        if not isinstance(trace, Trace) or trace.parent is not None:
            fail(
                "no-call",
                "the body of a loop, a branch or a derivative has other values in each "
                "turn, and none of the call",
                "specialize outside of it",
            )
        block = trace.block
        if not self._known:
            self._known = dict(zip(block.arguments, self._values, strict=True))
        value, where = array._value, user_line() or "?"
        with context():
            symbols = _symbols(trace.function, self._values)
            data = np.asarray(_evaluate(block, value, self._known, symbols))
        self.guards.append(ValueGuard(where, data, *_place(block, value)))
        return data


class GuardCheck:
    """Holds calls to the guards of a trace.

    Args:
        module: the traced program, which nothing else changes.
        name: of the function.
        guards: in the order in which the trace came upon them.
    """

    def __init__(self, module: Any, name: str, guards: Sequence[ValueGuard]) -> None:
        self._module = module  # whose functions live as long as it does
        self._function = functions_of(module)[name]
        self._block = self._function.entry_block
        self._ops = list(self._block.operations)
        self.guards = list(guards)

    def holds(self, values: Values) -> bool:
        """Whether all guards hold of a call; one that fails ends it."""
        with context():
            symbols = _symbols(self._function, values)
            known = dict(zip(self._block.arguments, values, strict=True))
            return all(
                each.holds(self._found(each, known, symbols)) for each in self.guards
            )

    def _found(self, guard: ValueGuard, known: dict[Any, Any], symbols: Any) -> Any:
        if guard.result is None:
            return known[self._block.arguments[guard.number]]
        value = self._ops[guard.number].results[guard.result]
        return np.asarray(_evaluate(self._block, value, known, symbols))


class Coverage:
    """How many calls had each value that code was made for, by the line."""

    def __init__(self) -> None:
        self._calls: dict[str, Counter[str]] = {}

    def note_calls(self, check: GuardCheck | None, calls: int) -> None:
        """Count calls of code.

        Args:
            check: its guards.
            calls: how many there were.
        """
        for guard in check.guards if check else ():
            self._calls.setdefault(guard.where, Counter())[_text(guard.value)] += calls

    def copy(self) -> Coverage:
        """The same counts, which do not change with these."""
        same = Coverage()
        same._calls = {where: counts.copy() for where, counts in self._calls.items()}
        return same

    def to_json(self) -> list[dict[str, Any]]:
        """For each line: the values, their calls, and the share of these."""
        return [
            {
                "where": where,
                "calls": counts.total(),
                "values": [
                    {"value": value, "calls": n, "share": n / max(counts.total(), 1)}
                    for value, n in counts.most_common()
                ],
            }
            for where, counts in self._calls.items()
        ]


def _symbols(function: Any, values: Values) -> list[int]:
    return bind_symbols(signature(function)[0], [np.asarray(x) for x in values])


def _place(block: Any, value: Any) -> tuple[int, int | None]:
    """Where a value is made: the number of an argument, or of an op and its result."""
    if isinstance(value.owner, ir.Block):
        return list(block.arguments).index(value), None
    ops = list(block.operations)
    number = next(i for i, op in enumerate(ops) if value.owner == op.operation)
    return number, list(ops[number].results).index(value)


def _evaluate(block: Any, wanted: Any, known: dict[Any, Any], symbols: Any) -> Any:
    """The value of `wanted`, by the ops that it is computed with."""
    evaluate, rest = Evaluator(), [wanted]
    with np.errstate(all="ignore"):
        while rest:
            value = rest[-1]
            if value in known:
                rest.pop()
                continue
            op = value.owner.opview
            if not isinstance(op, GraphOp):
                fail(
                    "no-call",
                    "the value comes out of a loop, a branch or a derivative, which "
                    "only compiled code computes",
                    "specialize what goes into it",
                )
            missing = [each for each in op.operands if each not in known]
            if missing:
                rest += missing
                continue
            results = evaluate(op, [known[x] for x in op.operands], symbols)
            known.update(zip(op.results, results, strict=True))
    return known[wanted]


def _text(value: np.ndarray[Any, Any]) -> str:
    return np.array2string(value, threshold=8, max_line_width=60).replace("\n", " ")
