"""Cases: calls of a public function with one or two arguments at an edge."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from aotc.complexes import Complex

from .parameters import SORTED, edges_of
from .values import arrays, elements, in_dtypes, in_shapes

ALL = "all arrays"


@dataclass(frozen=True)
class Case:
    """A call of a function by parameter names, and which arguments are edge cases."""

    function: str
    arguments: dict[str, Any]
    edges: tuple[tuple[str, str], ...] = ()  # (parameter, what stands there)

    def __str__(self) -> str:
        told = ", ".join(f"{name}: {what}" for name, what in self.edges)
        return f"{self.function}({told})"


@dataclass(frozen=True)
class Edge:
    """An edge-case value for one parameter, or for all arrays."""

    parameter: str
    label: str
    value: Any

    def applied(self, case: Case) -> Case:
        """Return the case with this edge value in place."""
        changed = dict(case.arguments)
        if self.parameter != ALL:
            head, _, place = self.parameter.partition("[")
            if place:
                parts = list(changed[head])
                parts[int(place[:-1])] = self.value
                changed[head] = type(changed[head])(parts)
            else:
                changed[head] = self.value
        else:
            changed = {n: _replaced(x, self.value) for n, x in changed.items()}
        edges = (*case.edges, (self.parameter, self.label))
        return replace(case, arguments=changed, edges=edges)


def single(signature: inspect.Signature, base: Case) -> Iterator[Case]:
    """Yield the base call, and one call for each edge of each argument."""
    yield base
    for edge in edges(signature, base):
        yield edge.applied(base)


def pairs(
    signature: inspect.Signature, base: Case, draw: Any, count: int
) -> Iterator[Case]:
    """Yield `count` random calls in which two arguments have edge values."""
    found: dict[str, list[Edge]] = {}
    for edge in edges(signature, base):
        found.setdefault(edge.parameter, []).append(edge)
    ways = [pair for pair in combinations(found, 2) if not _overlap(*pair)]
    for _ in range(count if ways else 0):
        case = base
        for parameter in draw.choice(ways):
            case = draw.choice(found[parameter]).applied(case)
        yield case


def _overlap(first: str, second: str) -> bool:
    """Return whether two edges change the same parameter."""
    return first.partition("[")[0] == second.partition("[")[0] and "[" not in first


def edges(signature: inspect.Signature, base: Case) -> Iterator[Edge]:
    """Yield every edge value of every argument."""
    leaves = dict(_array_arguments(base.arguments))
    first = next(iter(leaves.values()), None)
    for name, old in leaves.items():
        if len(leaves) > 1 or isinstance(old, Complex):
            for label, value in arrays(old):
                yield Edge(name, label, _in_order(base.function, name, value))
    if first is not None:
        names = {id(x): name for name, x in leaves.items()}
        yield from _edges_of_all(base.function, list(leaves.values()), names)
    for name, parameter in signature.parameters.items():
        several = parameter.kind is parameter.VAR_POSITIONAL
        old = base.arguments.get(name, () if several else parameter.default)
        if name not in {leaf.partition("[")[0] for leaf in leaves}:
            for label, value in edges_of(base.function, parameter, old, first):
                if several:
                    value = (value, *old[1:])
                yield Edge(name, label, value)


def _edges_of_all(
    function: str, leaves: list[Any], names: dict[int, str]
) -> Iterator[Edge]:
    """Yield edges that change all arrays of the first one's dtype or shape alike."""
    first = leaves[0]
    if isinstance(first, Complex):
        return
    for make, alike in (
        (elements, [x for x in leaves if x.dtype == first.dtype]),
        (in_shapes, [x for x in leaves if x.shape == first.shape]),
        (in_dtypes, [x for x in leaves if x.dtype == first.dtype]),
    ):
        found = [(x, dict(make(x))) for x in alike]
        for label in found[0][1]:
            others = [(x, edges[label]) for x, edges in found if label in edges]
            others = [
                (x, _in_order(function, names[id(x)], value)) for x, value in others
            ]
            yield Edge(ALL, label, others)


def _in_order(function: str, name: str, value: Any) -> Any:
    """Return a vector sorted, if the function requires that of the parameter."""
    ordered = f"{function}.{name}" in SORTED and isinstance(value, np.ndarray)
    return np.sort(value) if ordered and value.ndim == 1 else value


def _array_arguments(arguments: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield names and values of array arguments, also within lists."""
    for name, value in arguments.items():
        if isinstance(value, (np.ndarray, np.generic, Complex)):
            yield name, value
        elif isinstance(value, (list, tuple)):
            for number, part in enumerate(value):
                if isinstance(part, np.ndarray):
                    yield f"{name}[{number}]", part


def _replaced(value: Any, others: list[tuple[Any, Any]]) -> Any:
    """Return an argument with some of its arrays replaced."""
    for old, new in others:
        if value is old:
            return new
    if type(value) in (list, tuple):
        return type(value)(_replaced(part, others) for part in value)
    return value
