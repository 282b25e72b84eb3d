"""Write the bodies of declared derivatives: reverse-mode differentiation.

    func private @f.vjp(%x, %dy) -> (…) attributes {graph.vjp = {of = @f, wrt = [0]}}
    →
    func private @f.vjp(%x, %dy) {
      %y = graph.exp(%x)                 // the forward ops of @f
      %dx = graph.multiply(%y, %dy)      // their vjp rules, in reverse
      return %y, %dx
    }

Requires: nothing. Ensures: no function is a mere declaration. The pass knows no op:
each gives its own `vjp` rule. Cotangents of a value with several uses are added up;
values that do not depend on an input in `wrt` are left alone. (Reverse accumulation:
Linnainmaa 1970; Griewank and Walther, Evaluating Derivatives, 2008, chapter 3.)
"""

from collections.abc import Sequence
from typing import Any

from aotc import dtypes
from aotc.dialects.builder import Builder
from aotc.dialects.graph import Reason, where_of
from aotc.dialects.transform import VjpOf, mark_defined, vjp_of
from aotc.dialects.types import Tensor
from aotc.errors import CompileError
from aotc.mlir import func, ir
from aotc.passes.inline import clone_body, functions_of, inline_calls


def run(module: Any) -> bool:
    """Define every declared derivative of the module."""
    functions = functions_of(module)
    declared = [name for name, f in functions.items() if vjp_of(f) is not None]
    for name in declared:
        _define(functions[name], functions)
    return bool(declared)


def _define(function: Any, functions: dict[str, Any]) -> None:
    of = vjp_of(function)
    if of is None:
        return
    primal = functions[of.function]
    _flatten(primal, functions)
    block = function.add_entry_block()
    count = len(primal.entry_block.arguments)
    inputs, cotangents = list(block.arguments)[:count], list(block.arguments)[count:]
    with ir.InsertionPoint(block), function.location:
        outputs = clone_body(primal.entry_block, inputs)
        gradients = _Reverse(block, inputs, of).run(outputs, cotangents)
        func.ReturnOp([*outputs, *gradients])
    if "graph.symbols" in primal.attributes:
        function.attributes["graph.symbols"] = primal.attributes["graph.symbols"]
    mark_defined(function)


def _flatten(function: Any, functions: dict[str, Any]) -> None:
    """Make `function` free of calls; derivatives that it calls are defined first."""
    for op in list(function.entry_block.operations):
        if isinstance(op, func.CallOp):
            _define(functions[ir.FlatSymbolRefAttr(op.callee).value], functions)
    inline_calls(function, functions)


class _Reverse:
    """The reverse sweep over a block that holds the forward ops."""

    def __init__(self, block: Any, inputs: Sequence[Any], of: VjpOf) -> None:
        self.build = Builder()
        self.inputs = inputs
        self.wrt = of.wrt
        self.forward = list(block.operations)
        self.cotangents: dict[Any, Any] = {}
        self.active = self._dependents([inputs[index] for index in of.wrt])

    def run(self, outputs: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        """The cotangents of the inputs in `wrt`."""
        floats = [value for value in outputs if _is_float(value)]
        for value, cotangent in zip(floats, cotangents, strict=True):
            self._accumulate(value, cotangent)
        for op in reversed(self.forward):
            known = [self.cotangents.get(value) for value in op.results]
            if any(dy is not None for dy in known):
                with op.location:
                    self._propagate(op, known)
        return [self._gradient(self.inputs[index]) for index in self.wrt]

    def _dependents(self, roots: Sequence[Any]) -> set[Any]:
        """The float values that depend on `roots` through float values."""
        active = set(roots)
        for op in self.forward:
            if any(value in active for value in op.operands):
                active.update(value for value in op.results if _is_float(value))
        return active

    def _propagate(self, op: Any, known: Sequence[Any]) -> None:
        rule = type(op).vjp
        if isinstance(rule, Reason):
            raise CompileError(
                rule.kind,
                f"graph.{type(op)._op_name} cannot be differentiated: {rule.text}",
                where=where_of(op),
            )
        dys = [
            self.build.full_like(value, 0.0) if dy is None and _is_float(value) else dy
            for value, dy in zip(op.results, known, strict=True)
        ]
        cotangents = rule(self.build, op, *dys)
        for operand, cotangent in zip(op.operands, cotangents, strict=True):
            if cotangent is not None:
                self._accumulate(operand, cotangent)

    def _accumulate(self, value: Any, cotangent: Any) -> None:
        if value not in self.active:
            return
        known = self.cotangents.get(value)
        self.cotangents[value] = (
            cotangent if known is None else self.build.add(known, cotangent)
        )

    def _gradient(self, value: Any) -> Any:
        known = self.cotangents.get(value)
        return self.build.full(Tensor.of(value), 0.0) if known is None else known


def _is_float(value: Any) -> bool:
    return dtypes.is_float(Tensor.of(value).dtype)
