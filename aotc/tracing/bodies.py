"""Python functions as private graph functions: bodies of transformations and loops.

A body may use arrays of the function around it; they become its last arguments, in one
order for all bodies that belong together, so that one list of operands serves them all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from aotc.core import dtypes
from aotc.core.pytree import PyTree, Structure, flatten, leaf_names
from aotc.dialects import context
from aotc.dialects.sizes.symbols import current_contracts
from aotc.dialects.types import Tensor
from aotc.errors import InputError
from aotc.mlir import Value, ir
from aotc.tracing.array import Array
from aotc.tracing.conversion import lift
from aotc.tracing.source_locations import fail
from aotc.tracing.tracing import Trace

# of a function and what it returned: what counts as its result
AdaptResult = Callable[[Callable[..., object], object], object]


@dataclass(frozen=True)
class Body:
    """A function traced to a graph function: its outputs and the result's structure."""

    trace: Trace
    outputs: list[Array]
    tree: Structure

    @property
    def name(self) -> str:
        """The name of the graph function."""
        return self.trace.name


def function_name(function: Callable[..., object]) -> str:
    """Return a Python function's name, for messages."""
    return getattr(function, "__name__", type(function).__name__)


def trace_bodies(
    parent: Trace,
    functions: Sequence[Callable[..., object]],
    types: Sequence[Tensor],
    arguments: Structure,
    adapt_result: AdaptResult = lambda _, result: result,
) -> tuple[list[Body], list[Value]]:
    """Trace functions to graph functions with common captures; return both.

    Args:
        parent: the function that they are used in.
        functions: called with arrays of `types` in the form of `arguments`.
        types: of the leaves of the arguments.
        arguments: the form of (args, kwargs).
        adapt_result: of a function and what it returned; gives what counts as such.

    Returns:
        The bodies, and the parent's values of what they capture, which are the last
        operands of each.
    """
    captured: list[Array] = []
    bodies = []
    for function in functions:
        # below the name of the function that calls, which no entry can have
        symbol = re.sub(r"\W+", "_", function_name(function)).strip("_")
        name = f"{parent.name}.{symbol}"
        trace = Trace(parent.module, name, types, parent.contracts, parent)
        inputs = trace.arguments
        for array in captured:
            trace.value_of(array)
        with trace.active():
            args, kwargs = arguments.unflatten(inputs)
            leaves, tree = flatten(adapt_result(function, function(*args, **kwargs)))
            outputs = returned_arrays(function, leaves, tree)
            for array in outputs:
                if array._known is None:
                    trace.value_of(array)  # a capture is known before the next body
        captured = trace.captured
        bodies.append(Body(trace, outputs, tree))
    for body in bodies:
        with body.trace.active():
            for array in captured:
                body.trace.value_of(array)
            body.trace.finish(body.outputs)
    return bodies, [parent.value_of(array) for array in captured]


class _Sketch(Trace):
    """A throw-away trace, for result types: constants become further arguments."""

    def _constant(self, data: np.ndarray) -> Value:
        """Add an argument of a constant's type; return it instead."""
        kind = Tensor(data.shape, dtypes.canonical_dtype(data.dtype))
        with ir.Location.unknown():
            return self.block.add_argument(kind.to_mlir(), ir.Location.current)


def result_types(
    function: Callable[..., object],
    types: Sequence[Tensor],
    arguments: Structure,
    adapt_result: AdaptResult = lambda _, result: result,
) -> tuple[list[Tensor], Structure]:
    """Trace a function on arguments of given types; return its result types and
    structure.

    Args:
        function: is traced, and the trace thrown away.
        types: of the leaves of the arguments.
        arguments: the form of (args, kwargs).
        adapt_result: of the function and what it returned; gives what counts as such.
    """
    with context(), ir.Location.unknown():
        module = ir.Module.create()
        trace = _Sketch(module, "sketch", types, current_contracts())
    with trace.active():
        args, kwargs = arguments.unflatten(trace.arguments)
        leaves, tree = flatten(adapt_result(function, function(*args, **kwargs)))
        outputs = returned_arrays(function, leaves, tree)
    return [array.type for array in outputs], tree


def returned_arrays(
    function: Callable[..., object], leaves: Sequence[object], tree: Structure
) -> list[Array]:
    """Return the leaves of a function's result as Arrays; refuse others."""
    found = []
    for name, leaf in zip(leaf_names(tree), leaves, strict=True):
        try:
            found.append(lift(leaf))
        except InputError:
            of = f" as '{name}'" if name else ""
            fail(
                "not-an-array",
                f"expected '{function_name(function)}' to return arrays; got "
                f"{type(leaf).__name__}{of}",
            )
    return found


def leaves_like(what: str, structure: Structure, tree: PyTree) -> list[object]:
    """Return the leaves of a tree of this structure, where None may replace any
    subtree.
    """
    if tree is None:
        return [None] * structure.leaf_count
    if structure.kind == "leaf":
        return [tree]
    parts = _parts(structure, tree)
    if parts is None:
        got = flatten(tree)[1]
        fail("tree-mismatch", f"expected {what} in the form {structure}; got {got}")
    return [
        leaf
        for child, part in zip(structure.children, parts, strict=True)
        for leaf in leaves_like(what, child, part)
    ]


def _parts(structure: Structure, tree: PyTree) -> list[PyTree] | None:
    """Return a tree's children in the structure's order; None if it has others."""
    if structure.kind == "dict":
        if isinstance(tree, dict) and set(tree) == set(structure.keys):
            return [tree[key] for key in structure.keys]
        return None
    if isinstance(tree, (list, tuple)) and len(tree) == len(structure.children):
        return list(tree)
    return None
