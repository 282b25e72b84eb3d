"""Recover ops of the dialect from the parts that exporters write them in.

    %1 = graph.multiply(%x, %sqrt_half)
    %2 = graph.erf(%1)
    %3 = graph.add(%2, %one)                →      %5 = graph.gelu(%x) {form = "exact"}
    %4 = graph.multiply(%x, %3)
    %5 = graph.multiply(%4, %half)

What is recovered is a table of rows (`recovery/table.py`), and attention, which is
found around its softmax (`recovery/attention.py`). One op has rules that parts have
not: a kernel, sums in f32 for half precision, no overflow. Weights with one element
count as the numbers that they are, where the arrays are at hand.

Sums and products are rounded in another order, never worse. Nothing changes where
something else reads what is in between: a derivative that reads it would have it
computed twice.

Nothing is computed that was not before.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from math import prod
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np

from aotc.core import dtypes
from aotc.dialects.builder import Builder
from aotc.dialects.functions.entries import weight_ports
from aotc.dialects.functions.functions import functions_of
from aotc.dialects.functions.fusion import has_unfused_body
from aotc.dialects.functions.walking import in_order
from aotc.dialects.ops.attention import Attention
from aotc.dialects.ops.contraction import DotGeneral
from aotc.dialects.patterns.rows import RewriteRow
from aotc.dialects.patterns.terms import may_match, root_ops
from aotc.dialects.sizes.symbols import contracts_of, known_contracts
from aotc.dialects.types import Tensor
from aotc.mlir import Function, Operation, Value, ir
from aotc.passes.base import Pass, Unit
from aotc.passes.properties import CALLS_INLINED, VALUES_UNIQUE
from aotc.passes.recovery.attention import recover_attention
from aotc.passes.recovery.heads import share_heads
from aotc.passes.recovery.known import KnownValues
from aotc.passes.recovery.labels import RememberedSplats, SplatValues
from aotc.passes.recovery.matching import find_match
from aotc.passes.recovery.table import ROWS
from aotc.programs.computed_arrays import StoredArray
from aotc.programs.program import Program


@lru_cache(maxsize=2**8)
def _rows_by_root(names: frozenset[str]) -> dict[str, list[RewriteRow]]:
    """Return the rewrite rows whose ops all occur in `names`, by the op at their
    root.
    """
    found: dict[str, list[RewriteRow]] = {}
    for row in ROWS:
        if may_match(row.term, names):
            for name in sorted(root_ops(row.term)):
                found.setdefault(name, []).append(row)
    return found


class RecoverOps(Pass):
    """Replace op compositions that exporters write by one op each, in every
    function.
    """

    name = "recover-ops"
    level = 2
    keeps_graph = True
    requires = (
        CALLS_INLINED,
        VALUES_UNIQUE,
    )

    def run(self, unit: Unit) -> bool:
        """Rewrite the unit's module in place; return whether anything changed."""
        weights = _arrays_of_weights(unit.program)
        changed = False
        for name, function in functions_of(unit.module).items():
            if has_unfused_body(function):
                known = _known(weights.get(name, {}))
                with known_contracts(contracts_of(function)):
                    changed |= _recover(function, known)
        return changed


def _arrays_of_weights(program: Program) -> dict[str, dict[Value, StoredArray]]:
    """Return each entry's weight arrays by argument value; empty without arrays."""
    if not program.has_arrays:
        return {}
    functions = functions_of(program.module)
    return {
        entry.name: {
            value: program.parameters[port.name]
            for value, port in weight_ports(functions[entry.name], entry)
        }
        for entry in program.entries
    }


def _known(arrays: Mapping[Value, StoredArray]) -> KnownValues:
    """Return the values of a function known at build time, from its weights' arrays."""
    numbers = {
        value: float(np.asarray(array).reshape(()))
        for value, array in arrays.items()
        if _is_number(array)
    }
    return KnownValues(SplatValues(numbers), arrays)


def _is_number(array: StoredArray) -> bool:
    """Return whether an array holds one float."""
    return prod(array.shape) == 1 and dtypes.is_float(
        dtypes.canonical_dtype(array.dtype)
    )


def _recover(function: Function, known: KnownValues) -> bool:
    """Replace compositions in a function in program order; return whether any
    changed.
    """
    changed = False
    ops = list(function.entry_block.operations)
    rows = _rows_by_root(frozenset(map(_name_of, ops)))  # none has what one writes
    for op in ops:
        if isinstance(op, DotGeneral):
            changed |= replace_attention(op, known)
        elif isinstance(op, Attention):
            changed |= _share_heads(op)
        elif wanted := rows.get(_name_of(op)):
            numbers = RememberedSplats(known.numbers.weights)
            changed |= any(_replace(op, row, numbers) for row in wanted)
    return changed


def _name_of(op: Operation) -> str:
    """Return an op's name without the `graph.` prefix."""
    return op.operation.name.removeprefix("graph.")


def replace_attention(op: DotGeneral, known: KnownValues) -> bool:
    """Replace a matrix product by the attention op whose last step it is; return
    whether it is one.
    """
    with ir.InsertionPoint(op), op.location:
        found = recover_attention(Builder(), op, known)
    if found is None:
        return False
    op.y.replace_all_uses_with(found.value)
    _erase(found.inside | {op.y})
    return True


def _share_heads(op: Attention) -> bool:
    """Replace an attention by one without repeated key heads; return whether it had
    any.
    """
    with ir.InsertionPoint(op), op.location:
        found = share_heads(Builder(), op)
    if found is None:
        return False
    for old, new in zip(op.results, found, strict=True):
        old.replace_all_uses_with(new)
    op.operation.erase()
    return True


def _replace(op: Operation, row: RewriteRow, numbers: SplatValues) -> bool:
    """Replace `op` by the row's op, if the row's term matches it; return whether it
    did.
    """
    found = replacement(row, op, numbers)
    if found is None:
        return False
    op.results[0].replace_all_uses_with(found.value)
    _erase(found.inside)
    return True


class RecoveredOp(NamedTuple):
    """The value that replaces an op's result, and the values that become unused."""

    value: Value
    inside: frozenset[Value]


def replacement(
    row: RewriteRow, op: Operation, numbers: SplatValues
) -> RecoveredOp | None:
    """Match `op` against a rewrite row and emit its replacement; None without a
    match.
    """
    root = op.results[0]
    if not dtypes.is_float(Tensor.of(root).dtype):
        return None
    match = find_match(row.term, root, numbers)
    captured = None if match is None else SimpleNamespace(**match.captured)
    if match is None or not row.where(captured):
        return None
    with ir.InsertionPoint(op), op.location:
        value = row.build(Builder(), captured)
    return None if value is None else RecoveredOp(value, match.inside | {root})


def _erase(covered: frozenset[Value]) -> None:
    """Erase the ops of the given values that have no uses left, users first."""
    for op in reversed(in_order([value.owner.opview for value in covered])):
        if not any(list(value.uses) for value in op.results):
            op.operation.erase()
