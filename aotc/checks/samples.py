"""What a self-check calls an entry with: sizes at which code goes wrong, and inputs.

Symbols take their least sizes, then 1, then small primes that differ from one another,
then primes beyond the width of vectors and tiles, as far as contracts and guards allow.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from aotc.checks.inputs import Choice, samples_of
from aotc.dialects.symbols import Contract
from aotc.dialects.types import evaluate_size
from aotc.dtypes import canonical, is_float
from aotc.errors import InputError
from aotc.frontends.program import Entry, Program

_SMALL = (3, 5, 7, 11, 13, 17, 19, 23)
_LARGE = (67, 71, 73, 79, 83, 89, 97, 101)


@dataclass(frozen=True)
class Calls:
    """Calls that follow one another.

    Args:
        sizes: of the symbols.
        inputs: the leaves of the inputs of each call.
        states: the leaves of all states before the first call, by name.
    """

    sizes: Mapping[str, int]
    inputs: tuple[list[Any], ...]
    states: Mapping[str, Any]


def sizes_of(entry: Entry) -> list[dict[str, int]]:
    """The symbols of an entry in each item of its check, small ones first."""
    if not entry.symbols:
        return [{}, {}]
    return [
        {
            contract.name: part * contract.multiple_of
            for contract, part in zip(entry.symbols, parts, strict=True)
        }
        for parts in dict.fromkeys(_sizes(entry))
    ]


def input_elements(entry: Entry, sizes: Mapping[str, int]) -> int:
    """How many elements the inputs of a call have."""
    parts = [sizes[each.name] // each.multiple_of for each in entry.symbols]
    shapes = [port.type.shape for port in entry.ports("input")]
    return sum(prod(evaluate_size(n, parts) for n in shape) for shape in shapes)


def calls_of(
    program: Program, graph: Any, entry: Entry, number: int, seed: int
) -> Calls:
    """The calls of an item: one, or two in turn if the entry updates a state.

    Floats are normally distributed, in every other item positive; there the states are
    not their first values, which are often zeros that hide what is read of them.

    Args:
        program: that is checked.
        graph: IR in which the entry is.
        entry: of the program.
        number: of the item, in `sizes_of`.
        seed: of the numbers.
    """
    network = program.networks.get(entry.name)
    example = network.original.example if network and network.original else None
    stored = {n: program.parameters[n] for s in program.states for n in s.leaves}
    count = 2 if entry.updates else 1
    sizes = sizes_of(entry)[number]
    is_odd = number % 2 == 1
    inputs = []
    for turn in range(count):
        choice = Choice(seed + count * number + turn, 1, sizes, positive=is_odd)
        (sample,) = samples_of(graph, entry, choice, example)
        inputs.append(sample.arrays)
    return Calls(sizes, tuple(inputs), _vary(stored, seed) if is_odd else stored)


def _vary(stored: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """The same arrays, with floats that are all alike moved up by random numbers."""
    rng = np.random.default_rng(seed)
    found = dict(stored)
    for name, array in stored.items():
        if array.size and is_float(canonical(array.dtype)) and np.ptp(array) == 0:
            moved = array.astype(np.float64) + 0.1 * rng.random(array.shape)
            found[name] = moved.astype(array.dtype)
    return found


def _sizes(entry: Entry) -> Iterator[tuple[int, ...]]:
    """Values of the symbols, in parts of multiples."""
    count = len(entry.symbols)
    for each in ((0,), (1,), _SMALL, _LARGE):
        wanted = np.resize(each, count).tolist()
        parts = [_within(c, n) for c, n in zip(entry.symbols, wanted, strict=True)]
        try:
            yield tuple(entry.nearest_allowed(parts))
        except InputError:  # guards leave none nearby
            continue


def _within(contract: Contract, wanted: int) -> int:
    """The number of parts nearest to `wanted` that a contract allows."""
    least = -(-contract.min // contract.multiple_of)
    if contract.max is None:
        return max(least, wanted)
    return max(least, min(wanted, contract.max // contract.multiple_of))
