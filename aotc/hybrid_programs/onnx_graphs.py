"""ONNX files with ops that have no importer: those are computed by ONNX Runtime.

A file in protobuf is split, so that each piece is a file that both can read.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from aotc.artifacts.leftovers import temporary_folder
from aotc.errors import InputError
from aotc.hybrid_programs.pieces import Node, Piece
from aotc.hybrid_programs.split_graphs import Code, SplitGraph, Values
from aotc.importers.onnx import from_onnx
from aotc.importers.onnx.inputs import identifiers
from aotc.importers.onnx.reading import read
from aotc.importers.onnx.unsupported import reasons_against
from aotc.just_in_time.compiling import compile_program
from aotc.program import Title, source_of
from aotc.system_errors import raise_system_error
from aotc.target import Target

_LARGEST = 1 << 31  # bytes of a message of protobuf


class HybridGraph(SplitGraph):
    """An ONNX graph of which what can be imported is compiled.

    Args:
        path: the file.
        target: to compile for.
        threads: as `aotc.load` takes them.

    Raises:
        InputError: the file is damaged, or too large.
    """

    def __init__(self, path: Path, target: Target, threads: int | None) -> None:
        model = read(path)
        onnx = import_module("onnx")
        self._proto = onnx.load(str(path))
        if self._proto.ByteSize() >= _LARGEST:
            raise InputError(
                "too-large",
                f"expected a model of less than 2 GiB to split; '{path}' is larger",
            )
        self._target, self._threads = target, threads
        self._given = dict(
            zip(identifiers(model.graph.inputs), model.graph.inputs, strict=True)
        )
        self._results = dict(
            zip(identifiers(model.graph.outputs), model.graph.outputs, strict=True)
        )
        graph = self._proto.graph
        stored = {each.name for each in graph.initializer} | {""}
        stored |= {each.values.name for each in graph.sparse_initializer}
        super().__init__(
            path.stem,
            _nodes(path.name, graph, reasons_against(model)),
            self._given.values(),
            self._results.values(),
            stored,
        )

    def __call__(self, **inputs: Any) -> Any:
        """The results for inputs by name: one array, or a dict of several.

        Raises:
            InputError: `missing-input` or `unknown-input`; an op that ONNX Runtime does
                not compute either: `framework-cannot-load`.
        """
        _require_names(self.name, self._given, inputs)
        env = self.compute(
            {self._given[name]: np.asarray(value) for name, value in inputs.items()}
        )
        found = {name: env[own] for name, own in self._results.items()}
        return next(iter(found.values())) if len(found) == 1 else found

    def kind_of(self, piece: Piece, given: Values) -> Hashable:
        """Of regions the shapes; sessions of islands take all, and sequences too."""
        return super().kind_of(piece, given) if piece.boundary is None else None

    def compiled(self, piece: Piece, given: Values) -> Code:
        """Code for a region and inputs of these shapes.

        Raises:
            InputError: it cannot be compiled.
        """
        with temporary_folder() as folder:
            path = folder / f"{self.name}.onnx"
            path.write_bytes(self._model_of(piece, given).SerializeToString())
            program = from_onnx(path).program("main")
            program.title = Title("region", "1.0.0")
            program.source = source_of(path, "onnx")
            made = compile_program(program, self._target, self._threads)
        entry = made.model.entry("main")
        names = dict(zip(piece.inputs, identifiers(piece.inputs), strict=True))
        outputs = identifiers(piece.outputs)

        def run(given: Values) -> Values:
            found = entry(**{names[own]: value for own, value in given.items()})
            values = [found] if len(outputs) == 1 else [found[n] for n in outputs]
            return dict(zip(piece.outputs, values, strict=True))

        return run

    def loaded(self, piece: Piece, given: Values) -> Code:
        """A session of ONNX Runtime for an island.

        Raises:
            InputError: `framework-cannot-load`.
        """
        session = _session(self._model_of(piece, given))

        def run(given: Values) -> Values:
            found = session.run(piece.outputs, dict(given))
            return dict(zip(piece.outputs, found, strict=True))

        return run

    def _model_of(self, piece: Piece, given: Mapping[str, Any]) -> Any:
        """A model of the nodes of a piece, for inputs of these types."""
        onnx = import_module("onnx")
        graph = self._proto.graph
        nodes = [graph.node[number] for number in piece.nodes]
        read = set[str]().union(*map(_reads, nodes))
        types = {each.name: each for each in (*graph.value_info, *graph.output)}
        inputs = [_typed(name, value, piece, types) for name, value in given.items()]
        outputs = [
            types.get(name, onnx.ValueInfoProto(name=name)) for name in piece.outputs
        ]
        made = onnx.helper.make_graph(
            nodes,
            graph.name or "graph",
            inputs,
            outputs,
            [each for each in graph.initializer if each.name in read],
            sparse_initializer=[
                each for each in graph.sparse_initializer if each.values.name in read
            ],
        )
        model = onnx.helper.make_model(
            made,
            opset_imports=self._proto.opset_import,
            ir_version=self._proto.ir_version,
            functions=self._proto.functions,
        )
        if piece.boundary is None:  # the importer wants to know the types of results
            model = onnx.shape_inference.infer_shapes(model, data_prop=True)
        return model


def _typed(name: str, value: Any, piece: Piece, types: Mapping[str, Any]) -> Any:
    """What a model says of an input: of a region the shape too, as code is for it."""
    onnx = import_module("onnx")
    if not isinstance(value, np.ndarray):  # a sequence, which only islands take
        return types.get(name, onnx.ValueInfoProto(name=name))
    code = onnx.helper.np_dtype_to_tensor_dtype(value.dtype)
    shape = value.shape if piece.boundary is None else [None] * value.ndim
    return onnx.helper.make_tensor_value_info(name, code, shape)


def _nodes(file: str, graph: Any, reasons: Mapping[int, str]) -> list[Node]:
    """The nodes of a graph, with the reasons against those that are not imported."""
    return [
        Node(
            frozenset(_reads(each)),
            (*each.output,),
            each.op_type,
            f"{file}:{number} ({each.name})" if each.name else f"{file}:{number}",
            reasons.get(number, ""),
        )
        for number, each in enumerate(graph.node)
    ]


def _reads(node: Any) -> set[str]:
    """The values that a node reads, those for graphs inside it included."""
    found = {*node.input}
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            found |= _captured(graph)
    return found


def _captured(graph: Any) -> set[str]:
    own = {each.name for each in (*graph.input, *graph.initializer)} | {""}
    found = {each.name for each in graph.output}
    for node in graph.node:
        found |= _reads(node)
        own |= {*node.output}
    return found - own


def _session(model: Any) -> Any:
    """What computes a model: ONNX Runtime, or the reference evaluator of `onnx`.

    Raises:
        InputError: `framework-cannot-load`.
    """
    try:
        if find_spec("onnxruntime") is None:
            return import_module("onnx.reference").ReferenceEvaluator(model)
        runtime = import_module("onnxruntime")
        options = runtime.SessionOptions()
        options.log_severity_level = 3  # errors only
        return runtime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:  # its own exceptions have no common base
        raise_system_error(error)
        said = (str(error).strip().splitlines() or [""])[0]
        raise InputError(
            "framework-cannot-load",
            f"an island of ONNX cannot be computed: {said}",
            hint="install onnxruntime, or one that knows the op",
        ) from error


def _require_names(owner: str, known: Iterable[str], given: Iterable[str]) -> None:
    missing, unknown = {*known} - {*given}, {*given} - {*known}
    if missing:
        raise InputError("missing-input", f"{owner}: expected '{min(missing)}'")
    if unknown:
        raise InputError(
            "unknown-input",
            f"{owner}: expected {', '.join(sorted(known))}; got '{min(unknown)}'",
        )
