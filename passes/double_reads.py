"""Values that IREE must have in memory before anything reads them.

Note [two reads of a reduction]: IREE 3.13 merges what reads a reduction, or a product,
into its loops. Where one op reads the result in two ways, by rows and by columns, as
`s[:, None] * s` and `einsum("i,j->ij", s, s)` do, both reads become that of the part at
hand, and most elements are wrong without a word (x86-64; `s` of 6 sums of 5 elements,
of 64 products of 128; with other sizes it is right). Behind a barrier what reads is in
another dispatch. What sums up is one of its own: `s @ s.T` is right.

Note [sums of all of a product]: where a reduction goes over two axes of a product,
whose sizes only calls decide (`mean(x @ x.T)`), IREE 3.13 merges both, wants the
product on the stack, and refuses to compile. Behind a barrier there are two dispatches.
So it is where two reductions do, one after the other (`trace(x @ x.T)`): there the
second one is behind a barrier.

Note [sums of sums]: on llvm-cpu, IREE 3.13 merges a sum with another that reads its
result. If the second goes over an axis of symbolic size and one of fixed size, it
vectorises all of both at once, and refuses to compile, as the mean loss of n sequences
of 64 tokens ("operations with large vector sizes"). Behind a barrier there are two
dispatches. Of other sums of sums, few are refused (those are compiled without vectors),
and two dispatches would take longer.

Note [sums of parts of unknown size]: on vmvx, IREE 3.13 cuts the last three axes of a
result into parts, and no others. Where an elementwise op is merged into a product, a
convolution or the windows of a pool, the sums of a part have memory of their own; if
one of the other axes has a size that only calls decide, it is as much as for 2**53
places along it, which no call gets ("RESOURCE_EXHAUSTED"). So it is where elementwise
ops before a pad are merged with others of the same operands. Behind a barrier there are
two dispatches.

Note [integers that wrap]: on vmvx, IREE 3.13 computes with integers of 8 and 16 bits in
32, and cuts them off when they are stored. Where what wraps is merged with an op that
looks at the sign, this sees the integer that has not wrapped: `x << 4 >> 4` is x, and
`x + y > 0` is true for 100 and 100. Casts cut off by themselves, and unsigned integers
are extended first (`with_zero_extension`). Behind a barrier there are two dispatches.

Note [many tensors]: IREE 3.13 merges elementwise ops of any number of tensors, and
binds at most 32 to a dispatch: it refuses to load a module that wants more ("binding
count 41 > 32"). What a call computes in between lies in one block of memory, which is
bound once; each argument is bound by itself. Behind a barrier there are two dispatches.

Note [many results]: each result of a dispatch is bound by itself, too. It has many
where IREE cuts a long run of elementwise ops in two, and the second reads what the
first has computed on the way, as the derivative of a series of 73 terms does (`i1e`;
"dispatch requiring 74 bindings exceeds limit of 64"). Behind a barrier there are two
dispatches.
"""

from __future__ import annotations

from heapq import nlargest

from aotc.core import dtypes
from aotc.dialects.functions.walking import backward_slice, defining_op
from aotc.dialects.graph import GraphOp
from aotc.dialects.movement.reshaping import long_axes
from aotc.dialects.ops.binary import Add, Multiply, Power, Subtract
from aotc.dialects.ops.bits import ShiftLeft
from aotc.dialects.ops.contraction import DotGeneral
from aotc.dialects.ops.convolution import ConvGeneral
from aotc.dialects.ops.padding import Pad
from aotc.dialects.ops.pooling import Pool
from aotc.dialects.ops.reduction import Reduction
from aotc.dialects.ops.selection import Cast
from aotc.dialects.ops.unary import Abs, Negate
from aotc.dialects.types import Tensor
from aotc.mlir import Block, Operation, Value

# of the values that one is made of, those that are followed: what comes before so many
# others is not merged with what reads them, and all of them would be as many as ops
_LATEST = 8
_MOST_BOUND = 24  # arguments of a dispatch, beside its results and what is in between
_MOST_WRITTEN = 16  # values with several readers in a run of merged ops
_CUT = 3  # axes that vmvx cuts into parts

