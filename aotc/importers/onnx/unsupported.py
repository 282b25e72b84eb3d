"""Ops of a model that cannot be imported, found before anything is traced."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from aotc.importers.onnx.calling import misfit
from aotc.importers.onnx.functions import schema_of
from aotc.importers.onnx.graph import OnnxGraph, OnnxModel, OnnxNode
from aotc.importers.onnx.ops import TABLE
from aotc.tracing.findings import OpFinding, grouped_findings

Use = tuple[str, str, str, str]  # op, reason, place, help

_SEQUENCES = "aotc has arrays only, no sequences of them"
_OPTIONALS = "aotc has arrays only, no optional values"
_STRINGS = "aotc has no strings"
_REASONS = {
    **dict.fromkeys(
        (
            "ConcatFromSequence",
            "SequenceAt",
            "SequenceConstruct",
            "SequenceEmpty",
            "SequenceErase",
            "SequenceInsert",
            "SequenceLength",
            "SequenceMap",
            "SplitToSequence",
        ),
        _SEQUENCES,
    ),
    **dict.fromkeys(
        ("Optional", "OptionalGetElement", "OptionalHasElement"), _OPTIONALS
    ),
    **dict.fromkeys(
        (
            "RegexFullMatch",
            "StringConcat",
            "StringNormalizer",
            "StringSplit",
        ),
        _STRINGS,
    ),
    "TfIdfVectorizer": "aotc has no tables of n-grams",
    "ImageDecoder": "aotc decodes no image files",
    "NonMaxSuppression": "the shape of its result is decided by the values",
}


def unsupported_ops(model: OnnxModel) -> list[OpFinding]:
    """Return the operators of a model that cannot be imported, with reasons."""
    return grouped_findings(
        _obstacles_in_graph(model, model.graph, dict(model.opsets), ())
    )


def reasons_against(model: OnnxModel) -> dict[int, str]:
    """Return why nodes of the main graph cannot be imported, by node number."""
    opsets = dict(model.opsets)
    found = {}
    for number, node in enumerate(model.graph.nodes):
        inner = [_obstacles_in_graph(model, each, opsets, ()) for each in node.graphs()]
        uses = chain(_obstacles_of_node(model, node, opsets, ()), *inner)
        first = next(uses, None)
        if first is not None:
            found[number] = f"{first[0]}: {first[1]}"
    return found


def _obstacles_in_graph(
    model: OnnxModel, graph: OnnxGraph, opsets: dict[str, int], within: tuple[str, ...]
) -> Iterator[Use]:
    """Yield what in a graph and its subgraphs cannot be imported."""
    for node in graph.nodes:
        yield from _obstacles_of_node(model, node, opsets, within)
        for inner in node.graphs():
            yield from _obstacles_in_graph(model, inner, opsets, within)


def _obstacles_of_node(
    model: OnnxModel, node: OnnxNode, opsets: dict[str, int], within: tuple[str, ...]
) -> Iterator[Use]:
    """Yield why a node, or the function it calls, cannot be imported."""
    function = TABLE.get(node.key)
    if node.key in model.functions:
        if node.key in within:
            yield node.key, "it calls itself", node.where, ""
            return
        local = model.functions[node.key]
        inner = (*within, node.key)
        yield from _obstacles_in_graph(model, local.body, dict(local.opsets), inner)
    elif node.key in _REASONS:
        yield node.key, _REASONS[node.key], node.where, _help(node)
    elif function is not None:
        reason = misfit(function, node)
        if reason is not None:
            yield node.key, reason, node.where, ""
    elif not _is_defined(node, opsets):
        yield node.key, "aotc does not know this operator", node.where, _help(node)


def _is_defined(node: OnnxNode, opsets: dict[str, int]) -> bool:
    """Return whether ONNX defines the operator by a function of other operators."""
    schema = schema_of(node.key, opsets.get(node.domain, 1))
    return schema is not None and (
        schema.has_function or schema.has_context_dependent_function
    )


_BY_DOMAIN = (
    (
        "ai.onnx.ml",
        "write it with operators on arrays (Gather, Where and MatMul make a tree), as "
        "Hummingbird does, or leave this part to the program that calls the model",
    ),
    ("com.microsoft", "export the model without the optimisations of ONNX Runtime"),
    ("ai.onnx.training", "export the model for inference; aotc derives it"),
    ("ai.onnx.preview", "export the model for inference; aotc derives it"),
    (
        "",
        "define it as a function of the model, or let Python compute it: "
        'aotc.from_onnx(…, breaks="island")',
    ),
)


def _help(node: OnnxNode) -> str:
    """Return advice on an operator that cannot be imported."""
    if node.key in _REASONS:
        return "leave this part of the model to the program that calls it"
    return next((text for key, text in _BY_DOMAIN if node.domain.startswith(key)), "")
