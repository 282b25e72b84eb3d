"""The batching sweep: a function over a stack of inputs, op by op."""

from collections.abc import Sequence

from aotc.dialects.batching import spread
from aotc.dialects.builder import Builder
from aotc.dialects.functions import require_own_values
from aotc.dialects.graph import as_tuple
from aotc.dialects.transform import Batch
from aotc.mlir import Block, Function, Operation, Value, func
from aotc.passes.sweeps.rules import rule_of, title


def sweep(derived: Batch, primal: Function, block: Block) -> list[Value]:
    """Write the batched ops of `primal` at the insertion point; returns the results.

    Args:
        derived: which arguments are stacked, and how many there are.
        primal: the function to batch.
        block: whose arguments are those of the batched function.
    """
    build, size = Builder(), derived.size
    values = dict(zip(primal.entry_block.arguments, block.arguments, strict=True))
    own = set(block.arguments)
    stacked = {primal.entry_block.arguments[index] for index in derived.wrt}
    for op in primal.entry_block.operations:
        if isinstance(op, func.ReturnOp):
            return [
                values[y] if y in stacked else spread(build, values[y], size)
                for y in op.operands
            ]
        operands = [values[value] for value in op.operands]
        batched = tuple(value in stacked for value in op.operands)
        with op.location:
            if any(batched):
                rule = rule_of(op, "batch")
                results: Sequence[Value] = as_tuple(
                    rule(build, op, operands, batched, size)
                )
                writer = f"the rule 'batch' of {title(op)}"
                require_own_values(results, writer, own)
                stacked.update(op.results)
            else:
                results = _copy_op(op, operands)
        values.update(zip(op.results, results, strict=True))
        own.update(results)
    raise AssertionError("a function ends in a return")


def _copy_op(op: Operation, operands: Sequence[Value]) -> Sequence[Value]:
    clone = op.operation.clone()
    for number, value in enumerate(operands):
        clone.operands[number] = value
    return list(clone.results)
