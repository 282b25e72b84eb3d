"""StableHLO modules and functions of JAX with ops that have no importer.

XLA computes those, by JAX (`xla`). The calls of `main` are inlined first, so that an
island has no more than it must.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from aotc.complexes import Complex
from aotc.core import dtypes
from aotc.core.json_values import JsonObject
from aotc.core.pytree import PyTree, flatten, tree_map
from aotc.errors import AotcError, InputError
from aotc.hybrid_programs.boundaries import Boundary
from aotc.hybrid_programs.graphs import xla
from aotc.hybrid_programs.graphs.piece_codes import Code, PieceKind
from aotc.hybrid_programs.graphs.pieces import Piece
from aotc.hybrid_programs.graphs.split_graphs import LIMITS, Limits, SplitGraph
from aotc.hybrid_programs.graphs.stablehlo_nodes import MainFunction
from aotc.importers.common.imported import Imported
from aotc.importers.stablehlo import from_stablehlo
from aotc.importers.stablehlo.copying import Copies, excerpt
from aotc.importers.stablehlo.interpreter import Environment, StableHloInterpreter
from aotc.importers.stablehlo.jax import from_jax, named_arguments, title_of
from aotc.importers.stablehlo.network import (
    ModuleReader,
    StableHloModule,
    from_module,
    large_literals,
)
from aotc.importers.stablehlo.reading import main_function, parse
from aotc.importers.stablehlo.symbolic import SymbolicSizes, require_jax
from aotc.importers.stablehlo.values import KnownTensor, Token, Value
from aotc.just_in_time.compiling import compile_program
from aotc.just_in_time.shapes import Sizes
from aotc.machine.target import Target
from aotc.mlir import ir
from aotc.programs.program import Title
from aotc.tracing.entry import Spec, State, Weights
from aotc.tracing.entry_calls import checked_inputs

Values = Mapping[int, np.ndarray]  # by the numbers of values in main


class HybridNetwork:
    """A StableHLO module or JAX function split into compiled regions and XLA's islands.

    Args:
        network: that calls the module.
        module: to split.
        target: to compile for.
        threads: as `aotc.load` takes them.
        limits: how many codes of each piece are kept and made.
    """

    def __init__(
        self,
        network: Imported,
        module: SplitModule,
        target: Target,
        threads: int | None,
        limits: Limits = LIMITS,
    ) -> None:
        self._network = network
        self._graph = _ModuleGraph(module, target, threads, limits)
        module.graph = self._graph

    def __call__(self, *args: PyTree, **kwargs: PyTree) -> Any:
        """Compute the module or function; return its result tree, of NumPy arrays.

        Raises:
            InputError: an argument does not fit its Spec; an op that JAX does not
                compute either: `framework-cannot-load`, `framework-refused`;
                `recompile-storm`.
        """
        entry = self._network.entry(self._graph.name)
        given = [*map(_with_pairs, args)]
        named = {name: _with_pairs(each) for name, each in kwargs.items()}
        values, _ = checked_inputs(entry, given, named)
        return self._network.function(*(values[name] for name in self._network.inputs))

    @property
    def boundaries(self) -> tuple[Boundary, ...]:
        """The boundaries of the islands of all calls so far, in the order of the
        module.
        """
        return self._graph.boundaries

    def report(self) -> JsonObject:
        """Return the boundaries and the regions' statistics: schema
        `aotc.hybrid-graph/1`.
        """
        return self._graph.report()


class SplitModule(StableHloModule):
    """A StableHLO module whose `main` a split graph computes, as some ops lack
    importers.
    """

    graph: _ModuleGraph

    def __init__(self, data: bytes | str, name: str) -> None:
        self.mlir = parse(data, name)
        self.name = name
        self.main = main_function(self.mlir, name)
        self.literals = {}

    def call(
        self, operands: Sequence[Value], weights: Mapping[str, np.ndarray]
    ) -> list[Any]:
        """Compute `main` for concrete operands; return its results as NumPy arrays."""
        main = self.graph.main
        given = [_as_array(x) for x in operands if not isinstance(x, Token)]
        env = self.graph.compute(dict(zip(main.arguments, given, strict=True)))
        return [env[number] for number in main.results]


class _ModuleGraph(SplitGraph[int, np.ndarray]):
    """The main function of a module split into pieces, each written as a StableHLO
    module.
    """

    def __init__(
        self, module: SplitModule, target: Target, threads: int | None, limits: Limits
    ) -> None:
        self.main = main = MainFunction(module.mlir, module.main)
        self._module, self._target, self._threads = module, target, threads
        self._fault: int | None = None
        super().__init__(
            module.name,
            main.nodes,
            main.all_arguments,
            main.results,
            main.repeated,
            main.tokens,
            limits,
        )

    def kind_of(self, piece: Piece[int], given: Values) -> PieceKind:
        """Return the key that selects a piece's code: dtypes, shapes, and values of
        sizes.
        """
        known = (x.tobytes() for n, x in given.items() if n in self.main.sizes)
        kind = PieceKind.of(given.values())
        return PieceKind((kind.form, *known), kind.shapes)

    def compile_region(
        self, piece: Piece[int], given: Values, sizes: Sizes
    ) -> Code[int, np.ndarray]:
        """Compile a region for inputs of these shapes; return a function of such
        inputs.

        Note [sizes of StableHLO regions]: they are numbers. In a module with open sizes
        shapes are computed from tensors of sizes, which each piece is given; a region
        for all sizes would have to find out which symbol each of these is, and XLA
        compiles the islands beside it for each shape anyway.

        Raises:
            InputError: it cannot be compiled.
        """
        mlir, copies = self._excerpt(piece, given)
        module = _Region(mlir, self.name)
        network = from_module(module)
        if not piece.outputs:  # checks of sizes
            network.compute(
                {name: tree_map(_zeros, x) for name, x in network.inputs.items()}
            )
            return lambda given: {}
        try:
            program = network.program("main")
        except InputError:
            self._fault = self._node_of(module.failed, copies)
            raise
        program.title = Title("region", "1.0.0")
        digest = hashlib.sha256(module.text().encode()).hexdigest()
        program.source = {"kind": "stablehlo", "file": self.name, "sha256": digest}
        made = compile_program(program, self._target, self._threads)
        entry, call = made.model.entry("main"), made.caller("main")

        def run(given: Values) -> Values:
            arrays = [x for n, x in given.items() if n not in self.main.sizes]
            leaves = [part for each in arrays for part in _parts(each)]
            found = entry.build(call(leaves))
            results = [found] if len(piece.outputs) == 1 else found
            return {
                n: _join_complex(x) for n, x in zip(piece.outputs, results, strict=True)
            }

        return run

    def load_island(self, piece: Piece[int], given: Values) -> Code[int, np.ndarray]:
        """Compile an island by XLA for inputs of these shapes; return a function of
        them.

        Raises:
            InputError: `framework-cannot-load`.
            SetupError: jax is not installed.
        """
        mlir, _ = self._excerpt(piece, given)
        text = str(mlir.operation.get_asm(print_generic_op_form=True))
        computed = xla.load(text, self.name, self._module.callbacks)

        def run(given: Values) -> Values:
            arrays = [x for n, x in given.items() if n not in self.main.sizes]
            return dict(zip(piece.outputs, computed(arrays), strict=True))

        return run

    def _node_of(self, copy: ir.Value | None, copies: Copies) -> int | None:
        """Return the number of the node whose result `copy` is a copy of; None if
        unknown.
        """
        if copy is None:
            return None
        found = (value for value, each in copies.items() if each == copy)
        return next((self.main.maker(value) for value in found), None)

    def nodes_at_fault(self, piece: Piece[int]) -> Sequence[int]:
        """Return and forget the op at which a region's trace failed; all nodes if
        unknown.
        """
        fault, self._fault = self._fault, None
        return piece.nodes if fault is None else [fault]

    def _excerpt(self, piece: Piece[int], given: Values) -> tuple[ir.Module, Copies]:
        """Return the ops of a piece as a module for inputs of these shapes, and a map
        of values to their copies in it.
        """
        main = self.main
        with self._module.mlir.context, ir.Location.unknown():
            arguments = {
                main.values[n]: _attribute(array, main.values[n].type)
                if n in main.sizes
                else self._type(array, main.values[n].type)
                for n, array in given.items()
            }
        return excerpt(
            self._module.mlir,
            [main.operations[number] for number in piece.nodes],
            arguments,
            [main.values[number] for number in piece.outputs],
            main.should_copy,
        )

    def _type(self, array: np.ndarray, declared: ir.Type) -> ir.Type:
        """Return a tensor type with an array's sizes and the declared element type."""
        if not isinstance(declared, ir.RankedTensorType):
            raise InputError(
                "unsupported-ops",
                f"'{self.name}' hands {declared} to an island or from one; expected "
                "tensors",
            )
        return ir.RankedTensorType.get(array.shape, declared.element_type)


