"""Find a term in a graph as it stands, op by op."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from types import SimpleNamespace
from typing import Any

from aotc.dialects.builder import Builder
from aotc.dialects.graph import GraphOp
from aotc.dialects.patterns.rows import RewriteRow
from aotc.dialects.patterns.terms import (
    CaptureTerm,
    ChoiceTerm,
    NumberTerm,
    OpTerm,
    Term,
    TruthTerm,
)
from aotc.dialects.patterns.values import splat_of, truth_of
from aotc.mlir import Value, ir

Found = Mapping[str, Any]  # what is captured, by name
Ways = list[Found]  # in which a term can be found


class _MatchedValue:
    """A value to match against several rows, with facts cached."""

    def __init__(self, value: Value) -> None:
        self.value = value

    @cached_property
    def op_name(self) -> str:
        """Name of the op that defines the value; empty for an argument."""
        owner = self.value.owner
        return "" if isinstance(owner, ir.Block) else owner.name

    @cached_property
    def number(self) -> float | None:
        """The number that every element of the value is, or None."""
        return splat_of(self.value)

    @cached_property
    def op(self) -> Any:
        """The op that defines the value, as an instance of its class."""
        return self.value.owner.opview

    @cached_property
    def operands(self) -> "list[_MatchedValue]":
        """The operands of the op that defines the value."""
        return _operands_of(self.op)


def _operands_of(op: GraphOp) -> list[_MatchedValue]:
    """Return the operands of an op, to be matched."""
    return [_MatchedValue(value) for value in op.operands]


def replacement(rows: Sequence[RewriteRow], op: GraphOp) -> Value | None:
    """Emit and return the replacement of an op by the first row that matches; or None.

    Args:
        rows: of the op's class.
        op: that may be replaced.
    """
    operands = _operands_of(op) if rows else []
    for row in rows:
        assert isinstance(row.term, OpTerm)
        for found in _ways_of_op(row.term, op, operands, {}):
            captured = SimpleNamespace(**found)
            if row.where(captured):
                with ir.InsertionPoint(op), op.location:
                    value = row.build(Builder(), captured)
                if value is not None:
                    return value
    return None


def _ways(term: Term, operand: _MatchedValue, captured: Found) -> Ways:
    """Return the captures of each way in which a value matches a term."""
    match term:
        case CaptureTerm():
            return _bind(term.name, operand.value, captured)
        case OpTerm():
            if operand.op_name != term.operation:
                return []
            return _ways_of_op(term, operand.op, operand.operands, captured)
        case NumberTerm():
            if isinstance(term.value, str) and operand.number is not None:
                return _bind(term.value, operand.number, captured)
            return [captured] if operand.number == term.value else []
        case TruthTerm():
            return [captured] if truth_of(operand.value) is term.value else []
        case ChoiceTerm():
            return [
                way for each in term.choices for way in _ways(each, operand, captured)
            ]
    raise TypeError(f"expected a term of a graph as it stands; got {term}")


def _ways_of_op(
    term: OpTerm, op: Any, operands: list[_MatchedValue], captured: Found
) -> Ways:
    """Return the captures of each way in which an op's operands match a term."""
    all_ways = _ways_of_all(term, operands, captured)
    if type(op).commutes:
        all_ways += _ways_of_all(term, operands[::-1], captured)
    for attribute, name in term.attributes.items():
        all_ways = [{**way, name: getattr(op, attribute)} for way in all_ways]
    if term.op:
        all_ways = [{**way, term.op: op} for way in all_ways]
    return all_ways


def _ways_of_all(term: OpTerm, operands: list[_MatchedValue], captured: Found) -> Ways:
    """Return the captures of each way in which operands match, in this order."""
    ways = [captured]
    for place, each in term.hardest_first:
        if len(ways) == 1:  # nearly always: no list is made
            ways = _ways(each, operands[place], ways[0])
        else:
            ways = [way for one in ways for way in _ways(each, operands[place], one)]
        if not ways:
            break
    return ways


def _bind(name: str, value: object, captured: Found) -> Ways:
    """Return the captures with `value` as `name`; [] if another value has that name."""
    if name not in captured:
        return [{**captured, name: value}]
    return [captured] if captured[name] == value else []
