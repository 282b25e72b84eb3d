"""Code that asks before it calls, reads or changes anything, for tracing of regions.

Functions of the user that a region calls are instrumented in their turn, so that an
effect ends the region before it happens, however deep it is.
"""

from __future__ import annotations

import ast
import functools
import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from functools import lru_cache
from typing import Any, TypeVar

from aotc.hybrid_programs.python.breaks import (
    Break,
    Inside,
    identities,
    inside_region,
    is_data,
    is_own,
)
from aotc.hybrid_programs.python.making import compile_function, value_outside
from aotc.hybrid_programs.python.names import reads, stores
from aotc.hybrid_programs.python.rules import (
    ITERATING,
    is_iterator,
    is_one_of,
    name_of,
    read_attribute,
    refuse_call,
    refuse_change,
    refuse_change_in_place,
    refuse_comparison,
    refuse_identity,
    refuse_iteration,
    refuse_text,
    refuse_use,
)
from aotc.hybrid_programs.python.syntax import Definition, definition_of

Value = TypeVar("Value")

_REFUSED = (
    ast.Yield, ast.YieldFrom, ast.Await, ast.Global, ast.Nonlocal, ast.AsyncFor,
    ast.AsyncWith, ast.With, ast.Try, ast.Import, ast.ImportFrom, ast.ClassDef,
    ast.Match, ast.Delete,
)  # fmt: skip


def _call(function: Any, /, *args: object, **kwargs: object) -> object:
    """Call a function from instrumented code; raise `Break` if a region may not call
    it.
    """
    found = inside_region.get()
    if found is None:
        return function(*args, **kwargs)
    if getattr(function, "aotc_is_hybrid", False):
        return _call(function.function, *args, **kwargs)
    if isinstance(function, functools.partial):
        kwargs = {**function.keywords, **kwargs}
        return _call(function.func, *function.args, *args, **kwargs)
    if function is getattr and len(args) == 2 and isinstance(args[1], str):
        return read_attribute(args[0], args[1])
    refuse_call(function, args, kwargs)
    plain, first = _python_function(function)
    if plain is None:
        return _call_other(found, function, args, kwargs)
    if _is_instrumented(plain):  # made in the region
        return plain(*first, *args, **kwargs)
    callee = _instrumented(plain, plain.__code__)
    callee.__defaults__ = plain.__defaults__
    callee.__kwdefaults__ = plain.__kwdefaults__
    _record_reads(found, plain)
    with found.function():
        return callee(*first, *args, **kwargs)


def _call_other(
    region: Inside,
    function: Callable[..., object],
    args: Sequence[object],
    kwargs: Mapping[str, object],
) -> object:
    """Call a function that is not traced into, with user functions among its arguments
    instrumented; record an iterator or function that it makes in the region.
    """
    args = [*map(_instrumented_callable, args)]
    kwargs = {name: _instrumented_callable(each) for name, each in kwargs.items()}
    result = function(*args, **kwargs)
    makes_iterator = is_one_of(function, ITERATING) and is_iterator(result)
    if makes_iterator or (is_own(function) and callable(result)):
        region.made.append(result)
    return result


def _instrumented_callable(value: object) -> object:
    """Wrap a user's callable so that calls of it are instrumented; others unchanged."""
    kinds = (types.FunctionType, types.MethodType, functools.partial)
    called = inspect.getattr_static(type(value), "__call__", None)
    is_object = isinstance(called, types.FunctionType) and not isinstance(value, type)
    is_known = isinstance(value, kinds) or is_object
    if not callable(value) or not is_known or is_own(value):
        return value

    @functools.wraps(value, updated=())
    def instrumented(*args: object, **kwargs: object) -> object:
        return _call(value, *args, **kwargs)

    return instrumented


def _python_function(
    function: object,
) -> tuple[types.FunctionType | None, list[object]]:
    """Return the Python function that a call executes, and its `self`; None if not the
    user's.

    Raises:
        Break: it is an object whose Python is not at hand.
    """
    if is_own(function) or getattr(function, "aotc_is_island", False):
        return None, []
    if isinstance(function, types.MethodType):
        inner: Any = function.__func__
        if isinstance(inner, types.FunctionType):
            return inner, [function.__self__]
    elif isinstance(function, types.FunctionType):
        return function, []
    elif isinstance(function, (type, types.BuiltinFunctionType)):
        return None, []  # which `refuse_call` knows
    found, kind = inside_region.get(), type(function)
    called = inspect.getattr_static(kind, "__call__", None)
    if isinstance(called, types.FunctionType) and not is_own(called):
        if found is not None:
            look = functools.partial(inspect.getattr_static, kind, "__call__")
            found.note_reading((kind, "__call__"), look, called)
        return called, [function]
    raise Break(f"the source of {name_of(function)} does not tell what it does")


