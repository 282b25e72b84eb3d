"""Advice on Python constructs that ask an array for its value.

The advice is made of the expression that raised, so it can be typed: for
`x if x.sum() > 0 else y` it is `aotc.numpy.where(x.sum() > 0, x, y)`.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable
from copy import deepcopy
from typing import Any

from aotc.tracing.libraries import library_function, replacement_of
from aotc.tracing.user_code import Expression, UserFrame, expression_at


def replacement(call: UserFrame, *, of_size: bool) -> str | None:
    """Return advice on what to write instead of the Python construct that needs a
    value.

    Args:
        call: the innermost frame of the user's code.
        of_size: a symbolic size was asked, which arrays cannot stand for in a branch.
    """
    expression = expression_at(call)
    if expression is None:
        return None
    node = _outermost(expression)
    if isinstance(node, ast.Call):
        foreign = library_function(node, expression)
        return replacement_of(foreign) if foreign else _builtin_advice(node)
    if of_size and not isinstance(node, _LOOPS):
        return None
    write = _CONSTRUCTS.get(type(node))
    return write(node) if write else None


def _outermost(expression: Expression) -> ast.AST:
    """Return the outermost construct that needs the value: the `if`, not the `and`
    in it.
    """
    node = expression.node
    for outer in expression.ancestors:
        if not _is_decided_by(outer, node):
            break
        node = outer
    return node


def _is_decided_by(outer: ast.AST, inner: ast.AST) -> bool:
    """Return whether `outer` decides by the value of `inner`."""
    if isinstance(outer, (ast.BoolOp, ast.UnaryOp)):
        return isinstance(outer, ast.BoolOp) or isinstance(outer.op, ast.Not)
    if isinstance(outer, (ast.If, ast.IfExp, ast.While, ast.Assert)):
        return outer.test is inner
    if isinstance(outer, ast.Call):
        return isinstance(outer.func, ast.Name) and outer.func.id == "range"
    return isinstance(outer, _LOOPS) and _iterable(outer) is inner


_Loop = ast.For | ast.comprehension | ast.ListComp | ast.GeneratorExp
_LOOPS = (ast.For, ast.comprehension, ast.ListComp, ast.GeneratorExp)


def _iterable(loop: _Loop) -> ast.expr:
    """Return the iterable of a loop or comprehension."""
    if isinstance(loop, (ast.For, ast.comprehension)):
        return loop.iter
    return loop.generators[0].iter


def _builtin_advice(node: ast.Call) -> str | None:
    """Return advice on what to write instead of a built-in function; None for
    others.
    """
    if not isinstance(node.func, ast.Name) or not hasattr(builtins, node.func.id):
        return None
    arguments = ", ".join(map(ast.unparse, node.args))
    text = _BUILTINS.get(node.func.id, "")
    if node.func.id in ("max", "min") and len(node.args) == 2:
        text = f"aotc.numpy.{node.func.id}imum({{}})"
    return f"write {text.replace('{}', arguments)}" if text else None


# builtin → what to write; {} stands for the arguments
_BUILTINS = {
    "max": "aotc.numpy.max({})",
    "min": "aotc.numpy.min({})",
    "sum": "aotc.numpy.sum({}, axis=0)",
    "any": "aotc.numpy.any({})",
    "all": "aotc.numpy.all({})",
    "sorted": "aotc.numpy.sort({})",
    "float": 'aotc.numpy.astype({}, "f32")',
    "int": 'aotc.numpy.astype({}, "i32")',
    "bool": 'aotc.numpy.astype({}, "bool")',
    "len": "{}.shape[0], which works in shapes and in arithmetic with arrays",
    "range": "aotc.control.fori_loop(0, {}, lambda i, value: …, initial)",
    **dict.fromkeys(
        ("list", "tuple", "enumerate", "zip", "map", "reversed", "iter"),
        "aotc.control.scan(step, initial, {}) to go through the rows",
    ),
    "format": "aotc.debug.print to see a value of each call",
}


class _Arrays(ast.NodeTransformer):
    """A transformer of Python conditions to array functions: `a and b` to
    `logical_and(a, b)`.
    """

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:  # noqa: N802 - ast's name
        """Replace `and` and `or` by logical functions."""
        name = "logical_and" if isinstance(node.op, ast.And) else "logical_or"
        values = [self.visit(value) for value in node.values]
        whole: ast.expr = values[0]
        for value in values[1:]:
            whole = _numpy_call(name, whole, value)
        return whole

    def visit_Call(self, node: ast.Call) -> ast.AST:  # noqa: N802
        """Replace `len(x)` by `x.shape[0]`."""
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == "len" and node.args:
            return ast.Subscript(ast.Attribute(node.args[0], "shape"), ast.Constant(0))
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:  # noqa: N802
        """Replace `not x` by `logical_not(x)`."""
        self.generic_visit(node)
        if isinstance(node.op, ast.Not):
            return _numpy_call("logical_not", node.operand)
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:  # noqa: N802
        """Replace chained comparisons by a conjunction, and `in` by `isin`."""
        self.generic_visit(node)
        sides = [node.left, *node.comparators]
        whole: ast.expr | None = None
        for left, op, right in zip(sides, node.ops, sides[1:], strict=False):
            part = _comparison(left, op, right)
            whole = ast.BinOp(whole, ast.BitAnd(), part) if whole else part
        return whole or node


def _comparison(left: ast.expr, op: ast.cmpop, right: ast.expr) -> ast.expr:
    """Return a comparison expression; `isin` for `in`."""
    if isinstance(op, (ast.In, ast.NotIn)):
        found = _numpy_call("isin", left, right)
        return _numpy_call("logical_not", found) if isinstance(op, ast.NotIn) else found
    return ast.Compare(left, [op], [right])


def _numpy_call(name: str, *operands: ast.expr) -> ast.expr:
    """Return a call expression of a function of aotc.numpy."""
    return ast.Call(ast.Name(f"aotc.numpy.{name}"), list(operands), [])


def _as_arrays(node: ast.AST) -> str:
    """Return the source of a condition in array functions."""
    return ast.unparse(_Arrays().visit(deepcopy(node)))


def _condition(node: ast.Compare | ast.BoolOp | ast.UnaryOp) -> str:
    """Return advice for a condition used as a value."""
    return f"write {_as_arrays(node)}"


def _choice(node: ast.IfExp) -> str:
    """Return advice for a conditional expression."""
    parts = _as_arrays(node.test), ast.unparse(node.body), ast.unparse(node.orelse)
    return f"write aotc.numpy.where({', '.join(parts)})"


def _branch(node: ast.If) -> str:
    """Return advice for an `if` statement."""
    test = _as_arrays(node.test)
    return (
        f"write aotc.numpy.where({test}, a, b) to choose between arrays, or "
        f"aotc.control.cond({test}, lambda: a, lambda: b) to run one of two branches"
    )


def _loop_while(node: ast.While) -> str:
    """Return advice for a `while` loop."""
    return (
        "write aotc.control.while_loop(condition, body, initial), where "
        f"condition(value) is '{_as_arrays(node.test)}'"
    )


def _check(node: ast.Assert) -> str:
    """Return advice for an `assert` statement."""
    message = ast.unparse(node.msg) if node.msg else "'what is wrong'"
    return (
        f"write aotc.debug.check({_as_arrays(node.test)}, {message}), which ends a "
        "call of the compiled model"
    )


def _loop_over(node: _Loop) -> str:
    """Return advice for a `for` loop or comprehension."""
    iterable = _iterable(node)
    text = ast.unparse(iterable)
    if isinstance(iterable, ast.Call) and ast.unparse(iterable.func) == "range":
        bounds = [_as_arrays(each) for each in iterable.args]
        first = bounds[0] if len(bounds) > 1 else "0"
        last = bounds[1] if len(bounds) > 1 else bounds[0]
        return (
            f"write aotc.control.fori_loop({first}, {last}, body, initial), where "
            "body(i, value) returns the next value"
        )
    return (
        f"write aotc.control.scan(step, initial, {text}), where step(carry, row) "
        f"returns (carry, result); or aotc.vmap(f)({text}) if no row depends on another"
    )


_CONSTRUCTS: dict[type, Callable[[Any], str]] = {
    ast.Compare: _condition,
    ast.BoolOp: _condition,
    ast.UnaryOp: _condition,
    ast.IfExp: _choice,
    ast.If: _branch,
    ast.While: _loop_while,
    ast.Assert: _check,
    **dict.fromkeys(_LOOPS, _loop_over),
}