class _Region(StableHloModule):
    """A StableHLO module of ops that have importers; records the op at which a trace
    fails.

    Attributes:
        failed: a result of the op of `main` at which a trace ended.
    """

    def __init__(self, mlir: ir.Module, name: str) -> None:
        self.mlir, self.name, self.main = mlir, name, "main"
        self.literals = large_literals(mlir)
        self.failed: ir.Value | None = None

    def interpreter(self, weights: Mapping[ir.Value, Value]) -> StableHloInterpreter:
        """Return an interpreter of the module that records the op at which it fails."""
        return _Watching(self, weights)


class _Watching(StableHloInterpreter):
    """A StableHLO interpreter that records in its region the op at which it fails."""

    def __init__(self, region: _Region, weights: Mapping[ir.Value, Value]) -> None:
        super().__init__(region.mlir, weights)
        self._watched = region

    def _results(
        self, op: ir.Operation, operands: list[Value], values: Environment
    ) -> list[Value]:
        """Return an op's imported results; record the op in the region if that
        raises.
        """
        try:
            return super()._results(op, operands, values)
        except AotcError:
            if len(op.results):  # the outermost op comes last
                self._watched.failed = op.results[0]
            raise


# ---- arrays at boundaries -----------------------------------------------------------


def _as_array(value: Value) -> np.ndarray:
    """Return a concrete value of the importer as a NumPy array."""
    if isinstance(value, KnownTensor):
        return np.array(value.data.tolist(), dtypes.to_numpy(value.dtype))
    if isinstance(value, Complex):
        return _complex_array(*(np.asarray(part._data) for part in value))
    assert not isinstance(value, Token)
    return np.asarray(value._data)


