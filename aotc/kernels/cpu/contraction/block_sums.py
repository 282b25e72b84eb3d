"""Sums of the terms of rows in each block, which offsets are multiplied by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from aotc.kernels.cpu import loops, vectors
from aotc.kernels.cpu.lines import ResultRows
from aotc.kernels.cpu.vectors import add, index, scale
from aotc.mlir import Type, Value, arith


@dataclass(frozen=True)
class BlockSums:
    """Sums of each row's terms by quantisation block, in stack memory [row][block].

    Args:
        memory: of them.
        blocks: of a row, as many as a vector has lanes, or more.
        length: terms of a block.
        row: elements from a row to the next.
    """

    memory: Value
    blocks: int
    length: int
    row: int

    @classmethod
    def of(
        cls, rows: int, blocks: int, length: int, row: int, element: Type | None = None
    ) -> BlockSums:
        """Emit the allocation of block sums of `rows` rows."""
        memory = vectors.allocate(rows * blocks, element)
        return cls(memory, blocks, length, row)

    def write(
        self,
        rows: ResultRows,
        lanes: int,
        part_of: Callable[[Value], Value],
        combine: Callable[[Value, Value], Value],
        finish: Callable[[Value], Value] = lambda x: x,
    ) -> None:
        """Emit the block sums of a tile's rows, stored to memory.

        Args:
            rows: of a tile.
            lanes: of a vector of them.
            part_of: gives a vector whose lanes make the sum of the block at a place.
            combine: adds up.
            finish: what is then done with sums.
        """

        def write_some(number: Value) -> None:
            first = arith.minsi(number, index(self.blocks - lanes))
            for row in range(rows.count):
                begin = add(rows.left, row * self.row)
                begin = add(begin, scale(first, self.length))
                places = [add(begin, n * self.length) for n in range(lanes)]
                found = vectors.reduce_lanes([*map(part_of, places)], combine)
                at = add(first, row * self.blocks)
                vectors.store(finish(found), self.memory, at, lanes)

        loops.repeat_for(0, self.blocks, lanes, write_some)

    def load(self, row: int, number: Value, lanes: int) -> Value:
        """Emit a row's sum of one block, in all lanes."""
        at = add(number, row * self.blocks)
        return vectors.repeat(vectors.load_element(self.memory, at), lanes)
