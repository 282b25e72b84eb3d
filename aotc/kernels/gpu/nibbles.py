"""Weights of four bits, two of which share a byte: packed by the build.

    graph.dequantize(%q, …)  →  %p = graph.bitwise_or(low halves of %q, high ones << 4)
                                graph.dequantize(select(is high, %p >> 4, %p), …)

Of 32 integers along the last axis, the first half are the low nibbles of 16 bytes, and
the others the high ones, so that neighbours stay neighbours (as in Q4_0 of GGML). A
dequantisation takes the lowest bits alone, whatever is above them. What packs a weight
is arithmetic on parameters, which `fold-parameters` does at build time.
"""

from __future__ import annotations

from collections.abc import Container

from aotc.dialects.builder import Builder
from aotc.dialects.functions.walking import backward_slice, has_one_use, in_order
from aotc.dialects.graph import GraphOp
from aotc.dialects.ops.bits import ShiftRight
from aotc.dialects.ops.quantization import Dequantize
from aotc.dialects.ops.selection import Compare, Select
from aotc.dialects.ops.shape import Broadcast, Reshape
from aotc.dialects.types import Tensor
from aotc.mlir import Value, ir

_BITS = 4
_HALF = 16  # integers whose nibbles are the low ones of as many bytes
_LOW = (1 << _BITS) - 1
_MADE_BY = Select, Compare, ShiftRight, Broadcast, Reshape


def pack_nibbles(table: Dequantize, weights: Container[Value]) -> None:
    """Rewrite a dequantisation to read its 4-bit weight packed two in a byte.

    A weight that something else reads too stays as it is, and so does one whose last
    axis is not whole blocks.

    Args:
        table: the dequantisation.
        weights: what weights alone decide.
    """
    kind = Tensor.of(table.q)
    size = kind.shape[-1]
    is_apt = isinstance(size, int) and size > 0 and size % (2 * _HALF) == 0
    is_alone = table.q in weights and has_one_use(table.q)
    if table.bits <= _BITS and is_apt and is_alone:
        with ir.InsertionPoint(table), table.operation.location:
            table.operation.operands[0] = _unpack(_pack(table.q), kind)


def unpacking_ops(table: Dequantize) -> list[GraphOp]:
    """Return the ops, in order, that unpack nibbles for a dequantisation, or []."""
    choice = table.q.owner
    if isinstance(choice, ir.Block) or not isinstance(choice.opview, Select):
        return []
    behind = backward_slice([table.q], _is_made)
    ops = in_order([value.owner for value in behind if _is_made(value)])
    is_unpacked = any(isinstance(op, ShiftRight) for op in ops)
    return [*ops] if is_unpacked else []


def _is_made(value: Value) -> bool:
    """Return whether an op of the kinds that unpack nibbles makes a value."""
    made = value.owner
    return not isinstance(made, ir.Block) and isinstance(made.opview, _MADE_BY)


def _pack(q: Value) -> Value:
    """Emit ops that pack 4-bit integers, two in a byte."""
    b, kind = Builder(), Tensor.of(q)
    *rest, size = kind.shape
    blocks = *rest, size // (2 * _HALF), 2, _HALF
    split = b.reshape(q, shape=blocks)
    start, one = [0] * len(blocks), [1] * len(blocks)

    def half(number: int) -> Value:
        sizes = *blocks[:-2], 1, _HALF
        first = *start[:-2], number, 0
        found: Value = b.slice(split, start=first, sizes=sizes, strides=one)
        return found

    low, high = half(0), half(1)
    low = b.bitwise_and(low, b.full_like(low, _LOW))
    high = b.shift_left(high, b.full_like(high, _BITS))
    found: Value = b.reshape(b.bitwise_or(low, high), shape=(*rest, size // 2))
    return found


def _unpack(packed: Value, kind: Tensor) -> Value:
    """Emit ops that unpack two integers from each byte; upper bits are arbitrary."""
    b = Builder()
    *rest, size = kind.shape
    blocks = *rest, size // (2 * _HALF), 2, _HALF
    own = b.reshape(packed, shape=(*blocks[:-2], _HALF))
    axes = *range(len(blocks) - 2), len(blocks) - 1
    twice = b.reshape(b.broadcast(own, shape=blocks, axes=axes), shape=kind.shape)
    halves = b.iota(shape=(2,), axis=0, dtype=kind.dtype)
    number = b.broadcast(halves, shape=blocks, axes=(len(blocks) - 2,))
    number = b.reshape(number, shape=kind.shape)
    is_high = b.compare(number, b.full(kind, 0), direction="ne")
    found: Value = b.select(is_high, b.shift_right(twice, b.full(kind, _BITS)), twice)
    return found