def _join_complex(value: PyTree) -> np.ndarray:
    """Return a (real, imaginary) pair as one complex array; an array unchanged."""
    if isinstance(value, np.ndarray):
        return value
    parts = [np.asarray(part) for part in flatten(value)[0]]
    if len(parts) == 1:
        return parts[0]
    return _complex_array(*parts)


def _complex_array(real: np.ndarray, imaginary: np.ndarray) -> np.ndarray:
    """Return a complex array of real and imaginary parts."""
    found = np.empty(real.shape, np.result_type(real.dtype, np.complex64))
    found.real, found.imag = real, imaginary
    return found


def _parts(array: np.ndarray) -> Iterator[Any]:
    """Yield an array's real and imaginary parts if it is complex, else the array."""
    if np.iscomplexobj(array):
        yield from (np.ascontiguousarray(array.real), np.ascontiguousarray(array.imag))
    else:
        yield array


def _with_pairs(tree: PyTree) -> PyTree:
    """Return a pytree whose complex arrays are (real, imaginary) pairs."""
    leaves, form = flatten(tree)
    return form.unflatten([_pair(leaf) for leaf in leaves])


def _pair(leaf: Any) -> object:
    """Return a complex array as a (real, imaginary) pair; other leaves as arrays or
    unchanged.
    """
    array = np.asarray(leaf) if hasattr(leaf, "dtype") else leaf
    return Complex(*_parts(array)) if np.iscomplexobj(array) else array


