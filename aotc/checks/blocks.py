"""Blocks of an entry: its ops, cut where the fewest values go from one to the next.

That is where layers meet. Blocks of one kind are the same ops of other weights, as the
layers of a network are. What weights and constants alone decide belongs to no block: it
is computed where it is read.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from aotc.dialects.calls.callees import reachable_functions
from aotc.dialects.functions.entries import Entry
from aotc.dialects.functions.functions import callee_of, functions_of
from aotc.dialects.graph import GraphOp
from aotc.dialects.types import Tensor, evaluate_size
from aotc.mlir import Module, Operation, Value, func, ir

_LONG = 0.3  # of the ops: what is read further on, as masks are, does not count
_MOST = 256  # blocks of an entry
_LITTLE = 0.02  # of the operations of a mean block
_MIDDLE = (
    0.1  # of the ops, at either end, is left out where the fewest values are sought
)


@dataclass(frozen=True)
class OpBlock:
    """A run of consecutive ops of an entry, such as one layer of a network.

    Args:
        ops: themselves, in order.
        stored: ops before them, which compute of weights and constants what they read.
        taken: the values that they read of blocks before.
        given: the values that blocks after it read, or the entry returns.
        kind: equal for blocks of the same ops.
        operations: how many they compute.
    """

    ops: tuple[Operation, ...]
    stored: tuple[Operation, ...]
    taken: tuple[Value, ...]
    given: tuple[Value, ...]
    kind: Hashable
    operations: float


def blocks_of(module: Module, entry: Entry, symbols: Sequence[int]) -> list[OpBlock]:
    """Cut an entry's ops into blocks, such as layers; return them in order, a single
    one where it has no layers.

    Args:
        module: graph IR.
        entry: of the module.
        symbols: the values of its symbols, in parts.
    """
    body = functions_of(module)[entry.name].entry_block
    *ops, returned = body.operations
    ports = zip(entry.arguments, body.arguments, strict=True)
    stored = _weight_ops(ops, [value for port, value in ports if port.kind == "weight"])
    own = [op for op in ops if op not in stored]
    last = {value: at for at, op in enumerate(own) for value in op.operands}
    last |= dict.fromkeys(returned.operands, len(own))
    counts = _Operations(module, symbols)
    bounds = [0, *_block_starts(own), len(own)]
    spans = _merge_small_spans(
        [range(*x) for x in pairwise(bounds)], [*map(counts.of, own)]
    )
    return [_block(own, span, last, stored, counts) for span in spans if span]


def _weight_ops(
    ops: Iterable[Operation], weights: Iterable[Value]
) -> dict[Operation, None]:
    """Return the ops that depend on weights and constants only."""
    known, found = set(weights), dict[Operation, None]()
    for op in ops:
        if isinstance(op, GraphOp) and all(value in known for value in op.operands):
            found[op] = None
            known.update(op.results)
    return found


def _block_starts(ops: Sequence[Operation]) -> list[int]:
    """Return the indices of ops that begin a block, where few values are live; 0 is
    left out.
    """
    made = {value: at for at, op in enumerate(ops) for value in op.results}
    readers: dict[Value, list[int]] = {value: [] for value in made}
    for at, op in enumerate(ops):
        for value in set(op.operands) & made.keys():
            readers[value].append(at)
    change = [0] * (len(ops) + 1)
    for value, at in made.items():
        if readers[value] and readers[value][-1] - at <= _LONG * len(ops):
            change[at + 1] += 1
            change[readers[value][-1] + 1] -= 1
    live, alive = [0] * (len(ops) + 1), 0
    for at, step in enumerate(change):
        alive += step
        live[at] = alive
    rest = int(len(ops) * _MIDDLE)
    middle = range(rest + 1, len(ops) - rest)
    least = min((live[at] for at in middle), default=0)

    def begins(at: int, several: bool) -> bool:
        """Return whether few values are live at an op, and an op (`several`: more than
        one) reads a result of the op before it.
        """
        needed = [readers[value] for value in ops[at - 1].results]
        return live[at] <= least and any(len(x) > several for x in needed)

    # What several ops read is in memory anyway, so returning it changes little.
    inner = range(1, len(ops))
    found = [at for at in inner if begins(at, True)]
    if len(found) < 2:
        found = [at for at in inner if begins(at, False)]
    return found[:: max(1, -(-len(found) // _MOST))]


def _merge_small_spans(spans: Sequence[range], counts: Sequence[float]) -> list[range]:
    """Merge spans of ops that compute next to nothing into the span before them; return
    the spans.

    Args:
        spans: of ops, by their numbers.
        counts: the operations of each op.
    """
    sizes = [sum(counts[span.start : span.stop]) for span in spans]
    least = _LITTLE * sum(sizes) / max(len(spans), 1)
    found: list[range] = []
    for span, size in zip(spans, sizes, strict=True):
        if found and size < least:
            found[-1] = range(found[-1].start, span.stop)
        else:
            found.append(span)
    return found


def _block(
    all_ops: Sequence[Operation],
    span: range,
    last_readers: Mapping[Value, int],
    weight_ops: Mapping[Operation, None],
    counts: _Operations,
) -> OpBlock:
    """Build the `OpBlock` of a span of op indices.

    Args:
        all_ops: the ops of all blocks.
        span: their numbers in this one.
        last_readers: the number of the last op that reads a value, beyond all for a
            result.
        weight_ops: ops that belong to no block.
        counts: the operations.
    """
    ops = all_ops[span.start : span.stop]
    inside = dict.fromkeys(value for op in ops for value in op.results)
    op_by_result = {value: op for op in weight_ops for value in op.results}
    read = dict.fromkeys(value for op in ops for value in op.operands)
    outside = [
        value for value in read if value not in inside and value not in op_by_result
    ]
    taken = [value for value in outside if not isinstance(value.owner, ir.Block)]
    given = [value for value in inside if last_readers.get(value, -1) >= span.stop]
    return OpBlock(
        tuple(ops),
        tuple(_needed(read, op_by_result, weight_ops)),
        tuple(taken),
        tuple(given),
        _kind(ops, taken),
        sum(map(counts.of, ops)),
    )


def _needed(
    read: Iterable[Value],
    op_by_result: Mapping[Value, Operation],
    stored: Iterable[Operation],
) -> list[Operation]:
    """Return the ops of `stored` that the values of `read` depend on, in order."""
    needed, rest = set[Operation](), list(read)
    while rest:
        op = op_by_result.get(rest.pop())
        if op is not None and op not in needed:
            needed.add(op)
            rest += op.operands
    return [op for op in stored if op in needed]


def _kind(ops: Sequence[Operation], taken: Sequence[Value]) -> Hashable:
    """Return a key that is equal for blocks of the same ops, attributes and types."""
    names: dict[Value, tuple[str, int]] = {
        value: ("taken", number) for number, value in enumerate(taken)
    }
    made = [value for op in ops for value in op.results]
    names |= {value: ("made", number) for number, value in enumerate(made)}
    return tuple(
        (
            op.operation.name,
            tuple((name, op.attributes[name]) for name in sorted(op.attributes)),
            tuple(value.type for value in op.results),
            tuple(names.get(value, ("given", value.type)) for value in op.operands),
        )
        for op in ops
    )


class _Operations:
    """Counts the arithmetic operations of ops; a loop counts as one iteration.

    Args:
        module: with the functions that they call.
        symbols: the values of the symbols, in parts.
    """

    def __init__(self, module: Module, symbols: Sequence[int]) -> None:
        self._functions = functions_of(module)
        self._symbols = symbols

    def of(self, op: Any) -> float:
        """Return the number of arithmetic operations of an op, with what it calls."""
        if isinstance(op, func.CallOp):
            return sum(
                self.of(inner)
                for name in reachable_functions(self._functions, callee_of(op))
                if not self._functions[name].is_external
                for inner in self._functions[name].entry_block.operations
                if isinstance(inner, GraphOp)
            )
        count = type(op).flops(op)
        if count is None:
            count = sum(Tensor.of(value).elements for value in op.results)
        return float(evaluate_size(count, self._symbols))
