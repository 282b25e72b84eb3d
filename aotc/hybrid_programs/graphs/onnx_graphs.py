"""ONNX files with ops that have no importer: those are computed by ONNX Runtime.

A file in protobuf is split, so that each piece is a file that both can read.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from aotc.artifacts.leftovers import temporary_folder
from aotc.core.json_values import JsonObject
from aotc.errors import InputError
from aotc.hybrid_programs.boundaries import Boundary
from aotc.hybrid_programs.graphs import onnx_runtime
from aotc.hybrid_programs.graphs.onnx_inputs import GraphInputs
from aotc.hybrid_programs.graphs.onnx_nodes import nodes_of, reads
from aotc.hybrid_programs.graphs.onnx_watching import Faults, WatchingInterpreter
from aotc.hybrid_programs.graphs.piece_codes import Code, PieceKind
from aotc.hybrid_programs.graphs.pieces import Piece
from aotc.hybrid_programs.graphs.split_graphs import LIMITS, Limits, SplitGraph
from aotc.importers.onnx.elements import ELEMENTS
from aotc.importers.onnx.file_errors import attribute_to_file
from aotc.importers.onnx.graph import OnnxModel
from aotc.importers.onnx.inputs import identifiers
from aotc.importers.onnx.network import network_of
from aotc.importers.onnx.reading import read
from aotc.just_in_time.compiling import compile_program
from aotc.just_in_time.shapes import Sizes
from aotc.machine.target import Target
from aotc.programs.program import Title, source_of
from aotc.tracing.dims import Dim

if TYPE_CHECKING:
    import onnx

Values = Mapping[str, object]  # arrays, sequences of them, or None, by name
_LARGEST = 1 << 31  # bytes of a message of protobuf


class HybridGraph:
    """An ONNX graph split into compiled regions and islands that ONNX Runtime computes.

    Args:
        path: the file.
        target: to compile for.
        threads: as `aotc.load` takes them.
        limits: how many codes of each region and island are kept and made.

    Raises:
        InputError: the file is damaged, or too large.
    """

    def __init__(
        self,
        path: Path,
        target: Target,
        threads: int | None,
        limits: Limits = LIMITS,
    ) -> None:
        model = read(path)
        proto = import_module("onnx").load(str(path))
        if proto.ByteSize() >= _LARGEST:
            raise InputError(
                "too-large",
                f"expected a model of less than 2 GiB to split; '{path}' is larger",
            )
        self._make = partial(_FileGraph, path, model, proto, (target, threads), limits)
        constants = model.graph.constants
        required = [*model.graph.inputs]
        defaults = [x.name for x in proto.graph.input if x.name in constants]
        self._names = dict(zip(required, identifiers(required), strict=True))
        taken = self._names.values()
        own = zip(defaults, identifiers(defaults, taken), strict=True)
        self._defaults = {name: default for default, name in own}
        self._lock = threading.Lock()
        self._graphs: dict[tuple[str, ...], _FileGraph] = {}
        self._graph(())

    def __call__(self, /, **inputs: object) -> Any:
        """Compute the graph for inputs by name; return one array, or a dict of several.

        Raises:
            InputError: the inputs are not those that the file declares; an op that ONNX
                Runtime does not compute either: `framework-cannot-load`,
                `framework-refused`; `recompile-storm`.
        """
        given = tuple(name for name in self._defaults if name in inputs)
        return self._graph(given).results(inputs)

    @property
    def boundaries(self) -> tuple[Boundary, ...]:
        """The boundaries of the islands of all calls so far, in the order of the
        graph.
        """
        return tuple(each for graph in self._used() for each in graph.boundaries)

    def report(self) -> JsonObject:
        """Return the boundaries and the regions' statistics: schema
        `aotc.hybrid-graph/1`.
        """
        reports = [each.report() for each in self._used()]
        return {
            **reports[0],
            "graph_breaks": sum(each["graph_breaks"] for each in reports),
            "boundaries": [row for each in reports for row in each["boundaries"]],
            "regions": [row for each in reports for row in each["regions"]],
        }

    def _graph(self, given: tuple[str, ...]) -> _FileGraph:
        """Return the cached split graph in which `given` tensors with defaults are
        inputs.
        """
        with self._lock:
            if given not in self._graphs:
                defaults = {self._defaults[name]: name for name in given}
                self._graphs[given] = self._make({**self._names, **defaults})
            return self._graphs[given]

    def _used(self) -> list[_FileGraph]:
        """Return the split graphs that calls have used; before any call, the first
        one.
        """
        with self._lock:
            first, *others = self._graphs.values()
        return [each for each in (first, *others) if each.was_used] or [first]


class _FileGraph(SplitGraph[str, object]):
    """The graph of an ONNX file split into pieces, each written as an ONNX model.

    Args:
        path: of the file.
        model: that was read.
        proto: the same as a message.
        how: for which target, and on how many threads.
        limits: see `SplitGraph`.
        names: what calls call the inputs, by their names in the file.
    """

    has_symbols = True

    def __init__(
        self,
        path: Path,
        model: OnnxModel,
        proto: onnx.ModelProto,
        how: tuple[Target, int | None],
        limits: Limits,
        names: Mapping[str, str],
    ) -> None:
        self._proto, self._how = proto, how
        graph = proto.graph
        inputs = {x.name: x.type for x in graph.input if x.name in names}
        self._inputs = GraphInputs(path.stem, inputs, names)
        self._constants = {
            name: each.array
            for name, each in model.graph.constants.items()
            if name not in names
        }
        outputs = model.graph.outputs
        self._results = dict(zip(identifiers(outputs), outputs, strict=True))
        self._faults: Sequence[int] = ()
        super().__init__(
            path.stem,
            nodes_of(path.name, model, graph),
            inputs,
            outputs,
            {*self._constants, ""},
            limits=limits,
        )

    def results(self, given: Mapping[str, object]) -> object:
        """Compute the graph for inputs by name; return one array, or a dict of
        several.
        """
        inputs = self._inputs.arrays(given)
        env = {**self._constants, **self.compute(inputs)}
        found = {name: env[own] for name, own in self._results.items()}
        for name, own in self._results.items():
            if own in inputs or own in self._constants:  # of which others have hold
                found[name] = np.array(env[own])
        return next(iter(found.values())) if len(found) == 1 else found

    def kind_of(self, piece: Piece[str], given: Values) -> PieceKind:
        """Return the key that selects a piece's code: types and ranks, for regions
        shapes too.
        """
        form = tuple(map(_type_of, given.values()))
        if piece.boundary is not None:
            return PieceKind(form, ())
        return PieceKind(form, tuple(np.shape(each) for each in _arrays(given)))

    def compile_region(
        self, piece: Piece[str], given: Values, sizes: Sizes
    ) -> Code[str, object]:
        """Compile a region for input sizes; return a function of its inputs by name.

        Raises:
            InputError: it cannot be compiled.
        """
        arrays, faults = self._require_arrays(piece, given), Faults()
        target, threads = self._how
        with temporary_folder() as folder:
            path = folder / f"{self.name}.onnx"
            proto = self._region(piece, arrays, sizes)
            path.write_bytes(proto.SerializeToString())
            try:
                network = network_of(
                    read(path), _dims(sizes), None, partial(WatchingInterpreter, faults)
                )
                program = network.program("main")
            except InputError:
                self._faults = [piece.nodes[number] for number in faults.nodes]
                raise
            program.title = Title("region", "1.0.0")
            program.source = source_of(path, "onnx")
            made = compile_program(program, target, threads)
        entry, call = made.model.entry("main"), made.caller("main")
        names = dict(zip(piece.inputs, identifiers(piece.inputs), strict=True))
        outputs = identifiers(piece.outputs)

        def run(given: Values) -> Values:
            inputs = {names[own]: value for own, value in given.items()}
            found = entry.build(call(entry.flatten(inputs)))
            values = [found] if len(outputs) == 1 else [found[n] for n in outputs]
            return dict(zip(piece.outputs, values, strict=True))

        return run

    def nodes_at_fault(self, piece: Piece[str]) -> Sequence[int]:
        """Return and forget the nodes at which importing a region failed; all if
        unknown.
        """
        found, self._faults = self._faults, ()
        return found or piece.nodes

    def _require_arrays(
        self, piece: Piece[str], given: Values
    ) -> dict[str, np.ndarray]:
        """Return a region's inputs as arrays; refuse values or dtypes that aotc
        lacks.
        """
        found: dict[str, np.ndarray] = {}
        for name, value in given.items():
            if isinstance(value, np.ndarray) and value.dtype in _plain_dtypes():
                found[name] = value
            else:
                nodes = piece.nodes
                readers = [n for n in nodes if name in self.nodes[n].reads]
                self._faults = readers
                kind = getattr(value, "dtype", type(value).__name__)
                raise InputError(
                    "unsupported-type",
                    f"'{name}' is of {kind}; aotc has arrays of numbers only",
                )
        return found

    def load_island(self, piece: Piece[str], given: Values) -> Code[str, object]:
        """Load an island into ONNX Runtime; return a function of its inputs by name.

        Raises:
            InputError: `framework-cannot-load`; of a call: `framework-refused`.
        """
        inputs = [_open_input(n, x, self._types.get(n)) for n, x in given.items()]
        place = self.nodes[piece.nodes[0]].place
        run = onnx_runtime.load(self._model(piece, inputs), piece.outputs, place)
        return lambda given: dict(zip(piece.outputs, run(given), strict=True))

    # ---- files

    @property
    def _types(self) -> dict[str, onnx.ValueInfoProto]:
        """The declared types (ValueInfoProto) of values in the file, by name."""
        graph = self._proto.graph
        messages = (*graph.value_info, *graph.output, *graph.input)
        return {each.name: each for each in messages}

    def _region(
        self, piece: Piece[str], given: Mapping[str, np.ndarray], sizes: Sizes
    ) -> onnx.ModelProto:
        """Return a region as an ONNX model for input sizes, with inferred types."""
        import onnx

        inputs = [
            onnx.helper.make_tensor_value_info(
                name,
                onnx.helper.np_dtype_to_tensor_dtype(value.dtype),
                [_declared(size) for size in shape],
            )
            for (name, value), shape in zip(given.items(), sizes, strict=True)
        ]
        model = self._model(piece, inputs)
        with attribute_to_file("bad-graph", "its types cannot be inferred"):
            return onnx.shape_inference.infer_shapes(model, data_prop=True)

    def _model(
        self, piece: Piece[str], inputs: Sequence[onnx.ValueInfoProto]
    ) -> onnx.ModelProto:
        """Return the nodes of a piece, with the constants they read, as an ONNX
        model.
        """
        import onnx

        graph, types = self._proto.graph, self._types
        nodes = [graph.node[number] for number in piece.nodes]
        read = set[str]().union(*map(reads, nodes)) & {*self._constants}
        made = onnx.helper.make_graph(
            nodes,
            graph.name or "graph",
            inputs,
            [types.get(n, onnx.ValueInfoProto(name=n)) for n in piece.outputs],
            [each for each in graph.initializer if each.name in read],
            sparse_initializer=[
                each for each in graph.sparse_initializer if each.values.name in read
            ],
        )
        return onnx.helper.make_model(
            made,
            opset_imports=self._proto.opset_import,
            ir_version=self._proto.ir_version,
            functions=self._proto.functions,
        )


# ---- values at boundaries -----------------------------------------------------------


def _arrays(given: Values) -> Iterator[np.ndarray]:
    """Yield the NumPy arrays among values by name."""
    return (each for each in given.values() if isinstance(each, np.ndarray))


def _plain_dtypes() -> set[np.dtype]:
    """Return the NumPy dtypes of ONNX elements that aotc computes with."""
    return {each.numpy for each in ELEMENTS.values() if each.narrow is None}


def _type_of(value: object) -> object:
    """Return a value's type as sessions depend on it: dtype and rank for an array."""
    if isinstance(value, np.ndarray):
        return value.dtype, value.ndim
    if isinstance(value, (list, tuple)):
        return list, *dict.fromkeys(map(_type_of, value))
    return type(value)


