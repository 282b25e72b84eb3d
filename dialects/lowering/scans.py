"""Lowering of running totals: by blocks, whatever the size.

Note [scan in blocks]: IREE has no loop that carries a tensor without copying it, so a
scan becomes elementwise generics, which it vectorises. A block of `BLOCK` elements is
combined into its total; the totals are scanned in the same way; then y[i] combines the
total before its block with the elements of the block up to i (Blelloch 1990, "Prefix
sums and their applications"). That is `BLOCK` steps for each element, at any number of
elements. A symbolic size gets as many levels of blocks as the largest one needs, which
its contract may bound.

All padding is by zeros, which the bodies replace by the neutral element: IREE 3.13
cannot compile some programs that fill tensors of 64-bit elements with another number
("'stream.yield' op used resource not listed in explicit captures").
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from aotc.dialects.lowering import Lowering
from aotc.dialects.lowering.scalars import Body, int_compare
from aotc.dialects.types import Size, Tensor, bounds
from aotc.mlir import Value, arith, ir

BLOCK = 8
SYMBOLIC_LEVELS = 10  # BLOCK ** 11 > 2 ** 31

Element = Sequence[Value]


@dataclass(frozen=True)
class Monoid:
    """An associative operation on tuples of scalars, with its neutral element.

    Args:
        combine: of two tuples, the earlier one first.
        neutral: the tuple that changes nothing.
    """

    combine: Callable[[Element, Element], Element]
    neutral: Sequence[float]


class ScanBlocks:
    """Types for one level of a blocked scan: `of` split along `axis` into blocks."""

    def __init__(self, of: Tensor, axis: int) -> None:
        self.of, self.axis = of, axis
        self.size: Size = of.shape[axis]
        self.count: Size = (self.size + (BLOCK - 1)) // BLOCK
        before, after = of.shape[:axis], of.shape[axis + 1 :]
        self.padded = of.with_shape((*before, self.count * BLOCK, *after))
        self.split = of.with_shape((*before, self.count, BLOCK, *after))
        self.cut = of.with_shape((*before, self.count, 1, *after))
        self.totals = of.with_shape((*before, self.count, *after))

    def along(self, size: Size) -> tuple[Size, ...]:
        """Return `size` for the scan's axis, and 0 for the others."""
        axes = range(self.of.rank)
        return tuple(size if axis == self.axis else 0 for axis in axes)


