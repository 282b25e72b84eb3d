"""Code that asks before it calls, reads or changes anything, for tracing of regions.

Functions of the user that a region calls are instrumented in their turn, so that an
effect ends the region before it happens, however deep it is.
"""

from __future__ import annotations

import ast
import inspect
import types
from collections.abc import Sequence
from copy import deepcopy
from functools import lru_cache
from typing import Any

from aotc.hybrid_programs.breaks import (
    Break,
    identities,
    inside_region,
    is_data,
    is_own,
    refuse_call,
    refuse_change,
    refuse_read,
)
from aotc.hybrid_programs.making import compile_function, value_outside
from aotc.hybrid_programs.names import reads, stores
from aotc.hybrid_programs.syntax import Definition, definition_of

_REFUSED = (
    ast.Yield, ast.YieldFrom, ast.Await, ast.Global, ast.Nonlocal, ast.AsyncFor,
    ast.AsyncWith, ast.With, ast.Try, ast.Import, ast.ImportFrom,
)  # fmt: skip


def _call(function: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Call a function, if a region may."""
    refuse_call(function, args, kwargs)
    found = inside_region.get()
    plain, first = _python_function(function)
    if plain is None or found is None:
        return function(*args, **kwargs)
    callee = _instrumented(plain)
    found.given |= identities(_data_outside(plain))
    found.depth += 1
    try:
        return callee(*first, *args, **kwargs)
    finally:
        found.depth -= 1


def _python_function(function: Any) -> tuple[types.FunctionType | None, list[Any]]:
    """The function of the user's Python that is called, and its `self`."""
    if is_own(function) or getattr(function, "aotc_is_island", False):
        return None, []
    if isinstance(function, types.MethodType):
        inner: Any = function.__func__
        plain = isinstance(inner, types.FunctionType)
        return (inner, [function.__self__]) if plain else (None, [])
    if isinstance(function, types.FunctionType):
        return function, []
    called = inspect.getattr_static(type(function), "__call__", None)
    if isinstance(called, types.FunctionType) and not isinstance(function, type):
        return (None, []) if is_own(called) else (called, [function])
    return None, []


@lru_cache(maxsize=1024)
def _instrumented(function: types.FunctionType) -> Any:
    """A function that does the same, and asks.

    Raises:
        Break: its source is not at hand, or has what cannot be instrumented.
    """
    node = definition_of(function)
    if node is None or any(isinstance(part, _REFUSED) for part in ast.walk(node)):
        raise Break(f"the source of {function.__name__} does not tell what it does")
    body = [part for each in _body_of(node) for part in asking(each)]
    name = "lambda_" if isinstance(node, ast.Lambda) else node.name
    made = compile_function(function, name, node.args, body, TOOLS)
    made.__defaults__ = function.__defaults__
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def _body_of(node: Definition) -> list[ast.stmt]:
    if isinstance(node, ast.Lambda):
        return [ast.copy_location(ast.Return(node.body), node.body)]
    return node.body


def _data_outside(function: types.FunctionType) -> dict[str, Any]:
    """What a function reads of its module and closure, and its default values."""
    node = definition_of(function)
    body = (
        []
        if node is None
        else [node.body]
        if isinstance(node, ast.Lambda)
        else node.body
    )
    found = {str(n): each for n, each in enumerate(function.__defaults__ or ())}
    found |= function.__kwdefaults__ or {}
    for name in reads(*body) - stores(*body):
        try:
            value = value_outside(function, name)
        except NameError:  # a parameter, or Python will say so
            continue
        if is_data(value):
            found[name] = value
    return found


def _read(owner: Any, name: str) -> Any:
    """Read an attribute, if a region may."""
    value = getattr(owner, name)
    refuse_read(owner, name, value)
    return value


def _changed(owner: Any) -> Any:
    """An object of which a part is assigned, if a region may do that."""
    refuse_change(owner, "an assignment")
    return owner


def _augmented(value: Any) -> None:
    """Look at what `+=` may change."""
    if isinstance(value, (list, dict, set)):
        refuse_change(value, "an assignment")


def _stop() -> None:
    raise Break("an assignment may change an object from outside")


#: The functions that instrumented code calls, by the names that it has for them.
TOOLS = {
    "_aotc_call": _call,
    "_aotc_read": _read,
    "_aotc_changed": _changed,
    "_aotc_augmented": _augmented,
    "_aotc_stop": _stop,
}


def positioned(body: Sequence[ast.stmt]) -> list[ast.stmt]:
    """Instrumented statements that say which of them is executed, in `_aotc_at[0]`."""
    found: list[ast.stmt] = []
    for number, each in enumerate(body):
        found += ast.parse(f"_aotc_at[0] = {number}").body
        found += asking(each)
    return found


def asking(node: ast.stmt) -> list[ast.stmt]:
    """A statement that asks before it calls, reads or changes anything."""
    made = _Asking().visit(deepcopy(node))
    return made if isinstance(made, list) else [made]


class _Asking(ast.NodeTransformer):
    """Has functions of `TOOLS` do what may have effects."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == "super":
            return node  # looks at the frame that calls it
        arguments = [node.func, *node.args]
        return _tool("_aotc_call", arguments, node, node.keywords)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.ctx, ast.Load):  # objects are not what regions return
            stop = _tool("_aotc_stop", [], node)
            return ast.copy_location(ast.Attribute(stop, node.attr, node.ctx), node)
        return _tool("_aotc_read", [node.value, ast.Constant(node.attr)], node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.ctx, ast.Load):
            node.value = _tool("_aotc_changed", [node.value], node)
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        self.generic_visit(node)
        if not isinstance(node.target, ast.Name):
            return node
        read = ast.copy_location(ast.Name(node.target.id, ast.Load()), node)
        look = ast.Expr(_tool("_aotc_augmented", [read], node))
        return [ast.copy_location(look, node), node]


def _tool(
    name: str,
    arguments: list[ast.expr],
    node: ast.AST,
    keywords: Sequence[ast.keyword] = (),
) -> ast.expr:
    function = ast.copy_location(ast.Name(name, ast.Load()), node)
    return ast.copy_location(ast.Call(function, arguments, [*keywords]), node)
