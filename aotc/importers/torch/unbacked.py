"""Sizes that values decide, as torch.export knows them: unbacked symbols, u0, u1, …

They are born where an op's result has as many elements as a mask holds, say, or where
the module reads a number from a tensor, `n = x.item()`, and uses it as a size. What the
module promises of them, `torch._check(n <= 64)`, is in the graph as an assertion.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce

import sympy
import torch
from torch.fx import Graph, Node

from aotc import debug
from aotc import numpy as np
from aotc.dialects.types import Size, minimum
from aotc.importers.common.padded.sizes import bound_of, count_of, promise_bound
from aotc.importers.common.padded.sources import prefix_size
from aotc.importers.common.padded.values import Padded, refuse
from aotc.importers.torch.tensors import declared_of
from aotc.tracing.array import Array

_LARGEST = 2**31 - 1  # positions are i32; torch asserts that sizes are below 2**63
_ASSERTIONS = ("aten._assert_scalar", "aten._functional_assert_scalar")


@dataclass(frozen=True)
class UnbackedSizes:
    """The unbacked symbols that are sizes of tensors in a graph.

    Args:
        symbols: these.
        bounds: what some of them are asserted to be at most, as sympy expressions.
    """

    symbols: frozenset[sympy.Symbol]
    bounds: Mapping[sympy.Symbol, Sequence[sympy.Expr]]

    @staticmethod
    def of(graph: Graph) -> UnbackedSizes:
        """Find the unbacked sizes of a graph."""
        shapes = [tensor.shape for node in graph.nodes for tensor in _tensors(node)]
        bounds: dict[sympy.Symbol, list[sympy.Expr]] = {}
        for symbol, bound in _asserted_bounds(graph):
            bounds.setdefault(symbol, []).append(bound)
        return UnbackedSizes(frozenset(symbols_of(shapes)), bounds)

    def are_in(self, node: Node) -> bool:
        """Return whether a node takes or makes tensors of these sizes, or the sizes."""
        around = [node, *node.all_input_nodes]
        return any(symbols_of(n.meta.get("val")) & self.symbols for n in around)

    @contextmanager
    def bound_new_sizes(
        self, node: Node, values: Mapping[Node, object]
    ) -> Iterator[None]:
        """Bound new sizes within this block by the module's promises."""
        promised = _promised_number(node)
        if promised is not None:
            with promise_bound(promised):
                yield
            return
        born = symbols_of(node.meta.get("val")) & self.bounds.keys()
        for before in node.all_input_nodes:
            born -= symbols_of(before.meta.get("val"))
        if not born:
            yield
            return
        known = known_sizes(values)
        bounds = [_size(e, known) for symbol in born for e in self.bounds[symbol]]
        sizes = [size for size in bounds if size is not None]
        with promise_bound(reduce(minimum, sizes) if sizes else None):
            yield

    def as_size(self, node: Node, result: object) -> object:
        """Return a node's result as a size, if torch uses the number as one."""
        made = node.meta.get("val")
        if not isinstance(made, torch.SymInt) or not isinstance(result, Array):
            return result
        if not symbols_of(made) & self.symbols:
            return result
        return prefix_size(result) if result._data is None else int(result)


def _promised_number(node: Node) -> int | None:
    """Return the size that the module asserts of a vector; None if there is none."""
    made = node.meta.get("val")
    if not isinstance(made, torch.Tensor) or made.ndim != 1:
        return None
    return declared_of(made)[0]


def symbols_of(made: object) -> set[sympy.Symbol]:
    """Return the unbacked symbols in torch's facts on a node: of shapes, and of
    numbers.
    """
    if isinstance(made, (list, tuple, torch.Size)):
        return set().union(*map(symbols_of, made))
    if isinstance(made, torch.Tensor):
        return set().union(*map(symbols_of, made.shape))
    if isinstance(made, (torch.SymInt, torch.SymBool, torch.SymFloat)):
        return set(filter(_is_unbacked, made.node.expr.free_symbols))
    return set()