def _is_instrumented(function: types.FunctionType) -> bool:
    """Return whether a function is instrumented already."""
    return not TOOLS.keys().isdisjoint(function.__code__.co_freevars)


@lru_cache(maxsize=256)
def _instrumented(
    function: types.FunctionType, code: types.CodeType
) -> types.FunctionType:
    """Return a copy of a function, instrumented to check each effect before it happens.

    Args:
        function: of the user.
        code: that it has now, which programs for notebooks replace.

    Raises:
        Break: its source is not at hand, or has what cannot be instrumented.
    """
    node = definition_of(function)
    if node is None or any(isinstance(part, _REFUSED) for part in ast.walk(node)):
        raise Break(f"the source of {function.__name__} does not tell what it does")
    body = [part for each in _body_of(node) for part in instrument_statement(each)]
    name = "lambda_" if isinstance(node, ast.Lambda) else node.name
    return compile_function(function, name, node.args, body, TOOLS)


def _body_of(node: Definition) -> list[ast.stmt]:
    """Return a definition's statements; for a lambda, a return of its expression."""
    if isinstance(node, ast.Lambda):
        return [ast.copy_location(ast.Return(node.body), node.body)]
    return node.body


def _record_reads(region: Inside, function: types.FunctionType) -> None:
    """Record in the region what a called function reads: globals, closure variables and
    defaults.

    Its default values are objects that were there before.
    """
    node = definition_of(function)
    body = [] if node is None else _body_of(node)
    defaults = {str(n): each for n, each in enumerate(function.__defaults__ or ())}
    given = {**defaults, **(function.__kwdefaults__ or {})}
    for name in reads(*body) - stores(*body):
        try:
            value = value_outside(function, name)
        except NameError:  # a parameter, or Python will say so
            continue
        look = functools.partial(value_outside, function, name)
        region.note_reading((function, name), look, value)
        if is_data(value):
            given[name] = value
    for name in ("__code__", "__defaults__", "__kwdefaults__"):
        look = functools.partial(getattr, function, name)
        region.note_reading((function, name), look, look())
    region.given |= identities(given)


def _checked_for_change(owner: Value) -> Value:
    """Return an object of which an item is assigned; raise `Break` if a region may not
    change it.
    """
    refuse_change(owner, "an assignment")
    return owner


def _is(one: object, other: object) -> bool:
    """Return `one is other`; raise `Break` where copies would answer differently."""
    refuse_identity(one, other)
    return one is other


def _record_iterator(iterator: Value) -> Value:
    """Record an iterator as one that the region itself creates; return it."""
    found = inside_region.get()
    if found is not None:
        found.made.append(iterator)
    return iterator


def _stop() -> None:
    """Raise `Break` for an assignment to an attribute."""
    raise Break("an assignment may change an object from outside")


#: The functions that instrumented code calls, by the names that it has for them.
TOOLS = {
    "_aotc_call": _call,
    "_aotc_read": read_attribute,
    "_aotc_changed": _checked_for_change,
    "_aotc_compared": refuse_comparison,
    "_aotc_in_place": refuse_change_in_place,
    "_aotc_is": _is,
    "_aotc_iterated": refuse_iteration,
    "_aotc_made": _record_iterator,
    "_aotc_stop": _stop,
    "_aotc_text": refuse_text,
    "_aotc_used": refuse_use,
}


def note_positions(body: Sequence[ast.stmt]) -> list[ast.stmt]:
    """Return instrumented statements, each after one that stores its number in
    `_aotc_at[0]`.
    """
    found: list[ast.stmt] = []
    for number, each in enumerate(body):
        found += ast.parse(f"_aotc_at[0] = {number}").body
        found += instrument_statement(each)
    return found


def instrument_statement(node: ast.stmt) -> list[ast.stmt]:
    """Return a statement instrumented to check its calls, reads and changes first."""
    made = _Instrumenter().visit(deepcopy(node))
    return made if isinstance(made, list) else [made]


