"""The bodies by which ONNX defines some of its operators in terms of others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from aotc.dialects.types import SymbolicDim
from aotc.importers.onnx.graph import OnnxFunction, OnnxNode, Reader
from aotc.importers.onnx.tensors import OnnxFiles
from aotc.importers.onnx.values import Value, element_of

if TYPE_CHECKING:
    import onnx


def body_of(
    node: OnnxNode,
    opset: int,
    values: Sequence[Value | None],
    attributes: Mapping[str, object],
) -> OnnxFunction | None:
    """The body of a node's operator; None if it has none.

    Args:
        node: the node.
        opset: the version of the operators that the node counts on.
        values: the inputs, on whose types some bodies depend.
        attributes: of the node, on which some bodies depend.
    """
    schema = schema_of(node.key, opset)
    if schema is None:
        return None
    if schema.has_function:
        version = _nearest(schema.function_opset_versions, opset)
        return _read(schema.get_function_with_opset_version(version), version, schema)
    if schema.has_context_dependent_function:
        version = _nearest(schema.context_dependent_function_opset_versions, opset)
        types = [_type_of(value).SerializeToString() for value in values]
        found = schema.get_context_dependent_function_with_opset_version(
            version, _bind_attributes(node, attributes).SerializeToString(), types
        )
        return _read(found, version, schema)
    return None


def _bind_attributes(
    node: OnnxNode, attributes: Mapping[str, object]
) -> onnx.NodeProto:
    """The message of a node, with the values of attributes that a caller gives."""
    from onnx import NodeProto, helper

    proto = NodeProto()
    proto.CopyFrom(node.proto)
    del proto.attribute[:]
    for each in node.proto.attribute:
        if not each.ref_attr_name:
            proto.attribute.append(each)
        elif each.name in attributes:
            value = attributes[each.name]
            proto.attribute.append(helper.make_attribute(each.name, value))
    return proto


@cache
def schema_of(key: str, opset: int) -> Any:
    """Return ONNX's schema of an operator; None if it does not know it."""
    from onnx import defs

    domain, _, op = key.rpartition(".")
    try:
        return defs.get_schema(op, opset, domain)
    except defs.SchemaError:
        return None


def _nearest(versions: Sequence[int], opset: int) -> int:
    """The newest version up to `opset`, or the oldest."""
    return max((v for v in versions if v <= opset), default=min(versions))


def _read(found: bytes | onnx.FunctionProto, version: int, schema: Any) -> OnnxFunction:
    """Read a FunctionProto, or its bytes, with default attributes."""
    from onnx import FunctionProto

    proto = FunctionProto.FromString(found) if isinstance(found, bytes) else found
    reader = Reader(f"the definition of {proto.name}", OnnxFiles(None, b""))
    function = reader.function(proto, {"": version})
    return replace(
        function, defaults={**_defaults(schema, reader), **function.defaults}
    )


def _defaults(schema: Any, reader: Reader) -> dict[str, Any]:
    """The values of attributes that a node does not give."""
    return {
        name: reader.attribute(each.default_value)
        for name, each in schema.attributes.items()
        if each.default_value.name
    }


def _type_of(value: Value | None) -> onnx.TypeProto:
    """The message with the type of a value."""
    from onnx import TypeProto, helper

    if value is None:
        return TypeProto()
    sizes = [
        str(size) if isinstance(size, SymbolicDim) else size for size in value.shape
    ]
    return helper.make_tensor_type_proto(element_of(value), sizes)