class ScanLowering:
    """Lowers cumulative reductions (prefix scans); see Note [scan in blocks].

    Args:
        low: the function under construction.
        monoid: what is totalled.
        reverse: whether the totals start at the end.
    """

    def __init__(self, low: Lowering, monoid: Monoid, reverse: bool) -> None:
        self.low, self.monoid, self.reverse = low, monoid, reverse
        self.order = list(range(BLOCK)[::-1] if reverse else range(BLOCK))

    def __call__(
        self, xs: Sequence[Value], of: Tensor, axis: int, levels: int = SYMBOLIC_LEVELS
    ) -> list[Value]:
        """Emit the prefix scans of lowered tensors of type `of`, one for each."""
        blocks = ScanBlocks(of, axis)
        elements = [part for x in xs for part in self._elements(x, blocks)]
        before: list[Any] = []
        if bounds(blocks.count)[1] > 1 and levels > 0:
            folded = self._fold(elements, blocks)
            totals = self(folded, blocks.totals, axis, levels - 1)
            before = [self._delay(total, blocks) for total in totals]
        return [
            self._join(y, blocks)
            for y in self._block_prefixes(elements, before, blocks)
        ]

    def _elements(self, x: Value, blocks: ScanBlocks) -> list[Value]:
        """Emit, for each position in a block, the elements there of all blocks."""
        low, split, none = self.low, blocks.split, blocks.along(0)
        high = blocks.along(blocks.count * BLOCK - blocks.size)
        x = low.pad(x, blocks.padded, none, high, 0)
        x = low.reshape(x, blocks.padded, split)
        parts = []
        for place in range(BLOCK):
            start = [0] * split.rank
            start[blocks.axis + 1] = place
            part = low.slice(x, blocks.cut, tuple(start), [1] * split.rank)
            parts.append(low.reshape(part, blocks.cut, blocks.totals))
        return parts

    def _join(self, y: Value, blocks: ScanBlocks) -> Value:
        """Emit the blocks concatenated, without the padding."""
        y = self.low.reshape(y, blocks.split, blocks.padded)
        rank = blocks.of.rank
        return self.low.slice(y, blocks.of, (0,) * rank, [1] * rank)

    def _delay(self, total: Value, blocks: ScanBlocks) -> Value:
        """Emit totals shifted by one block: each gets that of the block before."""
        none, one, of = blocks.along(0), blocks.along(1), blocks.totals
        low, high = (none, one) if self.reverse else (one, none)
        sizes = [n + more for n, more in zip(of.shape, one, strict=True)]
        padded = self.low.pad(total, of.with_shape(sizes), low, high, 0)
        return self.low.slice(padded, of, high, [1] * of.rank)

    # ---- bodies -------------------------------------------------------------------

    def _fold(self, elements: Sequence[Value], blocks: ScanBlocks) -> list[Value]:
        """Emit the total of each block, by one elementwise op."""

        def body(*flat: Value) -> Element:
            total = self._neutral(blocks)
            for place in self.order:
                element = self._element(flat, place, blocks)
                total = self.monoid.combine(total, element)
            return total

        return [
            self.low.pointwise(elements, blocks.totals, _component(body, number))
            for number in range(len(self.monoid.neutral))
        ]

    def _block_prefixes(
        self, elements: Sequence[Value], before: Sequence[Value], blocks: ScanBlocks
    ) -> list[Value]:
        """Emit prefix scans within blocks, from the total before each block."""
        low, split, axis = self.low, blocks.split, blocks.axis
        reached = "sge" if self.reverse else "sle"

        def body(*flat: Value) -> Element:
            total = self._before(flat[: len(before)], blocks)
            here = low.loop_index(axis + 1)
            for place in self.order:
                element = self._element(flat[len(before) : -1], place, blocks)
                more = self.monoid.combine(total, element)
                counts = int_compare(reached, low.index(place), here)
                total = _choose(counts, more, total)
            return total

        loops = [ir.AffineDimExpr.get(loop) for loop in range(split.rank)]
        read = ir.AffineMap.get(split.rank, 0, loops[: axis + 1] + loops[axis + 2 :])
        inputs = [*before, *elements]
        maps = [read] * len(inputs) + [ir.AffineMap.get_identity(split.rank)]
        kinds = ["parallel"] * split.rank
        return [
            low.generic(inputs, maps, low.empty(split), kinds, _component(body, number))
            for number in range(len(self.monoid.neutral))
        ]

    def _neutral(self, blocks: ScanBlocks) -> Element:
        """Emit the monoid's neutral element as constants."""
        return [self.low.scalar(blocks.of.dtype, x) for x in self.monoid.neutral]

    def _before(self, totals: Element, blocks: ScanBlocks) -> Element:
        """Emit the total before a block; the neutral element for the first block."""
        if not totals:
            return self._neutral(blocks)
        first = self.low.size(blocks.count - 1 if self.reverse else 0)
        block = self.low.loop_index(blocks.axis)
        is_first = int_compare("eq", block, first)
        return _choose(is_first, self._neutral(blocks), totals)

    def _element(
        self, flat: Sequence[Value], place: int, blocks: ScanBlocks
    ) -> Element:
        """Emit the element at a position of a block: neutral in the padding."""
        element = flat[place::BLOCK]
        if blocks.size == blocks.count * BLOCK:
            return element
        block = self.low.loop_index(blocks.axis)
        start = arith.muli(block, self.low.index(BLOCK))
        position = arith.addi(start, self.low.index(place))
        exists = int_compare("slt", position, self.low.size(blocks.size))
        return _choose(exists, element, self._neutral(blocks))


def _component(body: Callable[..., Element], number: int) -> Body:
    """Return a body that gives component `number` of a tuple that `body` gives."""
    return lambda *elements: body(*elements)[number]


def _choose(condition: Value, yes: Element, no: Element) -> Element:
    """Emit a select between two tuples of scalars."""
    pairs = zip(yes, no, strict=True)
    return [arith.select(condition, one, other) for one, other in pairs]
