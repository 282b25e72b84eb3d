"""Lowering of sorting: counting within blocks, then merging.

Note [sorting]: elements become 64-bit words, a key of 32 bits in the order of the
elements above their position. So no two words are equal, the order is stable, and
sorted words hold sorted positions. Within a block of `BLOCK` words, the rank of each is
the number of smaller ones, which vectorises. Sorted runs are then merged by pairs until
one is left: each place of the result finds by bisection how many of the words before it
come from the first run (Odeh, Green, Mwassi, Shmueli and Birk 2012, "Merge path"), so
no place waits for another. Keys of 64 bits are sorted by their lower halves, then by
their upper ones. Everything is compared without sign.
"""

from collections.abc import Callable, Sequence
from typing import Any

from aotc.core import dtypes
from aotc.dialects import iree_text
from aotc.dialects.lowering import Lowering
from aotc.dialects.lowering.scalars import (
    Body,
    constant,
    float_compare,
    int_compare,
    is_nan,
)
from aotc.dialects.types import Size, Tensor, lowered_type
from aotc.mlir import ElementType, Type, Value, arith, ir, scf, tensor

BLOCK = 32
HALF = 32  # bits of a key that go into a word


def padded_size(size: Size) -> Size:
    """Return `size` rounded up to whole blocks: the size of an axis of words."""
    return (size + (BLOCK - 1)) // BLOCK * BLOCK


def key_width(dtype: str) -> int:
    """Return the number of bits of the sort keys for elements of `dtype`."""
    return max(dtypes.bits(dtype), HALF)


def key(x: Value, dtype: str) -> Value:
    """Emit, inside a body, an unsigned integer that orders as the element `x`."""
    if dtypes.is_float(dtype):
        return _float_key(x)
    width = key_width(dtype)
    signed = dtype in dtypes.SIGNED
    if dtypes.bits(dtype) < width:
        extend = arith.extsi if signed else arith.extui
        x = extend(ir.IntegerType.get_signless(width), x)
    return arith.xori(x, _sign_bit(x.type)) if signed else x


def _float_key(x: Value) -> Value:
    """Emit a float's bits as an ascending key; NaN comes last, and zeros are equal."""
    if x.type.width < HALF:
        x = arith.extf(ir.F32Type.get(), x)
    bits = arith.bitcast(ir.IntegerType.get_signless(x.type.width), x)
    zero, ones = constant(bits.type, 0), constant(bits.type, -1)
    is_zero = float_compare("OEQ", x, constant(x.type, 0.0))
    bits = arith.select(is_zero, zero, bits)
    negative = int_compare("slt", bits, zero)
    rising = arith.xori(bits, arith.select(negative, ones, _sign_bit(bits.type)))
    return arith.select(is_nan(x), ones, rising)


def _sign_bit(element: ElementType) -> Value:
    """Emit an integer with only its highest bit set."""
    return constant(element, -(1 << (element.width - 1)))


def sorted_positions(low: Lowering, keys: Value, keys_type: Tensor) -> Value:
    """Emit words in the order of the keys along the last axis, of a `padded_size`.

    Returns:
        Words (i64) whose lower half is the position.
    """
    words = keys_type.with_dtype("i64")
    first = low.pointwise(
        [keys], words, lambda key: _word(low, key, 0, keys_type.rank - 1)
    )
    order = _sort(low, first, words)
    if keys_type.dtype == "i32":
        return order

    def upper_word(loops: list[Value]) -> Value:
        place = _position(low.extract(order, loops))
        upper = low.extract(keys, [*loops[:-1], place])
        return _word(low, upper, HALF, keys_type.rank - 1)

    second = _sort(low, low.generate(words, upper_word), words)

    def compose(loops: list[Value]) -> Value:
        return low.extract(order, [*loops[:-1], _position(low.extract(second, loops))])

    return low.generate(words, compose)


