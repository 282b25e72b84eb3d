"""Conditions on sizes, as text: `batch != length and length % 8 == 0`.

A model that was traced for some sizes only says for which: the importer writes such a
condition, the manifest keeps it, and the loader holds every call to it.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

_LONGEST = 2000  # characters; a parser of nested brackets goes no deeper

_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Div: operator.truediv,
}
COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "min": min,
    "max": max,
    "floor": math.floor,
    "ceil": math.ceil,
    "trunc": math.trunc,
    "float": float,
}
_ARITY = {name: 1 + (name in ("min", "max")) for name in _FUNCTIONS}

Compare = Callable[[type[ast.cmpop], Any, Any], bool]


def _compare(comparison: type[ast.cmpop], left: object, right: object) -> bool:
    """Evaluate a comparison whose operator is a class of `ast`."""
    return COMPARISONS[comparison](left, right)


@dataclass(frozen=True)
class Condition:
    """A parsed condition on the sizes of a call, such as `batch != length`."""

    text: str
    symbols: frozenset[str]
    _tree: ast.expr

    @classmethod
    def parse(cls, text: str) -> Condition:
        """Parse a condition from text; ValueError for anything but comparisons of
        sizes.

        Sides of a comparison are names, numbers, `+ - * // % /`, `min`, `max`, `floor`,
        `ceil`, `trunc` and `float` of these.

        Raises:
            ValueError: the text is anything else.
        """
        try:
            if len(text) > _LONGEST:
                raise ValueError
            tree = ast.parse(text, mode="eval").body
            _require_condition(tree)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise ValueError(f"{text[:60]!r} is not a condition on sizes") from None
        names = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
        return cls(text, frozenset(names - _FUNCTIONS.keys()), tree)

    def holds(self, sizes: Mapping[str, object], compare: Compare = _compare) -> bool:
        """Evaluate the condition, each comparison by `compare`; False where it divides
        by zero.

        Args:
            sizes: the value of each name.
            compare: gets the comparison as a class of `ast`, and both sides.
        """
        try:
            return _truth(self._tree, sizes, compare)
        except (ArithmeticError, ValueError):  # floor(inf - inf) is a ValueError
            return False

    def substitute(self, terms: Mapping[str, str]) -> Condition:
        """Return the condition with its names replaced by terms."""
        tree = ast.parse(self.text, mode="eval")
        return Condition.parse(ast.unparse(_Replacement(terms).visit(tree)))

    def __str__(self) -> str:
        return self.text


class _Replacement(ast.NodeTransformer):
    """Syntax tree transformer that replaces names by parsed terms."""

    def __init__(self, terms: Mapping[str, str]) -> None:
        self._terms = terms

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Return the parsed term for a name, or the name itself if it has none."""
        term = self._terms.get(node.id)
        return node if term is None else ast.parse(term, mode="eval").body


def _require_condition(tree: ast.expr) -> None:
    """Raise ValueError unless a syntax tree is an allowed boolean expression."""
    if isinstance(tree, ast.BoolOp):
        for part in tree.values:
            _require_condition(part)
    elif isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.Not):
        _require_condition(tree.operand)
    elif isinstance(tree, ast.Compare):
        if not all(type(sign) in COMPARISONS for sign in tree.ops):
            raise ValueError
        for side in (tree.left, *tree.comparators):
            _require_term(side)
    else:
        raise ValueError


def _require_term(tree: ast.expr) -> None:
    """Raise ValueError unless a syntax tree is an allowed arithmetic term."""
    known = isinstance(tree, ast.Name) and tree.id not in _FUNCTIONS
    if known or (isinstance(tree, ast.Constant) and type(tree.value) in (int, float)):
        return
    for part in _parts(tree):
        _require_term(part)


def _parts(tree: ast.expr) -> list[ast.expr]:
    """Return the operands of an arithmetic term; ValueError for an unsupported
    operation.
    """
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub):
        return [tree.operand]
    if isinstance(tree, ast.BinOp) and type(tree.op) in _OPERATORS:
        return [tree.left, tree.right]
    if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name):
        count = _ARITY.get(tree.func.id)
        if len(tree.args) == count and not tree.keywords:
            return list(tree.args)
    raise ValueError


def _truth(tree: ast.expr, sizes: Mapping[str, object], compare: Compare) -> bool:
    """Evaluate a boolean expression for the given sizes."""
    if isinstance(tree, ast.BoolOp):
        parts = (_truth(part, sizes, compare) for part in tree.values)
        return all(parts) if isinstance(tree.op, ast.And) else any(parts)
    if isinstance(tree, ast.UnaryOp):
        return not _truth(tree.operand, sizes, compare)
    assert isinstance(tree, ast.Compare), "parse lets nothing else through"
    sides = [_number(side, sizes) for side in (tree.left, *tree.comparators)]
    return all(
        compare(type(sign), left, right)
        for sign, left, right in zip(tree.ops, sides, sides[1:], strict=False)
    )


def _number(tree: ast.expr, sizes: Mapping[str, object]) -> Any:
    """Evaluate an arithmetic term for the given sizes."""
    if isinstance(tree, ast.Constant):
        return tree.value
    if isinstance(tree, ast.Name):
        return sizes[tree.id]
    parts = [_number(part, sizes) for part in _parts(tree)]
    if isinstance(tree, ast.UnaryOp):
        return -parts[0]
    if isinstance(tree, ast.BinOp):
        return _OPERATORS[type(tree.op)](*parts)
    assert isinstance(tree, ast.Call), "parse lets nothing else through"
    assert isinstance(tree.func, ast.Name), "parse lets nothing else through"
    return _FUNCTIONS[tree.func.id](*parts)
