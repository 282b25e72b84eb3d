"""`Program`: what every frontend produces, and what the pipeline compiles."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from aotc.dialects.guards import Guard
from aotc.dialects.symbols import Contract
from aotc.dialects.types import Tensor
from aotc.errors import InputError
from aotc.frontends.title import Title
from aotc.pytree import Structure

_NEARBY = 5  # sizes that are tried for each symbol


@dataclass(frozen=True)
class Port:
    """One argument or result of a graph function.

    Args:
        name: dotted path, unique among ports of the kind.
        type: shape and dtype.
        kind: `input`, `weight` or `state` of an argument; `output` or `state` of a
            result.
    """

    name: str
    type: Tensor
    kind: str


@dataclass(frozen=True)
class Entry:
    """One function of the model that can be called.

    Args:
        name: of the entry and of its graph function.
        symbols: contract per symbol, in the order of the function's symbols.
        arguments: the graph function's arguments, in order.
        results: the graph function's results, in order.
        input_tree: form of the caller's arguments, a dict by argument name.
        output_tree: form of what the caller gets back.
        reads: names of the weights and states it reads.
        updates: names of the states it updates.
        guards: what must hold of the sizes of a call besides.
        intermediates: the largest tensors in between, where sizes have no limit.
    """

    name: str
    symbols: tuple[Contract, ...]
    arguments: tuple[Port, ...]
    results: tuple[Port, ...]
    input_tree: Structure
    output_tree: Structure
    reads: tuple[str, ...] = ()
    updates: tuple[str, ...] = ()
    guards: tuple[Guard, ...] = ()
    intermediates: tuple[Tensor, ...] = ()

    @classmethod
    def flat(
        cls,
        name: str,
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
        symbols: tuple[Contract, ...] = (),
    ) -> Entry:
        """An entry that takes all that it needs as inputs: for checks of code."""
        leaf = Structure("leaf")
        taken = (Port(f"x{i}", kind, "input") for i, kind in enumerate(inputs))
        returned = (Port(f"y{i}", kind, "output") for i, kind in enumerate(outputs))
        return cls(name, symbols, tuple(taken), tuple(returned), leaf, leaf)

    def allows(self, symbols: Sequence[int]) -> bool:
        """Whether its guards hold for values of its symbols, in parts of multiples."""
        sizes = {
            contract.name: part * contract.multiple_of
            for contract, part in zip(self.symbols, symbols, strict=True)
        }
        return all(guard.holds(sizes) for guard in self.guards)

    def nearest_allowed(
        self, wanted: Sequence[int], fixed: Collection[str] = ()
    ) -> list[int]:
        """Values of the symbols that contracts and guards allow, from `wanted` upwards.

        Args:
            wanted: in parts of multiples, within the contracts.
            fixed: names of symbols to leave as they are.

        Raises:
            InputError: `no-sizes`: there are none nearby.
        """
        free = [each.name not in fixed for each in self.symbols]
        if self.allows(wanted):
            return list(wanted)
        for steps in sorted(product(range(_NEARBY), repeat=sum(free)), key=sum):
            moves = iter(steps)
            found = [
                part + next(moves) if is_free else part
                for part, is_free in zip(wanted, free, strict=True)
            ]
            if self._within(found) and self.allows(found):
                return found
        raise InputError(
            "no-sizes",
            f"no sizes near {', '.join(map(str, self.symbols))} hold for entry "
            f"'{self.name}': {'; '.join(each.condition for each in self.guards)}",
            hint="give sizes that hold, for instance with --sizes NAME=N",
        )

    def _within(self, symbols: Sequence[int]) -> bool:
        """Whether values of the symbols are not above their contracts."""
        return all(
            contract.max is None or part * contract.multiple_of <= contract.max
            for contract, part in zip(self.symbols, symbols, strict=True)
        )

    def ports(self, kind: str) -> list[Port]:
        """The arguments of kind `input`, or the results of kind `output`."""
        side = self.results if kind == "output" else self.arguments
        return [port for port in side if port.kind == kind]


@dataclass(frozen=True)
class StateSpec:
    """One `State` of the program: its leaves share a prefix in `Program.parameters`."""

    name: str
    leaves: tuple[str, ...]
    types: tuple[Tensor, ...]
    tree: Structure


@dataclass
class Program:
    """A graph module with everything that is needed to compile and pack it.

    Args:
        module: MLIR module with one function of the graph dialect per entry.
        entries: the callable functions.
        parameters: weights and initial states by dotted name, in order.
        states: the mutable ones among the parameters.
        source: frontend, file name and digest, for the manifest.
        networks: the `Imported` networks among the entries, by name.
        title: name and version of the bundle, as far as the source declares them.
    """

    module: Any
    entries: list[Entry]
    parameters: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    states: list[StateSpec] = field(default_factory=list)
    source: dict[str, Any] = field(default_factory=dict)
    networks: dict[str, Any] = field(default_factory=dict)
    title: Title = field(default_factory=Title)

    def entry(self, name: str) -> Entry:
        """The entry called `name`."""
        return next(entry for entry in self.entries if entry.name == name)


def source_of(path: Path, frontend: str) -> dict[str, Any]:
    """What the manifest says of the file that a program is made of."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"kind": frontend, "file": path.name, "sha256": digest}