def _word(low: Lowering, key: Value, shift: int, axis: int) -> Value:
    """Emit, in a body, a key's half from bit `shift` above the index along `axis`."""
    i64 = ir.IntegerType.get_signless(64)
    if key.type.width < 64:
        key = arith.extui(i64, key)
    half = arith.shrui(key, constant(i64, shift)) if shift else key
    upper = arith.shli(half, constant(i64, HALF))
    return arith.ori(upper, arith.index_cast(i64, low.loop_index(axis)))


def _position(word: Value) -> Value:
    """Emit the position, an index value, in the lower half of a word."""
    lower = arith.andi(word, constant(word.type, (1 << HALF) - 1))
    return arith.index_cast(ir.IndexType.get(), lower)


# ---- words --------------------------------------------------------------------------


def smallest_words(
    low: Lowering, words: Value, words_type: Tensor, count: int
) -> Value:
    """Emit the `count` smallest words along the last axis, by a reduction for each."""
    rank = words_type.rank
    rest, single = (
        words_type.with_shape(words_type.shape[:-1]),
        words_type.with_shape((*words_type.shape[:-1], 1)),
    )
    whole = ir.AffineMap.get_identity(rank)
    loops = [ir.AffineDimExpr.get(loop) for loop in range(rank - 1)]
    row = ir.AffineMap.get(rank, 0, loops)
    kinds = ["parallel"] * (rank - 1) + ["reduction"]

    def least(word: Value, *rest: Value) -> Value:
        # as the largest complement, which starts from zero
        *last, best = rest
        turned = arith.xori(word, constant(word.type, -1))
        if last:
            later = int_compare("ult", turned, last[0])
            turned = arith.select(later, turned, constant(word.type, 0))
        return arith.maxui(turned, best)

    found: list[Any] = []
    for _ in range(count):
        inputs = [words, *found[-1:]]
        maps = [whole, *[row] * len(found[-1:]), row]
        found.append(low.generic(inputs, maps, low.full(rest, 0), kinds, least))
    columns = [low.reshape(column, rest, single) for column in found]
    joined = words_type.with_shape((*words_type.shape[:-1], count))
    turned = tensor.concat(lowered_type(joined), rank - 1, columns)
    return low.pointwise(
        [turned], joined, lambda word: arith.xori(word, constant(word.type, -1))
    )


def first_words(low: Lowering, keys: Value, keys_type: Tensor, count: int) -> Value:
    """Emit the first `count` words of `sorted_positions`, for keys of 32 bits."""
    words = keys_type.with_dtype("i64")
    packed = low.pointwise(
        [keys], words, lambda key: _word(low, key, 0, keys_type.rank - 1)
    )
    return smallest_words(low, packed, words, count)


def _sort(low: Lowering, words: Value, words_type: Tensor) -> Value:
    """Emit words, all different, sorted in rising order along their last axis."""
    words, size = _sort_blocks(low, words, words_type), words_type.shape[-1]
    if size == BLOCK:
        return words
    kinds = [words.type, ir.IndexType.get()]

    def has_more_runs(_: Value, run: Value) -> Value:
        return int_compare("ult", run, low.size(size))

    def merge(words: Value, run: Value) -> list[Value]:
        return [_merge_runs(low, words, words_type, run), arith.addi(run, run)]

    return _while(kinds, [words, low.index(BLOCK)], has_more_runs, merge)[0]


def _while(
    kinds: list[Type],
    start: list[Value],
    condition: Body,
    body: Callable[..., Sequence[Value]],
) -> Sequence[Value]:
    """Emit an scf.while from the values `start`; return its results."""
    loop = scf.WhileOp(kinds, start)
    places = [ir.Location.current] * len(kinds)
    before = loop.before.blocks.append(*kinds, arg_locs=places)
    with ir.InsertionPoint(before):
        scf.ConditionOp(condition(*before.arguments), list(before.arguments))
    after = loop.after.blocks.append(*kinds, arg_locs=places)
    with ir.InsertionPoint(after):
        scf.YieldOp(body(*after.arguments))
    return loop.results


