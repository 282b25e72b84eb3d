"""The forward sweep: tangents flow from the inputs of a function to its results."""

from collections.abc import Sequence

from aotc.dialects.builder import Builder
from aotc.dialects.functions.transform import Jvp
from aotc.dialects.graph import Tangent, as_tuple
from aotc.mlir import Block, Operation, Value
from aotc.passes.sweeps.reverse import is_float
from aotc.passes.sweeps.rules import is_call, rule_of


def sweep(
    derived: Jvp, block: Block, inputs: list[Value], tangents: list[Value]
) -> list[Value]:
    """Emit the tangents of a function's float outputs (forward mode); return them.

    Args:
        derived: what is being written.
        block: the ops of the function, then a return of the outputs.
        inputs: of the function.
        tangents: of its inputs in `wrt`.
    """
    build = Builder()
    known = dict(zip((inputs[i] for i in derived.wrt), tangents, strict=True))
    *ops, returned = block.operations
    for op in ops:
        given = [known.get(value) for value in op.operands]
        smooth = [value for value in op.results if is_float(value)]
        if smooth and any(d is not None for d in given):
            with op.location:
                found = _tangents(build, op, given)
            known |= {y: d for y, d in found.items() if d is not None}
    outputs = [value for value in returned.operands if is_float(value)]
    return [
        build.full_like(value, 0.0) if known.get(value) is None else known[value]
        for value in outputs
    ]


def _tangents(
    build: Builder, op: Operation, given: Sequence[Tangent]
) -> dict[Value, Tangent]:
    """Emit an op's jvp rule; return tangents by result, None for zero."""
    rule = rule_of(op, "jvp")
    if is_call(op):
        smooth = [value for value in op.results if is_float(value)]
        return dict(zip(smooth, rule(build, op, given), strict=True))
    return dict(zip(op.results, as_tuple(rule(build, op, *given)), strict=True))
