"""Guards of an entry: conditions on the sizes of a call, beside those of each symbol.

A network that was traced for some sizes holds for these only. What it was traced for is
part of its function, as the attribute `graph.guards`, from which the evaluator and the
manifest take it; the loader holds every call to it before anything runs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aotc.artifacts.conditions import Condition
from aotc.dialects.sizes.symbols import contracts_of
from aotc.errors import InputError
from aotc.mlir import Function, ir

GUARDS = "graph.guards"


@dataclass(frozen=True)
class EntryGuard:
    """A condition that the sizes of a call must meet.

    Args:
        condition: over the names of symbols, such as `batch != length`.
        message: why it must hold.
        where: the line of the model that it comes from, or nothing.
    """

    condition: str
    message: str
    where: str = ""

    def holds(self, sizes: Mapping[str, int]) -> bool:
        """Return whether a call with these sizes is allowed."""
        return Condition.parse(self.condition).holds(sizes)

    def to_json(self) -> dict[str, str]:
        """Return the guard as JSON data of the manifest."""
        facts = {"condition": self.condition, "message": self.message}
        return {**facts, "where": self.where} if self.where else facts


def guards_attribute(guards: Sequence[EntryGuard]) -> ir.ArrayAttr:
    """Return guards encoded as the function attribute `graph.guards`."""
    rows = [
        ir.DictAttr.get({k: ir.StringAttr.get(v) for k, v in guard.to_json().items()})
        for guard in guards
    ]
    return ir.ArrayAttr.get(rows)


def guards_of(function: Function) -> list[EntryGuard]:
    """Return the guards in a function's attribute `graph.guards`; [] without it."""
    if GUARDS not in function.attributes:
        return []
    rows = map(ir.DictAttr, ir.ArrayAttr(function.attributes[GUARDS]))
    return [
        EntryGuard(**{each.name: str(ir.StringAttr(each.attr).value) for each in row})
        for row in rows
    ]


def require_guards(function: Function, symbols: Sequence[int]) -> None:
    """Raise InputError for symbol values that break a guard of a function.

    Args:
        function: of the graph dialect.
        symbols: the value of each of its symbols.

    Raises:
        InputError: `shape-guard`.
    """
    guards = guards_of(function)
    if not guards:
        return
    contracts = zip(contracts_of(function), symbols, strict=False)
    sizes = {each.name: value * each.multiple_of for each, value in contracts}
    for guard in guards:
        if not guard.holds(sizes):
            raise guard_error(guard, sizes)


def guard_error(guard: EntryGuard, sizes: Mapping[str, int]) -> InputError:
    """Return the error for a call whose sizes break a guard."""
    used = sorted(Condition.parse(guard.condition).symbols)
    got = ", ".join(f"{name} = {sizes[name]}" for name in used)
    return InputError(
        "shape-guard",
        f"expected {guard.condition}, got {got}: {guard.message}",
        where=guard.where or None,
        guard=guard.condition,
    )
