"""A StableHLO module as an `Imported`: its inputs, weights and function."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from aotc.complexes import Complex
from aotc.core.pytree import PyTree
from aotc.errors import InputError
from aotc.importers.common.declared import require_declared_shapes
from aotc.importers.common.imported import Imported
from aotc.importers.common.original import Original
from aotc.importers.stablehlo.contracts import open_sizes
from aotc.importers.stablehlo.interpreter import (
    StableHloInterpreter,
    functions_of,
    nested_operations,
)
from aotc.importers.stablehlo.operation import Op
from aotc.importers.stablehlo.ops.shapes import literal
from aotc.importers.stablehlo.original import of_module
from aotc.importers.stablehlo.reading import main_function, parse
from aotc.importers.stablehlo.unsupported import unsupported_ops
from aotc.importers.stablehlo.values import Token, Value, kind_of, materialize
from aotc.mlir import ir
from aotc.tracing.conversion import lift
from aotc.tracing.dims import DimTerm
from aotc.tracing.entry import Spec, State, Weights
from aotc.tracing.survey import require_importable
from aotc.tracing.user_errors import translate_user_errors

SMALLEST_WEIGHT = 1024  # elements; smaller literals stay constants in the code
CONSTANTS = "constants"


@dataclass(frozen=True, eq=False)
class ImportedFunction(Imported):
    """An imported function whose exporter said more about it.

    Args:
        donated: inputs whose memory results may take over: what aotc does for an
            argument that is given as a State.
    """

    donated: tuple[str, ...] = ()


class StableHloModule:
    """A module that was read, checked and found supported.

    Args:
        data: its contents.
        name: what messages call it.
    """

    # functions of Python that it calls, in its own process; by their numbers in it
    callbacks: Sequence[Callable[..., object]] = ()

    def __init__(self, data: bytes | str, name: str) -> None:
        self.mlir = parse(data, name)
        self.name = name
        self.main = main_function(self.mlir, name)
        with translate_user_errors():
            require_importable(unsupported_ops(self.mlir, self.main))
        self.literals = large_literals(self.mlir)

    @property
    def arguments(self) -> list[ir.Value]:
        """The arguments of the main function."""
        function = functions_of(self.mlir)[self.main]
        return list(function.regions[0].blocks[0].arguments)

    def specs(self) -> list[Spec | Complex]:
        """Return the types of the arguments, with the facts on open sizes."""
        sizes = open_sizes(self.mlir, self.main)
        return [
            _spec(argument.type, number, sizes)
            for number, argument in enumerate(self.arguments)
        ]

    @property
    def weights(self) -> dict[str, numpy.ndarray]:
        """Large literals by name."""
        return {name: literal(op) for name, op in self.literals.items()}

    def text(self) -> str:
        """The module in generic form."""
        return str(self.mlir.operation.get_asm(print_generic_op_form=True))

    def call(
        self, operands: Sequence[Value], weights: Mapping[str, numpy.ndarray]
    ) -> list[Value]:
        """Return main's results."""
        known: dict[ir.Value, Value] = {
            self.literals[name].op.results[0]: lift(array)
            for name, array in weights.items()
        }
        kinds = [kind_of(argument.type) for argument in self.arguments]
        pairs = [
            (kind.shape, x.shape)
            for kind, x in zip(kinds, operands, strict=True)
            if kind is not None and not isinstance(x, Token)
        ]
        with require_declared_shapes(pairs):
            results = self.interpreter(known).call(self.main, operands)
        return [materialize(r) for r in results if not isinstance(r, Token)]

    def interpreter(self, weights: Mapping[ir.Value, Value]) -> StableHloInterpreter:
        """Return the interpreter of the module, with weights in the place of
        constants.
        """
        return StableHloInterpreter(self.mlir, weights)

    def flags(self, *names: str) -> list[bool]:
        """Return, for each argument, whether it has one of these attributes."""
        attributes = functions_of(self.mlir)[self.main].attributes
        if "arg_attrs" not in attributes:
            return [False] * len(self.arguments)
        rows = map(ir.DictAttr, ir.ArrayAttr(attributes["arg_attrs"]))
        return [any(name in row for name in names) for row in rows]

    @property
    def donated_arguments(self) -> list[bool]:
        """Flags of the arguments whose memory the results may take."""
        return self.flags("tf.aliasing_output", "jax.buffer_donor")


def large_literals(module: ir.Module) -> dict[str, Op]:
    """The constants that become weights."""
    found: dict[str, Op] = {}
    for function in functions_of(module).values():
        for operation in nested_operations(function):
            if operation.name == "stablehlo.constant" and _is_large(Op(operation)):
                found[f"constant_{len(found)}"] = Op(operation)
    return found


