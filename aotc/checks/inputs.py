"""Inputs to compare on: sizes that the contracts allow, and values that make sense."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np

from aotc import dtypes
from aotc.dialects.contracts import Contract
from aotc.dialects.entries import Entry, Port
from aotc.dialects.functions import callee_of, functions_of, signature
from aotc.dialects.ops.indexing import Gather, IndexMap
from aotc.dialects.ops.scattering import Scatter
from aotc.dialects.types import Size, Tensor, evaluate_size
from aotc.dialects.walking import walk
from aotc.errors import AotcError, InputError
from aotc.mlir import func, ir
from aotc.pytree import flatten
from aotc.reference import bind_symbols


class Integers(Enum):
    """How integers are drawn that no example shows; indices only if `ANY`."""

    BITS = "0 and 1"
    SMALL = "from -8 to 7, or from 0 to 15"
    ANY = "all of the dtype, the least and the greatest among them"


@dataclass(frozen=True)
class Choice:
    """How inputs are chosen.

    Args:
        seed: of the random numbers.
        samples: how many calls are compared.
        sizes: values for symbols by name; others are chosen, different in each call.
        given: arrays for inputs by name; others are drawn.
        positive: whether floats are drawn from (0, 1), not from all numbers.
        integers: how those are drawn of which nothing says what they mean.
    """

    seed: int = 0
    samples: int = 2
    sizes: Mapping[str, int] = field(default_factory=dict)
    given: Mapping[str, Any] = field(default_factory=dict)
    positive: bool = False
    integers: Integers = Integers.BITS


@dataclass(frozen=True)
class Sample:
    """The inputs of one call: its sizes by name, and one array for each input port."""

    sizes: dict[str, int]
    arrays: list[Any]


def samples_of(
    module: Any, entry: Entry, choice: Choice, example: Mapping[str, Any] | None
) -> Iterator[Sample]:
    """Inputs for calls of an entry.

    Floats are normally distributed. Integers that the entry takes as positions are
    within what they index, others as in the example; where there is none, `choice` says
    how. Where it says `ANY`, positions without an example are negative and beyond, too.

    Args:
        module: graph IR.
        entry: of the program.
        choice: how to choose.
        example: inputs that the source brings along, by argument.

    Raises:
        InputError: sizes or inputs that were given do not fit.
    """
    _require_known("size", choice.sizes, [each.name for each in entry.symbols])
    ports = entry.ports("input")
    _require_known("input", choice.given, [port.name for port in ports])
    leaves = _example_leaves(entry, example)
    bounds = index_bounds(module, entry)
    draw = _Draw(np.random.default_rng(choice.seed), choice.positive, choice.integers)
    first = _example_sizes(entry, leaves)
    for number in range(choice.samples):
        parts = _sizes(entry.symbols, choice.sizes, first, number)
        if not choice.given:
            parts = entry.nearest_allowed(parts, choice.sizes)
        arrays = [
            choice.given[port.name]
            if port.name in choice.given
            else _random_array(port, parts, draw, bounds.get(port.name, ()), leaf)
            for port, leaf in zip(ports, leaves, strict=True)
        ]
        if choice.given:
            parts = bind_symbols([port.type for port in ports], arrays)
        named = {
            contract.name: part * contract.multiple_of
            for contract, part in zip(entry.symbols, parts, strict=True)
        }
        yield Sample(named, arrays)


def _require_known(what: str, given: Mapping[str, Any], known: Sequence[str]) -> None:
    for name in given:
        if name not in known:
            raise InputError(
                f"unknown-{what}",
                f"the entry has no {what} '{name}'; it has "
                f"{', '.join(known) or 'none'}",
            )


def _example_leaves(entry: Entry, example: Mapping[str, Any] | None) -> list[Any]:
    """The arrays of the example, one for each port; None where there is none."""
    ports = entry.ports("input")
    given = {} if example is None else example
    named = [given[name] for name in entry.input_tree.keys if name in given]
    leaves = [leaf for tree in named for leaf in flatten(tree)[0]]
    return leaves if len(leaves) == len(ports) else [None] * len(ports)


def _example_sizes(entry: Entry, leaves: Sequence[Any]) -> list[int]:
    """The symbols of the example, else small ones that differ from one another."""
    types = [port.type for port in entry.ports("input")]
    if leaves and all(leaf is not None for leaf in leaves):
        try:
            return bind_symbols(types, leaves)
        except AotcError:
            pass  # an example of another time
    return [_least(each) + number for number, each in enumerate(entry.symbols)]


def _least(contract: Contract) -> int:
    """The least size above one, in parts of `multiple_of`."""
    return max(-(-contract.min // contract.multiple_of), 2)


def _sizes(
    symbols: Sequence[Contract],
    given: Mapping[str, int],
    first: Sequence[int],
    number: int,
) -> list[int]:
    """The symbols of a call, in parts: those of the first call, and then others."""
    found = []
    for contract, start in zip(symbols, first, strict=True):
        if contract.name in given:
            found.append(_given_size(contract, given[contract.name]))
            continue
        least = -(-contract.min // contract.multiple_of)
        most = contract.max // contract.multiple_of if contract.max else start + number
        wanted = start + number
        found.append(wanted if wanted <= most else max(least, most - number))
    return found


def _given_size(contract: Contract, size: int) -> int:
    outside = size < contract.min or (contract.max is not None and size > contract.max)
    if outside or size % contract.multiple_of:
        raise InputError("bad-size", f"expected {contract}; got {size}")
    return size // contract.multiple_of


_SHARE_OF_EXTREMES = 0.25


@dataclass(frozen=True)
class _Draw:
    """Random numbers: floats around 0, or in (0, 1); whole ones of a kind."""

    rng: np.random.Generator
    positive: bool
    kind: Integers

    def floats(self, shape: tuple[int, ...]) -> Any:
        if self.positive:
            return 1 - self.rng.random(shape)
        return self.rng.standard_normal(shape)

    def below(self, low: int, high: int, shape: tuple[int, ...], numpy: Any) -> Any:
        return self.rng.integers(low, high, shape).astype(numpy)

    def around(self, size: int, shape: tuple[int, ...], numpy: Any) -> Any:
        """Positions along an axis, before and beyond it, as far as the dtype goes."""
        facts = np.iinfo(numpy)
        low, high = max(int(facts.min), -2 * size), min(int(facts.max), 2 * size)
        return self.rng.integers(low, high, shape, numpy, endpoint=True)

    def integers(self, shape: tuple[int, ...], numpy: Any) -> Any:
        """Of a dtype of integers of which nothing is known."""
        facts = np.iinfo(numpy)
        least, most = int(facts.min), int(facts.max)
        if self.kind is Integers.BITS:
            return self.below(0, 2, shape, numpy)
        if self.kind is Integers.SMALL:
            low = max(least, -8)
            return self.below(low, low + 16, shape, numpy)
        drawn = self.rng.integers(least, most, shape, numpy, endpoint=True)
        extremes = np.array([least, most, 0, 1], numpy)
        chosen = self.rng.choice(extremes, shape)
        return np.where(self.rng.random(shape) < _SHARE_OF_EXTREMES, chosen, drawn)


def _random_array(
    port: Port,
    sizes: Sequence[int],
    draw: _Draw,
    bounds: Sequence[Size],
    example: Any,
) -> Any:
    kind = port.type
    shape = tuple(evaluate_size(size, sizes) for size in kind.shape)
    numpy = dtypes.to_numpy(kind.dtype)
    if dtypes.is_float(kind.dtype):
        return draw.floats(shape).astype(numpy)
    if kind.dtype == "bool":
        return draw.below(0, 2, shape, numpy)
    if bounds:
        least = max(min(evaluate_size(size, sizes) for size in bounds), 1)
        if draw.kind is Integers.ANY and example is None:
            return draw.around(least, shape, numpy)
        return draw.below(0, least, shape, numpy)
    if example is not None and example.size:
        return draw.below(int(example.min()), int(example.max()) + 1, shape, numpy)
    return draw.integers(shape, numpy)


def has_free_integers(entry: Entry, example: Mapping[str, Any] | None) -> bool:
    """Whether an entry takes integers of which no example says what they mean.

    Args:
        entry: of a program.
        example: inputs that the source brings along, by argument.
    """
    leaves = _example_leaves(entry, example)
    return any(
        port.type.dtype in dtypes.INTEGERS and leaf is None
        for port, leaf in zip(entry.ports("input"), leaves, strict=True)
    )


def index_bounds(module: Any, entry: Entry) -> dict[str, list[Size]]:
    """For integer inputs that are used as positions, the sizes of what they index.

    What loops and branches index is not seen.
    """
    with module.context, ir.Location.unknown():
        search = _IndexSearch(functions_of(module))
        search.visit(
            entry.name,
            [
                frozenset({port.name} if port.kind == "input" else ())
                for port in entry.arguments
            ],
        )
        return search.bounds


Names = frozenset[str]


class _IndexSearch:
    """Follows the inputs that integers come from through a function and its calls."""

    def __init__(self, functions: Mapping[str, Any]) -> None:
        self._functions = functions
        self._visited: dict[tuple[str, tuple[Names, ...]], list[Names]] = {}
        self.bounds: dict[str, list[Size]] = {}

    def visit(self, name: str, arguments: Sequence[Names]) -> list[Names]:
        """The inputs that each result of a function comes from.

        Args:
            name: of the function.
            arguments: the inputs that each of its arguments comes from.
        """
        key = name, tuple(arguments)
        if key not in self._visited:
            self._visited[key] = self._visit(self._functions[name], arguments)
        return self._visited[key]

    def _visit(self, function: Any, arguments: Sequence[Names]) -> list[Names]:
        _, results = signature(function)
        if function.is_external:  # a loop or branch
            return [frozenset().union(*arguments)] * len(results)
        return walk(function.entry_block, arguments, self._visit_op)

    def _visit_op(self, op: Any, operands: list[Names]) -> list[Names]:
        """The inputs that each result of an op comes from; none for floats."""
        self._note(op, operands)
        if isinstance(op, func.CallOp):
            found = self.visit(callee_of(op), operands)
        else:
            found = [frozenset().union(*operands)] * len(op.results)
        are_floats = [dtypes.is_float(Tensor.of(result).dtype) for result in op.results]
        return [
            frozenset() if is_float else names
            for is_float, names in zip(are_floats, found, strict=True)
        ]

    def _note(self, op: Any, operands: Sequence[Names]) -> None:
        """Take note of what an op reads or writes at."""
        if not isinstance(op, (Gather, Scatter)):
            return
        sources = dict(zip(op.operands, operands, strict=True))
        shape = Tensor.of(op.x).shape
        for axis, indices in zip(IndexMap.of(op).axes, op.indices, strict=True):
            for name in sources[indices]:
                self.bounds.setdefault(name, []).append(shape[axis])