# what may leave the range of its dtype
_WRAPPING = (Abs, Add, Cast, Multiply, Negate, Power, ShiftLeft, Subtract)

# where each axis of more than one element of a value lies in what is computed from it;
# -1 for one that is gone
_Axes = tuple[int, ...]
_Ways = dict[Value, set[_Axes]]  # all of them, by the value that is read


def values_read_in_two_ways(block: Block) -> set[Value]:
    """Return results that one op reads along different axes: IREE miscompiles such
    reads.

    Views, repetitions, elementwise ops, and products of which nothing is summed up, in
    between are looked through.
    """
    return {
        root
        for read in _reads_by_value(block).values()
        for root, axes in read.items()
        if len(axes) > 1
    }


def reductions_reduced_again(block: Block) -> set[Value]:
    """Return results of reductions that IREE would merge with another that reads them,
    and refuse.

    See Note [sums of sums] and Note [sums of all of a product]. Where such a result is
    read to compute another one, that stands for both.
    """
    reads, found = _reads_by_value(block), set[Value]()
    for op in block.operations:
        if not isinstance(op, Reduction):
            continue
        roots = {
            root: made
            for root, ways in reads.get(op.x, {}).items()
            if isinstance(made := defining_op(root), Reduction)
            and any(_is_refused(op, made, way, reads) for way in ways)
        }
        read = {value for made in roots.values() for value in reads.get(made.x, {})}
        found |= roots.keys() - read
    return found


def _is_refused(
    op: Reduction, first: Reduction, way: _Axes, reads: dict[Value, _Ways]
) -> bool:
    """Return whether IREE refuses to merge a reduction with a first one that it reads.

    Args:
        op: the reduction that reads.
        first: the one that is read.
        way: where the long axes of the first one's result lie in what `op` reads.
        reads: of the values of the block.
    """
    shape = Tensor.of(first.y).shape
    reduced = [
        shape[axis]
        for axis, now in zip(long_axes(shape), way, strict=True)
        if now in op.axes
    ]
    if all(isinstance(size, int) for size in reduced):
        return False
    behind = map(defining_op, reads.get(first.x, {}))
    is_all_of_a_product = _reduced_symbols(first) > 0 and any(
        isinstance(made, DotGeneral) for made in behind
    )
    return is_all_of_a_product or any(isinstance(size, int) for size in reduced)


def values_of_many_arguments(block: Block) -> set[Value]:
    """Return values to materialize so that no dispatch binds more arguments than IREE
    allows.

    See Note [many tensors].
    """
    found: set[Value] = set()
    behind: dict[
        Value, frozenset[Value]
    ] = {}  # the arguments that are read for a value

    def arguments_behind(value: Value) -> frozenset[Value]:
        is_argument = defining_op(value) is None
        return behind.get(value, frozenset([value] if is_argument else []))

    for op in block.operations:
        if not isinstance(op, GraphOp):
            continue
        computed = [x for x in op.operands if defining_op(x) is not None]
        computed.sort(key=lambda x: -len(arguments_behind(x)))
        for value in dict.fromkeys(computed):
            read = frozenset().union(*map(arguments_behind, op.operands))
            if len(read) <= _MOST_BOUND:
                break
            found.add(value)
            behind[value] = frozenset()
        if type(op).is_merged(op):
            read = frozenset().union(*map(arguments_behind, op.operands))
            behind |= dict.fromkeys(op.results, read)
    return found


def values_of_many_results(block: Block) -> set[Value]:
    """Return values to materialize so that no dispatch writes more results than IREE
    can bind.

    See Note [many results].
    """
    found: set[Value] = set()
    chains: dict[Value, list[Value]] = {}  # values merged before one, that several read
    for op in block.operations:
        if not isinstance(op, GraphOp) or not type(op).is_merged(op):
            continue
        merged = max((chains.get(x, []) for x in op.operands), key=len, default=[])
        for value in op.results:
            chains[value] = merged
            if op.operands and len({use.owner for use in value.uses}) > 1:
                chains[value] = merged = [*merged, value]
            if len(merged) >= _MOST_WRITTEN:
                found.add(value)
                chains[value] = merged = []
    return found


