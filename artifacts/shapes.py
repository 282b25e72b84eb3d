"""Dimensions of a shape: integers, or expressions such as `2*batch+1`, `min(n, 8)`."""

from __future__ import annotations

import ast
import operator
import re
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


_FUNCTIONS: dict[str, Callable[[int, int], int]] = {"min": min, "max": max}
LENGTH_LIMIT = 200  # characters of a dimension
ADDRESSABLE = 2**47  # bytes that one process can have on today's processors
_ALPHABET = re.compile(r"[A-Za-z0-9_ +*/%(),-]+")

# a and b of a dimension that is `a * symbol + b`
Line = tuple[int, int]


class Undefined(ValueError):
    """Raised when a size expression divides by zero for given symbol values."""


@dataclass(frozen=True)
class SizeExpression:
    """A dimension given by an integer expression over named symbols."""

    text: str
    symbols: frozenset[str]
    _tree: ast.expr

    @classmethod
    def parse(cls, text: str) -> SizeExpression:
        """Parse an expression of names, integers, `+ - * // %`, `min`, `max` and ( ).

        Raises:
            ValueError: the text is anything else, or divides by the number 0.
        """
        return _parse(text)

    @property
    def is_symbol(self) -> bool:
        """Return whether this size is a single symbol."""
        return isinstance(self._tree, ast.Name)

    def decides(self, known: Collection[str]) -> str | None:
        """Return the one unknown symbol, if the size is linear in it; else None."""
        unknown = self.symbols.difference(known)
        if len(unknown) != 1:
            return None
        (symbol,) = unknown
        line = _linear_form(self._tree, symbol, dict.fromkeys(self.symbols, 1))
        return symbol if line is not None and line[0] else None

    def solve(self, symbol: str, size: int, known: Mapping[str, int]) -> int | None:
        """Return the integer value of `symbol` for which the expression equals `size`,
        or None.
        """
        line = _linear_form(self._tree, symbol, known)
        if line is None or not line[0] or (size - line[1]) % line[0]:
            return None
        return (size - line[1]) // line[0]

    def value(self, symbols: Mapping[str, int]) -> int:
        """Evaluate the expression for given symbol values.

        Raises:
            Undefined: it divides by zero for these.
        """
        try:
            return _value(self._tree, symbols)
        except ZeroDivisionError:
            raise Undefined(f"'{self.text}' divides by zero") from None


def deciding_sizes(dims: Sequence[SizeExpression]) -> list[tuple[int, str]]:
    """Return pairs, in solving order: the index of a size, and the symbol that it
    determines.

    Ordered so that a dimension comes after those that say its other symbols; those that
    are a symbol alone come first. Symbols that no size says are left out.
    """
    users: defaultdict[str, list[int]] = defaultdict(list)
    unknown = [len(dim.symbols) for dim in dims]
    for index, dim in enumerate(dims):
        for symbol in dim.symbols:
            users[symbol].append(index)
    single = [index for index, count in enumerate(unknown) if count == 1]
    ready = deque(sorted(single, key=lambda index: not dims[index].is_symbol))
    known: dict[str, int] = {}
    while ready:
        index = ready.popleft()
        decided = dims[index].decides(known)
        if decided is None:
            continue
        known[decided] = index
        for user in users[decided]:
            unknown[user] -= 1
            if unknown[user] == 1:
                ready.append(user)
    return [(index, symbol) for symbol, index in known.items()]


@lru_cache(maxsize=1024)
def _parse(text: str) -> SizeExpression:
    """Parse a size expression, memoized."""
    try:
        if len(text) > LENGTH_LIMIT or not _ALPHABET.fullmatch(text):
            raise ValueError
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise ValueError(f"{text[:60]!r} is not a dimension") from None
    symbols: set[str] = set()
    _check(tree, symbols)
    return SizeExpression(text, frozenset(symbols), tree)


def _check(tree: ast.expr, symbols: set[str]) -> None:
    """Add an expression's symbols to `symbols`; raise ValueError for unsupported
    syntax.
    """
    if isinstance(tree, ast.Name):
        symbols.add(tree.id)
        return
    if isinstance(tree, ast.Constant) and type(tree.value) is int:
        return
    for part in _operands(tree):
        _check(part, symbols)
    if isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.FloorDiv | ast.Mod):
        _check_divisor(tree.right)


def _check_divisor(tree: ast.expr) -> None:
    """Raise ValueError if a divisor is the constant zero."""
    try:
        if any(isinstance(node, ast.Name) for node in ast.walk(tree)):
            return
        zero = _value(tree, {}) == 0
    except ZeroDivisionError:
        zero = True
    if zero:
        raise ValueError(
            f"{ast.unparse(tree)!r} is zero, and a dimension divides by it"
        )


def _operands(tree: ast.expr) -> Sequence[ast.expr]:
    """Return the operands of a supported operation; else raise ValueError."""
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub):
        return [tree.operand]
    if isinstance(tree, ast.BinOp) and type(tree.op) in _OPERATORS:
        return [tree.left, tree.right]
    if isinstance(tree, ast.Call) and not tree.keywords and len(tree.args) == 2:
        name = tree.func.id if isinstance(tree.func, ast.Name) else ""
        if name in _FUNCTIONS:
            return tree.args
    raise ValueError(f"{ast.unparse(tree)[:60]!r} is not allowed in a dimension")


def _function(tree: ast.expr) -> Callable[[int, int], int]:
    """Return the function that computes a binary operation."""
    if isinstance(tree, ast.BinOp):
        return _OPERATORS[type(tree.op)]
    assert isinstance(tree, ast.Call)
    assert isinstance(tree.func, ast.Name)
    return _FUNCTIONS[tree.func.id]


def _constant(tree: ast.Constant) -> int:
    """Return the integer of a constant expression."""
    assert isinstance(tree.value, int)
    return tree.value


def _value(tree: ast.expr, symbols: Mapping[str, int]) -> int:
    """Evaluate a syntax tree for given symbol values."""
    if isinstance(tree, ast.Name):
        return symbols[tree.id]
    if isinstance(tree, ast.Constant):
        return _constant(tree)
    values = [_value(part, symbols) for part in _operands(tree)]
    return -values[0] if len(values) == 1 else _function(tree)(*values)


def _linear_form(tree: ast.expr, symbol: str, known: Mapping[str, int]) -> Line | None:
    """Return a, b with expression = a * symbol + b, if it is linear in `symbol`; else
    None.
    """
    if isinstance(tree, ast.Name):
        return (1, 0) if tree.id == symbol else (0, known[tree.id])
    if isinstance(tree, ast.Constant):
        return 0, _value(tree, known)
    lines = []
    for part in _operands(tree):
        line = _linear_form(part, symbol, known)
        if line is None:
            return None
        lines.append(line)
    if len(lines) == 1:
        return -lines[0][0], -lines[0][1]
    return _combined_form(tree, *lines)


def _combined_form(tree: ast.expr, left: Line, right: Line) -> Line | None:
    """Return the linear form of a binary operation on linear forms, or None."""
    function = _function(tree)
    if not left[0] and not right[0]:
        try:
            return 0, function(left[1], right[1])
        except ZeroDivisionError:
            return None
    if function in (operator.add, operator.sub):
        return function(left[0], right[0]), function(left[1], right[1])
    if function is operator.mul and 0 in (left[0], right[0]):
        return left[0] * right[1] + right[0] * left[1], left[1] * right[1]
    return None
