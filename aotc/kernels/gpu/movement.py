"""Plan GPU kernels of ops that move elements, with the elementwise ops before them.

Transposes, concatenations, and elementwise ops of slices and of what is transposed: a
rotary embedding, or the gate of two halves of a product. IREE takes 13 microseconds for
a transpose that a kernel of ours reads and writes along lines. What reads all of its
operands in their order is left to IREE, which joins it with more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aotc.dialects.functions.walking import backward_slice, defining_op, in_order
from aotc.dialects.graph import GraphOp
from aotc.dialects.ops.activation import Gelu
from aotc.dialects.ops.binary import Binary
from aotc.dialects.ops.contraction import DotGeneral
from aotc.dialects.ops.convolution import ConvGeneral
from aotc.dialects.ops.creation import Constant, Dimension, Iota
from aotc.dialects.ops.indexing import Gather
from aotc.dialects.ops.selection import Cast, Clamp, Select
from aotc.dialects.ops.shape import Broadcast, Reshape, Reverse, Transpose
from aotc.dialects.ops.slicing import Concatenate, Slice
from aotc.dialects.ops.unary import Unary
from aotc.dialects.types import Size, Tensor, element_count
from aotc.kernels.gpu import elements
from aotc.kernels.gpu.elements import ElementTile
from aotc.kernels.gpu.lifting import can_lift
from aotc.kernels.gpu.machines import Gpu
from aotc.kernels.operands import viewed_operand
from aotc.kernels.terms import Term
from aotc.kernels.typical import typical_size
from aotc.mlir import Value, func

ANCHORS: tuple[type[GraphOp], ...] = (
    *(Transpose, Concatenate, Reverse, Gather),
    *(Unary, Binary, Gelu, Select, Clamp, Cast),
)
_OF_FACTORS = DotGeneral, ConvGeneral  # ops whose operands lie in memory
_VIEWS = Reshape, Broadcast, Transpose, Slice, Reverse
_MOVES = Transpose, Slice, Reverse, Concatenate, Gather
_DTYPES = ("f32", "bf16", "f16", "i8", "u8", "i32", "i64", "bool")
_LEAST = 1 << 12  # elements that are worth a launch of their own
_MOST_TENSORS = 16
_FREE = Broadcast, Constant, Iota, Dimension  # which kernels read through, or know

TermOf = Callable[[Sequence[GraphOp], Sequence[Value]], Term | None]


def is_made_in_memory(value: Value, *, for_sums: bool = False) -> bool:
    """Return whether a kernel can compute a value from tensors in memory.

    Else IREE's code computes it with what it is for, where the kernel would have it
    written to memory first.

    Args:
        value: that a kernel would read.
        for_sums: whether it is added up: then what is made of it may be a reshape of
            what lies there, or what several ops read.
    """

    def is_read(value: Value) -> bool:
        return _is_read_from_memory(value) or (for_sums and _has_readers(value))

    def is_computed(value: Value) -> bool:
        op = defining_op(value)
        if is_read(value):
            return False
        return isinstance(op, _FREE) or (isinstance(op, GraphOp) and can_lift(op))

    def is_stored(value: Value) -> bool:
        op = defining_op(value)
        if is_read(value):
            return True
        if for_sums and isinstance(op, Reshape):
            return is_stored(op.x)
        is_moved = isinstance(op, (Concatenate, Gather))
        return not isinstance(op, GraphOp) or type(op).in_memory or is_moved

    behind = backward_slice([value], is_computed)
    return all(is_computed(each) or is_stored(each) for each in behind)


def _is_read_from_memory(value: Value) -> bool:
    """Return whether a product or kernel reads a value, so that it is in memory."""
    readers = *_OF_FACTORS, func.CallOp
    return any(isinstance(use.owner.opview, readers) for use in value.uses)


def _has_readers(value: Value) -> bool:
    """Return whether several ops read a value that is no broadcast or constant."""
    is_repeated = isinstance(defining_op(value), _FREE)
    return not is_repeated and len({use.owner.opview for use in value.uses}) > 1


def ops_before(op: GraphOp) -> list[GraphOp]:
    """Return the ops before an op that its kernel computes too, in order.

    Those are views, gathers and elementwise ops whose results nothing else reads; none
    that would be computed several times, for each element that repeats it, but cheap
    ones that make indices.
    """
    computed, repeated, found = {op.results[0]}, set[Value](), list[GraphOp]()
    rest, indices = _computable(op), {*_indices(op)}
    repeated.update(indices)
    while rest:
        value = rest.pop()
        inner = defining_op(value)
        if value in computed or not isinstance(inner, GraphOp):
            continue
        readers = [use.owner for use in value.uses]
        if not all(any(x in computed for x in each.results) for each in readers):
            continue
        if isinstance(inner, Concatenate):
            is_taken = all(_continues(each.opview, inner) for each in readers)
        elif isinstance(inner, _VIEWS):
            is_taken = True
            if isinstance(inner, Broadcast) or value in repeated:
                repeated.add(inner.operands[0])
        elif isinstance(inner, Gather):
            is_taken = _has_table(inner) and value not in repeated
        else:
            is_cheap = value in indices and not type(inner).is_approximated
            is_taken = can_lift(inner) and (is_cheap or value not in repeated)
        if is_taken:
            computed.add(value)
            found.append(inner)
            rest += _computable(inner)
            indices.update(inner.operands if value in indices else _indices(inner))
            repeated.update(_indices(inner))
    return in_order(found)


def _computable(op: GraphOp) -> list[Value]:
    """Return an op's operands that its kernel may compute: not a gather's table."""
    return _indices(op) if isinstance(op, Gather) else [*op.operands]


def _indices(op: GraphOp) -> list[Value]:
    """Return the index operands of a gather; none for other ops."""
    return [*op.indices] if isinstance(op, Gather) else []


def _has_table(op: Gather) -> bool:
    """Return whether a gather's table is in memory as it is."""
    found = viewed_operand(op.x)
    return found.in_memory and found.source == op.x


