"""Dimensions of a shape: integers, or expressions over symbols such as `2*batch+1`."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


@dataclass(frozen=True)
class Dim:
    """One dimension given by an expression over named symbols."""

    text: str
    symbols: frozenset[str]
    _tree: ast.expr

    @classmethod
    def parse(cls, text: str) -> Dim:
        """Read an expression of names, integers, `+ - * // %` and parentheses.

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
        # A trial run meets every node, and so refuses all other syntax.
        with suppress(ZeroDivisionError):
            _value(tree, dict.fromkeys(names, 1))
        return cls(text, frozenset(names), tree)

    @property
    def is_symbol(self) -> bool:
        """Whether this is one bare symbol, which a call can bind."""
        return isinstance(self._tree, ast.Name)

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
    raise ValueError(f"{ast.unparse(tree)!r} is not allowed in a dimension")
