"""Ops of a graph that the importer cannot take, found before anything is traced."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator

import torch
from torch.fx import Graph, GraphModule, Node

from aotc.importers.torch.nodes import calls, shown_place, title_of
from aotc.importers.torch.ops import name_of, padded_function_for, reason_against
from aotc.importers.torch.ops.refused import PADDED
from aotc.importers.torch.ops.size_ops import ASSERTIONS
from aotc.importers.torch.tensors import is_complex, is_known
from aotc.importers.torch.unbacked import UnbackedSizes
from aotc.tracing.findings import OpFinding, grouped_findings
from aotc.tracing.survey import note


def unsupported_ops(module: GraphModule) -> list[OpFinding]:
    """Return a finding, with its uses, for each op that cannot be imported."""
    return grouped_findings(_obstacles(module))


def _obstacles(module: GraphModule) -> Iterator[tuple[str, str, str, str]]:
    """Yield (op, reason, place, help) for each node that cannot be imported."""
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
        yield title_of(node), reason + more, shown_place(node), advice


def _calls_and_sizes(module: GraphModule) -> Iterator[tuple[Node, UnbackedSizes]]:
    """Yield the calls of a graph and its subgraphs, with their graph's unbacked
    sizes.
    """
    found: dict[Graph, UnbackedSizes] = {}
    for node in calls(module):
        if node.graph not in found:
            found[node.graph] = UnbackedSizes.of(node.graph)
        yield node, found[node.graph]


def _has_rule(node: Node) -> bool:
    """Return whether an op can be imported on data-dependent sizes."""
    return not is_complex(node) and padded_function_for(node.target) is not None


def _kind(node: Node, reasons: dict[Node, tuple[str, str]]) -> tuple[str, ...]:
    """Return the key by which findings on nodes are grouped."""
    return (title_of(node), *reasons[node])


def note_decompositions(module: GraphModule, table: Container[object]) -> None:
    """Record, for `aotc explain`, the ops of a graph that torch decomposes by
    `table`.
    """
    for node in calls(module):
        if node.target in table:
            reason = "PyTorch's decomposition makes simpler ops of it"
            note("decomposed", str(node.target), reason, shown_place(node))


_BY_STEPS = ("aten.as_strided.default", "prims.as_strided_scatter.default")


def _against_arguments(node: Node) -> tuple[str, str] | None:
    """Return (reason, help) if a node's arguments are unsupported; None otherwise."""
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
    """Return (reason, help) if a node's result has an unsupported dtype; None
    otherwise.
    """
    for tensor in _tensors_of(node):
        if not is_known(tensor.dtype):
            return f"its result has dtype {tensor.dtype}", "compute with real numbers"
    return None


def _tensors_of(node: Node) -> list[torch.Tensor]:
    """Return the fake tensors of a node's results."""
    made = node.meta.get("val")
    results = made if isinstance(made, (list, tuple)) else [made]
    return [each for each in results if isinstance(each, torch.Tensor)]
