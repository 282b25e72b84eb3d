"""Guards on the values that a trace looked at, and their check in later calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from aotc.artifacts.conditions import Condition
from aotc.dialects import context
from aotc.dialects.functions.entry_guards import EntryGuard
from aotc.dialects.functions.functions import functions_of, signature
from aotc.dialects.graph import Evaluator, GraphOp
from aotc.dialects.sizes.symbols import current_contracts
from aotc.dialects.types import (
    COMPARISONS,
    Size,
    SymbolicDim,
    evaluate_size,
    symbols_of,
    undecided_error,
)
from aotc.just_in_time.trace_guards import TraceSizeGuard, ValueGuard, Values
from aotc.mlir import Block, Function, Module, Value, ir
from aotc.reference import bind_symbols
from aotc.tracing.array import Array
from aotc.tracing.call_sizes import SizeCondition
from aotc.tracing.source_locations import fail, user_line
from aotc.tracing.tracing import Trace, current_trace

Arrays = dict[Value, np.ndarray]  # of values of a function in a call


class CallValues:
    """The argument values of a traced call, for Python's decisions; a `Specializer`.

    Args:
        values: of its arguments.
        sizes: of its symbols, by name.
        guards_branches: whether Python may decide on values.
    """

    def __init__(
        self, values: Values, sizes: Mapping[str, int], *, guards_branches: bool
    ) -> None:
        self.guards_branches = guards_branches
        self.guards: list[ValueGuard] = []
        self.size_guards: dict[str, TraceSizeGuard] = {}  # by condition
        self.pinned: dict[str, int] = {}  # symbols that can have this size alone
        self._values = values
        self._sizes = sizes
        self._known: Arrays = {}
        self._symbols: list[int] = []

    def decide(self, condition: SizeCondition) -> bool:
        """Return whether a size condition holds in the call, and record it as a
        guard.
        """
        left, right = (self._value(x) for x in (condition.left, condition.right))
        answer = COMPARISONS[condition.sign](left, right)
        held = condition if answer else condition.opposite
        text = repr(held)
        only = held.equal_symbol
        if only is not None:  # code for a number is better than for what is equal to it
            self.pin(SymbolicDim.symbol(only))
        elif text not in self.size_guards:
            where = user_line() or "?"
            self.size_guards[text] = TraceSizeGuard(Condition.parse(text), where)
            trace = current_trace()
            assert trace is not None, "sizes without a trace are numbers"
            why = "the function was traced for a call that decides so"
            trace.root.guards.setdefault(text, EntryGuard(text, why, where))
        return answer

    def pin(self, size: SymbolicDim) -> int:
        """Return a symbolic size's value in the call, and fix its symbols to those
        values.
        """
        value, contracts = self._value(size), current_contracts()
        names = [contracts[symbol].name for symbol in symbols_of(size)]
        self.pinned |= {name: self._sizes[name] for name in names}
        return value

    def _value(self, size: Size) -> int:
        """Return a size's value in the call; refuse a size of another function."""
        contracts = current_contracts()
        known = [self._sizes.get(each.name) for each in contracts]
        if any(n >= len(known) or known[n] is None for n in symbols_of(size)):
            raise undecided_error(f"'{size!r}'", "ask the call that is traced for it")
        pairs = zip(known, contracts, strict=True)
        values = [(n or 0) // each.multiple_of for n, each in pairs]
        return evaluate_size(size, values)

    def value_of(self, array: Array) -> np.ndarray:
        """Compute an array's value in the call, and record it as a guarded value."""
        trace = array._trace
        if not isinstance(trace, Trace) or trace.parent is not None:
            fail(
                "no-call",
                "the body of a loop, a branch or a derivative has other values in each "
                "turn, and none of the call",
                "specialize outside of it",
            )
        block = trace.block
        value, where = array._value, user_line() or "?"
        with context():
            if not self._known:
                found = _bound_values(trace.function, self._values)
                self._known, self._symbols = found
            data = np.asarray(_evaluate(value, self._known, self._symbols))
        self.guards.append(ValueGuard(where, data, *_position_of(block, value)))
        return data


class GuardCheck:
    """Checks whether a call gives the values that a trace has guarded.

    Args:
        module: the traced program, which nothing else changes.
        name: of the function.
        guards: in the order in which the trace came upon them.
    """

    def __init__(self, module: Module, name: str, guards: Sequence[ValueGuard]) -> None:
        self._module = module  # whose functions live as long as it does
        self._function = functions_of(module)[name]
        self._block = self._function.entry_block
        self._ops = list(self._block.operations)
        self.guards = list(guards)

    def holds(self, values: Values) -> bool:
        """Return whether a call has all guarded values; stop at the first that
        differs.
        """
        with context():
            known, symbols = _bound_values(self._function, values)
            return all(
                each.holds(self._guarded_value(each, known, symbols))
                for each in self.guards
            )

    def _guarded_value(
        self, guard: ValueGuard, known: Arrays, symbols: Sequence[int]
    ) -> np.ndarray:
        """Return the value that a guard looks at in a call."""
        if guard.result is None:
            return known[self._block.arguments[guard.number]]
        value = self._ops[guard.number].results[guard.result]
        return np.asarray(_evaluate(value, known, symbols))


def _bound_values(function: Function, values: Values) -> tuple[Arrays, list[int]]:
    """Return a call's arrays by function argument, and the values of the symbols."""
    arrays = [np.asarray(x) for x in values]
    known = dict(zip(function.entry_block.arguments, arrays, strict=True))
    return known, bind_symbols(signature(function)[0], arrays)


def _position_of(block: Block, value: Value) -> tuple[int, int | None]:
    """Return a value's position in a block: an argument's number, or an op's and a
    result's.
    """
    if isinstance(value.owner, ir.Block):
        return list(block.arguments).index(value), None
    ops = list(block.operations)
    number = next(i for i, op in enumerate(ops) if value.owner == op.operation)
    return number, list(ops[number].results).index(value)


def _evaluate(wanted: Value, known: Arrays, symbols: Sequence[int]) -> np.ndarray:
    """Compute a value by the ops that it depends on; add all intermediates to
    `known`.
    """
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
