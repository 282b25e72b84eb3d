"""Graphs of torch.fx, interpreted on aotc's arrays.

A value in a graph is an `Array`, a size (`int` or `SymbolicDim`), another Python
constant, a list of these, or a function where the node is a subgraph.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch.fx import GraphModule, Node

from aotc import numpy as np
from aotc.complexes import Complex
from aotc.errors import AotcError
from aotc.importers.common.declared import require_declared
from aotc.importers.common.padded import is_involved
from aotc.importers.torch.nodes import layer_of, line_of, title_of
from aotc.importers.torch.ops import (
    function_for,
    padded_function_for,
    takes_floats_of_sizes,
)
from aotc.importers.torch.ops.size_ops import tree_as_arrays
from aotc.importers.torch.tensors import (
    PARTS,
    array_of,
    declared_of,
    is_complex,
    name_of_dtype,
)
from aotc.importers.torch.unbacked import (
    UnbackedSizes,
    known_sizes,
    require_agreement,
    require_promised_size,
)
from aotc.importers.torch.writes import writes
from aotc.tracing.source_locations import (
    at_location,
    fail,
    scope,
    user_place,
)
from aotc.tracing.survey import import_node

# how a tensor lies in memory and where: aotc's own business
_ABOUT_MEMORY = {
    "layout",
    "device",
    "pin_memory",
    "non_blocking",
    "memory_format",
    "generator",
}


def evaluate(
    module: GraphModule, arguments: Sequence[object], settled: Container[Node] = ()
) -> Any:
    """Interpret an fx graph on these arguments; return its results.

    Args:
        module: the graph.
        arguments: the values of its placeholders.
        settled: assertions that are known to hold.
    """
    values: dict[Node, object] = {}
    sizes = UnbackedSizes.of(module.graph)
    remaining = iter(arguments)
    for node in module.graph.nodes:
        if node.op == "placeholder":
            values[node] = next(remaining)
        elif node.op == "get_attr":
            values[node] = _attribute(module, node.target)
        elif node.op == "output":
            return tree_as_arrays(_value(node.args[0], values))
        elif node in settled:
            values[node] = None
        else:
            with _at_node(node):
                values[node] = import_node(
                    node,
                    title_of(node),
                    partial(_result_of, node, values, sizes),
                    partial(_placeholder, node, values),
                )
            if writes(node):
                values[node.args[0]] = values[node]
    raise AssertionError("a graph of torch.fx ends with its output")


def _result_of(node: Node, values: dict[Node, object], sizes: UnbackedSizes) -> object:
    """Return an fx node's result by its function, or its rule for padded values."""
    args, named = _arguments(node)
    given = _value(args, values)
    options = {
        name: _value(value, values)
        for name, value in named.items()
        if name not in _ABOUT_MEMORY
    }
    if not takes_floats_of_sizes(node.target):
        given, options = tree_as_arrays(given), tree_as_arrays(options)
    padded = is_involved([given, options])
    function = (
        padded_function_for(node.target)
        if padded
        else function_for(node.target, is_complex(node))
    )
    if function is None:
        fail("unsupported-ops", f"aotc does not import {node.target}")
    _require_arguments(node, function, given, options)
    try:
        with sizes.bound_new_sizes(node, values):
            result = require_promised_size(node, function(*given, **options))
            if padded:
                require_agreement(node, result)
            _require_declared(node, result)
            return sizes.as_size(node, result)
    except AotcError as error:
        if error.hint and "aotc.Dim(" in error.hint:
            error.hint = DIM_ADVICE
        raise


def _require_arguments(
    node: Node,
    function: Callable[..., object],
    given: Sequence[object],
    options: Mapping[str, object],
) -> None:
    """Refuse a node whose arguments do not fit its import function's signature."""
    try:
        inspect.signature(function).bind(*given, **options)
    except ValueError:  # a function of Python's own
        return
    except TypeError as error:
        fail("unsupported-ops", f"aotc does not import {node.target} so: {error}")


def _require_declared(node: Node, result: object) -> None:
    """Refuse a node's results whose shape contradicts torch's."""
    made = node.meta.get("val")
    several = isinstance(made, (list, tuple))
    values: Any = result if several else [result]
    fakes = made if several else [made]
    for fake, found in zip(fakes, values, strict=False):
        if isinstance(fake, torch.Tensor):
            require_declared(f"{node.name} ({node.target})", declared_of(fake), found)


DIM_ADVICE = (
    "promise more of the size in dynamic_shapes: torch.export.Dim('n', min=2, max=64), "
    "or 8 * torch.export.Dim('n') for multiples of 8"
)


def _arguments(node: Node) -> tuple[list[object], dict[str, object]]:
    """Return a node's positional and keyword arguments, with defaults filled in."""
    args, named = list(node.args), dict(node.kwargs)
    schema = getattr(node.target, "_schema", None)
    rest = [] if schema is None else schema.arguments[len(args) :]
    places = [n for n, each in enumerate(rest) if each.name in named]
    last = max((n for n in places if not rest[n].kwarg_only), default=-1)
    args += [named.pop(each.name, each.default_value) for each in rest[: last + 1]]
    return args, named


def _value(tree: object, values: dict[Node, object]) -> Any:
    """Return a tree of a node's arguments, with nodes and dtypes resolved."""
    if isinstance(tree, Node):
        return values[tree]
    if isinstance(tree, (list, tuple)):
        return [_value(each, values) for each in tree]
    if isinstance(tree, dict):
        return {key: _value(each, values) for key, each in tree.items()}
    if isinstance(tree, slice):
        return slice(*(_value(e, values) for e in (tree.start, tree.stop, tree.step)))
    if isinstance(tree, torch.dtype):
        return name_of_dtype(tree)
    return tree


def _attribute(module: GraphModule, target: str) -> Any:
    """Return the constant that a get_attr names, or a subgraph as a function."""
    found = module
    for name in target.split("."):
        found = getattr(found, name)
    if not isinstance(found, GraphModule):
        return array_of(found)
    subgraph = found

    def body(*arguments: object) -> Any:
        return evaluate(subgraph, arguments)

    body.__name__ = target
    return body


# ---- placeholders for what cannot be imported ---------------------------------------


def _placeholder(node: Node, values: dict[Node, object]) -> object:
    """Return zeros of the types that torch infers for a node's results."""
    made = node.meta.get("val")
    if isinstance(made, (list, tuple)):
        return [_zeros(each, values) for each in made]
    return _zeros(made, values)


def _zeros(fake: object, values: dict[Node, object]) -> object:
    """Return zeros of the type of a fake tensor."""
    if not isinstance(fake, torch.Tensor):
        fail("unsupported", f"the result of the op is a {type(fake).__name__}")
    sizes = known_sizes(values)
    shape = []
    for size in fake.shape:
        symbol = size.node.expr if isinstance(size, torch.SymInt) else None
        if symbol is not None and symbol not in sizes:
            fail("unsupported", f"the size {size} is none of an input")
        shape.append(int(size) if symbol is None else sizes[symbol])
    dtype = name_of_dtype(fake.dtype)
    if dtype not in PARTS:
        return np.zeros(tuple(shape), dtype)
    zeros = np.zeros(tuple(shape), PARTS[dtype])
    return Complex(zeros, zeros)


@contextmanager
def _at_node(node: Node) -> Iterator[None]:
    """Locate errors and emitted ops within this block at a node's source line and
    layer.
    """
    place, path = line_of(node), layer_of(node)
    with at_location(place or user_place()):
        if path:
            with scope(path):
                yield
        else:
            yield
