"""An `OnnxModel` as a network: its inputs, its stored tensors, and its function."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from aotc.core.pytree import OrderedTree
from aotc.importers.common.declared import require_declared_shapes
from aotc.importers.common.imported import Imported
from aotc.importers.common.padded import Padded, data_dependent_sizes
from aotc.importers.common.padded.values import refuse
from aotc.importers.onnx.calling import signature
from aotc.importers.onnx.elements import element
from aotc.importers.onnx.graph import OnnxConstant, OnnxGraph, OnnxModel
from aotc.importers.onnx.inputs import identifiers, specs_of
from aotc.importers.onnx.interpreter import OnnxInterpreter
from aotc.importers.onnx.ops import TABLE
from aotc.importers.onnx.original import of_file
from aotc.importers.onnx.unsupported import unsupported_ops
from aotc.importers.onnx.values import Value, as_array, with_element_type
from aotc.tracing.array import Array
from aotc.tracing.conversion import lift
from aotc.tracing.dims import Dim
from aotc.tracing.entry import Weights
from aotc.tracing.source_locations import at_location
from aotc.tracing.survey import require_importable

_LARGE = 1 << 12  # bytes of a constant that is stored, not part of the code


def network_of(
    model: OnnxModel,
    dims: Mapping[str, int | Dim],
    path: Path | None = None,
    interpreter: Callable[
        [OnnxModel, Mapping[int, Array]], OnnxInterpreter
    ] = OnnxInterpreter,
) -> Imported:
    """Return an ONNX model as a network: an entry function of weights and inputs.

    Args:
        model: what was read.
        dims: for sizes that it leaves open.
        path: the file it was read from, for other runtimes to run.
        interpreter: makes what runs it.

    Raises:
        InputError: it has operators or types that aotc does not import.
    """
    require_importable(unsupported_ops(model))
    stored = dict(_weight_constants(model.graph))
    inputs = specs_of(model, dims)
    names = identifiers(model.graph.outputs)

    def run(*arguments: Any) -> Any:
        with data_dependent_sizes():
            weights = dict(arguments[0]) if stored else {}
            arrays = {id(c): lift(weights[name]) for name, c in stored.items()}
            given = arguments[1:] if stored else arguments
            results = _compute(model, interpreter(model, arrays), given)
        if len(results) == 1:
            return results[0]
        return OrderedTree(zip(names, results, strict=True))

    tree = {name: constant.data for name, constant in stored.items()}
    with at_location((model.file, 1)):
        weights = Weights(tree, copy=False) if tree else None
        own = of_file(model, path, tuple(inputs), names) if path else None
        return Imported(
            run,
            inputs,
            weights,
            None,
            (model.file, 1),
            own,
            frozenset(_buffers(model.graph, stored)),
        )


def _compute(
    model: OnnxModel, interpreter: OnnxInterpreter, inputs: Sequence[Any]
) -> list[Array]:
    """Return a model's results on inputs; refuse shapes that contradict the file's."""
    graph = model.graph
    codes = [graph.types[own].tensor_type.elem_type for own in graph.inputs]
    values = [
        with_element_type(lift(x), element(code), code)
        for x, code in zip(inputs, codes, strict=True)
    ]
    declared = map(graph.declared_shape, graph.inputs)
    pairs = [(d or (), x.shape) for d, x in zip(declared, values, strict=True)]
    with require_declared_shapes(pairs):
        found = interpreter.run(values)
    return [
        _result(name, value) for name, value in zip(graph.outputs, found, strict=True)
    ]


def _result(name: str, value: Value) -> Array:
    """Return a result of the model as an array; refuse a data-dependent size.

    Raises:
        InputError: values decide its size; those of an entry have known ones.
    """
    if isinstance(value, Padded):
        refuse(
            f"the result '{name}' has the shape {value}, whose size depends on values",
            "let the model write it into a tensor of known size (ScatterND), and "
            "return how many elements there are (Shape) beside it",
        )
    return as_array(value)


# ---- weights ------------------------------------------------------------------------


def _weight_constants(graph: OnnxGraph) -> Iterator[tuple[str, OnnxConstant]]:
    """Yield the constants that become weights (float parameters, large ones),
    by name.
    """
    taken: set[str] = set()
    for name, constant, is_parameter in _constants(graph):
        if not _is_stored(constant, is_parameter):
            continue
        unique = name
        while unique in taken:
            unique += "_"
        taken.add(unique)
        yield unique, constant


def _buffers(graph: OnnxGraph, stored: Mapping[str, OnnxConstant]) -> Iterator[str]:
    """Yield the names of weights that are not trained: integers, running statistics."""
    statistics = {
        name
        for node in _nodes(graph)
        if node.key == "BatchNormalization"
        for name in node.inputs[3:5]
    }
    for name, constant in stored.items():
        is_float = element(constant.code).dtype.startswith(("f", "bf"))
        if name in statistics or not is_float:
            yield name


def _nodes(graph: OnnxGraph) -> Iterator[Any]:
    """Yield the nodes of a graph and of its subgraphs."""
    for node in graph.nodes:
        yield node
        for inner in node.graphs():
            yield from _nodes(inner)


def _is_stored(constant: OnnxConstant, is_parameter: bool) -> bool:
    """Return whether a constant becomes a weight: large, or a float parameter."""
    kind = element(constant.code)
    is_float = kind.dtype.startswith(("f", "bf"))
    return constant.data.nbytes > _LARGE or (is_parameter and is_float)


def _constants(graph: OnnxGraph) -> Iterator[tuple[str, OnnxConstant, bool]]:
    """Yield the constants of a graph and its subgraphs: name, constant, is it a
    parameter.
    """
    read = set(_names_read_as_arrays(graph))
    for name, constant in graph.constants.items():
        if name in read:
            yield name, constant, math.prod(constant.shape) > 0
    for node in graph.nodes:
        for value in node.attributes.values():
            if isinstance(value, OnnxConstant) and node.key == "Constant":
                yield node.outputs[0], value, False
        for inner in node.graphs():
            yield from _constants(inner)


def _names_read_as_arrays(graph: OnnxGraph) -> Iterator[str]:
    """Yield the names of values that nodes read as arrays, not at build time."""
    yield from graph.outputs
    for node in graph.nodes:
        function = TABLE.get(node.key)
        known = signature(function).inputs if function else ()
        for place, name in enumerate(node.inputs):
            if not (place < len(known) and known[place][1]):
                yield name
        for inner in node.graphs():
            yield from _names_read_as_arrays(inner)
