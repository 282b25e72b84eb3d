"""`Switch`: one of several functions, by an index."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from aotc.dialects.builder import Builder
from aotc.dialects.control.parts import (
    Arrays,
    ControlFlow,
    Inliner,
    Reads,
    Restrict,
    Run,
    Types,
    active,
    indices_of_true,
    invoke,
    require_same,
    select_each,
)
from aotc.dialects.functions.functions import Values, call, types_of
from aotc.dialects.functions.transform import Batch, Jvp, Vjp, derive
from aotc.dialects.graph import Tangent
from aotc.dialects.lowering import Lowering
from aotc.dialects.types import Size, Tensor
from aotc.mlir import Value, arith, func, ir, scf


@dataclass(frozen=True)
class Switch(ControlFlow):
    """A call of the function that an index selects; out of range, of the first or last.

    Takes an i32 scalar, then what every branch takes; returns what they return.
    """

    kind: ClassVar[str] = "switch"

    def signature(self, parts: Sequence[tuple[Types, Types]]) -> tuple[Types, Types]:
        """Return the types of operands and results, given those of the branches."""
        inputs, outputs = parts[0]
        for number, part in enumerate(parts[1:], 1):
            require_same(f"branch {number} takes", inputs, part[0])
            require_same(f"branch {number} returns", outputs, part[1])
        return [Tensor((), "i32"), *inputs], outputs

    def evaluate(self, run: Run, arrays: Arrays, *_: object) -> Arrays:
        """Return the results of the selected branch on NumPy arrays."""
        index = min(max(int(arrays[0]), 0), len(self.functions) - 1)
        return run(self.functions[index], arrays[1:])

    def jvp(self, b: Builder, op: func.CallOp, tangents: Sequence[Tangent]) -> Values:
        """Emit a switch over the JVPs of the branches; return the tangents."""
        wrt, given = active(tangents[1:])
        branches = [derive(Jvp(name, wrt)) for name in self.functions]
        results = invoke(Switch(tuple(branches)), [*op.operands, *given])
        return results[len(op.results) :]

    def vjp(
        self, b: Builder, op: func.CallOp, dys: Sequence[Tangent], wanted: Sequence[int]
    ) -> Values:
        """Emit a switch over the VJPs of the branches; return the cotangents."""
        wrt = tuple(index - 1 for index in wanted)
        branches = tuple(derive(Vjp(name, wrt)) for name in self.functions)
        given = [dy for dy in dys if dy is not None]
        results = invoke(Switch(branches), [*op.operands, *given])
        return results[len(op.results) :]

    def batch(
        self,
        b: Builder,
        op: func.CallOp,
        operands: Values,
        batched: Sequence[bool],
        size: Size,
    ) -> Values:
        """Emit a switch of batched branches; for a batched index run all and select."""
        index, *rest = operands
        wrt = indices_of_true(batched[1:])
        branches = tuple(derive(Batch(name, wrt, size)) for name in self.functions)
        if not batched[0]:
            return invoke(Switch(branches), operands)
        chosen = call(branches[0], rest)
        for number, branch in enumerate(branches[1:], 1):
            reached = b.compare(index, b.full_like(index, number), direction="ge")
            chosen = select_each(b, reached, call(branch, rest), chosen)
        return chosen

    def needs(self, wanted: set[int], reads: Reads) -> tuple[set[int], set[int]]:
        """Return indices of operands and results to keep for the results `wanted`."""
        read = set[int]().union(*(reads(name, wanted) for name in self.functions))
        return {0} | {i + 1 for i in read}, wanted

    def keep_only(
        self, operands: list[int], results: list[int], restrict: Restrict
    ) -> "Switch":
        """Return the switch restricted to these indices of operands and results."""
        inputs = [i - 1 for i in operands[1:]]
        return Switch(tuple(restrict(f, inputs, results) for f in self.functions))

    def lower(
        self, low: Lowering, op: func.CallOp, operands: Values, inline: Inliner
    ) -> Values:
        """Emit a chain of scf.if, one per branch but the last; return its results."""
        index = low.number(operands[0])
        return self._lower_from(0, low, op, index, operands[1:], inline)

    def _lower_from(
        self,
        number: int,
        low: Lowering,
        op: func.CallOp,
        index: Value,
        rest: Values,
        inline: Inliner,
    ) -> Values:
        """Emit the chain of scf.if for the branches from `number` on."""
        if number == len(self.functions) - 1:
            return inline(self.functions[number], rest)
        bound = low.scalar("i32", number)
        here = arith.cmpi(arith.CmpIPredicate.sle, index, bound)
        results = [low.lowered_type(kind) for kind in types_of(op.results)]
        branch = scf.IfOp(here, results, has_else=True)
        with ir.InsertionPoint(branch.then_block):
            scf.YieldOp(inline(self.functions[number], rest))
        with ir.InsertionPoint(branch.else_block):
            scf.YieldOp(self._lower_from(number + 1, low, op, index, rest, inline))
        return list(branch.results)

    def facts(self) -> dict[str, ir.Attribute]:
        """Return {}, as a switch has no attributes beside its functions."""
        return {}