def _is_large(op: Op) -> bool:
    kind = op.kind
    count = 1
    for size in kind.shape:
        count *= size or 0
    if kind.is_complex or count < SMALLEST_WEIGHT:
        return False
    return not ir.DenseElementsAttr(op.attribute("value")).is_splat


# makes a module of its contents and its name
ModuleReader = Callable[[bytes | str, str], StableHloModule]


def from_module(
    module: StableHloModule, given: Mapping[str, Spec] | None = None
) -> Imported:
    """The main function of a module, with flat inputs and results.

    Args:
        module: which computes it.
        given: what is known better than the module says, by names of inputs.
    """
    names = _argument_names(module.arguments)
    specs = dict(zip(names, module.specs(), strict=True))
    for key, spec in (given or {}).items():
        specs[key] = _refine_spec(key, specs.get(key), spec)
    donated = [
        n for n, given in zip(names, module.donated_arguments, strict=True) if given
    ]

    def function(
        operands: Sequence[object], constants: Mapping[str, numpy.ndarray]
    ) -> PyTree:
        results = module.call([value_of(x) for x in operands], constants)
        return results[0] if len(results) == 1 else tuple(results)

    return network_of(
        module, function, specs, donated=donated, original=of_module(module.text)
    )


def _spec(
    mlir_type: ir.Type, number: int, sizes: Mapping[tuple[int, int], DimTerm]
) -> Spec | Complex:
    """Return a Spec; for complex numbers a pair."""
    kind = kind_of(mlir_type)
    if kind is None:
        raise InputError(
            "bad-entry",
            f"argument {number} of the module is {mlir_type}; expected a tensor of "
            "known rank",
        )
    shape = [
        sizes[number, axis] if size is None else size
        for axis, size in enumerate(kind.shape)
    ]
    spec = Spec(tuple(shape), kind.dtype)
    return Complex(spec, spec) if kind.is_complex else spec  # type: ignore[arg-type]


def _refine_spec(name: str, known: object, given: Spec) -> Spec:
    """Return the given Spec, if it fits the module's own."""
    fits = (
        isinstance(known, Spec)
        and (known.dtype, len(known.shape)) == (given.dtype, len(given.shape))
        and all(
            isinstance(size, DimTerm) or size == other
            for size, other in zip(known.shape, given.shape, strict=True)
        )
    )
    if not fits:
        raise InputError(
            "bad-spec", f"the module takes {known} as '{name}'; got {given}"
        )
    return given


def _argument_names(arguments: Sequence[ir.Value]) -> list[str]:
    """The names in the debug information, where they are names, else `arg0`, …."""
    found = [_name_of(argument) for argument in arguments]
    distinct = len(set(found)) == len(found) and all(found)
    return found if distinct else [f"arg{n}" for n in range(len(arguments))]


def _name_of(argument: ir.Value) -> str:
    location = getattr(argument, "location", None)
    text = location.name_str if isinstance(location, ir.NameLoc) else ""
    name = re.sub(r"\W+", "_", text).strip("_")
    return name if name.isidentifier() else ""


def value_of(leaf: object) -> Value:
    """Return the value of a leaf of the inputs: an array, or a pair of them."""
    if isinstance(leaf, Complex):
        return Complex(lift(leaf.real), lift(leaf.imag))
    return lift(leaf)


def network_of(
    module: StableHloModule,
    function: Callable[[Sequence[Any], Mapping[str, numpy.ndarray]], PyTree],
    inputs: Mapping[str, PyTree],
    *,
    weights: Weights | None = None,
    state: State | None = None,
    donated: Sequence[str] = (),
    original: Original | None = None,
) -> ImportedFunction:
    """The network of a module.

    Args:
        module: what it computes with.
        function: of the weights (if any), the state (if any) and the inputs, in a list,
            and the module's large literals.
        inputs: their Specs by name.
        weights: what the user gave as such; the literals are stored beside it.
        state: what the user gave as such.
        donated: names of inputs.
        original: how JAX computes it.
    """
    constants = module.weights
    stored = _with_constants(weights, constants)

    def run(*values: Any) -> PyTree:
        if not constants:
            return function(values, {})
        first, *rest = values
        if weights is None:
            return function(rest, first)
        return function([first["weights"], *rest], first[CONSTANTS])

    literals = frozenset({CONSTANTS} if constants and weights is not None else ())
    return ImportedFunction(
        run,
        dict(inputs),
        stored,
        state,
        original=original,
        buffers_in=literals,
        donated=tuple(donated),
    )


def _with_constants(
    weights: Weights | None, constants: Mapping[str, numpy.ndarray]
) -> Weights | None:
    """Join weights and literals in one tree."""
    if not constants:
        return weights
    if weights is None:
        return Weights(dict(constants), copy=False)
    return Weights({"weights": weights.tree, CONSTANTS: dict(constants)}, copy=False)
