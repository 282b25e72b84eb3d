"""Compute products of all steps of a loop at once: before it, or after it.

    %s, %ys = call @f.scan(%s0, %xs, %w)
        each step: %p = dot_general(%x, %w)             what depends on no carried value
                   %s = add(%s, dot_general(%x, %y))    what is only added up
    →
    %ps = graph.dot_general(%xs, %w)
    %ys = call @f.scan_1(%xs, %ps, %w)
    %s = graph.add(%s0, graph.dot_general(%xs, %ys))    over all steps as well

A step of few rows reads the whole weight for them, or adds to the whole sum; all steps
together are one product of many rows, or of long sums. What is stacked for it is at
most four times as large as what the loop goes through anyway. The gradient of a
recurrent layer is made so: its steps compute the gates again, and add up the gradient
of the weight. Sums are made in another order by that. Steps of more than four rows are
left as they are: on a processor each multiplies about as fast as all do together.

Ensures: a value that is read no more is left to `simplify` and `prune`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from aotc.dialects.builder import Builder
from aotc.dialects.control import invoke
from aotc.dialects.control.parts import split
from aotc.dialects.functions.function_table import Functions
from aotc.dialects.functions.functions import (
    before,
    define,
    signature,
)
from aotc.dialects.functions.walking import clone, defining_op, has_one_use, walk
from aotc.dialects.ops.binary import Add
from aotc.dialects.ops.contraction import DotGeneral, free_axes
from aotc.dialects.types import Shape, Tensor, element_count
from aotc.mlir import Operation, Value, func
from aotc.passes.base import Pass, Unit
from aotc.passes.scan_calls import (
    ScanCall,
    can_stack,
    change_scans,
    define_scanning,
)

_FEW_ROWS = 4


class JoinSteps(Pass):
    """Compute matrix products of all steps of a scan as one, before or after it,
    innermost first.
    """

    name = "join-steps"
    level = 2
    keeps_graph = True

    def run(self, unit: Unit) -> bool:
        """Rewrite the unit's module in place; return whether anything changed."""
        return change_scans(unit, _join)


def _join(op: func.CallOp, functions: Functions) -> bool:
    """Move matrix products out of the scan called by `op`; return whether any moved."""
    loop = ScanCall.of(op, functions)
    changed = _compute_before(loop)
    loop = ScanCall.of(loop.call, functions)
    return _compute_after(loop) or changed


def _are_few(sizes: Shape) -> bool:
    """Return whether the product of sizes is a known number of at most four rows."""
    rows = element_count(sizes)
    return isinstance(rows, int) and rows <= _FEW_ROWS


# ---- before the loop ----------------------------------------------------------------


def _compute_before(loop: ScanCall) -> bool:
    """Compute matrix products of scanned values by invariants before the scan; return
    whether any did.
    """
    moving = list(_products_of_scanned(loop))
    if not moving:
        return False
    scan, b = loop.scan, Builder()
    with before(loop.call):
        given = [_of_all_steps(b, loop, value) for value in moving]
        name = define_scanning(loop, moving)
        operands = list(loop.call.operands)
        operands[scan.first_capture : scan.first_capture] = given
        longer = replace(scan, functions=(name,), scanned=scan.scanned + len(given))
        results = invoke(longer, operands)
    loop.replace(results, results[0].owner)
    return True


def _products_of_scanned(loop: ScanCall) -> Iterator[Value]:
    """Yield matrix products of a scanned value by a capture that are worth computing
    before the scan.
    """
    scanned, captures = loop.scanned, loop.arguments[loop.scan.first_capture :]
    for op in loop.body.entry_block.operations:
        if not isinstance(op, DotGeneral) or op.lhs_batch:
            continue
        if op.lhs not in scanned or op.rhs not in captures:
            continue
        kind = Tensor.of(op.lhs)
        free = free_axes(kind.rank, (), op.lhs_contract)
        if not _are_few(tuple(kind.shape[axis] for axis in free)):
            continue
        total = _sum_with_scanned(op, scanned)
        if total is not None:
            yield total
        elif can_stack(loop, [op.y]):
            yield op.y


def _sum_with_scanned(product: DotGeneral, scanned: Sequence[Value]) -> Value | None:
    """Return the sum of a matrix product and a scanned value, if that is the only use
    of both.

    The sum then takes the place of that in memory.
    """
    if not has_one_use(product.y):
        return None
    (use,) = product.y.uses
    total = use.owner.opview
    if not isinstance(total, Add):
        return None
    other = _other_operand(total, product.y)
    return total.results[0] if other in scanned and has_one_use(other) else None


def _other_operand(total: Add, value: Value) -> Value:
    """Return the operand of a sum that is not `value`."""
    first, second = total.operands
    return second if first == value else first


