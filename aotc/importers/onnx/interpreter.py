"""Runs an ONNX graph: each node calls the function that its operator is imported by.

On traced arrays this builds the graph of the model, on concrete ones it computes. While
tracing, three things happen to a node, the first that applies:

- its inputs are small and known: it is computed at once (`_fold_constants`),
- its inputs are symbolic sizes: they are computed with (`known_sizes.py`),
- else its function is called.

A node without a function of its own is expanded: into the model's function of that
name, or into the body by which ONNX defines the operator.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from aotc import numpy as anp
from aotc.importers.common.declared import require_declared
from aotc.importers.common.padded import Padded
from aotc.importers.common.padded.values import refuse
from aotc.importers.onnx.calling import Imports, call, signature
from aotc.importers.onnx.elements import element, value_table
from aotc.importers.onnx.file_errors import attribute_to_file
from aotc.importers.onnx.functions import body_of
from aotc.importers.onnx.graph import (
    OnnxConstant,
    OnnxFunction,
    OnnxGraph,
    OnnxModel,
    OnnxNode,
    Reference,
)
from aotc.importers.onnx.known_sizes import computed_sizes
from aotc.importers.onnx.ops import PADDED, SOURCES, TABLE
from aotc.importers.onnx.placeholders import placeholder
from aotc.importers.onnx.values import OnnxArray, SizeTensor, Value, is_padded
from aotc.tracing.array import Array
from aotc.tracing.scopes import without_tracing
from aotc.tracing.source_locations import at_location, fail, scope
from aotc.tracing.survey import import_node, note_decomposition
from aotc.tracing.tracing import current_trace

_SMALL = 1 << 12  # bytes of an array that is computed while tracing


@dataclass(frozen=True)
class OnnxScope:
    """The values, opsets and attributes that a node sees.

    Args:
        values: by name, those of the graphs around included.
        opsets: the version of each domain's operators.
        attributes: of the function that the node is in.
        in_file: whether the node is one of the file, and not of ONNX's own bodies.
        graph: the one that the node is in.
    """

    values: MutableMapping[str, Value | None]
    opsets: Mapping[str, int]
    attributes: Mapping[str, Any]
    in_file: bool = True
    graph: OnnxGraph | None = None


class OnnxInterpreter:
    """Interprets the graphs of one ONNX model, on traced or concrete arrays.

    Args:
        model: the model.
        weights: the arrays that stand for some of its constants, by their identity.
    """

    def __init__(self, model: OnnxModel, weights: Mapping[int, Array]) -> None:
        self._model = model
        self._weights = weights

    def run(self, arguments: Sequence[Array]) -> list[Value]:
        """Return the results of the model's main graph."""
        around = OnnxScope(ChainMap(), self._model.opsets, {})
        return self._run_graph(self._model.graph, arguments, around)

    def _run_graph(
        self, graph: OnnxGraph, arguments: Sequence[Value | None], enclosing: OnnxScope
    ) -> list[Value]:
        """Run a graph within an enclosing scope, and return its results."""
        constants = {n: self._constant(c) for n, c in graph.constants.items()}
        own = {**constants, **dict(zip(graph.inputs, arguments, strict=False))}
        values = ChainMap(own, enclosing.values)
        within = replace(enclosing, values=values, graph=graph)
        for node in graph.nodes:
            with at_location(node.place), scope(node.name):
                results = self._import(node, within)
            for name, result in zip(node.outputs, results, strict=False):
                own[name] = result
        return [_lookup(within, name) for name in graph.outputs]

    def _constant(self, constant: OnnxConstant) -> Array:
        """Return a constant as an array: its weight if it has one, else its
        elements.
        """
        kind = element(constant.code)
        weight = self._weights.get(id(constant))
        if weight is None:
            array = Array(data=constant.array)
        else:
            array = constant.unpack(weight)
        if kind.is_narrow_float:
            array = anp.take(value_table(kind), anp.astype(array, "i32"))
        traced = array._data is None
        is_known = constant.packed is None and not kind.is_narrow_float
        known = constant.data if traced and is_known else None
        code = constant.code if kind.narrow else None
        if known is None and code is None:
            return array
        return OnnxArray(array, known, code)

    # ---- one node -------------------------------------------------------------------

    def _import(self, node: OnnxNode, within: OnnxScope) -> Sequence[Value | None]:
        """Return a node's results; under `aotc explain`, placeholders if it fails."""

        def run() -> Sequence[Value | None]:
            with attribute_to_file("bad-node", node.key):
                results = self._run_node(node, within)
            _require_declared(node, within, results)
            return results

        if not within.in_file:
            return run()

        def zeros() -> Sequence[Value | None]:
            return [placeholder(self._model.graph, name) for name in node.outputs]

        return import_node(node.place, node.key, run, zeros)

    def _run_node(self, node: OnnxNode, within: OnnxScope) -> Sequence[Value]:
        """Return a node's results, by its operator's function or by inlining a body."""
        values = [_lookup(within, name) for name in node.inputs]
        attributes = {
            name: self._attribute_value(value, within)
            for name, value in node.attributes.items()
            if not _is_left_out(value, within)
        }
        function = TABLE.get(node.key)
        local = self._model.functions.get(node.key)
        if local is None and function is not None:
            results = self._call(function, node, values, attributes, within)
            if results is not None:
                return results
        version = within.opsets.get(node.domain, 1)
        body = local or body_of(node, version, values, attributes)
        if body is None:
            fail("unsupported-ops", f"aotc does not import {node.key}")
        if local is None:
            note_decomposition("it is expanded into the body by which ONNX defines it")
        in_file = within.in_file and local is not None
        return self._inline(body, node, values, attributes, in_file)

    def _call(
        self,
        function: Imports,
        node: OnnxNode,
        values: Sequence[Value | None],
        attributes: Mapping[str, object],
        within: OnnxScope,
    ) -> Sequence[Value] | None:
        """Return a node's results by constant folding, size arithmetic or its function;
        None if the function declines it.
        """
        wanted = max((i for i, name in enumerate(node.outputs, 1) if name), default=0)
        opset, number = within.opsets.get(node.domain, 1), node.place[1]
        facts = {"opset": opset, "wanted": wanted, "number": number}
        if current_trace() is None:
            return call(function, node, values, attributes, facts)
        folded = _fold_constants(function, node, values, attributes, facts)
        if folded is None:
            folded = computed_sizes(node, values, attributes)
        return folded or _emit_node(function, node, values, attributes, facts)

    def _inline(
        self,
        body: OnnxFunction,
        node: OnnxNode,
        values: Sequence[Value | None],
        attributes: Mapping[str, object],
        in_file: bool,
    ) -> list[Value]:
        """Return a node's results by running the function body of its operator."""
        given = [*values, *[None] * (len(body.body.inputs) - len(values))]
        inner = OnnxScope(
            ChainMap(), body.opsets, {**body.defaults, **attributes}, in_file
        )
        # bodies of ONNX's do not compute all the results that nobody wants
        pairs = zip(body.body.outputs, node.outputs, strict=False)
        outputs = tuple(own if wanted else "" for own, wanted in pairs)
        return self._run_graph(replace(body.body, outputs=outputs), given, inner)

    def _attribute_value(self, value: object, within: OnnxScope) -> object:
        """Return an attribute's value with references, constants and graphs
        resolved.
        """
        if isinstance(value, Reference):
            value = within.attributes[value.name]
        if isinstance(value, OnnxConstant):
            return self._constant(value)
        if isinstance(value, OnnxGraph):
            return Closure(self, value, within)
        return value


