"""Loops and branches of kernels, at the insertion point; values go through them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from aotc.kernels.cpu.vectors import Values, index
from aotc.mlir import Type, Value, ir, scf


def loop(
    first: Value | int,
    last: Value | int,
    step: int,
    carried: Sequence[Value],
    body: Callable[[Value, Values], Sequence[Value]],
) -> Values:
    """Emit a loop with carried values; `body(i, values)` returns the next values."""
    bounds = [index(x) if isinstance(x, int) else x for x in (first, last, step)]
    op = scf.ForOp(*bounds, list(carried))
    with ir.InsertionPoint(op.body):
        scf.YieldOp(list(body(op.induction_variable, list(op.inner_iter_args))))
    return list(op.results)


def repeat_for(
    first: Value | int, last: Value | int, step: int, body: Callable[[Value], None]
) -> None:
    """Emit a loop that runs the code of `body(i)` for each index."""

    def write(number: Value, _: Values) -> Values:
        body(number)
        return []

    loop(first, last, step, [], write)


def branch(
    condition: Value | bool, then: Callable[[], None], otherwise: Callable[[], None]
) -> None:
    """Emit a branch, or only one side of it if the condition is known."""

    def writing(write: Callable[[], None]) -> Values:
        write()
        return []

    if isinstance(condition, bool):
        (then if condition else otherwise)()
    else:
        choose(condition, [], lambda: writing(then), lambda: writing(otherwise))


def choose(
    condition: Value,
    kinds: Sequence[Type],
    then: Callable[[], Values],
    otherwise: Callable[[], Values],
) -> Values:
    """Emit a branch with results of types `kinds`; return what its sides yield."""
    op = scf.IfOp(condition, kinds, has_else=True)
    for block, write in ((op.then_block, then), (op.else_block, otherwise)):
        with ir.InsertionPoint(block):
            scf.YieldOp(write())
    return list(op.results)
