"""Contracts on symbols: a `Contract` each, known while a function is in hand.

A symbol is a size that only a call decides. Where its contract says that the size is a
multiple of k, the symbol stands for the k-th part of it, so the size is `s0 * k`: then
whatever divides the size exactly does so by its expression alone, in every pass, and
nobody has to look a promise up.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from aotc.dialects.sizes.contracts import Contract
from aotc.mlir import Function, ir

# the contracts of the function being traced or printed, innermost last
_known: list[Sequence[Contract]] = []


@contextmanager
def known_contracts(contracts: Sequence[Contract]) -> Iterator[None]:
    """Make `contracts[i]` the contract of symbol i within this block."""
    _known.append(contracts)
    try:
        yield
    finally:
        _known.pop()


def current_contracts() -> tuple[Contract, ...]:
    """Return the contracts of the symbols that the current block knows."""
    return tuple(_known[-1]) if _known else ()


def contract_of(position: int) -> Contract | None:
    """Return the contract of symbol number `position`; None if it is not known."""
    known = current_contracts()
    return known[position] if position < len(known) else None


def symbol_bounds(position: int) -> tuple[float, float]:
    """Return the bounds of a symbol, in units of its contract's multiple."""
    contract = contract_of(position)
    if contract is None:
        return 0, math.inf
    step = contract.multiple_of
    most = math.inf if contract.max is None else contract.max // step
    return -(-contract.min // step), most


def symbol_optimum(position: int) -> int | None:
    """Return a symbol's value in most calls, in units of its multiple, or None."""
    contract = contract_of(position)
    if contract is None or contract.optimum is None:
        return None
    return contract.optimum // contract.multiple_of


def contracts_attribute(contracts: Sequence[Contract]) -> ir.ArrayAttr:
    """Return contracts encoded as the function attribute `graph.symbols`."""

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
    """Return the contracts in a function's attribute `graph.symbols`; [] without it."""
    if "graph.symbols" not in function.attributes:
        return []
    return [*_read_contracts(function.attributes["graph.symbols"])]


@lru_cache(
    maxsize=2**12
)  # all functions of an entry have the same, and every pass asks
def _read_contracts(attribute: ir.Attribute) -> tuple[Contract, ...]:
    """Return the contracts that an attribute holds, cached."""
    rows = map(ir.DictAttr, ir.ArrayAttr(attribute))
    return tuple(
        Contract(**{entry.name: _plain(entry.attr) for entry in row}) for row in rows
    )


def _plain(attribute: ir.Attribute) -> Any:
    """Return the text or integer of an attribute."""
    if isinstance(attribute, ir.StringAttr):
        return str(attribute.value)
    return int(ir.IntegerAttr(attribute).value)
