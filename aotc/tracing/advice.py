"""Advice on errors that Python itself raised in the user's code."""

from __future__ import annotations

import ast
import re
from types import ModuleType

from aotc.errors import InputError
from aotc.tracing.array import Array
from aotc.tracing.entry import StoredTree, unreadable_error
from aotc.tracing.libraries import LIBRARIES, library_function, replacement_of
from aotc.tracing.spellings import attribute_advice, closest, name_advice
from aotc.tracing.user_code import Expression, UserFrame, expression_at


def explanation(error: BaseException, call: UserFrame) -> InputError | None:
    """Return an InputError with advice for a Python error in the model's code, or None.

    Args:
        error: met in the user's code.
        call: the innermost frame of the user's code.

    Returns:
        None where Python's own message says it all.
    """
    expression = expression_at(call)
    if isinstance(error, AttributeError):
        return _unknown_attribute(error, expression)
    if expression is None:
        return None
    if isinstance(error, LookupError):
        return _unknown_key(error, expression)
    return _bad_operation(error, expression) if isinstance(error, TypeError) else None


def _unknown_attribute(
    error: AttributeError, expression: Expression | None
) -> InputError | None:
    """Return the error for an attribute that an array, module or dict lacks; else
    None.
    """
    name, owner = error.name, error.obj
    if not isinstance(name, str):
        return None
    if isinstance(owner, Array):
        message = f"arrays have no '{name}'"
        shown = _shown_owner(expression)
        return InputError(
            "unknown-name", message, hint=attribute_advice(name, shown) or None
        )
    if isinstance(owner, ModuleType) and owner.__name__.startswith("aotc"):
        message = f"{owner.__name__} has no '{name}'"
        hint = name_advice(name, owner.__name__) or None
        return InputError("unknown-name", message, hint=hint)
    if isinstance(owner, StoredTree):
        return unreadable_error(owner)
    if isinstance(owner, dict):
        return _without_attributes(name, owner, expression)
    return None


def _shown_owner(expression: Expression | None) -> str:
    """Return the source of the object whose attribute was read; "x" if it is long."""
    node = expression.node if expression else None
    if isinstance(node, ast.Call):  # of a method
        node = node.func
    text = ast.unparse(node.value) if isinstance(node, ast.Attribute) else "x"
    return text if len(text) <= 20 else "x"


def _without_attributes(
    name: str, owner: dict[object, object], expression: Expression | None
) -> InputError:
    """Return the error for an attribute access to a dict."""
    hint = _known_keys(name, owner, _shown_owner(expression))
    message = f"a dict has no attribute '{name}': its parts are read with brackets"
    return InputError("unknown-name", message, hint=hint)


def _unknown_key(error: LookupError, expression: Expression) -> InputError | None:
    """Return the error for a key or index that a dict or list lacks; else None."""
    node = expression.node
    if not isinstance(node, ast.Subscript) or not error.args:
        return None
    owner, shown = expression.value_of(node.value), ast.unparse(node.value)
    if isinstance(owner, (list, tuple)):
        message = f"{shown} has {len(owner)} parts; there is no {ast.unparse(node)}"
        return InputError("no-such-key", message, hint=f"{shown} is {owner}")
    if not isinstance(owner, dict):
        return None
    key = error.args[0]
    message = (
        f"{shown} has no {key!r}; it has {', '.join(map(repr, owner)) or 'nothing'}"
    )
    return InputError("no-such-key", message, hint=_known_keys(key, owner, shown))


def _known_keys(key: object, owner: dict[object, object], shown: str) -> str:
    """Return advice on a missing key: the most similar one, or all keys."""
    names = [name for name in owner if isinstance(name, str)]
    meant = closest(str(key), names)
    if meant is not None:
        return f"did you mean {shown}[{meant!r}]?"
    return f"the keys of {shown} are {', '.join(map(repr, names))}"


def _bad_operation(error: TypeError, expression: Expression) -> InputError | None:
    """Return the error for a TypeError in a call, subscript or operation, or None."""
    node = expression.node
    if isinstance(node, ast.Call):
        return (
            _attribute_called(node, expression)
            or _foreign_call(node, expression)
            or _wrong_function(error, expression.value_of(node.func))
        )
    if isinstance(node, (ast.Subscript, ast.BinOp)):
        operands = ast.iter_child_nodes(node)
        owners = [expression.value_of(part) for part in operands]
        stored = next((x for x in owners if isinstance(x, StoredTree)), None)
        return None if stored is None else unreadable_error(stored)
    return None


def _attribute_called(node: ast.Call, expression: Expression) -> InputError | None:
    """Return the error for a call of what is no method, such as `x.size(0)`; else
    None.
    """
    if not isinstance(node.func, ast.Attribute):
        return None
    owner = expression.value_of(node.func.value)
    if isinstance(owner, ModuleType) and _is_dtype(owner, node.func.attr):
        x = ast.unparse(node.args[0]) if node.args else "x"
        name = ast.unparse(node.func)
        message = f"{name} is the name of an element type, not a function"
        return InputError("unknown-name", message, hint=f"write ({x}).astype({name})")
    if not isinstance(owner, Array) or callable(getattr(owner, node.func.attr, None)):
        return None
    shown = ast.unparse(node.func.value)
    return InputError(
        "unknown-name",
        f"'{node.func.attr}' of an array is a value, not a method",
        hint=attribute_advice(node.func.attr, shown)
        or f"write {shown}.{node.func.attr}",
    )


def _is_dtype(module: ModuleType, name: str) -> bool:
    """Return whether a name of a module is a dtype of aotc.numpy."""
    own = module.__name__ == "aotc.numpy"
    return own and isinstance(getattr(module, name, None), str)


def _foreign_call(node: ast.Call, expression: Expression) -> InputError | None:
    """Return the error for a call of another library on an array; else None."""
    name = library_function(node, expression)
    if name is None or not any(_is_array(part, expression) for part in node.args):
        return None
    library = LIBRARIES[name.partition(".")[0]]
    message = f"functions of {library} do not know arrays of aotc: {name}"
    return InputError("traced-value", message, hint=replacement_of(name))


def _wrong_function(error: TypeError, called: object) -> InputError | None:
    """Return the error for a callback that does not take what it is called with, or
    None.
    """
    module = getattr(called, "__module__", None) or ""
    if "positional argument" not in str(error) or not module.startswith("aotc."):
        return None
    name = getattr(called, "__name__", type(called).__name__)
    message = f"{name} calls a function that takes something else: {error}"
    return InputError("bad-call", message, hint=_documented_functions(called) or None)


def _documented_functions(called: object) -> str:
    """Return the docstring's text on the parameters that are functions."""
    names = [n for n, hint in called.__annotations__.items() if "Callable" in str(hint)]
    arguments = " ".join((called.__doc__ or "").partition("Args:")[2].split())
    lines = re.findall(r"(?:^| )(\w+): (.*?)(?= \w+: | Returns:|$)", arguments)
    return "; ".join(
        f"{name}: {text.rstrip('.')}" for name, text in lines if name in names
    )


def _is_array(node: ast.AST, expression: Expression) -> bool:
    """Return whether an expression's value is an Array."""
    return isinstance(expression.value_of(node), Array)
