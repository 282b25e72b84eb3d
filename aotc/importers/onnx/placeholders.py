"""Placeholders, zeros, for ops that cannot be imported, so that a survey goes on."""

from __future__ import annotations

from typing import Any

from aotc import numpy as anp
from aotc.dialects.sizes.symbols import current_contracts
from aotc.dialects.types import Size, SymbolicDim
from aotc.importers.onnx.elements import element
from aotc.importers.onnx.graph import OnnxGraph
from aotc.tracing.array import Array
from aotc.tracing.source_locations import fail


def placeholder(graph: OnnxGraph, name: str) -> Array | None:
    """Return zeros of a value's declared type, to go on after a failed node.

    Raises:
        InputError: the file does not say it.
    """
    if not name:
        return None
    kind = graph.types.get(name)
    tensor = kind.tensor_type if kind is not None else None
    if tensor is None or not tensor.HasField("shape"):
        fail(
            "unknown-type",
            f"the file does not say of what type '{name}' is, so what follows is not "
            "looked at",
            "add types with onnx.shape_inference.infer_shapes",
        )
    shape = [_size(size) for size in tensor.shape.dim]
    return anp.zeros(shape, element(tensor.elem_type).dtype)


def _size(size: Any) -> Size:
    """Return a declared dimension as a number or a symbol of the inputs."""
    if size.WhichOneof("value") == "dim_value":
        return int(size.dim_value)
    sizes = {
        contract.name: SymbolicDim.symbol(number) * contract.multiple_of
        for number, contract in enumerate(current_contracts())
    }
    if size.dim_param not in sizes:
        fail("unsupported", f"the size '{size.dim_param}' is none of an input")
    return sizes[size.dim_param]
