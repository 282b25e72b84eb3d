"""The largest tensors between the inputs and the outputs of an entry.

A runtime computes sizes of buffers in 64 bits. Where symbolic sizes have no limit,
their product can go beyond that, and a buffer would be too small for what is written to
it. So the manifest lists the tensors of each entry that could be so large, and the
loader computes their sizes, in numbers of any size, before a call.

It needs graph ops, whose types say what symbolic sizes are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from aotc.artifacts.shapes import ADDRESSABLE, LENGTH_LIMIT
from aotc.core import dtypes
from aotc.dialects.functions.entries import Entry, entries_of, write_intermediates
from aotc.dialects.functions.functions import functions_of
from aotc.dialects.sizes.symbols import known_contracts
from aotc.dialects.types import Tensor, bounds, factors, size_of
from aotc.mlir import Function, Operation, ir
from aotc.passes.base import Pass, Unit
from aotc.passes.properties import IS_GRAPH

# An intermediate may be this much larger than an input, which a machine has room for.
_ROOM = 64


class RecordIntermediates(Pass):
    """Record at every entry its largest intermediates, whose size the loader checks."""

    name = "record-intermediates"
    level = 0
    keeps_graph = True
    requires = (IS_GRAPH,)

    def run(self, unit: Unit) -> bool:
        """Rewrite the unit's module in place; return whether an entry has any large
        intermediates.
        """
        changed = False
        functions = functions_of(unit.module)
        for entry in entries_of(unit.module):
            found = _largest(functions[entry.name], entry)
            if found:
                write_intermediates(functions[entry.name], found)
                changed = True
        return changed


def _largest(function: Function, entry: Entry) -> tuple[Tensor, ...]:
    """Return the intermediate types that may outgrow all inputs and outputs of an
    entry.
    """
    with function.context, known_contracts(entry.symbols):
        inputs = [port.type for port in entry.ports("input")]
        kept = [port.type for port in entry.ports("output")]
        for tensor in sorted(_tensors(function), key=str):
            if not _covers(inputs, tensor, _ROOM) and not _covers(kept, tensor, 1):
                kept = [k for k in kept if not _covers([tensor], k, 1)] + [tensor]
        outputs = {port.type for port in entry.ports("output")}
        return tuple(tensor for tensor in kept if tensor not in outputs)


def _tensors(function: Function) -> set[Tensor]:
    """Return the types of all results in a function that may exceed the addressable
    size.
    """
    found: set[Tensor] = set()

    def visit(op: Operation) -> Any:
        for value in op.results:
            if isinstance(value.type, ir.RankedTensorType) and value.type.encoding:
                found.add(Tensor.of(value))
        return ir.WalkResult.ADVANCE

    function.operation.walk(visit)
    return {tensor for tensor in found if not _is_small(tensor) and _is_spelled(tensor)}


def _is_spelled(tensor: Tensor) -> bool:
    """Return whether every size, as text, is short enough for a manifest."""
    return all(len(str(size)) <= LENGTH_LIMIT for size in tensor.shape)


def _is_small(tensor: Tensor) -> bool:
    """Return whether the symbols' upper bounds keep a tensor within the addressable
    size.
    """
    largest = [bounds(size)[1] for size in tensor.shape]
    known = [size for size in largest if isinstance(size, int)]
    return len(known) == len(largest) and _bytes(tensor, math.prod(known)) < ADDRESSABLE


def _covers(others: Iterable[Tensor], tensor: Tensor, room: int) -> bool:
    """Return whether one of `others`, times `room`, has as many bytes for all symbol
    values.
    """
    count, symbolic = factors(tensor.shape)
    for other in others:
        other_count, other_symbolic = factors(other.shape)
        is_within = not symbolic - other_symbolic and _bytes(tensor, count) <= (
            room * _bytes(other, other_count)
        )
        # A size of 0 on one side alone would make nothing of it.
        if is_within and _positive((other_symbolic - symbolic).elements()):
            return True
    return False


def _positive(sizes: Iterable[Any]) -> bool:
    """Return whether all symbolic sizes are at least 1 by their contracts."""
    return all(bounds(size_of(size))[0] >= 1 for size in sizes)


def _bytes(tensor: Tensor, count: int) -> int:
    """Return the bytes of `count` elements of the tensor's dtype."""
    return count * dtypes.bits(tensor.dtype) // 8
