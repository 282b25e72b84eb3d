"""Inputs to compare on: sizes that the contracts allow, and values that make sense."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from aotc import dtypes
from aotc.dialects.functions import functions_of, signature
from aotc.dialects.symbols import Contract
from aotc.dialects.types import Tensor, evaluate_size
from aotc.errors import AotcError, InputError
from aotc.frontends.program import Entry, Port
from aotc.mlir import ir
from aotc.pytree import flatten
from aotc.reference import bind_symbols


@dataclass(frozen=True)
class Choice:
    """How inputs are chosen.

    Args:
        seed: of the random numbers.
        samples: how many calls are compared.
        sizes: values for symbols by name; others are chosen, different in each call.
        given: arrays for inputs by name; others are drawn.
        positive: whether floats are drawn from (0, 1), not from all numbers.
    """

    seed: int = 0
    samples: int = 2
    sizes: Mapping[str, int] = field(default_factory=dict)
    given: Mapping[str, Any] = field(default_factory=dict)
    positive: bool = False


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
    within what they index; others are as in the example, else 0 or 1.

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
    draw = _Draw(np.random.default_rng(choice.seed), choice.positive)
    first = _example_sizes(entry, leaves)
    for number in range(choice.samples):
        parts = _sizes(entry.symbols, choice.sizes, first, number)
        if not choice.given:
            parts = entry.nearest_allowed(parts, choice.sizes)
        arrays = [
            choice.given[port.name]
            if port.name in choice.given
            else _drawn(port, parts, draw, bounds.get(port.name), leaf)
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
    leaves = flatten(dict(example))[0] if example is not None else []
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


@dataclass(frozen=True)
class _Draw:
    """Random numbers: floats around 0, or in (0, 1); whole ones."""

    rng: np.random.Generator
    positive: bool

    def floats(self, shape: tuple[int, ...]) -> Any:
        if self.positive:
            return 1 - self.rng.random(shape)
        return self.rng.standard_normal(shape)

    def integers(self, low: int, high: int, shape: tuple[int, ...]) -> Any:
        return self.rng.integers(low, high, shape)


def _drawn(
    port: Port, sizes: Sequence[int], draw: _Draw, bound: int | None, example: Any
) -> Any:
    kind = port.type
    shape = tuple(evaluate_size(size, sizes) for size in kind.shape)
    numpy = dtypes.to_numpy(kind.dtype)
    if dtypes.is_float(kind.dtype):
        return draw.floats(shape).astype(numpy)
    low, high = 0, 2
    if bound is not None:
        high = bound
    elif example is not None and example.size and kind.dtype != "bool":
        low, high = int(example.min()), int(example.max()) + 1
    return draw.integers(low, high, shape).astype(numpy)


def index_bounds(module: Any, entry: Entry) -> dict[str, int]:
    """For integer inputs that are used as positions, the least size that they index."""
    with module.context, ir.Location.unknown():
        function = functions_of(module)[entry.name]
        types, _ = signature(function)
        block = function.entry_block
        sources: dict[Any, set[str]] = defaultdict(set)
        for port, kind, value in zip(
            entry.arguments, types, block.arguments, strict=True
        ):
            if port.kind == "input" and not dtypes.is_float(kind.dtype):
                sources[value] = {port.name}
        bounds: dict[str, int] = {}
        for op in block.operations:
            for name, size in _indexed(op, sources):
                bounds[name] = min(size, bounds.get(name, size))
            reached = set().union(*(sources[operand] for operand in op.operands))
            for result in op.results:
                if not dtypes.is_float(Tensor.of(result).dtype):
                    sources[result] = reached
    return bounds


def _indexed(op: Any, sources: Mapping[Any, set[str]]) -> Iterator[tuple[str, int]]:
    """The inputs that an op reads at, and the sizes of the axes."""
    if op.operation.name != "graph.gather":
        return
    shape = Tensor.of(op.x).shape
    axes = type(op).attributes_of(op)["axes"]
    for axis, indices in zip(axes, op.indices, strict=True):
        if isinstance(shape[axis], int):
            yield from ((name, shape[axis]) for name in sources[indices])
