"""Detection of the nodes that keep a region from being imported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from aotc.errors import AotcError
from aotc.importers.onnx.graph import OnnxGraph, OnnxModel, OnnxNode
from aotc.importers.onnx.interpreter import OnnxInterpreter, OnnxScope
from aotc.importers.onnx.values import Value, is_padded
from aotc.tracing.array import Array


@dataclass
class Faults:
    """Numbers of the graph nodes that keep a region from being imported."""

    nodes: list[int] = field(default_factory=list)


class WatchingInterpreter(OnnxInterpreter):
    """An ONNX interpreter that records which node keeps a graph from being imported.

    A result whose size values decide is refused when all nodes have been imported; what
    is at fault are those that have made such sizes (`NonZero`, say).

    Args:
        faults: that get the nodes.
        model: see `OnnxInterpreter`.
        weights: likewise.
    """

    def __init__(
        self, faults: Faults, model: OnnxModel, weights: Mapping[int, Array]
    ) -> None:
        super().__init__(model, weights)
        self._faults = faults
        self._numbers = {id(x): n for n, x in enumerate(model.graph.nodes)}
        self._sources: set[int] = set()

    def run(self, arguments: Sequence[Array]) -> list[Value]:
        """Import the model's graph and return its results; record as faults the nodes
        that made the sizes of padded (data-dependent) ones.
        """
        found = super().run(arguments)
        graph = self._model.graph
        pairs = zip(graph.outputs, found, strict=True)
        padded = {name for name, value in pairs if is_padded(value)}
        if padded:
            self._faults.nodes = sorted(_needed(graph, padded) & self._sources)
        return found

    def _import(self, node: OnnxNode, within: OnnxScope) -> Sequence[Value | None]:
        """Import a node; record its number in `faults` if that raises."""
        number = self._numbers.get(id(node))
        if number is None:
            return super()._import(node, within)
        try:
            found = super()._import(node, within)
        except AotcError:
            self._faults.nodes = [number]
            raise
        given = [within.values.get(name) for name in node.inputs]
        if any(map(is_padded, found)) and not any(map(is_padded, given)):
            self._sources.add(number)
        return found


def _needed(graph: OnnxGraph, wanted: set[str]) -> set[int]:
    """Return the numbers of the nodes that the `wanted` values are computed by."""
    found, wanted = set[int](), {*wanted}
    for number, node in reversed([*enumerate(graph.nodes)]):
        if wanted & {*node.outputs}:
            found.add(number)
            wanted |= {*node.inputs}
    return found
