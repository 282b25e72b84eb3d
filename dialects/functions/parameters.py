"""Parameters of a program: weights and initial states, as symbols of its module.

    ml_program.global private @"model::dense.w"(#ml_program.extern : tensor<4x2xf32>)
      : tensor<4x2xf32> {graph.kind = "weight"}

The bytes lie in an archive, under the name behind `model::`.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from aotc.dialects.functions.function_table import table_of
from aotc.dialects.plain import plain_of
from aotc.dialects.types import Tensor
from aotc.mlir import Module, Operation, ir

SCOPE = "model"  # of the symbols, and of the archive's keys
_OP = "ml_program.global"


@dataclass(frozen=True)
class Parameter:
    """A weight, or a leaf of a state: dotted name, type, and `weight` or `state`."""

    name: str
    type: Tensor
    kind: str


def parameters_of(module: Module) -> list[Parameter]:
    """Return the parameters that a module declares, in order."""
    return [
        Parameter(
            plain_of(op.attributes["sym_name"]).removeprefix(f"{SCOPE}::"),
            Tensor.of(ir.TypeAttr(op.attributes["type"]).value),
            plain_of(op.attributes["graph.kind"]),
        )
        for op in parameter_ops(module)
    ]


def declare_parameter(module: Module, parameter: Parameter) -> None:
    """Add a global for a parameter to the module, before the functions."""
    with module.context, ir.Location.unknown():
        kind = parameter.type.to_mlir()
        facts = {
            "sym_name": ir.StringAttr.get(f"{SCOPE}::{parameter.name}"),
            "sym_visibility": ir.StringAttr.get("private"),
            "type": ir.TypeAttr.get(kind),
            "value": ir.Attribute.parse(f"#ml_program.extern : {kind}"),
            "graph.kind": ir.StringAttr.get(parameter.kind),
        }
        if parameter.kind == "state":
            facts["is_mutable"] = ir.UnitAttr.get()
        first = next(iter(table_of(module).values()), None)
        place = ir.InsertionPoint(first or module.body)
        ir.Operation.create(_OP, attributes=facts, ip=place)


def rename_parameters(module: Module, names: Mapping[str, str]) -> None:
    """Rename parameters' globals in the module, by a mapping from old to new names."""
    for parameter, op in zip(parameters_of(module), parameter_ops(module), strict=True):
        if parameter.name in names:
            symbol = f"{SCOPE}::{names[parameter.name]}"
            op.attributes["sym_name"] = ir.StringAttr.get(symbol)


def drop_parameters(module: Module, names: Collection[str]) -> None:
    """Erase the globals of some parameters from the module."""
    for parameter, op in zip(parameters_of(module), parameter_ops(module), strict=True):
        if parameter.name in names:
            op.operation.erase()


def parameter_ops(module: Module) -> list[Operation]:
    """Return the global ops of the parameters, in order."""
    return [op for op in module.body.operations if op.operation.name == _OP]
