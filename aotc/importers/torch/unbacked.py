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
    """The unbacked (data-dependent) symbols that are tensor sizes in a graph.

    Args:
        symbols: these.
        bounds: what some of them are asserted to be at most, as sympy expressions.
    """

    symbols: frozenset[sympy.Symbol]
    bounds: Mapping[sympy.Symbol, Sequence[sympy.Expr]]

    @staticmethod
    def of(graph: Graph) -> UnbackedSizes:
        """Return the unbacked symbols in the tensor shapes of an fx graph."""
        shapes = [tensor.shape for node in graph.nodes for tensor in _tensors(node)]
        bounds: dict[sympy.Symbol, list[sympy.Expr]] = {}
        for symbol, bound in _asserted_bounds(graph):
            bounds.setdefault(symbol, []).append(bound)
        return UnbackedSizes(frozenset(symbols_of(shapes)), bounds)

    def are_in(self, node: Node) -> bool:
        """Return whether a node reads or returns tensors of unbacked sizes, or the
        sizes.
        """
        around = [node, *node.all_input_nodes]
        return any(symbols_of(n.meta.get("val")) & self.symbols for n in around)

    @contextmanager
    def bound_new_sizes(
        self, node: Node, values: Mapping[Node, object]
    ) -> Iterator[None]:
        """Bound data-dependent sizes made within this block by what the module
        asserts.
        """
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
        """Return a node's result, as a size where torch uses the number as one."""
        made = node.meta.get("val")
        if not isinstance(made, torch.SymInt) or not isinstance(result, Array):
            return result
        if not symbols_of(made) & self.symbols:
            return result
        return prefix_size(result) if result._data is None else int(result)


def _promised_number(node: Node) -> int | None:
    """Return the static length that torch states for a node's vector; None
    otherwise.
    """
    made = node.meta.get("val")
    if not isinstance(made, torch.Tensor) or made.ndim != 1:
        return None
    return declared_of(made)[0]


def symbols_of(made: object) -> set[sympy.Symbol]:
    """Return the unbacked symbols in a node's fake value (tensor, number, or list)."""
    if isinstance(made, (list, tuple, torch.Size)):
        return set().union(*map(symbols_of, made))
    if isinstance(made, torch.Tensor):
        return set().union(*map(symbols_of, made.shape))
    if isinstance(made, (torch.SymInt, torch.SymBool, torch.SymFloat)):
        return set(filter(_is_unbacked, made.node.expr.free_symbols))
    return set()


def _is_unbacked(symbol: sympy.Symbol) -> bool:
    """Return whether a sympy symbol is one of torch's unbacked symbols."""
    return str(symbol).startswith("u")


def _tensors(node: Node) -> Iterator[torch.Tensor]:
    """Yield the fake tensors of a node's results."""
    made = node.meta.get("val")
    for each in made if isinstance(made, (list, tuple)) else [made]:
        if isinstance(each, torch.Tensor):
            yield each


# ---- what is promised ---------------------------------------------------------------


def asserted_test(node: Node) -> sympy.Expr | None:
    """Return the condition that an assertion node checks; None for any other node."""
    if node.op != "call_function" or not str(node.target).startswith(_ASSERTIONS):
        return None
    test = node.args[0].meta.get("val") if isinstance(node.args[0], Node) else None
    return test.node.expr if isinstance(test, torch.SymBool) else None


def _asserted_bounds(graph: Graph) -> Iterator[tuple[sympy.Symbol, sympy.Expr]]:
    """Yield (symbol, upper bound) of the inequalities that a graph asserts."""
    for test in map(asserted_test, graph.nodes):
        if isinstance(test, (sympy.GreaterThan, sympy.StrictGreaterThan)):
            test = test.reversed
        if isinstance(test, sympy.LessThan):
            yield test.lhs, test.rhs
        elif isinstance(test, sympy.StrictLessThan):
            yield test.lhs, test.rhs - 1


def known_sizes(values: Mapping[Node, object]) -> dict[sympy.Symbol, Size]:
    """Return the sizes that torch's expressions stand for, read off computed arrays."""
    return {
        size.node.expr: known
        for node, value in values.items()
        if isinstance(value, Array) and isinstance(node.meta.get("val"), torch.Tensor)
        for size, known in zip(node.meta["val"].shape, value.shape, strict=False)
        if isinstance(size, torch.SymInt)
    }


def _size(expression: sympy.Expr, known: Mapping[sympy.Symbol, Size]) -> Size | None:
    """Return an expression of torch's symbols as a size; None if one is unknown."""
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
    """Return a padded vector at the length the module asserts, checked at run time.

    Other results, and those of other bounds, are returned as they are.
    """
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
    """Refuse a result whose padded axes are not those that torch has unbacked
    sizes on.
    """
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
    """Return the fake values of a node's results."""
    made = node.meta.get("val")
    return made if isinstance(made, (list, tuple)) else [made]


def _padded_axes(value: object) -> tuple[int, ...]:
    """Return the padded axes of a value."""
    return value.axes if isinstance(value, Padded) else ()


def _unbacked_axes(tensor: torch.Tensor) -> tuple[int, ...]:
    """Return the axes of a fake tensor with unbacked sizes."""
    return tuple(n for n, size in enumerate(tensor.shape) if symbols_of(size))


def _type_text(value: object) -> str:
    """Return a value's type as text."""
    return str(value.type if isinstance(value, Array) else value)
