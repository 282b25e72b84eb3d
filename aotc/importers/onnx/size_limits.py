"""Limits of sizes by the tables that a file stores.

A model that reads as much of a stored table as an input is long (learned positions,
say) works up to the table's length. ONNX has no place to say so, but it can be seen: a
`Slice` of a tensor of the file ends at what `Shape` says of an input.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from aotc.importers.onnx.file_errors import attribute_to_file
from aotc.importers.onnx.graph import OnnxConstant, OnnxGraph, OnnxNode
from aotc.tracing.source_locations import at_location, scope

Axis = tuple[str, int]  # of an input: its name, and the number of the axis
Origins = Sequence[
    Axis | None
]  # of each element of a vector: the axis it is the size of


def size_limits(graph: OnnxGraph) -> dict[Axis, int]:
    """Return upper bounds of input axes that slice a stored table, such as
    positions.
    """
    origins = _Origins(graph)
    found: dict[Axis, int] = {}
    for node in graph.nodes:
        if node.key == "Slice" and len(node.inputs) > 2:
            with (
                at_location(node.place),
                scope(node.name),
                attribute_to_file("bad-node", node.key),
            ):
                for end, size in _limited_axes(node, origins):
                    found[end] = min(found.get(end, size), size)
    return found


def _limited_axes(node: OnnxNode, origins: _Origins) -> Iterator[tuple[Axis, int]]:
    """Yield (input axis, table length) where a Slice of a table ends at that axis's
    size.
    """
    table = origins.constant(node.inputs[0])
    if table is None:
        return
    ends = origins.of(node.inputs[2])
    for axis, end in zip(origins.axes(node, len(ends)), ends, strict=False):
        if end is not None:
            yield end, table.shape[axis]


class _Origins:
    """Traces elements of small vectors back to the input axes whose sizes they are."""

    def __init__(self, graph: OnnxGraph) -> None:
        self._graph = graph
        self._producers = {name: n for n in graph.nodes for name in n.outputs}

    def of(self, name: str) -> Origins:
        """Return, for each element of a vector, the input axis it is the size of, if
        any.
        """
        node = self._producers.get(name)
        constant = self.constant(name)
        if constant is not None:
            return [None] * constant.size
        if node is None or node.key not in _PASSED_ON:
            return ()
        return _PASSED_ON[node.key](self, node)

    def constant(self, name: str) -> Any:
        """Return the elements of a constant of the file; None for any other value."""
        node = self._producers.get(name)
        if node is None or node.key != "Constant":
            own = self._graph.constants.get(name)
            return None if own is None else own.array
        value = next(iter(node.attributes.values()), None)
        return value.array if isinstance(value, OnnxConstant) else np.asarray(value)

    def axes(self, node: OnnxNode, count: int) -> Sequence[int]:
        """Return the axes that a Slice node cuts; all from 0 on if it names none."""
        given = node.inputs[3] if len(node.inputs) > 3 else ""
        if not given:
            return range(count)
        known = self.constant(given)
        return () if known is None else known.reshape(-1).tolist()

    # ---- operators that hand sizes on -----------------------------------------------

    def shape(self, node: OnnxNode) -> Origins:
        """Return the origins of the elements of a Shape node's result."""
        start, end = (node.attributes.get(side) for side in ("start", "end"))
        return self._sizes(node.inputs[0])[start:end]

    def _sizes(self, name: str) -> Origins:
        """Return the origin of each size of a value, through simple operators."""
        if name in self._graph.types:
            rank = len(self._graph.types[name].tensor_type.shape.dim)
            return [(name, axis) for axis in range(rank)]
        node = self._producers.get(name)
        if node is not None and node.key == "Reshape" and len(node.inputs) > 1:
            return self.of(node.inputs[1])
        if node is None or node.key != "Gather" or node.attributes.get("axis", 0):
            return ()
        table, indices = self.constant(node.inputs[0]), self._sizes(node.inputs[1])
        if table is None or not indices:
            return ()
        return [*indices, *[None] * (table.ndim - 1)]

    def gather(self, node: OnnxNode) -> Origins:
        """Return the origins of the elements that a Gather node picks."""
        origins, at = self.of(node.inputs[0]), self.constant(node.inputs[1])
        if at is None:
            return ()
        places = at.reshape(-1).tolist()
        inside = all(-len(origins) <= place < len(origins) for place in places)
        return [origins[place] for place in places] if inside else ()

    def same(self, node: OnnxNode) -> Origins:
        """Return the origins of a node's first input, whose elements it keeps."""
        return self.of(node.inputs[0])

    def concat(self, node: OnnxNode) -> Origins:
        """Return the origins of the elements that a Concat node joins."""
        parts = [self.of(name) for name in node.inputs]
        return [each for part in parts for each in part] if all(parts) else ()


_PASSED_ON: dict[str, Callable[[_Origins, OnnxNode], Origins]] = {
    "Cast": _Origins.same,
    "Concat": _Origins.concat,
    "Gather": _Origins.gather,
    "Identity": _Origins.same,
    "Reshape": _Origins.same,
    "Shape": _Origins.shape,
    "Squeeze": _Origins.same,
    "Unsqueeze": _Origins.same,
}
