"""Statements → functions of Python, in the module and closure that they come from."""

from __future__ import annotations

import ast
import builtins
import types
from collections.abc import Mapping


def make_function(
    owner: types.FunctionType,
    name: str,
    parameters: list[str],
    body: list[ast.stmt],
    outputs: list[str],
    tools: Mapping[str, object],
) -> types.FunctionType:
    """Compile statements to a function in the module and closure of another function.

    Args:
        owner: the other one.
        name: of the function.
        parameters: of it.
        body: statements.
        outputs: names of which it returns the values, as a tuple.
        tools: further names that it knows.
    """
    arguments = ast.arguments(
        posonlyargs=[],
        args=[ast.arg(each) for each in parameters],
        kwonlyargs=[],
        kw_defaults=[],
        defaults=[],
    )
    results = ast.parse(f"({''.join(f'{each}, ' for each in outputs)})", mode="eval")
    return compile_function(
        owner, name, arguments, [*body, ast.Return(results.body)], tools
    )


def compile_function(
    owner: types.FunctionType,
    name: str,
    arguments: ast.arguments,
    body: list[ast.stmt],
    tools: Mapping[str, object],
) -> types.FunctionType:
    """Compile a body to a function with the globals and closure of another, and
    `tools`.

    Args:
        owner: the other one.
        name: of the function.
        arguments: its parameters, without values by default.
        body: statements.
        tools: names and what they are.
    """
    cells = dict(zip(owner.__code__.co_freevars, owner.__closure__ or (), strict=True))
    cells |= {each: types.CellType(value) for each, value in tools.items()}
    bare = ast.arguments(
        posonlyargs=arguments.posonlyargs,
        args=arguments.args,
        vararg=arguments.vararg,
        kwonlyargs=arguments.kwonlyargs,
        kw_defaults=[ast.Constant(None) for _ in arguments.kwonlyargs],
        kwarg=arguments.kwarg,
        defaults=[],
    )
    inner = ast.FunctionDef(name, bare, body, [])
    outer = ast.FunctionDef(
        "outer",
        ast.arguments(
            posonlyargs=[],
            args=[ast.arg(each) for each in cells],
            kwonlyargs=[],
            kw_defaults=[],
            defaults=[],
        ),
        [inner, ast.Return(ast.Name(name, ast.Load()))],
        [],
    )
    module = ast.fix_missing_locations(ast.Module([outer], []))
    code = compile(module, owner.__code__.co_filename, "exec")
    made = _code_named(_code_named(code, "outer"), name)
    closure = tuple(cells[each] for each in made.co_freevars)
    return types.FunctionType(made, owner.__globals__, name, None, closure)


def _code_named(code: types.CodeType, name: str) -> types.CodeType:
    """Return the code object of a name among a code object's constants."""
    inner = (each for each in code.co_consts if isinstance(each, types.CodeType))
    return next(each for each in inner if each.co_name == name)


def value_outside(owner: types.FunctionType, name: str) -> object:
    """Return the current value of a global or closure variable of a function.

    Raises:
        NameError: it has no value.
    """
    free = owner.__code__.co_freevars
    try:
        if name in free and owner.__closure__:
            return owner.__closure__[free.index(name)].cell_contents
        scope = owner.__globals__
        return scope[name] if name in scope else getattr(builtins, name)
    except (AttributeError, ValueError):
        raise NameError(f"name '{name}' is not defined") from None