def _open_input(
    name: str, value: object, declared: onnx.ValueInfoProto | None
) -> onnx.ValueInfoProto:
    """Return the declaration of an island's input: type and rank, without sizes."""
    from onnx import ValueInfoProto, helper

    if isinstance(value, np.ndarray):
        code = helper.np_dtype_to_tensor_dtype(value.dtype)
        return helper.make_tensor_value_info(name, code, [None] * value.ndim)
    if declared is not None:
        return declared
    if isinstance(value, list) and value and isinstance(value[0], np.ndarray):
        code = helper.np_dtype_to_tensor_dtype(value[0].dtype)
        return helper.make_tensor_sequence_value_info(name, code, None)
    return ValueInfoProto(name=name)


def _declared(size: int | Dim) -> int | str:
    """Return an ONNX dimension for a size: a Dim's name, and "zero" for 0 (an open size
    there).
    """
    return size.name if isinstance(size, Dim) else size or "zero"


def _dims(sizes: Sizes) -> dict[str, int | Dim]:
    """Map the dimension names that `_declared` writes to Dims, and "zero" to 0."""
    found = {n.name: n for shape in sizes for n in shape if isinstance(n, Dim)}
    is_empty = any(size == 0 for shape in sizes for size in shape)
    return {**found, "zero": 0} if is_empty else {**found}
