"""The nodes of an ONNX graph, as nodes to split."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aotc.errors import InputError
from aotc.hybrid_programs.graphs.pieces import GraphNode
from aotc.importers.onnx.elements import ELEMENTS
from aotc.importers.onnx.graph import OnnxModel
from aotc.importers.onnx.unsupported import reasons_against

if TYPE_CHECKING:
    import onnx


def nodes_of(
    file: str, model: OnnxModel, graph: onnx.GraphProto
) -> list[GraphNode[str]]:
    """Return an ONNX graph's nodes as GraphNodes, with the reason why any is not
    imported.

    Args:
        file: its name, for messages.
        model: that was read.
        graph: the GraphProto.

    Raises:
        InputError: `bad-graph`: a value is computed twice, or a result never.
    """
    reasons, foreign = reasons_against(model), _foreign_values(graph)
    found = []
    for number, each in enumerate(graph.node):
        values = {*each.output, *reads(each)} & foreign.keys()
        reason = foreign[min(values)] if values else ""
        found.append(
            GraphNode(
                frozenset(reads(each)),
                (*each.output,),
                each.op_type,
                f"{file}:{number} ({each.name})" if each.name else f"{file}:{number}",
                reasons.get(number, reason),
            )
        )
    _require_makers(file, model, graph, found)
    return found


def _require_makers(
    file: str, model: OnnxModel, graph: onnx.GraphProto, nodes: list[GraphNode[str]]
) -> None:
    """Refuse a graph in which a node computes a value that is there before, or a result
    is computed by none.
    """
    known = {each.name for each in graph.input} | {*model.graph.constants}
    for node in nodes:
        for name in filter(None, node.makes):
            if name in known:
                raise InputError(
                    "bad-graph",
                    f"{node.operation} computes '{name}', which is there before",
                    where=node.place,
                )
            known.add(name)
    for name in model.graph.outputs:
        if name not in known:
            raise InputError(
                "bad-graph", f"no node computes the result '{name}'", where=file
            )


def _foreign_values(graph: onnx.GraphProto) -> dict[str, str]:
    """Return a reason for each value that is declared as no array of numbers, by
    name.
    """
    found = {}
    for each in (*graph.input, *graph.value_info, *graph.output):
        kind = each.type.WhichOneof("value")
        if kind == "tensor_type":
            code = each.type.tensor_type.elem_type
            if code and code not in ELEMENTS:
                found[each.name] = f"aotc has no arrays like '{each.name}'"
        elif kind is not None:
            what = kind.replace("_type", "")
            found[each.name] = f"aotc has arrays only; '{each.name}' is a {what}"
    return found


def reads(node: onnx.NodeProto) -> set[str]:
    """Return the names of the values that a node reads, its subgraphs included."""
    found = {*node.input}
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            found |= _captured(graph)
    return found


def _captured(graph: onnx.GraphProto) -> set[str]:
    """Return the names that a subgraph reads from the graph around it."""
    own = {each.name for each in (*graph.input, *graph.initializer)} | {""}
    own |= {each.values.name for each in graph.sparse_initializer}
    found = {each.name for each in graph.output}
    for node in graph.node:
        found |= reads(node)
        own |= {*node.output}
    return found - own
