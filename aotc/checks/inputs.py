"""Inputs to compare on: sizes that the contracts allow, and values that make sense."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from aotc.checks.draws import Draw, IntegerRange, StructureLevel
from aotc.checks.uses import Use, uses_of_inputs
from aotc.core import dtypes
from aotc.core.pytree import flatten
from aotc.dialects.functions.entries import Entry, Port
from aotc.dialects.sizes.contracts import Contract
from aotc.dialects.types import evaluate_size
from aotc.errors import AotcError, InputError
from aotc.mlir import Module
from aotc.reference import bind_symbols


@dataclass(frozen=True)
class InputOptions:
    """Options of drawing inputs for the calls to compare.

    Args:
        seed: of the random numbers.
        samples: how many calls are compared.
        sizes: values for symbols by name; others are chosen, different in each call.
        given: arrays for inputs by name; others are drawn.
        positive: whether floats are drawn from (0, 1), not from all numbers.
        integers: how those are drawn of which nothing says what they mean.
        structure: how much of the arrays is other than random.
        turn: of the first call among those whose structures are to differ.
        shows_first: whether masks hide no first position.
    """

    seed: int = 0
    samples: int = 2
    sizes: Mapping[str, int] = field(default_factory=dict)
    given: Mapping[str, Any] = field(default_factory=dict)
    positive: bool = False
    integers: IntegerRange = IntegerRange.BITS
    structure: StructureLevel = StructureLevel.NONE
    turn: int = 0
    shows_first: bool = False


@dataclass(frozen=True)
class CallSample:
    """The inputs of one call: its symbol values by name, and an array per input."""

    sizes: dict[str, int]
    arrays: list[Any]


def samples_of(
    module: Module,
    entry: Entry,
    choice: InputOptions,
    example: Mapping[str, object] | None,
    uses: Mapping[str, Use] | None = None,
) -> Iterator[CallSample]:
    """Yield drawn inputs for calls of an entry.

    Floats are normally distributed. Integers that the entry takes as positions or
    lengths are within what they index, others as in the example; where there is none,
    `choice` says how. Where it says `ANY`, positions without an example are negative
    and beyond, too.

    Args:
        module: graph IR.
        entry: of the program.
        choice: how to choose.
        example: inputs that the source brings along, by argument.
        uses: of the inputs, where they are known: `uses_of_inputs`.

    Raises:
        InputError: sizes or inputs that were given do not fit.
    """
    _require_known("size", choice.sizes, [each.name for each in entry.symbols])
    ports = entry.ports("input")
    _require_known("input", choice.given, [port.name for port in ports])
    leaves = _example_leaves(entry, example)
    uses = uses_of_inputs(module, entry) if uses is None else uses
    rng = np.random.default_rng(choice.seed)
    first = _example_sizes(entry, leaves)
    for number in range(choice.samples):
        parts = _sizes(entry.symbols, choice.sizes, first, number)
        if not choice.given:
            parts = entry.nearest_allowed(parts, choice.sizes)
        turn = choice.turn + number
        draw = Draw(
            rng,
            choice.positive,
            choice.integers,
            choice.structure,
            turn,
            choice.shows_first,
        )
        arrays = [
            choice.given[port.name]
            if port.name in choice.given
            else _random_array(port, parts, draw, uses.get(port.name, Use()), leaf)
            for port, leaf in zip(ports, leaves, strict=True)
        ]
        if choice.given:
            parts = bind_symbols([port.type for port in ports], arrays)
        named = {
            contract.name: part * contract.multiple_of
            for contract, part in zip(entry.symbols, parts, strict=True)
        }
        yield CallSample(named, arrays)


def _require_known(
    what: str, given: Mapping[str, object], known: Sequence[str]
) -> None:
    """Raise if a user names a size or input that the entry does not have."""
    for name in given:
        if name not in known:
            raise InputError(
                f"unknown-{what}",
                f"the entry has no {what} '{name}'; it has "
                f"{', '.join(known) or 'none'}",
            )


def _example_leaves(entry: Entry, example: Mapping[str, object] | None) -> list[Any]:
    """Return the example's array for each input; None for each if it does not fit."""
    ports = entry.ports("input")
    given = {} if example is None else example
    named = [given[name] for name in entry.input_tree.keys if name in given]
    leaves = [leaf for tree in named for leaf in flatten(tree)[0]]
    return leaves if len(leaves) == len(ports) else [None] * len(ports)


