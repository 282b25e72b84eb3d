"""The memory that entries need, from the sizes of calls that may need most."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from itertools import product

from aotc.core.json_values import JsonObject
from aotc.dialects.functions.entries import Entry
from aotc.dialects.sizes.contracts import Contract
from aotc.dialects.sizes.symbols import known_contracts
from aotc.dialects.types import bounds, evaluate_size

_MOST_COMBINED = 4  # symbols whose least and greatest sizes are all combined


@dataclass(frozen=True)
class Memory:
    """The device memory that an entry needs, by IREE's allocation plan.

    Args:
        sizes: of the symbolic dimensions where it needs most: the largest ones, unless
            something shrinks with them.
        resident_bytes: between calls: weights (where they are copied to the device, not
            mapped from their file), states, constants, and memory that the module keeps
            for calls.
        peak_bytes: at most, in a call: these, inputs, outputs and what is in between.
        bound: what that is over all sizes: `exact`, what a call of `sizes` takes;
            `upper`, what no call exceeds; `tried`, the most of calls of the least and
            the greatest sizes, where the code branches on them.
    """

    sizes: dict[str, int]
    resident_bytes: int
    peak_bytes: int
    bound: str = "exact"

    def to_json(self) -> JsonObject:
        """Return the memory plan as JSON for the manifest."""
        return asdict(self)


def plans_of(entries: Sequence[Entry]) -> dict[str, dict[str, object]]:
    """Map each entry of bounded sizes to its extreme input shapes and bounds of
    sizes.
    """
    return {
        entry.name: {
            "shapes": [_input_sizes(entry, symbols) for symbols in _corners(entry)],
            "bounds": _input_bounds(entry),
        }
        for entry in entries
        if _is_bounded(entry)
    }


def _is_bounded(entry: Entry) -> bool:
    """Return whether all symbolic sizes have upper bounds."""
    sizes = [size for port in entry.ports("input") for size in port.type.shape]
    has_contracts = bool(entry.symbols) or all(isinstance(n, int) for n in sizes)
    return has_contracts and not _unlimited(entry)


def _unlimited(entry: Entry) -> list[str]:
    """Return the names of the symbols without an upper bound."""
    return [each.name for each in entry.symbols if each.max is None]


def _corners(entry: Entry) -> list[tuple[int, ...]]:
    """Return symbol values of extreme calls: least and greatest sizes combined.

    Of many symbols, those where one alone is least, or all are.
    """
    ranges = [_range_of(each) for each in entry.symbols]
    if len(ranges) <= _MOST_COMBINED:
        corners = list(product(*(dict.fromkeys(ends) for ends in ranges)))
    else:
        most = tuple(ends[0] for ends in ranges)
        least = tuple(ends[1] for ends in ranges)
        one_least = ((*most[:n], least[n], *most[n + 1 :]) for n in range(len(ranges)))
        corners = list(dict.fromkeys([most, *one_least, least]))
    return [each for each in corners if _is_call(entry, each)] or corners[:1]


def _range_of(contract: Contract) -> tuple[int, int]:
    """Return the greatest and the least value of a bounded symbol."""
    step = contract.multiple_of
    return (contract.max or 0) // step, -(-contract.min // step)


def _is_call(entry: Entry, symbols: Sequence[int]) -> bool:
    """Return whether symbol values give all inputs sizes of 0 or more."""
    return all(n >= 0 for shape in _input_sizes(entry, symbols) for n in shape)


def _input_sizes(entry: Entry, symbols: Sequence[int]) -> list[list[int]]:
    """Return the shapes of the inputs for symbol values."""
    shapes = (port.type.shape for port in entry.ports("input"))
    return [[evaluate_size(size, symbols) for size in shape] for shape in shapes]


def _input_bounds(entry: Entry) -> list[list[list[int]]]:
    """Return the least and greatest value of each size of the inputs."""
    with known_contracts(entry.symbols):
        shapes = (port.type.shape for port in entry.ports("input"))
        return [
            [[max(0, int(end)) for end in bounds(size)] for size in shape]
            for shape in shapes
        ]


def planned_memory(entries: Sequence[Entry], report: JsonObject) -> dict[str, Memory]:
    """Return the memory plans in a worker's report, by entry."""
    return {
        entry.name: _memory_of(entry, **found)
        for entry in entries
        if (found := report["memory"].get(entry.name))
    }


def unknown_memory(entries: Sequence[Entry], known: Collection[str]) -> JsonObject:
    """Return why each other entry has no plan, and its sizes without a limit."""
    return {
        entry.name: {
            "why": "sizes without a limit"
            if _unlimited(entry)
            else "it depends on what the entry computes",
            "unlimited": _unlimited(entry),
        }
        for entry in entries
        if entry.name not in known
    }


def _memory_of(entry: Entry, call: int, bound: str, **found: int) -> Memory:
    """Return an entry's memory plan from a worker's report."""
    symbols = _corners(entry)[call]
    if bound == "exact" and not entry.allows(symbols):  # by its guards
        bound = "upper"
    pairs = zip(entry.symbols, symbols, strict=True)
    sizes = {each.name: part * each.multiple_of for each, part in pairs}
    return Memory(sizes, **found, bound=bound)