class _Instrumenter(ast.NodeTransformer):
    """A transformer that routes effects and reads of objects through functions of
    `TOOLS`.

    Operands are looked at where they are used: an object may be passed on as it is.
    """

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Replace a call by one of `_aotc_call`, which checks it first."""
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == "super":
            return node  # looks at the frame that calls it
        for each in node.keywords:
            if each.arg is None:
                each.value = _checked_operand(each.value)
        arguments = [node.func, *node.args]
        return _tool_call("_aotc_call", arguments, node, node.keywords)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """Replace an attribute read by `_aotc_read`; an assignment of one raises
        `Break`.
        """
        self.generic_visit(node)
        if not isinstance(node.ctx, ast.Load):  # objects are not what regions return
            stop = _tool_call("_aotc_stop", [], node)
            return ast.copy_location(ast.Attribute(stop, node.attr, node.ctx), node)
        return _tool_call("_aotc_read", [node.value, ast.Constant(node.attr)], node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """Check the container of a read or assigned subscript."""
        self.generic_visit(node)
        is_read = isinstance(node.ctx, ast.Load)
        tool = "_aotc_used" if is_read else "_aotc_changed"
        node.value = _tool_call(tool, [node.value], node)
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        """Check both operands of a binary operation."""
        self.generic_visit(node)
        node.left, node.right = (
            _checked_operand(node.left),
            _checked_operand(node.right),
        )
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        """Check the operand of a unary operation."""
        self.generic_visit(node)
        node.operand = _checked_operand(node.operand)
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        """Check the operands of `and` and `or`."""
        self.generic_visit(node)
        node.values = [*map(_checked_operand, node.values)]
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        """Check the operands of a comparison; replace a single `is` by `_aotc_is`."""
        self.generic_visit(node)
        match node:
            case ast.Compare(ops=[ast.Is() | ast.IsNot() as op], comparators=[right]):
                same = _tool_call("_aotc_is", [node.left, right], node)
                if isinstance(op, ast.Is):
                    return same
                return ast.copy_location(ast.UnaryOp(ast.Not(), same), node)
        node.left = _tool_call("_aotc_compared", [node.left], node.left)
        node.comparators = [
            _tool_call("_aotc_compared", [x], x) for x in node.comparators
        ]
        return node

    def visit_FormattedValue(self, node: ast.FormattedValue) -> ast.AST:
        """Check a value that an f-string formats."""
        self.generic_visit(node)
        node.value = _tool_call("_aotc_text", [node.value], node.value)
        return node

    def visit_Starred(self, node: ast.Starred) -> ast.AST:
        """Check the iterable that `*` unpacks."""
        self.generic_visit(node)
        if isinstance(node.ctx, ast.Load):
            node.value = _tool_call("_aotc_iterated", [node.value], node.value)
        return node

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        """Check the iterable and the conditions of a comprehension."""
        self.generic_visit(node)
        node.iter = _tool_call("_aotc_iterated", [node.iter], node.iter)
        node.ifs = [*map(_checked_operand, node.ifs)]
        return node

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> ast.AST:
        """Record a generator as one that the region itself creates."""
        self.generic_visit(node)
        return _tool_call("_aotc_made", [node], node)

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        """Check the condition of a conditional expression."""
        self.generic_visit(node)
        node.test = _checked_operand(node.test)
        return node

    def visit_test(self, node: ast.If | ast.While | ast.Assert) -> ast.AST:
        """Check the condition of `if`, `while` or `assert`."""
        self.generic_visit(node)
        node.test = _checked_operand(node.test)
        return node

    visit_If = visit_While = visit_Assert = visit_test

    def visit_For(self, node: ast.For) -> ast.AST:
        """Check the iterable of a loop."""
        self.generic_visit(node)
        node.iter = _tool_call("_aotc_iterated", [node.iter], node.iter)
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        """Check the value of an assignment that unpacks it."""
        self.generic_visit(node)
        if any(isinstance(each, (ast.Tuple, ast.List)) for each in node.targets):
            node.value = _tool_call("_aotc_iterated", [node.value], node.value)
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.stmt | list[ast.stmt]:
        """Check `x += y` before it can change an object in place."""
        self.generic_visit(node)
        node.value = _checked_operand(node.value)
        if not isinstance(node.target, ast.Name):
            return node
        read = ast.copy_location(ast.Name(node.target.id, ast.Load()), node)
        look = ast.Expr(_tool_call("_aotc_in_place", [read], node))
        return [ast.copy_location(look, node), node]


def _checked_operand(node: ast.expr) -> ast.expr:
    """Wrap an operand in a call of `_aotc_used`, which checks it; constants
    unchanged.
    """
    if isinstance(node, ast.Constant):
        return node
    return _tool_call("_aotc_used", [node], node)


def _tool_call(
    name: str,
    arguments: list[ast.expr],
    node: ast.AST,
    keywords: Sequence[ast.keyword] = (),
) -> ast.expr:
    """Return a call expression of an instrumentation function, at a node's location."""
    function = ast.copy_location(ast.Name(name, ast.Load()), node)
    return ast.copy_location(ast.Call(function, arguments, [*keywords]), node)
