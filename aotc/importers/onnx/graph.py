"""An ONNX model as plain data: graphs of nodes, tensors and functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from aotc import numpy as anp
from aotc.importers.common.declared import Declared
from aotc.importers.onnx.elements import element
from aotc.importers.onnx.file_errors import attribute_to_file
from aotc.importers.onnx.tensors import DataArray, OnnxFiles, data_of
from aotc.nn.packed_integers import unpack
from aotc.tracing.array import Array
from aotc.tracing.conversion import lift
from aotc.tracing.scopes import without_tracing
from aotc.tracing.source_locations import Place, at_location, fail, scope

if TYPE_CHECKING:
    import onnx

# the names of ONNX's own operator set
_STANDARD = ("", "ai.onnx")


@dataclass(frozen=True)
class OnnxConstant:
    """A constant tensor of an ONNX file.

    Args:
        data: its elements, or the bytes of those that share some.
        code: ONNX's number of its element type.
        packed: the shape of what shares bytes; None for other elements.
    """

    data: DataArray
    code: int
    packed: tuple[int, ...] | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the tensor."""
        return self.data.shape if self.packed is None else self.packed

    @property
    def array(self) -> DataArray:
        """Elements of the tensor, unpacked."""
        if self.packed is None:
            return self.data
        with without_tracing():
            return np.asarray(self.unpack(lift(self.data)))

    def unpack(self, data: Array) -> Array:
        """Unpack elements of less than a byte from an array that holds the tensor's
        data.
        """
        if self.packed is None:
            return data
        kind = element(self.code)
        flat = unpack(data, kind.bits, is_signed=kind.dtype == "i8")
        return anp.reshape(flat[: math.prod(self.packed)], self.packed)


@dataclass(frozen=True)
class Reference:
    """A reference to an attribute `name` of the enclosing function."""

    name: str


@dataclass(frozen=True)
class OnnxNode:
    """A node of an ONNX graph: an operator applied to named values.

    Args:
        key: the operator: its name, after its domain if that is not ONNX's own.
        inputs: names of values, "" for none.
        outputs: names of values, "" for those that nobody uses.
        attributes: by name, as Python's values, `OnnxConstant`s and `OnnxGraph`s.
        name: the node's own, or its operator's.
        place: the file and the number of the node in it.
        proto: the message it was read from.
    """

    key: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    name: str
    place: Place
    proto: onnx.NodeProto

    @property
    def domain(self) -> str:
        """Domain of the operator, "" for ONNX's own."""
        return "" if self.proto.domain in _STANDARD else str(self.proto.domain)

    @property
    def where(self) -> str:
        """Text that locates the node in messages: file, number and name."""
        return f"{self.place[0]}:{self.place[1]} ({self.name})"

    def graphs(self) -> Iterator[OnnxGraph]:
        """Return the subgraphs among the attributes."""
        return (
            part for part in self.attributes.values() if isinstance(part, OnnxGraph)
        )


