"""The syntax tree of a function, from the file that it is in."""

from __future__ import annotations

import ast
import linecache
from functools import lru_cache
from types import FunctionType

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def definition_of(function: FunctionType) -> Definition | None:
    """The definition of a function; None where it is not found, or is not the only one.

    Its nodes have the lines of the file.
    """
    code = function.__code__
    lines = tuple(linecache.getlines(code.co_filename, function.__globals__))
    is_lambda = code.co_name == "<lambda>"
    found = [
        node
        for node in _definitions(lines)
        if isinstance(node, ast.Lambda) == is_lambda
        and _first_line(node) == code.co_firstlineno
        and (is_lambda or getattr(node, "name", "") == code.co_name)
        and _parameters(node) == code.co_varnames[: len(_parameters(node))]
    ]
    return found[0] if len(found) == 1 else None


@lru_cache(maxsize=256)
def _definitions(lines: tuple[str, ...]) -> list[Definition]:
    try:
        tree = ast.parse("".join(lines))
    except (SyntaxError, ValueError):
        return []
    return [node for node in ast.walk(tree) if isinstance(node, Definition)]


def _first_line(node: Definition) -> int:
    decorators = [] if isinstance(node, ast.Lambda) else node.decorator_list
    return min(each.lineno for each in (node, *decorators))


def _parameters(node: Definition) -> tuple[str, ...]:
    found = node.args
    named = [*found.posonlyargs, *found.args, *found.kwonlyargs]
    return tuple(each.arg for each in named)