def _continues(reader: object, op: Concatenate) -> bool:
    """Return whether `reader` concatenates along the same axis as `op`."""
    return isinstance(reader, Concatenate) and reader.axis == op.axis


def views_of_repeats(op: GraphOp) -> Mapping[Value, Value]:
    """Map each operand that is a broadcast to its source in memory.

    None of those that the kernel computes itself.
    """
    found, computed = {}, {each.results[0] for each in ops_before(op)}
    for value in op.operands:
        read = viewed_operand(value)
        if value not in computed and read.in_memory and read.source != value:
            found[value] = read.source
    return found


def operands_of(ops: Sequence[GraphOp]) -> list[Value]:
    """Return the tensors that a kernel of consecutive ops reads from memory."""
    made = {value for op in ops for value in op.results}
    read = [x for op in ops for x in op.operands if x not in made]
    viewed = map(viewed_operand, read)
    return [*dict.fromkeys(x.source for x in viewed if x.in_memory)]


def plan(op: GraphOp, machine: Gpu, term_of_ops: TermOf) -> ElementTile | None:
    """Schedule an op with those before it, if one of them moves elements; else None.

    Args:
        op: the last one.
        machine: the chip.
        term_of_ops: gives the term of ops, and of what they read from memory.
    """
    if not _is_known(op) or (isinstance(op, Concatenate) and not _moves(op)):
        return None
    if isinstance(op, Gather) and not _has_table(op):
        return None
    ops = [*ops_before(op), op]
    if not any(map(_moves, ops)) or not all(map(_is_known, ops)):
        return None
    if typical_size(Tensor.of(op.results[0]).elements, _LEAST) < _LEAST:
        return None
    read = operands_of(ops)
    if len(read) >= _MOST_TENSORS or not all(map(is_made_in_memory, read)):
        return None
    with op.operation.context:
        term = term_of_ops(ops, read)
        return None if term is None else elements.plan(term, machine)


def _is_known(op: GraphOp) -> bool:
    """Return whether a GPU kernel can compute an op, by its dtypes and kind."""
    kinds = [Tensor.of(value) for value in (*op.operands, *op.results)]
    if not all(kind.dtype in _DTYPES and 0 not in kind.shape for kind in kinds):
        return False
    return isinstance(op, (*_VIEWS, Concatenate, Gather)) or can_lift(op)


def _moves(op: GraphOp) -> bool:
    """Return whether an op reorders elements; not if IREE concatenates in place."""
    if isinstance(op, Concatenate):
        return element_count(Tensor.of(op.results[0]).shape[: op.axis]) != 1
    return isinstance(op, _MOVES)


def workgroups(
    op: GraphOp, schedule: ElementTile, term_of_ops: TermOf
) -> tuple[Size, Size]:
    """Return the number of program instances of an op and those before it, and 1."""
    ops: list[Any] = [*ops_before(op), op]
    with op.operation.context:
        term = term_of_ops(ops, operands_of(ops))
        assert term is not None
        return elements.programs(term, schedule), 1
