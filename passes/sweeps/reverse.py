"""The reverse sweep: cotangents flow from the results of a function to its inputs.

Cotangents of a value with several uses are added up; values that do not depend on an
input in `wrt` are left alone. (Reverse accumulation: Linnainmaa 1970; Griewank and
Walther, Evaluating Derivatives, 2008, chapter 3.)
"""

from collections.abc import Sequence

from aotc.core import dtypes
from aotc.dialects.builder import Builder
from aotc.dialects.functions.transform import Vjp
from aotc.dialects.graph import Tangent
from aotc.dialects.types import Tensor
from aotc.mlir import Block, Operation, Value
from aotc.passes.sweeps.rules import is_call, rule_of


def sweep(
    derived: Vjp, block: Block, inputs: list[Value], cotangents: list[Value]
) -> list[Value]:
    """Emit the cotangents of the inputs in `wrt` (reverse mode); return them.

    Args:
        derived: what is being written.
        block: the forward ops, then a return of the outputs.
        inputs: of the function.
        cotangents: of its float outputs.
    """
    *forward, returned = block.operations
    outputs = [value for value in returned.operands if is_float(value)]
    wanted = [inputs[index] for index in derived.wrt]
    return _Reverse(forward, wanted).run(outputs, cotangents)


def dependents(ops: Sequence[Operation], roots: Sequence[Value]) -> set[Value]:
    """Return the float values that depend on `roots` through float values only."""
    active = set(roots)
    for op in ops:
        if getattr(op, "is_constant", False):  # a call has no such fact
            continue
        if any(value in active for value in op.operands):
            active.update(value for value in op.results if is_float(value))
    return active


def is_float(value: Value) -> bool:
    """Return whether a value is of floats, so that it can have a derivative."""
    return dtypes.is_float(Tensor.of(value).dtype)


class _Reverse:
    """Reverse-mode sweep over the ops in `forward`, for cotangents of `wanted`
    values.
    """

    def __init__(self, forward: Sequence[Operation], wanted: Sequence[Value]) -> None:
        self.build = Builder()
        self.forward = forward
        self.wanted = wanted
        self.cotangents: dict[Value, Value] = {}
        self.active = dependents(forward, wanted)

    def run(self, outputs: Sequence[Value], cotangents: Sequence[Value]) -> list[Value]:
        """Emit the cotangents of all wanted values, given those of the outputs."""
        for value, cotangent in zip(outputs, cotangents, strict=True):
            self._accumulate(value, cotangent)
        for op in reversed(self.forward):
            known = [self.cotangents.get(value) for value in op.results]
            if any(dy is not None for dy in known):
                with op.location:
                    self._propagate(op, known)
        return [self._gradient(value) for value in self.wanted]

    def _propagate(self, op: Operation, known: Sequence[Tangent]) -> None:
        """Emit an op's vjp rule; add the cotangents of its operands to the known
        ones.
        """
        rule, operands = rule_of(op, "vjp"), list(op.operands)
        dys = [
            self.build.full_like(value, 0.0) if dy is None and is_float(value) else dy
            for value, dy in zip(op.results, known, strict=True)
        ]
        if is_call(op):
            wanted = [i for i, value in enumerate(operands) if value in self.active]
            found = rule(self.build, op, dys, wanted)
            pairs = [(operands[i], d) for i, d in zip(wanted, found, strict=True)]
        else:
            pairs = list(zip(operands, rule(self.build, op, *dys), strict=True))
        for operand, cotangent in pairs:
            if cotangent is not None:
                self._accumulate(operand, cotangent)

    def _accumulate(self, value: Value, cotangent: Value) -> None:
        """Add a cotangent to that of a value, if it depends on a wanted one."""
        if value not in self.active:
            return
        known = self.cotangents.get(value)
        self.cotangents[value] = (
            cotangent if known is None else self.build.add(known, cotangent)
        )

    def _gradient(self, value: Value) -> Value:
        """Return the accumulated cotangent of a value; zeros if there is none."""
        known = self.cotangents.get(value)
        return self.build.full(Tensor.of(value), 0.0) if known is None else known