@dataclass(frozen=True)
class OnnxGraph:
    """An ONNX graph: nodes in topological order, constants and types.

    Args:
        inputs: names of the arguments.
        outputs: names of the results.
        nodes: of the graph.
        constants: tensors by name.
        types: the messages that tell the types of the arguments, and of other values
            as far as the file says them, by name.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[OnnxNode, ...]
    constants: Mapping[str, OnnxConstant] = field(default_factory=dict)
    types: Mapping[str, onnx.TypeProto] = field(default_factory=dict)

    def declared_shape(self, name: str) -> Declared | None:
        """Return the shape that the file declares for a value; None if it does not.

        For what they do not know exporters write 0, a negative number or no axes.
        """
        kind = self.types.get(name)
        sizes = kind.tensor_type.shape.dim if kind is not None else ()
        if not sizes:
            return None
        return [size.dim_value if size.dim_value > 0 else None for size in sizes]


@dataclass(frozen=True)
class OnnxFunction:
    """A function of the model, or the function by which ONNX defines an operator."""

    body: OnnxGraph
    defaults: Mapping[str, Any]
    opsets: Mapping[str, int]


@dataclass(frozen=True)
class OnnxModel:
    """The content of an ONNX file."""

    graph: OnnxGraph
    opsets: Mapping[str, int]
    functions: Mapping[str, OnnxFunction]
    file: str


def opsets_of(imports: Iterable[onnx.OperatorSetIdProto]) -> dict[str, int]:
    """Return the opset version of each domain."""
    return {
        "" if each.domain in _STANDARD else each.domain: each.version
        for each in imports
    }


def key_of(domain: str, op: str) -> str:
    """Return the key of an operator: its name, prefixed by a domain that is not
    ONNX's.
    """
    return op if domain in _STANDARD else f"{domain}.{op}"


class Reader:
    """Converts the protobuf messages of one file into the classes of this module.

    Args:
        file: its name, for messages.
        files: where the tensors' data is.
    """

    def __init__(self, file: str, files: OnnxFiles) -> None:
        self._file = file
        self._files = files
        self._count = 0

    def model(self, proto: onnx.ModelProto) -> OnnxModel:
        """Return the model in a ModelProto."""
        opsets = opsets_of(proto.opset_import)
        functions = {
            key_of(each.domain, each.name): self.function(each, opsets)
            for each in proto.functions
        }
        return OnnxModel(self.graph(proto.graph), opsets, functions, self._file)

    def graph(self, proto: onnx.GraphProto) -> OnnxGraph:
        """Return the graph in a GraphProto."""
        constants = {each.name: self._constant(each) for each in proto.initializer}
        for each in proto.sparse_initializer:
            constants[each.values.name] = self._dense(each)
        arguments = [each for each in proto.input if each.name not in constants]
        return OnnxGraph(
            inputs=tuple(each.name for each in arguments),
            outputs=tuple(each.name for each in proto.output),
            nodes=tuple(map(self._node, proto.node)),
            constants=constants,
            types={
                each.name: each.type
                for each in (*proto.value_info, *proto.output, *arguments)
            },
        )

    def function(
        self, proto: onnx.FunctionProto, opsets: Mapping[str, int]
    ) -> OnnxFunction:
        """Return the function in a FunctionProto."""
        body = OnnxGraph(
            inputs=tuple(proto.input),
            outputs=tuple(proto.output),
            nodes=tuple(map(self._node, proto.node)),
        )
        defaults = {each.name: self.attribute(each) for each in proto.attribute_proto}
        return OnnxFunction(body, defaults, {**opsets, **opsets_of(proto.opset_import)})

    def _node(self, proto: onnx.NodeProto) -> OnnxNode:
        """Return the node in a NodeProto, numbered in file order."""
        self._count += 1
        place, name = (self._file, self._count), proto.name or proto.op_type
        with at_location(place), scope(name):
            attributes = {each.name: self.attribute(each) for each in proto.attribute}
        return OnnxNode(
            key=key_of(proto.domain, proto.op_type),
            inputs=tuple(proto.input),
            outputs=tuple(proto.output),
            attributes=attributes,
            name=name,
            place=place,
            proto=proto,
        )

    def attribute(self, proto: onnx.AttributeProto) -> Any:
        """Return the Python value of an AttributeProto, or a `Reference`."""
        if proto.ref_attr_name:
            return Reference(proto.ref_attr_name)
        if not proto.type:
            fail("bad-node", f"the attribute '{proto.name}' has no type")
        return _READERS[proto.type](self, proto) if proto.type in _READERS else proto

    def _constant(self, proto: onnx.TensorProto) -> OnnxConstant:
        """Return the constant in a TensorProto."""
        with self._at_tensor(proto.name):
            data, packed = data_of(proto, self._files)
            return OnnxConstant(data, proto.data_type, packed)

    def _dense(self, proto: onnx.SparseTensorProto) -> OnnxConstant:
        """Return the dense constant of a SparseTensorProto."""
        values = self._constant(proto.values)
        places = self._constant(proto.indices).array
        with self._at_tensor(proto.values.name):
            dense = np.zeros(tuple(proto.dims), values.array.dtype)
            if places.ndim == 1:
                dense.reshape(-1)[places] = values.array
            else:
                dense[tuple(places.T)] = values.array
        return OnnxConstant(dense, values.code)

    @contextmanager
    def _at_tensor(self, name: str) -> Iterator[None]:
        """Locate errors within this block at a tensor of the file."""
        place = (self._file, self._count or 1)
        with (
            scope(name or "a tensor"),
            at_location(place),
            attribute_to_file("bad-tensor", "damaged"),
        ):
            yield


def _text(value: bytes) -> str:
    """Return UTF-8 bytes as text, with invalid bytes replaced."""
    return value.decode("utf-8", "replace")


# AttributeProto.AttributeType → its value
_READERS: dict[int, Callable[[Reader, Any], Any]] = {
    1: lambda reader, a: a.f,
    2: lambda reader, a: a.i,
    3: lambda reader, a: _text(a.s),
    4: lambda reader, a: reader._constant(a.t),
    5: lambda reader, a: reader.graph(a.g),
    6: lambda reader, a: tuple(a.floats),
    7: lambda reader, a: tuple(a.ints),
    8: lambda reader, a: tuple(map(_text, a.strings)),
    11: lambda reader, a: reader._dense(a.sparse_tensor),
}
