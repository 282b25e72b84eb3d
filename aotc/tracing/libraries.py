"""Functions of other libraries that a model calls on arrays of aotc."""

from __future__ import annotations

import ast
from types import ModuleType

from aotc.tracing.spellings import FUNCTIONS, exact_names, name_advice
from aotc.tracing.user_code import Expression, UserFrame, expression_at

# top-level modules whose functions know nothing of traced arrays → what they are called
LIBRARIES = {
    "math": "Python's math", "numpy": "NumPy", "scipy": "SciPy", "torch": "PyTorch",
    "jax": "JAX", "tensorflow": "TensorFlow",
}  # fmt: skip


def called_library(call: UserFrame) -> str | None:
    """Return the full name of another library's function that user code calls, or
    None.
    """
    expression = expression_at(call)
    node = expression.node if expression else None
    if expression is None or not isinstance(node, ast.Call):
        return None
    return library_function(node, expression)


def library_function(node: ast.Call, expression: Expression) -> str | None:
    """Return the full name of the called function if a known library's, else None."""
    name = _as_attribute(node.func, expression)
    if name is None:
        function = expression.value_of(node.func)
        name = f"{getattr(function, '__module__', '')}.{ast.unparse(node.func)}"
    return name if name.partition(".")[0] in LIBRARIES else None


def _as_attribute(node: ast.expr, expression: Expression) -> str | None:
    """Return the full name of a module's function: `numpy.linalg.norm` for
    `np.linalg.norm`.
    """
    if not isinstance(node, ast.Attribute):
        return None
    owner = expression.value_of(node.value)
    return f"{owner.__name__}.{node.attr}" if isinstance(owner, ModuleType) else None


def replacement_of(name: str) -> str:
    """Return advice on what to write instead of another library's function."""
    last = name.rpartition(".")[2]
    found = exact_names(last)
    if ".random." in name and f"aotc.random.{last}" in found:
        return f"write aotc.random.{last}(key, …) for {name}"
    if last in FUNCTIONS:
        return f"write {FUNCTIONS[last]} for {name}"
    if found:
        return f"write {found[0]} for {name}"
    near = name_advice(last, "aotc.numpy")
    return f"aotc has no '{last}'; " + (near or "write it with those of aotc.numpy")
