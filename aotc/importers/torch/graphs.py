"""Graphs of torch.fx, interpreted on aotc's arrays.

A value in a graph is an `Array`, a size (`int` or `Dim`), another Python constant, a
list of these, or a function where the node is a subgraph.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from aotc import numpy as np
from aotc.complexes import Complex
from aotc.errors import AotcError
from aotc.importers.common.padded import is_involved
from aotc.importers.torch.exporting import is_library
from aotc.importers.torch.ops import (
    function_for,
    name_of,
    padded_function_for,
    reason_against,
)
from aotc.importers.torch.ops.refused import PADDED
from aotc.importers.torch.ops.size_ops import ASSERTIONS
from aotc.importers.torch.tensors import (
    PARTS,
    array_of,
    is_complex,
    is_known,
    name_of_dtype,
)
from aotc.importers.torch.unbacked import (
    UnbackedSizes,
    known_sizes,
    require_agreement,
)
from aotc.importers.torch.writes import writes
from aotc.tracing.findings import Finding, grouped_findings
from aotc.tracing.source_locations import (
    Place,
    at_location,
    fail,
    relative,
    scope,
    user_place,
)
from aotc.tracing.survey import import_node, note

_FRAME = re.compile(r'File "(.+?)", line (\d+)')

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
    module: GraphModule, arguments: Sequence[Any], settled: Container[Node] = ()
) -> Any:
    """What a graph returns for these values of its placeholders.

    Args:
        module: the graph.
        arguments: the values of its placeholders.
        settled: assertions that are known to hold.
    """
    values: dict[Node, Any] = {}
    sizes = UnbackedSizes.of(module.graph)
    remaining = iter(arguments)
    for node in module.graph.nodes:
        if node.op == "placeholder":
            values[node] = next(remaining)
        elif node.op == "get_attr":
            values[node] = _attribute(module, node.target)
        elif node.op == "output":
            return _value(node.args[0], values)
        elif node in settled:
            values[node] = None
        else:
            with _origin(node):
                values[node] = import_node(
                    node,
                    _title(node),
                    partial(_called, node, values, sizes),
                    partial(_stand_in, node, values),
                )
            if writes(node):
                values[node.args[0]] = values[node]
    raise AssertionError("a graph of torch.fx ends with its output")


def _called(node: Node, values: dict[Node, Any], sizes: UnbackedSizes) -> Any:
    """The result of a node: that of its function in `OPS`, or its rule in `PADDED`."""
    args, named = _arguments(node)
    given = _value(args, values)
    options = {
        name: _value(value, values)
        for name, value in named.items()
        if name not in _ABOUT_MEMORY
    }
    padded = is_involved([given, options])
    function = (
        padded_function_for(node.target)
        if padded
        else function_for(node.target, is_complex(node))
    )
    if function is None:
        fail("unsupported-ops", f"aotc does not import {node.target}")
    try:
        with sizes.bounded(node, values):
            result = function(*given, **options)
            if padded:
                require_agreement(node, result)
            return sizes.as_size(node, result)
    except AotcError as error:
        if error.hint and "aotc.Dim(" in error.hint:
            error.hint = _DIM_ADVICE
        raise


_DIM_ADVICE = (
    "promise more of the size in dynamic_shapes: torch.export.Dim('n', min=2, max=64), "
    "or 8 * torch.export.Dim('n') for multiples of 8"
)


def _arguments(node: Node) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of a node; those have names that can only be given by name."""
    args, named = list(node.args), dict(node.kwargs)
    schema = getattr(node.target, "_schema", None)
    rest = [] if schema is None else schema.arguments[len(args) :]
    places = [n for n, each in enumerate(rest) if each.name in named]
    last = max((n for n in places if not rest[n].kwarg_only), default=-1)
    args += [named.pop(each.name, each.default_value) for each in rest[: last + 1]]
    return args, named


def _value(part: Any, values: dict[Node, Any]) -> Any:
    """An argument of a node, with values in the place of nodes."""
    if isinstance(part, Node):
        return values[part]
    if isinstance(part, (list, tuple)):
        return [_value(each, values) for each in part]
    if isinstance(part, dict):
        return {key: _value(each, values) for key, each in part.items()}
    if isinstance(part, slice):
        return slice(*(_value(e, values) for e in (part.start, part.stop, part.step)))
    if isinstance(part, torch.dtype):
        return name_of_dtype(part)
    return part


def _attribute(module: GraphModule, target: str) -> Any:
    """A constant, or a subgraph as a function of its arguments."""
    found = module
    for name in target.split("."):
        found = getattr(found, name)
    if not isinstance(found, GraphModule):
        return array_of(found)
    subgraph = found

    def body(*arguments: Any) -> Any:
        return evaluate(subgraph, arguments)

    body.__name__ = target
    return body


# ---- stand-ins for what cannot be imported ------------------------------------------


def _stand_in(node: Node, values: dict[Node, Any]) -> Any:
    """Zeros of the types that torch gives the results of a node."""
    made = node.meta.get("val")
    if isinstance(made, (list, tuple)):
        return [_zeros(each, values) for each in made]
    return _zeros(made, values)


def _zeros(made: Any, values: dict[Node, Any]) -> Any:
    if not isinstance(made, torch.Tensor):
        fail("unsupported", f"the result of the op is a {type(made).__name__}")
    sizes = known_sizes(values)
    shape = []
    for size in made.shape:
        symbol = size.node.expr if isinstance(size, torch.SymInt) else None
        if symbol is not None and symbol not in sizes:
            fail("unsupported", f"the size {size} is none of an input")
        shape.append(int(size) if symbol is None else sizes[symbol])
    dtype = name_of_dtype(made.dtype)
    if dtype not in PARTS:
        return np.zeros(tuple(shape), dtype)
    zeros = np.zeros(tuple(shape), PARTS[dtype])
    return Complex(zeros, zeros)


