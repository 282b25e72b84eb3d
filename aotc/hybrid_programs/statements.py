"""Statements that may be compiled, and the operations that one consists of."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

_EFFECTS = (ast.Yield, ast.YieldFrom, ast.Await)
_WORK = (
    ast.Call, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Subscript, ast.Attribute,
    ast.If, ast.For, ast.While,
)  # fmt: skip


def is_candidate(node: ast.stmt) -> bool:
    """Whether a statement can be in a region: it has no jump or effect out of it."""
    match node:
        case ast.Assign():
            return all(map(_is_target, node.targets)) and _stays(node)
        case ast.AugAssign() | ast.AnnAssign():
            return node.value is not None and _is_target(node.target) and _stays(node)
        case ast.Expr() | ast.Assert():
            return _stays(node)
        case ast.If():
            return _stays(node.test) and all(map(is_candidate, _inner(node)))
        case ast.For() | ast.While():
            inner = [x for x in _inner(node) if not _is_jump(x)]
            return _stays(*ast.iter_child_nodes(_head(node))) and all(
                map(is_candidate, inner)
            )
        case ast.Pass():
            return True
        case _:
            return False


def computes(body: Sequence[ast.stmt]) -> bool:
    """Whether there is anything in statements that a compiler could have."""
    return any(isinstance(part, _WORK) for each in body for part in ast.walk(each))


def _stays(*nodes: ast.AST) -> bool:
    return not any(isinstance(part, _EFFECTS) for n in nodes for part in ast.walk(n))


def _inner(node: Any) -> list[ast.stmt]:
    return [*node.body, *node.orelse]


def _head(node: Any) -> ast.AST:
    """The part of a loop that is evaluated by itself."""
    return ast.Expr(node.test if isinstance(node, ast.While) else node.iter)


def _is_jump(node: ast.stmt) -> bool:
    return isinstance(node, (ast.Break, ast.Continue))


def _is_name(node: ast.expr) -> bool:
    if isinstance(node, (ast.Tuple, ast.List)):
        return all(map(_is_name, node.elts))
    return isinstance(node, ast.Name)


def _is_target(node: ast.expr) -> bool:
    return _is_name(node) or isinstance(node, (ast.Subscript, ast.Attribute))


def operations(
    node: ast.stmt, fresh: Callable[[], str]
) -> tuple[list[ast.stmt], ast.stmt] | None:
    """The operations inside a statement, each assigned to a name, and what is left.

    They come in the order in which Python evaluates them. What Python may not evaluate
    at all (after `and`, in a lambda or a comprehension) stays where it is. This is
    A-normal form (Flanagan et al., "The essence of compiling with continuations",
    1993).

    Args:
        node: a candidate.
        fresh: makes a name.

    Returns:
        None where there is nothing to take out.
    """
    taken: list[ast.stmt] = []
    splitter = _Splitter(taken, fresh)
    match node:
        case ast.If():
            rest: ast.stmt = _replaced(node, test=splitter.name_of(node.test))
        case ast.For():
            rest = _replaced(node, iter=splitter.name_of(node.iter))
        case ast.While(orelse=[]) if not isinstance(node.test, ast.Constant):
            return [], _with_test_inside(node, fresh())
        case ast.Assign() | ast.AugAssign() | ast.AnnAssign() | ast.Expr():
            rest = _replaced(node, value=splitter.without_operands(node.value))
        case _:
            return None
    return (taken, rest) if taken else None


def _with_test_inside(node: ast.While, name: str) -> ast.While:
    """`while test: …` as `while True: name = test; if not name: break; …`."""
    test = ast.Assign([ast.Name(name, ast.Store())], node.test)
    leave = ast.If(
        ast.UnaryOp(ast.Not(), ast.Name(name, ast.Load())), [ast.Break()], []
    )
    for part in (*ast.walk(ast.Module([leave], [])), test, test.targets[0]):
        ast.copy_location(part, node.test)
    found: ast.While = _replaced(
        node,
        test=ast.copy_location(ast.Constant(True), node),
        body=[test, leave, *node.body],
    )
    return found


class _Splitter:
    """Takes operations out of an expression.

    Args:
        taken: where they go, as statements.
        fresh: makes a name.
    """

    def __init__(self, taken: list[ast.stmt], fresh: Callable[[], str]) -> None:
        self._taken, self._fresh = taken, fresh

    def name_of(self, node: ast.expr) -> Any:
        """A name for the value of an expression; itself if it is as plain."""
        node = self.without_operands(node)
        if not isinstance(node, _WORK) or _is_dotted(node):
            return node
        name = self._fresh()
        target = ast.copy_location(ast.Name(name, ast.Store()), node)
        self._taken.append(ast.copy_location(ast.Assign([target], node), node))
        return ast.copy_location(ast.Name(name, ast.Load()), node)

    def without_operands(self, node: ast.expr | None) -> Any:
        """An expression whose operands are names."""
        match node:
            case ast.Call():
                function = node.func
                if isinstance(function, ast.Attribute):
                    base = self.name_of(function.value)
                    function = _replaced(function, value=base)
                arguments = [self._argument(each) for each in node.args]
                keywords = [
                    _replaced(each, value=self.name_of(each.value))
                    for each in node.keywords
                ]
                return _replaced(node, func=function, args=arguments, keywords=keywords)
            case ast.BinOp():
                left = self.name_of(node.left)
                return _replaced(node, left=left, right=self.name_of(node.right))
            case ast.UnaryOp():
                return _replaced(node, operand=self.name_of(node.operand))
            case ast.Compare(comparators=[right]):
                left = self.name_of(node.left)
                return _replaced(node, left=left, comparators=[self.name_of(right)])
            case ast.Subscript():
                value = self.name_of(node.value)
                return _replaced(node, value=value, slice=self._index(node.slice))
            case ast.Attribute() if not _is_dotted(node):
                return _replaced(node, value=self.name_of(node.value))
            case ast.Tuple() | ast.List():
                return _replaced(node, elts=[self._argument(x) for x in node.elts])
            case ast.Dict():
                values = [self._argument(each) for each in node.values]
                return _replaced(node, values=values)
            case _:
                return node

    def _argument(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Starred):
            return _replaced(node, value=self.name_of(node.value))
        if isinstance(node, (ast.Tuple, ast.List, ast.Dict)):
            return self.without_operands(node)
        if isinstance(node, ast.Attribute) and _is_dotted(node):
            return self._read(node)
        return self.name_of(node)

    def _read(self, node: ast.Attribute) -> ast.expr:
        """An attribute that is an operand, which may be data of an object."""
        name = self._fresh()
        target = ast.copy_location(ast.Name(name, ast.Store()), node)
        self._taken.append(ast.copy_location(ast.Assign([target], node), node))
        return ast.copy_location(ast.Name(name, ast.Load()), node)

    def _index(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Tuple):
            return _replaced(node, elts=[self._index(each) for each in node.elts])
        if isinstance(node, ast.Slice):
            parts = {
                field: self.name_of(part)
                for field in ("lower", "upper", "step")
                if (part := getattr(node, field)) is not None
            }
            return _replaced(node, **parts)
        return self.name_of(node)


def _is_dotted(node: ast.AST) -> bool:
    """Whether an expression is a name, perhaps with attributes: `np.linalg`."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)


def _replaced(node: Any, **fields: Any) -> Any:
    """A node like another, with other fields."""
    kept = {name: getattr(node, name, None) for name in node._fields}
    return ast.copy_location(type(node)(**{**kept, **fields}), node)
