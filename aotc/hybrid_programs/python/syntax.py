"""The syntax tree of a function, from the file that it is in."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator
from copy import deepcopy
from functools import lru_cache
from types import CodeType, FunctionType
from typing import TypeVar

Node = TypeVar("Node", bound=ast.AST)
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def definition_of(function: FunctionType) -> Definition | None:
    """Return the syntax tree of a function's definition; None if not found, or
    ambiguous.

    Its nodes have the lines of the file, which must be what the function was made of:
    a file that was changed since is none of it. Names that a class makes private are
    written out.
    """
    code = function.__code__
    lines = tuple(linecache.getlines(code.co_filename, function.__globals__))
    if not _is_made_of(code, lines):
        return None
    is_lambda = code.co_name == "<lambda>"
    found = [
        node
        for node in _definitions(lines)
        if isinstance(node, ast.Lambda) == is_lambda
        and _first_line(node) == code.co_firstlineno
        and (is_lambda or getattr(node, "name", "") == code.co_name)
        and _parameters(node) == code.co_varnames[: len(_parameters(node))]
    ]
    return _with_private_names(found[0], function) if len(found) == 1 else None


def _is_made_of(code: CodeType, lines: tuple[str, ...]) -> bool:
    """Return whether compiling the source lines gives a code object like this one."""
    return any(_is_same(each, code) for each in _codes(lines, code.co_filename))


def _is_same(one: CodeType, other: CodeType) -> bool:
    """Return whether two code objects have the same instructions, names and lines."""
    if _facts(one) != _facts(other) or len(one.co_consts) != len(other.co_consts):
        return False
    pairs = zip(one.co_consts, other.co_consts, strict=True)
    return all(
        _is_same(a, b)
        if isinstance(a, CodeType) and isinstance(b, CodeType)
        else repr(a) == repr(b)
        for a, b in pairs
    )


def _facts(code: CodeType) -> tuple[object, ...]:
    """Return the first line, bytecode and variable names of a code object."""
    variables = code.co_varnames, code.co_freevars, code.co_cellvars
    return code.co_firstlineno, code.co_code, code.co_names, variables


@lru_cache(maxsize=256)
def _codes(lines: tuple[str, ...], file: str) -> list[CodeType]:
    """Return the code objects of all functions in a file's lines."""
    try:
        module = compile("".join(lines), file, "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return []
    return list(_codes_in(module))


def _codes_in(code: CodeType) -> Iterator[CodeType]:
    """Yield the code objects nested in a code object."""
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield each
            yield from _codes_in(each)


def _with_private_names(node: Definition, function: FunctionType) -> Definition:
    """Return a method's definition with its private names `__x` mangled as in its
    class.
    """
    *_, owner, _ = ["", *function.__qualname__.split(".")]
    if not owner.strip("_") or owner == "<locals>":
        return node
    found: Definition = _PrivateNames(f"_{owner.lstrip('_')}").visit(deepcopy(node))
    return found


class _PrivateNames(ast.NodeTransformer):
    """A transformer that mangles private names as the compiler does in a class."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def _mangled(self, name: str) -> str:
        """Return a private name with the class prefix; other names unchanged."""
        is_private = name.startswith("__") and not name.endswith("__")
        return self._prefix + name if is_private else name

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """Mangle a variable's private name."""
        node.id = self._mangled(node.id)
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        """Mangle a parameter's private name."""
        node.arg = self._mangled(node.arg)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """Mangle an attribute's private name."""
        node.attr = self._mangled(node.attr)
        return self.generic_visit(node)


def with_fields(node: Node, **fields: object) -> Node:
    """Return a copy of a syntax node with some fields replaced."""
    kept = {name: getattr(node, name, None) for name in node._fields}
    return ast.copy_location(type(node)(**{**kept, **fields}), node)


@lru_cache(maxsize=256)
def _definitions(lines: tuple[str, ...]) -> list[Definition]:
    """Return the function and lambda nodes of a file's lines."""
    try:
        tree = ast.parse("".join(lines))
    except (SyntaxError, ValueError):
        return []
    return [node for node in ast.walk(tree) if isinstance(node, Definition)]


def _first_line(node: Definition) -> int:
    """Return the first line of a definition, its decorators included."""
    decorators = [] if isinstance(node, ast.Lambda) else node.decorator_list
    return min(each.lineno for each in (node, *decorators))


def _parameters(node: Definition) -> tuple[str, ...]:
    """Return the names of a definition's parameters, without `*args` and `**kwargs`."""
    found = node.args
    named = [*found.posonlyargs, *found.args, *found.kwonlyargs]
    return tuple(each.arg for each in named)
