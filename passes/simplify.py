"""Replace ops by equal, cheaper ones, evaluate constants, and drop unused ops.

    %1 = graph.multiply(%x, %ones)    →    %x
    %2 = graph.add(%two, %three)      →    graph.constant 5

Each op has rows of what may take its place (`simplify`); small ops on constants are
evaluated by `ref`. Regions stay as they are: their kernels were chosen for the ops that
they have. Repeats until nothing changes.
"""

from collections.abc import Sequence

import numpy as np

from aotc.dialects.builder import Builder
from aotc.dialects.calls.callees import callees
from aotc.dialects.functions.function_table import Functions, index_functions
from aotc.dialects.functions.functions import is_private
from aotc.dialects.functions.fusion import has_unfused_body
from aotc.dialects.graph import GraphOp, as_tuple, evaluate, has_effect
from aotc.dialects.ops.creation import Constant
from aotc.dialects.ops.shape import Broadcast
from aotc.dialects.patterns.structure import replacement
from aotc.dialects.patterns.values import made_by
from aotc.dialects.types import Tensor, element_count
from aotc.mlir import Block, Operation, Value, func, ir
from aotc.passes.base import Pass, Unit
from aotc.passes.inline import drop_uncalled
from aotc.passes.properties import TRANSPOSES_MOVE
from aotc.passes.prune import InputReads, is_removable, prune

# Constants beyond this many elements are left to be computed when the model runs.
LARGEST_FOLD = 256


class Simplify(Pass):
    """Replace ops by equal, cheaper ones, fold constants, and drop dead code."""

    name = "simplify"
    level = 1
    keeps_graph = True
    ensures = (TRANSPOSES_MOVE,)

    def run(self, unit: Unit) -> bool:
        """Rewrite the unit's module in place; return whether anything changed."""
        with index_functions(unit.module) as functions:
            changed = _simplify(functions)
            return drop_uncalled(unit.module) or changed


def _simplify(functions: Functions) -> bool:
    """Simplify all functions reachable from public ones, callers first; return whether
    any changed.
    """
    changed, done, reads = False, set(), InputReads(functions)
    rest = [name for name, function in functions.items() if not is_private(function)]
    while rest:
        name = rest.pop()
        if name in done:
            continue
        done.add(name)
        function = functions[name]
        if has_unfused_body(function):
            while _sweep(function.entry_block, functions, reads):
                changed = True
                reads.forget(name)
        rest += callees(function)
    return changed


def _sweep(block: Block, functions: Functions, reads: InputReads) -> bool:
    """Simplify a block's ops in order, then erase dead ones; return whether any
    changed.
    """
    changed, ops = False, list(block.operations)
    for op in ops:
        if isinstance(op, GraphOp):
            changed |= _replace(op)
    for op in reversed(list(block.operations) if changed else ops):
        if not _is_used(op) and is_removable(op, functions):
            op.operation.erase()
            changed = True
        else:
            changed |= prune(op, functions, reads)
    return changed


def _is_used(op: Operation) -> bool:
    """Return whether an op is a return, or any result has a use."""
    for value in op.results:
        for _ in value.uses:
            return True
    return isinstance(op, func.ReturnOp)


def _replace(op: GraphOp) -> bool:
    """Replace uses of an op by a folded constant or a cheaper form; return whether it
    had one.
    """
    if not _is_used(op):
        return False
    found = _fold(op) if _is_foldable(op) else replacement(type(op).simplify, op)
    if found is None:
        return False
    for old, new in zip(op.results, as_tuple(found), strict=True):
        old.replace_all_uses_with(new)
    return True


def _is_foldable(op: GraphOp) -> bool:
    """Return whether `op` has small results, no effect, and only constant operands."""
    operands = op.operands
    if not operands or not all(map(_is_constant, operands)) or has_effect(op):
        return False
    # A repeated scalar says more, and costs less, than its copies do.
    return not isinstance(op, Broadcast) and all(map(_is_small, op.results))


def _fold(op: GraphOp) -> Sequence[Value]:
    """Evaluate `op` on its constant operands; return its results as new constants."""
    arrays = [value.owner.opview.value for value in op.operands]
    with np.errstate(all="ignore"):  # an overflow is what it is when the model runs
        results = evaluate(op, arrays, [])
    with ir.InsertionPoint(op), op.location:
        return [Builder().constant(value=found) for found in results]


def _is_small(value: Value) -> bool:
    """Return whether a value is static, of at most `LARGEST_FOLD` elements."""
    kind = Tensor.of(value)
    return kind.is_static and bool(element_count(kind.shape) <= LARGEST_FOLD)


def _is_constant(value: Value) -> bool:
    """Return whether a value is made by a constant op."""
    return made_by(value, Constant) is not None
