"""ONNX files with ops that have no importer: those are computed by ONNX Runtime.

The nodes of a graph are taken apart into regions, which are compiled, and islands. Each
is as large as it can be: all nodes of one kind that are ready come before those of the
other one (list scheduling).
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from aotc.artifacts.leftovers import temporary_folder
from aotc.errors import InputError
from aotc.hybrid_programs.boundaries import Boundary
from aotc.importers.onnx import from_onnx
from aotc.importers.onnx.inputs import identifiers
from aotc.importers.onnx.reading import read
from aotc.importers.onnx.unsupported import reasons_against
from aotc.just_in_time.compiling import compile_program
from aotc.program import Title, source_of
from aotc.runtime.model import Entry
from aotc.system_errors import raise_system_error
from aotc.target import Target

_LARGEST = 1 << 31  # bytes of a message of protobuf


@dataclass
class _Piece:
    """Nodes that are computed together.

    Args:
        nodes: numbers in the graph.
        inputs: names of values that other pieces or the caller give.
        outputs: names of values that others read.
        boundary: of an island.
    """

    nodes: list[int]
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    boundary: Boundary | None = None


class HybridGraph:
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
        self.name = path.stem
        self._path, self._target, self._threads = path, target, threads
        self._inputs = dict(
            zip(identifiers(model.graph.inputs), model.graph.inputs, strict=True)
        )
        self._outputs = dict(
            zip(identifiers(model.graph.outputs), model.graph.outputs, strict=True)
        )
        self._pieces = self._split(reasons_against(model))
        self._entries: dict[Hashable, tuple[Entry, list[str], list[str]]] = {}
        self._sessions: dict[int, Any] = {}
        self._lock = threading.RLock()

    def __call__(self, **inputs: Any) -> Any:
        """The results for inputs by name: one array, or a dict of several.

        Raises:
            InputError: `missing-input` or `unknown-input`; an op that ONNX Runtime does
                not compute either: `framework-cannot-load`.
        """
        _require_names(self.name, self._inputs, inputs)
        env = {self._inputs[name]: np.asarray(value) for name, value in inputs.items()}
        for number, piece in enumerate([*self._pieces]):
            env |= self._computed(number, piece, env)
        found = {name: env[own] for name, own in self._outputs.items()}
        return next(iter(found.values())) if len(found) == 1 else found

    @property
    def boundaries(self) -> tuple[Boundary, ...]:
        """The islands, in the order in which they are computed."""
        return tuple(each.boundary for each in self._pieces if each.boundary)

    def report(self) -> dict[str, Any]:
        """Boundaries and regions: schema `aotc.hybrid-graph/1`."""
        regions = [each for each in self._pieces if each.boundary is None]
        return {
            "schema": "aotc.hybrid-graph/1",
            "graph": self.name,
            "graph_breaks": len(self.boundaries),
            "boundaries": [each.to_json() for each in self.boundaries],
            "regions": [{"nodes": len(each.nodes)} for each in regions],
        }

    # ---- pieces

    def _split(self, reasons: Mapping[int, str]) -> list[_Piece]:
        """The nodes as pieces, in an order in which they can be computed."""
        graph = self._proto.graph
        known = {each.name for each in (*graph.input, *graph.initializer)}
        known |= {each.values.name for each in graph.sparse_initializer} | {""}
        left, found = [*range(len(graph.node))], list[_Piece]()
        is_island = False
        while left:
            taken = list[int]()
            for number in left:
                node = graph.node[number]
                if (number in reasons) == is_island and _reads(node) <= known:
                    taken.append(number)
                    known |= {*node.output}
            if taken:
                found.append(_Piece(taken))
                if is_island:
                    found[-1].boundary = self._boundary(taken, reasons[taken[0]])
            left = [number for number in left if number not in {*taken}]
            is_island = not is_island
        self._connect(found)
        return found

    def _boundary(self, nodes: Sequence[int], reason: str) -> Boundary:
        own = [self._proto.graph.node[number] for number in nodes]
        kinds = ", ".join(dict.fromkeys(each.op_type for each in own))
        place = f"{self._path.name}:{nodes[0]}"
        name = own[0].name
        return Boundary(
            self.name, f"{place} ({name})" if name else place, kinds, reason
        )

    def _connect(self, pieces: Sequence[_Piece]) -> None:
        """Find out what the pieces give each other."""
        graph = self._proto.graph
        stored = {each.name for each in graph.initializer} | {""}
        stored |= {each.values.name for each in graph.sparse_initializer}
        stored -= {*self._inputs.values()}
        wanted = {each.name for each in graph.output}
        for piece in reversed(pieces):
            nodes = [graph.node[number] for number in piece.nodes]
            made = {name for node in nodes for name in node.output}
            read = set[str]().union(*map(_reads, nodes))
            piece.inputs = sorted(read - made - stored)
            piece.outputs = sorted(made & wanted)
            wanted |= {*piece.inputs}

    def _computed(
        self, number: int, piece: _Piece, env: Mapping[str, Any]
    ) -> dict[str, Any]:
        given = {name: env[name] for name in piece.inputs}
        if piece.boundary is None:
            try:
                return self._by_entry(number, piece, given)
            except InputError as error:
                if error.code in ("shape-mismatch", "dtype-mismatch"):
                    raise
                names = piece.nodes
                piece.boundary = self._boundary(names, error.message.partition("\n")[0])
        with piece.boundary.crossing(given.values()) as returned:
            found = self._by_framework(number, piece, given)
            returned += found.values()
        return found

    # ---- regions

    def _by_entry(
        self, number: int, piece: _Piece, given: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The outputs of a region, by code for inputs of these shapes."""
        kinds = ((each.dtype, each.shape) for each in given.values())
        key = number, *kinds
        with self._lock:
            if key not in self._entries:
                self._entries[key] = self._compiled(piece, given)
        entry, names, outputs = self._entries[key]
        own = dict(zip(piece.inputs, names, strict=True))
        found = entry(**{own[name]: value for name, value in given.items()})
        values = [found] if len(outputs) == 1 else [found[name] for name in outputs]
        return dict(zip(piece.outputs, values, strict=True))

    def _compiled(
        self, piece: _Piece, given: Mapping[str, Any]
    ) -> tuple[Entry, list[str], list[str]]:
        with temporary_folder() as folder:
            path = folder / f"{self.name}.onnx"
            path.write_bytes(self._model_of(piece, given).SerializeToString())
            program = from_onnx(path).program("main")
            program.title = Title("region", "1.0.0")
            program.source = source_of(path, "onnx")
            made = compile_program(program, self._target, self._threads)
        names = identifiers(piece.inputs)
        return made.model.entry("main"), names, identifiers(piece.outputs)

    # ---- islands

    def _by_framework(
        self, number: int, piece: _Piece, given: Mapping[str, Any]
    ) -> dict[str, Any]:
        with self._lock:
            if number not in self._sessions:
                self._sessions[number] = _session(self._model_of(piece, given))
        found = self._sessions[number].run(piece.outputs, dict(given))
        return dict(zip(piece.outputs, found, strict=True))

    def _model_of(self, piece: _Piece, given: Mapping[str, Any]) -> Any:
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


def _typed(name: str, value: Any, piece: _Piece, types: Mapping[str, Any]) -> Any:
    """What a model says of an input: of a region the shape too, as code is for it."""
    onnx = import_module("onnx")
    if not isinstance(value, np.ndarray):  # a sequence, which only islands take
        return types.get(name, onnx.ValueInfoProto(name=name))
    code = onnx.helper.np_dtype_to_tensor_dtype(value.dtype)
    shape = value.shape if piece.boundary is None else [None] * value.ndim
    return onnx.helper.make_tensor_value_info(name, code, shape)


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
