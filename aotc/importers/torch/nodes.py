"""Nodes of torch.fx: detection of calls, and names for messages."""

from __future__ import annotations

import re
from collections.abc import Iterator

from torch.fx import GraphModule, Node

from aotc.importers.torch.exporting import is_library
from aotc.importers.torch.ops import name_of
from aotc.tracing.source_locations import Place, relative_path

_FRAME = re.compile(r'File "(.+?)", line (\d+)')


def calls(module: GraphModule) -> Iterator[Node]:
    """Yield the call_function nodes of a graph and of its subgraphs."""
    for node in module.graph.nodes:
        if node.op == "get_attr" and _is_graph(module, node):
            yield from calls(module.get_submodule(node.target))
        elif node.op == "call_function":
            yield node


def _is_graph(module: GraphModule, node: Node) -> bool:
    """Return whether a get_attr node names a subgraph."""
    return isinstance(getattr(module, node.target, None), GraphModule)


def title_of(node: Node) -> str:
    """Return the name of a node's op in messages."""
    if hasattr(node.target, "_schema") or hasattr(node.target, "namespace"):
        return str(node.target)
    return name_of(node.target).removeprefix("_")


def line_of(node: Node) -> Place | None:
    """Return file and line of the user's code that made a node; None if unknown."""
    lines = [
        (file, int(number))
        for file, number in _FRAME.findall(node.meta.get("stack_trace") or "")
    ]
    own = [e for e in lines if not (e[0].startswith("<") or is_library(e[0]))]
    return own[-1] if own else None


def layer_of(node: Node) -> str:
    """Return the path of the module that made a node, such as `encoder/layers/0`."""
    stack = node.meta.get("nn_module_stack") or {}
    paths = [path for path, _ in stack.values() if isinstance(path, str)]
    return paths[-1].replace(".", "/") if paths else ""


def shown_place(node: Node) -> str:
    """Return a node's location as text, `file:line (layer/path)`."""
    place, path = line_of(node), layer_of(node)
    line = f"{relative_path(place[0])}:{place[1]}" if place else node.name
    return f"{line} ({path})" if path else line