def _example_sizes(entry: Entry, leaves: Sequence[np.ndarray]) -> list[int]:
    """Return the symbol values of the example, else small ones that all differ."""
    types = [port.type for port in entry.ports("input")]
    if leaves and all(leaf is not None for leaf in leaves):
        try:
            return bind_symbols(types, leaves)
        except AotcError:
            pass  # an example of another time
    return [_least(each) + number for number, each in enumerate(entry.symbols)]


def _least(contract: Contract) -> int:
    """Return the least allowed size above one, in units of `multiple_of`."""
    return max(-(-contract.min // contract.multiple_of), 2)


def _sizes(
    symbols: Sequence[Contract],
    given_sizes: Mapping[str, int],
    first_sizes: Sequence[int],
    number: int,
) -> list[int]:
    """Return the symbol values of call `number`, in units of `multiple_of`: given ones,
    others `number` beside those of the first call.
    """
    found = []
    for contract, start in zip(symbols, first_sizes, strict=True):
        if contract.name in given_sizes:
            found.append(_given_size(contract, given_sizes[contract.name]))
            continue
        least = -(-contract.min // contract.multiple_of)
        most = contract.max // contract.multiple_of if contract.max else start + number
        wanted = start + number
        found.append(wanted if wanted <= most else max(least, most - number))
    return found


def _given_size(contract: Contract, size: int) -> int:
    """Return a user's size in units of `multiple_of`; raise if it is not allowed."""
    outside = size < contract.min or (contract.max is not None and size > contract.max)
    if outside or size % contract.multiple_of:
        raise InputError("bad-size", f"expected {contract}; got {size}")
    return size // contract.multiple_of


def _random_array(
    port: Port,
    sizes: Sequence[int],
    draw: Draw,
    use: Use,
    example: np.ndarray | None,
) -> np.ndarray:
    """Draw an array for an input by its dtype, its use, and its example."""
    kind = port.type
    shape = tuple(evaluate_size(size, sizes) for size in kind.shape)
    numpy = dtypes.to_numpy(kind.dtype)
    if dtypes.is_float(kind.dtype):
        return draw.floats(shape, use).astype(numpy)
    if kind.dtype == "bool":
        return draw.bits(shape).astype(numpy)
    if use.is_mask and draw.has_masks(shape):
        return draw.bits(shape).astype(numpy)
    limit = use.limit(sizes)
    if limit is not None:
        if draw.kind is IntegerRange.ANY and example is None:
            return draw.around(limit, shape, numpy)
        least = 0 if draw.structure is StructureLevel.ALL else use.least(sizes)
        return draw.between(min(least, limit - 1), limit - 1, shape, numpy)
    if example is not None and example.size:
        least, most = int(example.min()), int(example.max())
        if least >= 0 and most <= 1 and draw.has_masks(shape):
            return draw.bits(shape).astype(numpy)
        return draw.between(least, most, shape, numpy)
    return draw.integers(shape, numpy)


def has_free_integers(entry: Entry, example: Mapping[str, object] | None) -> bool:
    """Return whether an entry takes integers whose meaning no example shows.

    Args:
        entry: of a program.
        example: inputs that the source brings along, by argument.
    """
    leaves = _example_leaves(entry, example)
    return any(
        port.type.dtype in dtypes.INTEGERS and leaf is None
        for port, leaf in zip(entry.ports("input"), leaves, strict=True)
    )