# ---- where nodes come from ----------------------------------------------------------


@contextmanager
def _origin(node: Node) -> Iterator[None]:
    """Within this block, everything happens at the node's line and in its layer."""
    place, path = line_of(node), _layer_of(node)
    with at_location(place or user_place()):
        if path:
            with scope(path):
                yield
        else:
            yield


def line_of(node: Node) -> Place | None:
    """The innermost line that made the node and is the user's, if there is one."""
    lines = [
        (file, int(number))
        for file, number in _FRAME.findall(node.meta.get("stack_trace") or "")
    ]
    own = [e for e in lines if not (e[0].startswith("<") or is_library(e[0]))]
    return own[-1] if own else None


def _layer_of(node: Node) -> str:
    """`encoder/layers/0`: the innermost module that made the node."""
    stack = node.meta.get("nn_module_stack") or {}
    paths = [path for path, _ in stack.values() if isinstance(path, str)]
    return paths[-1].replace(".", "/") if paths else ""


# ---- what cannot be imported --------------------------------------------------------


def unsupported(module: GraphModule) -> list[Finding]:
    """All ops of a graph and its subgraphs that stand in the way of importing it."""
    return grouped_findings(_obstacles(module))


def _obstacles(module: GraphModule) -> Iterator[tuple[str, str, str, str]]:
    """(op, reason, place, help) of each node that cannot be interpreted."""
    reasons: dict[Node, tuple[str, str]] = {}
    roots: dict[Node, Node] = {}  # what computes with sizes that another node decides
    for node, sizes in _calls_and_sizes(module):
        padded = sizes.are_in(node)
        against = reason_against(node.target, is_complex(node))
        against = against or _against_arguments(node) or _against_result(node)
        if padded and against is None and not _has_rule(node):
            against = PADDED
        root = next((roots[n] for n in node.all_input_nodes if n in roots), None)
        if root is not None and padded:
            roots[node] = root
        elif against is not None:
            reasons[node] = against
            roots[node] = node
    followers = Counter(_kind(roots[n], reasons) for n in roots if n not in reasons)
    for node, (reason, advice) in reasons.items():
        count = followers[_kind(node, reasons)]
        more = f" ({count} more ops compute with that)" if count else ""
        yield _title(node), reason + more, shown_place(node), advice


def _calls_and_sizes(module: GraphModule) -> Iterator[tuple[Node, UnbackedSizes]]:
    """The calls of ops in a graph and its subgraphs, with the sizes values decide."""
    found: dict[Graph, UnbackedSizes] = {}
    for node in calls(module):
        if node.graph not in found:
            found[node.graph] = UnbackedSizes.of(node.graph)
        yield node, found[node.graph]


def _has_rule(node: Node) -> bool:
    """Whether an op is imported for sizes that depend on values."""
    return not is_complex(node) and padded_function_for(node.target) is not None


def _kind(node: Node, reasons: dict[Node, tuple[str, str]]) -> tuple[str, ...]:
    """What is told of nodes together."""
    return (_title(node), *reasons[node])


def _title(node: Node) -> str:
    """What messages call the op of a node."""
    if hasattr(node.target, "_schema") or hasattr(node.target, "namespace"):
        return str(node.target)
    return name_of(node.target).removeprefix("_")


def calls(module: GraphModule) -> Iterator[Node]:
    """The calls of ops in a graph and in its subgraphs."""
    for node in module.graph.nodes:
        if node.op == "get_attr" and _is_graph(module, node):
            yield from calls(module.get_submodule(node.target))
        elif node.op == "call_function":
            yield node


def note_decompositions(module: GraphModule, table: Container[Any]) -> None:
    """Note the ops of a graph that torch makes into others by `table`."""
    for node in calls(module):
        if node.target in table:
            reason = "PyTorch's decomposition makes simpler ops of it"
            note("decomposed", str(node.target), reason, shown_place(node))


def _is_graph(module: GraphModule, node: Node) -> bool:
    return isinstance(getattr(module, node.target, None), GraphModule)


_BY_STEPS = ("aten.as_strided.default", "prims.as_strided_scatter.default")


def _against_arguments(node: Node) -> tuple[str, str] | None:
    """Why an argument is none that the op can be computed from: (reason, help)."""
    if node.target is torch.ops.higher_order.with_effects:
        name = name_of(node.args[1])
        known = name in ASSERTIONS or name.rpartition(".")[0] in ASSERTIONS
        return None if known else (f"it calls {name}, which has side effects", "")
    if str(node.target) not in _BY_STEPS:
        return None
    tensor = node.all_input_nodes[0].meta["val"]
    if tensor.is_contiguous() and tensor.storage_offset() == 0:
        return None
    return "it reads memory that is not laid out row by row", "index the tensor instead"


def _against_result(node: Node) -> tuple[str, str] | None:
    """Why no array can be what the node makes: (reason, help)."""
    for tensor in _tensors_of(node):
        if not is_known(tensor.dtype):
            return f"its result has dtype {tensor.dtype}", "compute with real numbers"
    return None


def _tensors_of(node: Node) -> list[Any]:
    """The tensors that a node makes, as torch knows them without values."""
    made = node.meta.get("val")
    results = made if isinstance(made, (list, tuple)) else [made]
    return [each for each in results if isinstance(each, torch.Tensor)]


def shown_place(node: Node) -> str:
    """`file:line (layer/path)` of a node, for messages."""
    place, path = line_of(node), _layer_of(node)
    line = f"{relative(place[0])}:{place[1]}" if place else node.name
    return f"{line} ({path})" if path else line