def _of_all_steps(b: Builder, loop: ScanCall, value: Value) -> Value:
    """Emit a matrix product, or its sum with a scanned value, for all steps at once."""
    op = defining_op(value)
    if isinstance(op, Add):
        first, second = (
            loop.whole(x) if x in loop.scanned else _of_all_steps(b, loop, x)
            for x in op.operands
        )
        return b.add(first, second)
    assert isinstance(op, DotGeneral)
    found: Value = b.dot_general(
        loop.whole(op.lhs),
        loop.whole(op.rhs),
        lhs_batch=(),
        rhs_batch=(),
        lhs_contract=_shifted(op.lhs_contract),
        rhs_contract=op.rhs_contract,
        dtype=op.dtype,
    )
    return found


def _shifted(axes: Sequence[int]) -> tuple[int, ...]:
    """Return axes plus one: behind the leading axis of steps."""
    return tuple(axis + 1 for axis in axes)


# ---- after the loop -----------------------------------------------------------------


def _compute_after(loop: ScanCall) -> bool:
    """Replace matrix products that a scan accumulates by one product after it; return
    whether any did.
    """
    sums = _sums_of_products(loop)
    if not sums:
        return False
    scan, returned = loop.scan, loop.returned
    stacked = returned[scan.carries :]
    factors = [value for op in sums.values() for value in op.operands]
    kept = [*stacked, *loop.scanned]
    more = [x for x in dict.fromkeys(factors) if x not in kept]
    if not (stacked or more or len(sums) < scan.carries):
        return False  # a loop of no results
    b = Builder()
    with before(loop.call):
        name = _define_without(loop, sums, more)
        operands = [x for n, x in enumerate(loop.call.operands) if n not in sums]
        shorter = replace(scan, functions=(name,), carries=scan.carries - len(sums))
        found = invoke(shorter, operands)
        carried, stacks = split(found, shorter.carries)
        whole = {value: loop.whole(value) for value in loop.scanned}
        whole |= dict(zip([*stacked, *more], stacks, strict=True))
        last, rest = [], iter(carried)
        for number in range(scan.carries):
            if number in sums:
                product = _over_all_steps(b, sums[number], whole)
                last.append(b.add(loop.call.operands[number], product))
            else:
                last.append(next(rest))
    loop.replace([*last, *stacks[: len(stacked)]], found[0].owner)
    return True


def _over_all_steps(b: Builder, op: DotGeneral, whole: Mapping[Value, Value]) -> Value:
    """Emit the matrix product of stacked operands that is also summed over the
    steps.
    """
    found: Value = b.dot_general(
        whole[op.lhs],
        whole[op.rhs],
        lhs_batch=_shifted(op.lhs_batch),
        rhs_batch=_shifted(op.rhs_batch),
        lhs_contract=(0, *_shifted(op.lhs_contract)),
        rhs_contract=(0, *_shifted(op.rhs_contract)),
        dtype=op.dtype,
    )
    return found


def _sums_of_products(loop: ScanCall) -> dict[int, DotGeneral]:
    """Return accumulated matrix products of a scan that no step reads, by index of the
    carried value.
    """
    found: dict[int, DotGeneral] = {}
    captures = loop.arguments[loop.scan.first_capture :]
    carried = zip(loop.arguments, loop.returned[: loop.scan.carries], strict=False)
    for number, (argument, value) in enumerate(carried):
        total = defining_op(value)
        if not isinstance(total, Add) or not has_one_use(value):
            continue
        if argument not in total.operands or not has_one_use(argument):
            continue
        product = _other_operand(total, argument)
        op = defining_op(product)
        if not isinstance(op, DotGeneral) or not has_one_use(product):
            continue
        factors = [x for x in op.operands if x not in loop.scanned]
        if any(x in captures for x in factors) or not can_stack(loop, factors):
            continue
        summed = tuple(Tensor.of(op.lhs).shape[axis] for axis in op.lhs_contract)
        if not _are_few(summed):
            continue
        found[number] = op
    return found


def _define_without(
    loop: ScanCall, sums: dict[int, DotGeneral], more: Sequence[Value]
) -> str:
    """Define a copy of the body without `sums` that also returns `more`; return its
    name.
    """
    kinds, _ = signature(loop.body)
    left_out = {op.y for op in sums.values()} | {loop.returned[n] for n in sums}
    nothing = loop.arguments[0]  # stands for what no op reads

    def body(arguments: list[Value]) -> list[Value]:
        own = iter(arguments)
        given = [nothing if n in sums else next(own) for n in range(len(kinds))]
        copies = dict(zip(loop.arguments, given, strict=True))

        def visit(op: Operation, operands: list[Value]) -> list[Value]:
            if any(value in left_out for value in op.results):
                return [nothing]
            made = clone(op, operands)
            copies.update(zip(op.results, made, strict=True))
            return made

        found = walk(loop.body.entry_block, given, visit)
        kept = [value for n, value in enumerate(found) if n not in sums]
        return [*kept, *(copies[value] for value in more)]

    return define(
        loop.scan.functions[0], [x for n, x in enumerate(kinds) if n not in sums], body
    )
