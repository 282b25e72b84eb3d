"""Walk the ops of a function with whatever takes the place of its values.

What that is, the walk does not ask: values of another function where ops are copied,
transformed or lowered, names where an analysis follows them.
"""

from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from functools import cmp_to_key
from itertools import groupby, islice
from typing import TypeVar

from aotc.mlir import Block, Operation, Value, func, ir

T = TypeVar("T")
Op = TypeVar("Op", bound=Operation)

# given an op and what stands for its operands, what stands for its results
Visit = Callable[[Operation, list[T]], Sequence[T]]


def walk(block: Block, arguments: Sequence[T], visit: Visit[T]) -> list[T]:
    """Run `visit` on a block's ops in order, mapping values; return the mapped results.

    Args:
        block: flat, and ends in a return, which is not visited.
        arguments: what stands for the arguments of the block.
        visit: gets an op and what stands for its operands, returns as many as the op
            has results.

    Returns:
        What stands for the values that the block returns.

    Raises:
        ValueError: there are more or fewer arguments or results than there should be.
    """
    values = dict(zip(block.arguments, arguments, strict=True))
    for op in block.operations:
        operands = [values[value] for value in op.operands]
        if isinstance(op, func.ReturnOp):
            return operands
        with op.location:
            results = visit(op, operands)
        values.update(zip(op.results, results, strict=True))
    raise AssertionError("a function ends in a return")


def clone(op: Operation, operands: Sequence[Value]) -> list[Value]:
    """Emit a copy of an op on other operands; return its results."""
    return list(clone_op(op, operands).results)


def clone_op(op: Operation, operands: Sequence[Value]) -> Operation:
    """Emit a copy of an op on other operands; return the copy."""
    copy: Operation = op.operation.clone()
    for number, value in enumerate(operands):
        copy.operands[number] = value
    return copy


def defining_op(value: Value) -> Operation | None:
    """Return the op that computes a value; None if it is an argument."""
    return None if isinstance(value.owner, ir.Block) else value.owner.opview


def has_one_use(value: Value) -> bool:
    """Return whether a value has exactly one use, stopping at the second."""
    return sum(1 for _ in islice(value.uses, 2)) == 1


def is_before(op: Operation, other: Operation) -> bool:
    """Return whether an op comes before another one of its block."""
    return bool(op.operation.is_before_in_block(other.operation))


def latest_op(values: Iterable[Value]) -> Operation | None:
    """Return the last op that defines any of the values; None if all are arguments."""
    last: Operation | None = None
    for op in map(defining_op, values):
        if op is not None and (last is None or is_before(last, op)):
            last = op
    return last


def in_order(ops: Sequence[Op]) -> list[Op]:
    """Return the distinct ops, all of one block, in their order there."""

    def compare_positions(one: Operation, other: Operation) -> int:
        if one == other:
            return 0
        return -1 if is_before(one, other) else 1

    return [op for op, _ in groupby(sorted(ops, key=cmp_to_key(compare_positions)))]


def backward_slice(
    values: Iterable[Value], is_followed: Callable[[Value], bool] = lambda value: True
) -> Iterator[Value]:
    """Yield the values and all values that they depend on, each once.

    The nearest come first: what is looked for is often a few ops away, where another
    way to it goes through a whole network.

    Args:
        values: where it begins.
        is_followed: whether the operands of the op that computes a value are in it;
            not asked of arguments.
    """
    rest, seen = deque(values), set[Value]()
    while rest:
        value = rest.popleft()
        if value in seen:
            continue
        seen.add(value)
        yield value
        if not isinstance(value.owner, ir.Block) and is_followed(value):
            rest += value.owner.operands


def control_regions(op: Operation) -> list[ir.Region]:
    """Return the regions of a loop, branch or function; [] for a linalg op.

    What is in the body of a linalg op, which is most of a lowered module, computes an
    element of scalars: it holds no call, and makes no tensor.
    """
    is_linalg = op.operation.name.startswith("linalg.")
    return [] if is_linalg else list(op.regions)


def copy_value(value: Value, values: dict[Value, Value]) -> Value:
    """Emit copies of the ops that compute a value, unless done; return its copy.

    Args:
        value: of another function, or of another place.
        values: what stands for such values so far; gets what is copied.
    """
    behind = backward_slice([value], lambda each: each not in values)
    for op in in_order([each.owner.opview for each in behind if each not in values]):
        made = clone(op, [values[each] for each in op.operands])
        values.update(zip(op.results, made, strict=True))
    return values[value]


def users_of(values: Iterable[Value], own: Container[Value] = ()) -> list[Operation]:
    """Return the ops that read `values`, one for each use, but those of `own`.

    Args:
        values: of a block.
        own: the ops that compute these are left out.
    """
    users = [use.owner.opview for value in values for use in value.uses]
    return [op for op in users if not op.results or op.results[0] not in own]