def _zeros(spec: Spec) -> np.ndarray:
    """Return a NumPy array of zeros for a Spec whose sizes are all known."""
    shape = [size for size in spec.shape if isinstance(size, int)]
    return np.zeros(shape, dtypes.to_numpy(spec.dtype))


def _attribute(array: np.ndarray, declared: ir.Type) -> ir.Attribute:
    """Return integers or bools as a dense attribute of MLIR."""
    text = f"dense<{json.dumps(array.tolist())}> : {declared}"
    literal: ir.Attribute = ir.Attribute.parse(text)
    return literal


# ---- from ---------------------------------------------------------------------------


def hybrid_stablehlo(
    source: str | bytes | Path,
    specs: Mapping[str, Spec] | None,
    target: str | None,
    threads: int | None,
    limits: Limits = LIMITS,
) -> HybridNetwork:
    """Return a StableHLO module split into regions and islands; see
    `aotc.from_stablehlo`.
    """

    def read(kind: ModuleReader) -> Imported:
        return from_stablehlo(source, specs, kind)

    return _hybrid(read, target, threads, limits)


def hybrid_jax(
    function: Callable[..., object],
    specs: PyTree,
    target: str | None,
    threads: int | None,
    limits: Limits = LIMITS,
) -> HybridNetwork:
    """Return a function of JAX split into regions and islands; see `aotc.from_jax`."""
    bound, left = _without_weights(function, specs)

    def read(kind: ModuleReader) -> Imported:
        return from_jax(bound, left, kind)

    return _hybrid(read, target, threads, limits)


def _hybrid(
    read: Callable[[ModuleReader], Imported],
    target: str | None,
    threads: int | None,
    limits: Limits,
) -> HybridNetwork:
    """Return the split network of a module that `read` parses; require JAX if it has
    islands.
    """
    modules = list[SplitModule]()

    def keep(data: bytes | str, name: str) -> SplitModule:
        modules.append(SplitModule(data, name))
        return modules[-1]

    network = read(keep)
    own = Target.named(target or "native")[0]
    made = HybridNetwork(network, modules[0], own, threads, limits)
    if made.boundaries:
        require_jax()
    return made


def _without_weights(
    function: Callable[..., object], specs: PyTree
) -> tuple[Callable[..., object], PyTree]:
    """Return a function and specs without the Weights, which are bound to the
    function.
    """
    jax = require_jax()
    arguments = named_arguments(function, specs)
    if any(isinstance(each, State) for each in arguments.values()):
        raise InputError(
            "bad-option",
            "expected no State with breaks='island'",
            hint="give its Specs: a call takes the state, and returns the new one",
        )
    sizes = SymbolicSizes(())
    stored = {n: x for n, x in arguments.items() if isinstance(x, Weights)}
    for each in stored.values():
        sizes.abstract(each)  # refuses dtypes that JAX takes for others
    if not stored:
        return function, specs
    left = {n: x for n, x in arguments.items() if n not in stored}

    def bound(*args: object, **kwargs: object) -> object:
        held = {n: jax.tree.map(jax.numpy.asarray, x.tree) for n, x in stored.items()}
        named = {**held, **dict(zip(left, args, strict=False)), **kwargs}
        if isinstance(specs, Mapping):
            return function(**named)
        return function(*(named[name] for name in arguments))

    bound.__name__ = title_of(function)
    bound.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in left]
    )
    return bound, left if isinstance(specs, Mapping) else tuple(left.values())
