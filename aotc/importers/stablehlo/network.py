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
    """A network imported from a function whose exporter states donated arguments.

    Args:
        donated: inputs whose memory results may take over: what aotc does for an
            argument that is given as a State.
    """

    donated: tuple[str, ...] = ()


class StableHloModule:
    """A StableHLO module that was parsed, and all of whose ops can be imported.

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
        """Block arguments of the main function."""
        function = functions_of(self.mlir)[self.main]
        return list(function.regions[0].blocks[0].arguments)

    def specs(self) -> list[Spec | Complex]:
        """Return a Spec for each argument, with the contracts of dynamic sizes."""
        sizes = open_sizes(self.mlir, self.main)
        return [
            _spec(argument.type, number, sizes)
            for number, argument in enumerate(self.arguments)
        ]

    @property
    def weights(self) -> dict[str, numpy.ndarray]:
        """Arrays of the large constants, by name."""
        return {name: literal(op) for name, op in self.literals.items()}

    def text(self) -> str:
        """Return the MLIR module as text in generic form."""
        return str(self.mlir.operation.get_asm(print_generic_op_form=True))

    def call(
        self, operands: Sequence[Value], weights: Mapping[str, numpy.ndarray]
    ) -> list[Value]:
        """Run the main function on operands and weights; return its results."""
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
        """Return an interpreter of the module; `weights` replace the results of
        constants.
        """
        return StableHloInterpreter(self.mlir, weights)

    def flags(self, *names: str) -> list[bool]:
        """Return, for each argument, whether it has one of these MLIR attributes."""
        attributes = functions_of(self.mlir)[self.main].attributes
        if "arg_attrs" not in attributes:
            return [False] * len(self.arguments)
        rows = map(ir.DictAttr, ir.ArrayAttr(attributes["arg_attrs"]))
        return [any(name in row for name in names) for row in rows]

    @property
    def donated_arguments(self) -> list[bool]:
        """Flags of the arguments that are donated, so that results may reuse their
        memory.
        """
        return self.flags("tf.aliasing_output", "jax.buffer_donor")


def large_literals(module: ir.Module) -> dict[str, Op]:
    """Return the large constants of a module, which become weights, by name."""
    found: dict[str, Op] = {}
    for function in functions_of(module).values():
        for operation in nested_operations(function):
            if operation.name == "stablehlo.constant" and _is_large(Op(operation)):
                found[f"constant_{len(found)}"] = Op(operation)
    return found


def _is_large(op: Op) -> bool:
    """Return whether a constant is large enough to become a weight."""
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
    """Return the network of a module's main function, with flat inputs and results.

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
    """Return the Spec of an argument's type; a pair of Specs for complex numbers."""
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


def _refine_spec(name: str, of_module: object, of_user: Spec) -> Spec:
    """Return the user's Spec for an input; refuse one that contradicts the module."""
    fits = (
        isinstance(of_module, Spec)
        and (of_module.dtype, len(of_module.shape))
        == (of_user.dtype, len(of_user.shape))
        and all(
            isinstance(size, DimTerm) or size == other
            for size, other in zip(of_module.shape, of_user.shape, strict=True)
        )
    )
    if not fits:
        raise InputError(
            "bad-spec", f"the module takes {of_module} as '{name}'; got {of_user}"
        )
    return of_user


def _argument_names(arguments: Sequence[ir.Value]) -> list[str]:
    """Return argument names from debug info if distinct, else `arg0`, …."""
    found = [_name_of(argument) for argument in arguments]
    distinct = len(set(found)) == len(found) and all(found)
    return found if distinct else [f"arg{n}" for n in range(len(arguments))]


def _name_of(argument: ir.Value) -> str:
    """Return an argument's name in the debug info as an identifier, or ""."""
    location = getattr(argument, "location", None)
    text = location.name_str if isinstance(location, ir.NameLoc) else ""
    name = re.sub(r"\W+", "_", text).strip("_")
    return name if name.isidentifier() else ""


def value_of(leaf: object) -> Value:
    """Return an input's leaf as a value: an array, or a complex pair of arrays."""
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
    """Return the network that calls a module, given its inputs, weights and state.

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
    """Return Weights of the user's tree and the module's large constants."""
    if not constants:
        return weights
    if weights is None:
        return Weights(dict(constants), copy=False)
    return Weights({"weights": weights.tree, CONSTANTS: dict(constants)}, copy=False)