@dataclass(frozen=True)
class Closure:
    """A subgraph of a node such as `Loop`, bound to the scope around it."""

    interpreter: OnnxInterpreter
    graph: OnnxGraph
    around: OnnxScope

    def __call__(self, *arguments: Value) -> list[Value]:
        """Run the subgraph, which sees values of the scope around it."""
        return self.interpreter._run_graph(self.graph, arguments, self.around)


def _require_declared(
    node: OnnxNode, within: OnnxScope, results: Sequence[Value | None]
) -> None:
    """Refuse results that contradict the shapes that the file declares."""
    if within.graph is None:
        return
    for name, result in zip(node.outputs, results, strict=False):
        declared = within.graph.declared_shape(name)
        if declared is not None:
            require_declared(f"'{name}' of {node.key}", declared, result)


def _is_left_out(value: object, within: OnnxScope) -> bool:
    """Return whether an attribute refers to a function attribute that the
    caller omits.
    """
    return isinstance(value, Reference) and value.name not in within.attributes


def _lookup(within: OnnxScope, name: str) -> Any:
    """Return the value with a name in a scope; None for ""."""
    if not name:
        return None
    if name not in within.values:
        fail("bad-graph", f"no node before this one computes '{name}'")
    return within.values[name]


# ---- sizes that depend on values ----------------------------------------------------


def _emit_node(
    function: Imports,
    node: OnnxNode,
    values: Sequence[Value | None],
    attributes: Mapping[str, object],
    facts: Mapping[str, int],
) -> list[Value] | None:
    """Emit a node by its function, or its rule for padded values; return its results,
    None if that declines it.
    """
    rule = PADDED.get(node.key)
    padded = node.key in SOURCES or any(map(is_padded, values))
    if not padded:
        return call(function, node, values, attributes, facts)
    if rule is None:
        sizes = [value for value in values if isinstance(value, Padded)]
        if sizes or _needs_data_dependent(function, values):
            shown = " and ".join(map(str, sizes)) or "sizes"
            refuse(
                f"{node.key} of {shown}: values decide sizes of it, and aotc has no "
                "rule for its padding",
                "bring it to a known size before, as ReduceSum and ScatterND do",
            )
        return call(function, node, values, attributes, facts)
    return call(rule, node, values, attributes, facts, padded=True)


def _needs_data_dependent(function: Imports, values: Sequence[Value | None]) -> bool:
    """Return whether inputs that must be known hold data-dependent sizes."""
    inputs = signature(function).inputs
    pairs = zip(inputs, values, strict=False)
    return any(known and is_padded(value) for (_, known), value in pairs)


# ---- what is known while tracing ----------------------------------------------------


def _fold_constants(
    function: Imports,
    node: OnnxNode,
    values: Sequence[Value | None],
    attributes: Mapping[str, object],
    facts: Mapping[str, int],
) -> list[Value] | None:
    """Return a node's results computed from small constant inputs; None for others."""
    if not all(value is None or _is_small(value) for value in values):
        return None
    if any(isinstance(value, Closure) for value in attributes.values()):
        return None
    with without_tracing():
        results = call(function, node, values, attributes, facts)
    # what grows large on the way is left to the model
    return results if results and all(map(_is_small, results)) else None


def _is_small(value: Value) -> bool:
    """Return whether a value is a small constant."""
    if isinstance(value, (SizeTensor, Padded)) or value._data is None:
        return False
    return bool(value._data.nbytes <= _SMALL)
