"""The batching sweep: a function over a stack of inputs, op by op."""

from collections.abc import Sequence
from typing import NamedTuple

from aotc.dialects.builder import Builder
from aotc.dialects.functions.functions import require_own_values
from aotc.dialects.functions.transform import Batch
from aotc.dialects.functions.walking import clone, walk
from aotc.dialects.graph import as_tuple
from aotc.dialects.rules.batching import add_leading_axis
from aotc.mlir import Block, Function, Operation, Value
from aotc.passes.sweeps.rules import rule_of, title


def sweep(derived: Batch, primal: Function, block: Block) -> list[Value]:
    """Emit the ops of `primal` batched over stacked arguments; return its stacked
    results.

    Args:
        derived: which arguments are stacked, and how many there are.
        primal: the function to batch.
        block: whose arguments are those of the batched function.
    """
    build, size = Builder(), derived.size
    own = set(block.arguments)

    def write(op: Operation, operands: list[_Given]) -> Sequence[_Given]:
        values = [given.value for given in operands]
        stacked = tuple(given.is_stacked for given in operands)
        if not any(stacked):
            return [_Given(result, False) for result in clone(op, values)]
        results = as_tuple(rule_of(op, "batch")(build, op, values, stacked, size))
        require_own_values(results, f"the rule 'batch' of {title(op)}", own)
        own.update(results)
        return [_Given(result, True) for result in results]

    given = [
        _Given(value, number in derived.wrt)
        for number, value in enumerate(block.arguments)
    ]
    return [
        value if is_stacked else add_leading_axis(build, value, size)
        for value, is_stacked in walk(primal.entry_block, given, write)
    ]


class _Given(NamedTuple):
    """The replacement of a primal value: stacked, or one for the whole batch."""

    value: Value
    is_stacked: bool
