"""Dimensions of a shape: integers, or expressions such as `2*batch+1`, `min(n, 8)`."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass

_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


_FUNCTIONS: dict[str, Callable[[int, int], int]] = {"min": min, "max": max}

# a and b of a dimension that is `a * symbol + b`
Line = tuple[int, int]


@dataclass(frozen=True)
class Dim:
    """One dimension given by an expression over named symbols."""

    text: str
    symbols: frozenset[str]
    _tree: ast.expr

    @classmethod
    def parse(cls, text: str) -> Dim:
        """Read an expression of names, integers, `+ - * // %`, `min`, `max` and ( ).

        Raises:
            ValueError: the text is anything else.
        """
        try:
            if len(text) > 200:
                raise ValueError
            tree = ast.parse(text, mode="eval").body
        except (SyntaxError, ValueError):
            raise ValueError(f"{text[:60]!r} is not a dimension") from None
        names = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
        names -= _FUNCTIONS.keys()
        # A trial run meets every node, and so refuses all other syntax.
        with suppress(ZeroDivisionError):
            _value(tree, dict.fromkeys(names, 1))
        return cls(text, frozenset(names), tree)

    @property
    def is_symbol(self) -> bool:
        """Whether this is one symbol and nothing else."""
        return isinstance(self._tree, ast.Name)

    def decides(self, known: Collection[str]) -> str | None:
        """The one symbol not yet known that the size says, if it is linear in it."""
        unknown = self.symbols.difference(known)
        if len(unknown) != 1:
            return None
        (symbol,) = unknown
        line = _line(self._tree, symbol, dict.fromkeys(self.symbols, 1))
        return symbol if line is not None and line[0] else None

    def solve(self, symbol: str, size: int, known: Mapping[str, int]) -> int | None:
        """The value of `symbol` that gives the dimension `size`, if there is one."""
        line = _line(self._tree, symbol, known)
        if line is None or not line[0] or (size - line[1]) % line[0]:
            return None
        return (size - line[1]) // line[0]

    def value(self, symbols: Mapping[str, int]) -> int:
        """The size of the dimension for given values of its symbols."""
        return _value(self._tree, symbols)


def _value(tree: ast.expr, symbols: Mapping[str, int]) -> int:
    if isinstance(tree, ast.Constant) and type(tree.value) is int:
        return tree.value
    if isinstance(tree, ast.Name):
        return symbols[tree.id]
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub):
        return -_value(tree.operand, symbols)
    if isinstance(tree, ast.BinOp) and type(tree.op) in _OPERATORS:
        left, right = _value(tree.left, symbols), _value(tree.right, symbols)
        return _OPERATORS[type(tree.op)](left, right)
    if isinstance(tree, ast.Call) and not tree.keywords and len(tree.args) == 2:
        name = tree.func.id if isinstance(tree.func, ast.Name) else ""
        if name in _FUNCTIONS:
            left, right = (_value(part, symbols) for part in tree.args)
            return _FUNCTIONS[name](left, right)
    raise ValueError(f"{ast.unparse(tree)!r} is not allowed in a dimension")


def _line(tree: ast.expr, symbol: str, known: Mapping[str, int]) -> Line | None:
    """The dimension as a line over `symbol`, or None where it is none."""
    if isinstance(tree, ast.Name) and tree.id == symbol:
        return 1, 0
    if symbol not in {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}:
        return 0, _value(tree, known)
    if not isinstance(tree, ast.BinOp):
        return None
    left, right = (_line(side, symbol, known) for side in (tree.left, tree.right))
    if left is None or right is None:
        return None
    if isinstance(tree.op, ast.Add | ast.Sub):
        combine = _OPERATORS[type(tree.op)]
        return combine(left[0], right[0]), combine(left[1], right[1])
    if isinstance(tree.op, ast.Mult) and 0 in (left[0], right[0]):
        return left[0] * right[1] + right[0] * left[1], left[1] * right[1]
    return None
