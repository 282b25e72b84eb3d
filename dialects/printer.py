"""Graph modules in a form for people, beside MLIR's generic one.

    func predict(x: f32[batch, 4], %arg1: f32[4]) -> f32[batch]   where batch >= 1
      %0 = exp(x) : f32[batch, 4]   # model.py:12
      %1 = dot_general(%0, %arg1) {lhs_contract=(1,), rhs_contract=(0,)} : f32[batch]
      return %1

It cannot be read back. Arguments are called by their attribute `graph.name` where they
have one, symbolic sizes by the function's `graph.symbols`.
"""

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from aotc.dialects.calls.callees import declaration_of
from aotc.dialects.graph import GraphOp
from aotc.dialects.sizes.contracts import Contract
from aotc.dialects.sizes.symbols import contracts_of, known_contracts
from aotc.dialects.types import Tensor
from aotc.mlir import Function, Module, Operation, Value, func, ir, source_of

# Constants beyond this many elements are shown by their ends.
_SHOWN = 6


def format_module(
    module: Module, note_of: Callable[[Function], str] = lambda function: ""
) -> str:
    """Return the readable text of all functions of a graph module, in order.

    Args:
        module: of the graph dialect.
        note_of: what is to be told of a function behind it, in lines; "" for nothing.
    """
    with module.context:
        return "\n".join(
            format_function(op) + "".join(f"# {x}\n" for x in note_of(op).splitlines())
            for op in module.body.operations
            if isinstance(op, func.FuncOp)
        )


def format_function(function: Function) -> str:
    """Return the readable text of a function: signature, contracts and ops."""
    contracts = contracts_of(function)
    with known_contracts(contracts):
        head = _signature(function) + _contracts(contracts)
        if function.is_external:
            return f"{head}{_declaration(function)}\n"
        names = _ValueNames(function)
        ops = function.entry_block.operations
        lines = [f"  {_operation(op, names)}{_place(op)}" for op in ops]
        return "\n".join([head, *lines, ""])


class _ValueNames(dict[Any, str]):
    """Printed names of values: arguments by name, results by number."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        arguments = function.entry_block.arguments
        self.update(zip(arguments, _argument_names(function), strict=True))
        self._count = 0

    def of(self, value: Value) -> str:
        """Return the name of a value, which gets a new number if it has none."""
        if value not in self:
            self[value] = f"%{self._count}"
            self._count += 1
        return self[value]


# ---- signatures ---------------------------------------------------------------------


def _signature(function: Function) -> str:
    """Return the text of a function's name, argument types and result types."""
    kind = function.type
    pairs = zip(_argument_names(function), kind.inputs, strict=True)
    arguments = ", ".join(f"{name}: {Tensor.of(t)}" for name, t in pairs)
    results = ", ".join(str(Tensor.of(t)) for t in kind.results)
    if len(kind.results) != 1:
        results = f"({results})"
    name = ir.StringAttr(function.attributes["sym_name"]).value
    return f"func {name}({arguments}) -> {results}"


def _declaration(function: Function) -> str:
    """Return the text of what a function without a body is declared as."""
    declared: Any = declaration_of(function)
    if declared is None:
        return ""
    facts = {f.name: getattr(declared, f.name) for f in fields(declared)}
    more = [f"{k}={value}" for k, value in facts.items() if k not in _NAMING]
    return f" = {declared.kind}({', '.join([*declared.functions, *more])})"


_NAMING = ("functions", "of")  # fields that name functions


def _argument_names(function: Function) -> list[str]:
    """Return the names of a function's arguments, `%arg…` for those without."""
    count = len(function.type.inputs)
    names = [f"%arg{number}" for number in range(count)]
    if "arg_attrs" not in function.attributes:
        return names
    for number, attributes in enumerate(ir.ArrayAttr(function.attributes["arg_attrs"])):
        given = ir.DictAttr(attributes)
        if "graph.name" in given:
            names[number] = str(ir.StringAttr(given["graph.name"]).value)
    return names


def _contracts(contracts: Sequence[Contract]) -> str:
    """Return the text `where …` with the contracts of sizes."""
    return f"   where {', '.join(map(str, contracts))}" if contracts else ""


# ---- operations ---------------------------------------------------------------------


def _operation(op: Operation, names: _ValueNames) -> str:
    """Return the text of an op without its source line."""
    operands = ", ".join(names.of(value) for value in op.operands)
    if isinstance(op, func.ReturnOp):
        return f"return {operands}".rstrip()
    results = ", ".join(names.of(value) for value in op.results)
    types = ", ".join(str(Tensor.of(value)) for value in op.results)
    if isinstance(op, func.CallOp):
        callee = ir.FlatSymbolRefAttr(op.callee).value
        return f"{results} = call {callee}({operands}) : {types}"
    if not isinstance(op, GraphOp):
        return str(op)
    name = type(op)._op_name
    return f"{results} = {name}({operands}){_attributes(op)} : {types}"


def _attributes(op: GraphOp) -> str:
    """Return the text of an op's attributes, without empty ones."""
    values = type(op).attributes_of(op)
    parts = [
        f"{name}={value_text(value)}"
        for name, value in values.items()
        if not (isinstance(value, (tuple, str)) and not value)
    ]
    return f" {{{', '.join(parts)}}}" if parts else ""


def value_text(value: object) -> str:
    """Return an attribute's Python value as printed."""
    if isinstance(value, np.ndarray):
        return _array(value)
    if isinstance(value, tuple):
        inner = ", ".join(map(str, value))
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    return str(value)


def _array(array: np.ndarray) -> str:
    """Return the text of an array; of a long one, its ends."""
    flat = array.ravel().tolist()
    if not array.ndim:
        return str(flat[0])
    if len(flat) <= _SHOWN:
        return str(array.tolist())
    half = _SHOWN // 2
    ends = [*map(str, flat[:half]), "…", *map(str, flat[-half:])]
    return f"[{', '.join(ends)}]"


def _place(op: Operation) -> str:
    """Return a comment with an op's source line; "" without one."""
    where = source_of(op.location)
    return f"   # {where}" if where and not isinstance(op, func.ReturnOp) else ""
