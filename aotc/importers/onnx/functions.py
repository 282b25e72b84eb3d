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
    """Return the function body that ONNX defines a node's operator by; None if none.

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
    """Return a node's protobuf message with attribute references replaced by values."""
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
    """Return ONNX's schema of an operator in an opset; None if ONNX has none."""
    from onnx import defs

    domain, _, op = key.rpartition(".")
    try:
        return defs.get_schema(op, opset, domain)
    except defs.SchemaError:
        return None


def _nearest(versions: Sequence[int], opset: int) -> int:
    """Return the newest version up to `opset`, or else the oldest."""
    return max((v for v in versions if v <= opset), default=min(versions))


def _read(
    definition: bytes | onnx.FunctionProto, version: int, schema: Any
) -> OnnxFunction:
    """Return a FunctionProto's function, with default attributes from the schema."""
    from onnx import FunctionProto

    proto = (
        FunctionProto.FromString(definition)
        if isinstance(definition, bytes)
        else definition
    )
    reader = Reader(f"the definition of {proto.name}", OnnxFiles(None, b""))
    function = reader.function(proto, {"": version})
    return replace(
        function, defaults={**_defaults(schema, reader), **function.defaults}
    )


def _defaults(schema: Any, reader: Reader) -> dict[str, Any]:
    """Return the default values of an operator's attributes by name."""
    return {
        name: reader.attribute(each.default_value)
        for name, each in schema.attributes.items()
        if each.default_value.name
    }


def _type_of(value: Value | None) -> onnx.TypeProto:
    """Return the TypeProto of a value."""
    from onnx import TypeProto, helper

    if value is None:
        return TypeProto()
    sizes = [
        str(size) if isinstance(size, SymbolicDim) else size for size in value.shape
    ]
    return helper.make_tensor_type_proto(element_of(value), sizes)