def products_reduced_over_symbols(block: Block) -> set[Value]:
    """Return the matrix products of which a reduction goes over two axes of symbolic
    sizes.

    See Note [sums of all of a product].
    """
    reductions = [op for op in block.operations if isinstance(op, Reduction)]
    reduced = [x for op in reductions if _reduced_symbols(op) > 1 for x in op.operands]

    def is_merged(value: Value) -> bool:
        op = value.owner.opview
        is_product = isinstance(op, DotGeneral) or not isinstance(op, GraphOp)
        return not is_product and type(op).is_merged(op)

    read = backward_slice(reduced, is_merged)
    return {value for value in read if isinstance(defining_op(value), DotGeneral)}


def sums_in_parts_of_unknown_size(block: Block) -> set[Value]:
    """Return contractions and fused values that vmvx would tile with an unbounded
    buffer.

    See Note [sums of parts of unknown size].
    """
    return {
        value
        for op in block.operations
        if isinstance(op, GraphOp)
        for value in op.results
        if isinstance(op, (DotGeneral, ConvGeneral, Pool))
        or _is_fused_with_others(value)
        if not all(isinstance(size, int) for size in Tensor.of(value).shape[:-_CUT])
        and any(isinstance(use.owner.opview, GraphOp) for use in value.uses)
    }


def integers_that_wrap(block: Block) -> set[Value]:
    """Return narrow integers that vmvx may leave unwrapped when a fused op reads them.

    See Note [integers that wrap].
    """
    return {
        value
        for op in block.operations
        if isinstance(op, _WRAPPING)
        for value in op.results
        if Tensor.of(value).dtype in ("i8", "i16")
        and not (isinstance(op, Cast) and dtypes.is_float(Tensor.of(op.x).dtype))
        and any(_may_see_unwrapped(use.owner.opview) for use in value.uses)
    }


def _may_see_unwrapped(reader: Operation) -> bool:
    """Return whether a reader is a graph op other than a cast, which may see unwrapped
    bits.
    """
    return isinstance(reader, GraphOp) and not isinstance(reader, Cast)


def _is_fused_with_others(value: Value) -> bool:
    """Return whether a value is padded, or has several uses, so that IREE fuses loops
    over it.
    """
    readers = [use.owner.opview for use in value.uses]
    return len(readers) > 1 or any(isinstance(each, Pad) for each in readers)


def _reduced_symbols(op: Reduction) -> int:
    """Return the number of axes of symbolic sizes that a reduction goes over."""
    shape = Tensor.of(op.x).shape
    return sum(not isinstance(shape[axis], int) for axis in op.axes)


def _reads_by_value(block: Block) -> dict[Value, _Ways]:
    """Map each computed value to the materialized ones behind it, and these to all ways
    in which their axes lie in it.
    """
    reads: dict[Value, _Ways] = {}
    order: dict[Value, int] = {}
    for op in block.operations:
        if not isinstance(op, GraphOp):
            continue
        read = _reads(op, reads, order) if type(op).is_merged(op) else {}
        if read:
            reads |= dict.fromkeys(op.results, read)
            continue
        for value in op.results:
            reads[value] = {value: {tuple(long_axes(Tensor.of(value).shape))}}
        order |= dict.fromkeys(op.results, len(order))
    return reads


def _reads(
    op: GraphOp, reads_by_value: dict[Value, _Ways], order: dict[Value, int]
) -> _Ways:
    """Map each materialized value behind an op's operands to all ways in which its axes
    lie in the result.
    """
    found: _Ways = {}
    for number, value in enumerate(op.operands):
        read = reads_by_value.get(value)
        if not read:
            continue
        if len(read) > _LATEST:
            latest = nlargest(_LATEST, read, key=order.__getitem__)
            read = {root: read[root] for root in latest}
        moved = type(op).kept_axes(op, number)
        stays = len(moved) == Tensor.of(value).rank and all(
            axis == other for axis, other in moved.items()
        )
        for root, axes in read.items():
            if not stays:
                axes = {tuple(moved.get(a, -1) for a in each) for each in axes}
            found[root] = found.get(root, set()) | axes
    return found
