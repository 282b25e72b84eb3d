"""Kernels along the last axes: norms, softmax, log softmax and reductions.

One workgroup has some rows. A row is gone through by vectors, once for each number that
is made of all of it (`walk`), and once for the results (`formulas`), which are made
with what follows (`Epilogue`). Its elements may be computed, too: in the first of these
passes, from which they are kept for those that follow: in the memory of a result of
f32, or on the stack; of rows that are too long for that, they are computed in each
pass. Where a row gives one number, short rows are gone through side by side, as many as
a vector has lanes, so that results are vectors, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from aotc.dialects.graph import GraphOp
from aotc.dialects.ops.normalization import Softmax
from aotc.dialects.ops.quantization import ByteSoftmax
from aotc.dialects.ops.reduction import Reduction
from aotc.dialects.types import Tensor
from aotc.kernels.cpu import loops, vectors
from aotc.kernels.cpu.arguments import KernelArguments
from aotc.kernels.cpu.epilogue import Epilogue, VectorPosition, convert_to_floats
from aotc.kernels.cpu.rows.formulas import Kept, RowState, formula
from aotc.kernels.cpu.rows.walk import Combination, Walk
from aotc.kernels.cpu.vectors import Values, add, scale
from aotc.kernels.cpu.walks import block_bounds, visit_by_size
from aotc.kernels.planning.reductions import known_matrices
from aotc.kernels.planning.rows import RowTile, fits_stack
from aotc.mlir import Function, Value


def write(
    function: Function, anchor: GraphOp, tile: RowTile, arguments: KernelArguments
) -> None:
    """Emit the body of a softmax's, norm's or reduction's kernel along rows."""
    sizes = known_matrices(anchor)
    epilogue, statistics = _split_results(
        Epilogue.of(function, anchor, arguments, tile.lanes), anchor
    )
    kernel = _RowKernel(anchor, sizes.length, tile, epilogue, statistics)
    block, _ = arguments.workgroup
    is_even = isinstance(sizes.count, int) and sizes.count % tile.rows == 0
    kernel.write(block, arguments.size(sizes.count), is_even=is_even)


def _split_results(
    epilogue: Epilogue, anchor: GraphOp
) -> tuple[Epilogue, dict[Value, Value]]:
    """Split an epilogue's results into elementwise ones and statistics of rows."""
    statistics = {
        value: memory
        for value, memory in epilogue.results
        if value in list(anchor.results)[1:]
    }
    of_elements = [each for each in epilogue.results if each[0] not in statistics]
    return replace(epilogue, results=of_elements), statistics


@dataclass(frozen=True)
class _RowKernel:
    """An emitter of softmaxes, norms or reductions of rows.

    Args:
        anchor: what is computed.
        length: of a row.
        tile: how they are cut up.
        epilogue: makes the results of what the anchor gives, and the elements of rows.
        statistics: the memory of further results of the anchor, a number for each row.
    """

    anchor: GraphOp
    length: int
    tile: RowTile
    epilogue: Epilogue
    statistics: Mapping[Value, Value]

    def write(self, block: Value, count: Value, *, is_even: bool) -> None:
        """Emit the work of one workgroup: a block of rows.

        Args:
            block: the number of its block of rows.
            count: of all rows.
            is_even: whether they are known to be a multiple of those of a tile.
        """
        rows = self.tile.rows
        first, last = block_bounds(block, self.tile.block, count)
        if is_even:
            loops.repeat_for(first, last, rows, lambda row: self._write_tile(row, rows))
        else:
            visit_by_size(first, last, rows, self._write_tile)

    def _write_tile(self, first: Value, rows: int) -> None:
        """Emit one row, or several rows side by side."""
        tile = self.tile
        walk = Walk(rows, self.length, tile.lanes, tile.vectors, width=tile.lanes)
        if isinstance(self.anchor, Reduction):
            self._write_numbers(self.anchor, walk, first)
        else:
            self._write_row(walk, first)

    def _write_row(self, walk: Walk, number: Value) -> None:
        """Emit a softmax or norm of one row, with statistics and epilogue."""
        x, begin = self.anchor.operands[0], scale(number, walk.length)

        def place(at: Value, count: int) -> VectorPosition:
            return VectorPosition(add(begin, at), at, 0, count)

        def compute(at: Value, count: int) -> Value:
            return convert_to_floats(self.epilogue.compute(x, place(at, count)), x)

        def compute_and_keep(at: Value, count: int) -> Value:
            found = compute(at, count)
            row.keep(found, at, count)
            return found

        row = RowState(walk, self._kept(begin), compute, compute)
        if row.kept is not None and not self.epilogue.is_read(x):
            row = replace(row, read_first=compute_and_keep, read=row.read_kept)
        found = formula(self.anchor, row)
        for value, memory in self.statistics.items():
            statistic = found.statistics[list(self.anchor.results).index(value) - 1]
            vectors.store(statistic, memory, number, walk.lanes, 1)
        walk.visit(
            lambda at, count: self.epilogue.write(
                [place(at, count)], [found.result(at, count)]
            )
        )

    def _kept(self, begin: Value) -> Kept | None:
        """Return memory to keep a row for later passes; None if it is too long.

        Args:
            begin: where the row begins in results.
        """
        for value, memory in self.epilogue.results:
            if Tensor.of(value).dtype == "f32":
                return Kept(memory, begin)
        if not (fits_stack(self.length) and self._keeps):
            return None
        return Kept(vectors.allocate(self.length), vectors.index(0))

    @property
    def _keeps(self) -> bool:
        """Return whether later passes read values that an earlier one has computed."""
        is_computed = not self.epilogue.is_read(self.anchor.operands[0])
        return is_computed or isinstance(self.anchor, Softmax | ByteSoftmax)

    def _write_numbers(self, anchor: Reduction, walk: Walk, first: Value) -> None:
        """Emit the reductions of rows side by side, a result in each lane."""
        how = Combination.of(type(anchor))
        begins = [scale(add(first, row), walk.length) for row in range(walk.rows)]

        def elements(at: Value, count: int) -> Values:
            return [
                self.epilogue.compute(
                    anchor.x, VectorPosition(add(begin, at), at, 0, count)
                )
                for begin in begins
            ]

        totals = vectors.reduce_lanes(walk.reduce(how, elements), how.combine)
        self.epilogue.write([VectorPosition(first, first, 0, walk.rows)], [totals])
