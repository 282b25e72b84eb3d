"""Points where an entry takes derivatives, and their functions."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from aotc.checks.certificate.modules import Modes, modes_of
from aotc.checks.certificate.visits import visit
from aotc.core import dtypes
from aotc.dialects.calls.callees import callees, reachable_functions
from aotc.dialects.functions.entries import Entry
from aotc.dialects.functions.functions import functions_of, name_of, signature
from aotc.dialects.functions.transform import Jvp, Vjp, derived_of
from aotc.dialects.sizes.contracts import Contract
from aotc.dialects.types import Tensor, evaluate_size
from aotc.mlir import Function, source_of
from aotc.programs.program import Program
from aotc.reference import bind_symbols

Arrays = list[np.ndarray]
Derivative = Vjp | Jvp


@dataclass(frozen=True)
class Point:
    """A derivative that an entry takes, and the arguments at which it is checked.

    Args:
        entry: its name.
        function: that is differentiated.
        wrt: the arguments that it is differentiated by.
        modes: that it has.
        arrays: all arguments, in the dtypes of the function; None if the entry does not
            get there.
        symbols: the values of the symbols.
        where: the line that asks for it.
        missed: the branches that the function does not take there.
    """

    entry: str
    function: str
    wrt: tuple[int, ...]
    modes: Modes
    arrays: Arrays | None
    symbols: list[int]
    where: str | None
    missed: tuple[str, ...]


def points_of(
    program: Program, entry: Entry, rng: np.random.Generator
) -> Iterator[Point]:
    """Yield the derivatives that an entry takes, itself or in functions that it
    calls.
    """
    known = functions_of(program.module)
    asked = _reached_derivatives(known, entry.name)
    if not asked:
        return
    arguments = _arguments(program, entry, rng)
    symbols = bind_symbols(signature(known[entry.name])[0], arguments)
    names = [name for name, _ in asked]
    seen = visit(program.module, entry.name, arguments, symbols, names)
    for name, derived in asked:
        modes = modes_of(program.module, derived.of)
        count = len(signature(known[derived.of])[0])
        yield Point(
            entry.name,
            derived.of,
            derived.wrt,
            modes._replace(**{_MODES[type(derived)]: True}),
            seen[name][:count] if name in seen else None,
            symbols,
            source_of(known[name].location),
            _unvisited_functions(known, derived.of, seen),
        )


_MODES: dict[type, str] = {Vjp: "reverse", Jvp: "forward"}


def _reached_derivatives(
    functions: Mapping[str, Function], entry: str
) -> list[tuple[str, Derivative]]:
    """Return the declared derivatives that an entry reaches by calls, by name.

    One check measures both modes, so either stands for both.
    """
    inside = set(reachable_functions(functions, entry))
    found: dict[Any, tuple[str, Derivative]] = {}
    for name in functions:
        derived = derived_of(functions[name]) if name in inside else None
        if isinstance(derived, Derivative) and derived.wrt:
            found.setdefault((derived.of, derived.wrt), (name, derived))
    return list(found.values())


def _unvisited_functions(
    functions: Mapping[str, Function], name: str, visited: Collection[str]
) -> tuple[str, ...]:
    """Return titles of callees, such as branches, that the evaluation did not run."""
    found = [
        inner
        for outer in reachable_functions(functions, name)
        if outer in visited
        for inner in callees(functions[outer])
        if inner not in visited
    ]
    return tuple(_title(functions[inner]) for inner in dict.fromkeys(found))


def _title(function: Function) -> str:
    """Return the name of a function in the model, and its source line."""
    name, where = name_of(function).rpartition(".")[2], source_of(function.location)
    return f"{name} ({where})" if where else name


def _arguments(program: Program, entry: Entry, rng: np.random.Generator) -> Arrays:
    """Return initial states and weights, and random inputs of the least size above
    one.
    """
    sizes = entry.nearest_allowed([_size(contract) for contract in entry.symbols])
    return [
        np.asarray(program.parameters[port.name])
        if port.name in program.parameters
        else _random(port.type, sizes, rng)
        for port in entry.arguments
    ]


def _size(contract: Contract) -> int:
    """Return an allowed size in units of `multiple_of`, above one if possible."""
    most = contract.max // contract.multiple_of if contract.max else 2
    least = -(-contract.min // contract.multiple_of)
    return max(least, min(2, most))


def _random(kind: Tensor, sizes: Sequence[int], rng: np.random.Generator) -> np.ndarray:
    """Draw an array of a tensor type: normal floats, or integers 0 and 1."""
    shape = tuple(evaluate_size(size, sizes) for size in kind.shape)
    numpy = dtypes.to_numpy(kind.dtype)
    if dtypes.is_float(kind.dtype):
        return rng.standard_normal(shape).astype(numpy)
    return rng.integers(0, 2, shape).astype(numpy)
