"""What is promised of symbols: a `Contract` each, known while a function is in hand.

A symbol is a size that only a call decides. Where its contract says that the size is a
multiple of k, the symbol stands for the k-th part of it, so the size is `s0 * k`: then
whatever divides the size exactly does so by its expression alone, in every pass, and
nobody has to look a promise up.
"""

import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from aotc.mlir import Function, ir

# What becomes of a call whose size has no code of its own: it has code for any size; it
# is refused; it is padded to the largest size, or to the next one that has code. Or
# another entry, or a function that the loader was given, computes it.
DYNAMIC, ERROR, PAD, BUCKET = _PLAIN = ("dynamic", "error", "pad", "bucket")
POLICIES = (*_PLAIN, "route:ENTRY", "callback:NAME")
_ELSEWHERE = re.compile(r"(route|callback):[A-Za-z_][A-Za-z0-9_]*")


def is_policy(value: object) -> bool:
    """Whether a value is one of `POLICIES`."""
    is_text = isinstance(value, str)
    return is_text and (value in _PLAIN or bool(_ELSEWHERE.fullmatch(str(value))))


@dataclass(frozen=True)
class Contract:
    """The promise of a symbol: every call binds its size within these bounds.

    `policy` is one of `POLICIES`: what becomes of sizes without code of their own.
    `optimum` is the size that most calls bind, if that is known, and `where` the line
    of the model that declares it, if it has one of its own.
    """

    name: str
    min: int = 1
    max: int | None = None
    multiple_of: int = 1
    policy: str = DYNAMIC
    optimum: int | None = None
    where: str = field(default="", compare=False)

    @property
    def largest(self) -> int | None:
        """The greatest size that a call may bind; None where there is no limit."""
        step = self.multiple_of
        return None if self.max is None else self.max // step * step

    @property
    def is_padded(self) -> bool:
        """Whether calls are padded to sizes that have code."""
        return self.policy in (PAD, BUCKET)

    def allows(self, size: int) -> bool:
        """Whether a call may bind this size."""
        most = size if self.max is None else self.max
        return self.min <= size <= most and size % self.multiple_of == 0

    @property
    def route(self) -> str:
        """The entry that computes calls of other sizes; empty where none does."""
        kind, _, name = self.policy.partition(":")
        return name if kind == "route" else ""

    def to_json(self) -> dict[str, Any]:
        """As the manifest holds it."""
        facts = {"min": self.min, "max": self.max, "multiple_of": self.multiple_of}
        more = {
            "policy": None if self.policy == DYNAMIC else self.policy,
            "optimum": self.optimum,
            "where": self.where or None,
        }
        known = {name: fact for name, fact in more.items() if fact is not None}
        return {**facts, **known}

    def __str__(self) -> str:
        """`batch >= 1`, `length in [1, 512]`, `n >= 8 in steps of 8, mostly 64`."""
        bounds = f"{self.name} >= {self.min}"
        if self.max is not None:
            bounds = f"{self.name} in [{self.min}, {self.max}]"
        steps = f" in steps of {self.multiple_of}" if self.multiple_of > 1 else ""
        usual = "" if self.optimum is None else f", mostly {self.optimum}"
        return bounds + steps + usual


# the contracts of the function being traced or printed, innermost last
_known: list[Sequence[Contract]] = []


@contextmanager
def known_contracts(contracts: Sequence[Contract]) -> Iterator[None]:
    """Within this block symbol i has the name and the bounds of `contracts[i]`."""
    _known.append(contracts)
    try:
        yield
    finally:
        _known.pop()


def current_contracts() -> tuple[Contract, ...]:
    """The contracts of the symbols, as far as they are known."""
    return tuple(_known[-1]) if _known else ()


def contract_of(position: int) -> Contract | None:
    """The contract of symbol number `position`, where it is known."""
    known = current_contracts()
    return known[position] if position < len(known) else None


def symbol_bounds(position: int) -> tuple[float, float]:
    """The least and greatest value of a symbol, the k-th part of a multiple of k."""
    contract = contract_of(position)
    if contract is None:
        return 0, math.inf
    step = contract.multiple_of
    most = math.inf if contract.max is None else contract.max // step
    return -(-contract.min // step), most


def symbol_optimum(position: int) -> int | None:
    """The value that a symbol has in most calls, if that is known."""
    contract = contract_of(position)
    if contract is None or contract.optimum is None:
        return None
    return contract.optimum // contract.multiple_of


def contracts_attribute(contracts: Sequence[Contract]) -> ir.ArrayAttr:
    """The contracts as the function attribute `graph.symbols`."""

    def plain(value: int | str) -> ir.Attribute:
        if isinstance(value, str):
            return ir.StringAttr.get(value)
        return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)

    rows = []
    for contract in contracts:
        facts = {k: plain(v) for k, v in contract.to_json().items() if v is not None}
        rows.append(
            ir.DictAttr.get({"name": ir.StringAttr.get(contract.name), **facts})
        )
    return ir.ArrayAttr.get(rows)


def contracts_of(function: Function) -> list[Contract]:
    """The contracts in the attribute `graph.symbols` of a function; none without."""
    if "graph.symbols" not in function.attributes:
        return []
    rows = map(ir.DictAttr, ir.ArrayAttr(function.attributes["graph.symbols"]))
    return [Contract(**{entry.name: _plain(entry.attr) for entry in r}) for r in rows]


def _plain(attribute: ir.Attribute) -> Any:
    if isinstance(attribute, ir.StringAttr):
        return str(attribute.value)
    return int(ir.IntegerAttr(attribute).value)