def _is_unbacked(symbol: sympy.Symbol) -> bool:
    return str(symbol).startswith("u")


def _tensors(node: Node) -> Iterator[torch.Tensor]:
    made = node.meta.get("val")
    for each in made if isinstance(made, (list, tuple)) else [made]:
        if isinstance(each, torch.Tensor):
            yield each


# ---- what is promised ---------------------------------------------------------------


def asserted_test(node: Node) -> sympy.Expr | None:
    """Return the condition that a node asserts of sizes, as a sympy expression, or
    None.
    """
    if node.op != "call_function" or not str(node.target).startswith(_ASSERTIONS):
        return None
    test = node.args[0].meta.get("val") if isinstance(node.args[0], Node) else None
    return test.node.expr if isinstance(test, torch.SymBool) else None


def _asserted_bounds(graph: Graph) -> Iterator[tuple[sympy.Symbol, sympy.Expr]]:
    """Yield symbols with their asserted upper bounds."""
    for test in map(asserted_test, graph.nodes):
        if isinstance(test, (sympy.GreaterThan, sympy.StrictGreaterThan)):
            test = test.reversed
        if isinstance(test, sympy.LessThan):
            yield test.lhs, test.rhs
        elif isinstance(test, sympy.StrictLessThan):
            yield test.lhs, test.rhs - 1


def known_sizes(values: Mapping[Node, object]) -> dict[sympy.Symbol, Size]:
    """The size that each of torch's symbols stands for, as far as arrays have it."""
    return {
        size.node.expr: known
        for node, value in values.items()
        if isinstance(value, Array) and isinstance(node.meta.get("val"), torch.Tensor)
        for size, known in zip(node.meta["val"].shape, value.shape, strict=False)
        if isinstance(size, torch.SymInt)
    }


def _size(expression: sympy.Expr, known: Mapping[sympy.Symbol, Size]) -> Size | None:
    """An expression over torch's symbols as a size; None where one is not known."""
    if expression in known:
        return known[expression]
    if expression.is_Integer:
        return int(expression) if abs(expression) <= _LARGEST else None
    if not (expression.is_Add or expression.is_Mul):
        return None
    parts = [_size(part, known) for part in expression.args]
    sizes = [part for part in parts if part is not None]
    if len(sizes) < len(parts):
        return None
    return reduce(operator.add if expression.is_Add else operator.mul, sizes)


# ---- what is computed ---------------------------------------------------------------


def require_promised_size(node: Node, result: object) -> object:
    """Hold the result of a node to the size that the module asserts, if any."""
    size = _promised_number(node)
    if size is None or not isinstance(result, Padded):
        return result
    own = result.shape[0]
    if bound_of(own) != size:
        return result
    debug.check(
        np.equal(count_of(own), size), f"{size} elements, as the model promises"
    )
    return result.data


def require_agreement(node: Node, result: object) -> None:
    """Refuse a result that is padded along other axes than torch says."""
    results = result if isinstance(result, (list, tuple)) else [result]
    for tensor, own in zip(_all_made(node), results, strict=False):
        if isinstance(tensor, torch.Tensor) and _padded_axes(own) != _unbacked_axes(
            tensor
        ):
            shape = ", ".join(map(str, tensor.shape))
            refuse(
                f"the result has shape [{shape}] in PyTorch, and is {_type_text(own)} "
                "here",
                "promise what decides it with torch._check",
            )


def _all_made(node: Node) -> Iterable[object]:
    made = node.meta.get("val")
    return made if isinstance(made, (list, tuple)) else [made]


def _padded_axes(value: object) -> tuple[int, ...]:
    return value.axes if isinstance(value, Padded) else ()


def _unbacked_axes(tensor: torch.Tensor) -> tuple[int, ...]:
    return tuple(n for n, size in enumerate(tensor.shape) if symbols_of(size))


def _type_text(value: object) -> str:
    return str(value.type if isinstance(value, Array) else value)
