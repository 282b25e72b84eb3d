"""Ops that write to their first argument, in graphs that torch has not made functional.

`x.add_(y)` is `x = x + y` for all later readers of x, as long as no other tensor shares
the memory of x: it came out of an op that makes new memory, and no view of it was taken
before the last write. Whatever else is written to is left to torch.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Graph, Node

# composite ops whose results are new memory, which their schemas alone do not promise
_NEW = (
    "aten.linear",
    "aten.matmul",
    "aten.conv1d",
    "aten.conv2d",
    "aten.conv3d",
    "aten.batch_norm",
    "aten.layer_norm",
    "aten.softmax",
)

# arguments by which layers say that they draw random numbers or update statistics
_TRAINING = ("train", "training", "use_input_stats")


def writes(node: Node) -> bool:
    """Return whether an fx node mutates an argument."""
    schema = getattr(node.target, "_schema", None)
    return schema is not None and schema.is_mutable


def _is_in_place(node: Node) -> bool:
    """Return whether a node mutates only its first argument, and keeps its shape."""
    op: Any = node.target
    written = [each.alias_info for each in op._schema.arguments]
    rest = any(info is not None and info.is_write for info in written[1:])
    return not rest and torch.Tag.inplace_view not in op.tags


def trains(node: Node) -> bool:
    """Return whether a node is a layer (dropout, batch norm) in training mode."""
    schema = getattr(node.target, "_schema", None)
    names = [] if schema is None else [each.name for each in schema.arguments]
    given = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
    return any(given.get(name) is True for name in _TRAINING)


def are_private(graph: Graph) -> bool:
    """Return whether all mutations of a graph can be replaced by new values."""
    order = {node: number for number, node in enumerate(graph.nodes)}
    last: dict[Node, int] = {}
    for node in filter(writes, graph.nodes):
        if not _is_in_place(node):
            return False
        last[_mutated_tensor(node)] = order[node]
    return all(
        root.op == "call_function"
        and _makes_memory(root)
        and all(order[view] > end for view in _views(root))
        for root, end in last.items()
    )


def _mutated_tensor(node: Node) -> Node:
    """Return the node that made the tensor that a node mutates."""
    while writes(node):
        target = node.args[0]
        assert isinstance(target, Node), "torch writes to tensors"
        node = target
    return node


def _views(root: Node) -> list[Node]:
    """Return nodes whose results may alias a tensor, other than mutations of it."""
    found: list[Node] = []
    for user in root.users:
        if writes(user) and user.args[0] is root:
            found += _views(user)
        elif user.op == "call_function" and not _makes_memory(user):
            found.append(user)
    return found


def _makes_memory(node: Node) -> bool:
    """Return whether an op's results never alias its arguments."""
    op: Any = node.target
    if not isinstance(op, torch._ops.OpOverload):
        return False
    if any(result.alias_info is not None for result in op._schema.returns):
        return False
    kernel = "CompositeImplicitAutograd"
    composite = torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), kernel)
    return not composite or str(op.overloadpacket) in _NEW