def _sort_blocks(low: Lowering, words: Value, words_type: Tensor) -> Value:
    """Emit each block sorted: the rank of every word, then the word of every rank."""
    split = words_type.with_shape(
        (*words_type.shape[:-1], words_type.shape[-1] // BLOCK, BLOCK)
    )
    rank = split.rank
    loops = [ir.AffineDimExpr.get(loop) for loop in range(rank + 1)]
    own = ir.AffineMap.get(rank + 1, 0, loops[:rank])
    other = ir.AffineMap.get(rank + 1, 0, [*loops[: rank - 1], loops[rank]])
    kinds = ["parallel"] * rank + ["reduction"]
    i64 = ir.IntegerType.get_signless(64)

    def count(word: Value, another: Value, smaller: Value) -> Value:
        return arith.addi(smaller, arith.extui(i64, int_compare("ult", another, word)))

    def place(word: Value, position: Value, found: Value) -> Value:
        here = arith.index_cast(i64, low.loop_index(rank - 1))
        return arith.select(int_compare("eq", position, here), word, found)

    words = low.reshape(words, words_type, split)
    if low.on_gpu:
        # Note [sorted blocks]: where rows have several, IREE 3.13's code for Vulkan
        # took words of another block, unless they lie in memory, where they come in
        # any case.
        words = iree_text.optimization_barrier(words)
    zeros = low.full(split, 0)
    ranks = low.generic([words, words], [own, other, own], zeros, kinds, count)
    placed = low.generic([words, ranks], [other, other, own], zeros, kinds, place)
    return low.reshape(placed, split, words_type)


def _merge_runs(
    low: Lowering, words: Value, words_type: Tensor, run_length: Value
) -> Value:
    """Emit sorted runs of `run_length` words (an index value) merged in pairs."""
    size = words_type.shape[-1]

    def word(loops: list[Value]) -> Value:
        *row, place = loops

        def at(position: Value) -> Value:
            return low.extract(words, [*row, low.clamp_index(position, size - 1)])

        offset = arith.remui(place, arith.addi(run_length, run_length))
        first = arith.subi(place, offset)
        second = arith.minsi(arith.addi(first, run_length), low.size(size))
        end = arith.minsi(arith.addi(second, run_length), low.size(size))
        taken = _count_taken(low, at, offset, (first, second, end))
        here, there = arith.addi(first, taken), arith.subi(offset, taken)
        there = arith.addi(second, there)
        exhausted = int_compare("uge", there, end)
        smaller = arith.ori(exhausted, int_compare("ult", at(here), at(there)))
        left = arith.andi(int_compare("ult", here, second), smaller)
        return arith.select(left, at(here), at(there))

    return low.generate(words_type, word)


def _count_taken(
    low: Lowering,
    word_at: Callable[[Value], Value],
    offset: Value,
    ends: tuple[Value, Value, Value],
) -> Value:
    """Emit, in a body, how many of the `offset` least words are in the first run."""
    first, second, end = ends
    zero, one = low.index(0), low.index(1)
    few = arith.maxsi(arith.subi(offset, arith.subi(end, second)), zero)
    many = arith.minsi(offset, arith.subi(second, first))

    def unknown(few: Value, many: Value) -> Value:
        return int_compare("ult", few, many)

    def halve(few: Value, many: Value) -> list[Value]:
        middle = arith.shrui(arith.addi(few, many), one)
        behind = arith.subi(arith.subi(offset, middle), one)
        mine, theirs = arith.addi(first, middle), arith.addi(second, behind)
        more = int_compare("ult", word_at(mine), word_at(theirs))
        beyond = arith.addi(middle, one)
        return [arith.select(more, beyond, few), arith.select(more, many, middle)]

    index = ir.IndexType.get()
    return _while([index, index], [few, many], unknown, halve)[0]
