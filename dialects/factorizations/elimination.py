"""Lowering of cholesky, triangular_solve and lu: elimination, column by column.

One step of a loop handles one column of all matrices. Every step works on whole
matrices, under masks: its shapes are the same for each column, so that one body
serves them all.
"""

import numpy as np

from aotc.dialects import control
from aotc.dialects.builder import Builder
from aotc.dialects.rules.matrices import (
    along_columns,
    along_rows,
    axis_positions,
    block,
    diagonal,
    extents,
    for_each,
    identity,
    on_diagonal,
    pad_matrices,
    product,
    symmetric,
    triangle,
)
from aotc.dialects.types import Tensor
from aotc.mlir import Value


def number(b: Builder, j: Value, like: Value) -> Value:
    """Emit the scalar `j` broadcast to the shape of `like`; its dtype stays."""
    return b.broadcast(j, shape=Tensor.of(like).shape, axes=())


def column(b: Builder, x: Value, j: Value) -> Value:
    """Emit column `j`, an index computed at run time, of matrices: […, rows]."""
    at = axis_positions(b, x, -1)
    kept = b.where_true(b.compare(at, number(b, j, at), direction="eq"), x)
    return b.reduce_sum(kept, axes=(Tensor.of(x).rank - 1,))


def element(b: Builder, v: Value, j: Value) -> Value:
    """Emit element `j` of vectors along the last axis; one `j` or one for each."""
    kind, at = Tensor.of(v), axis_positions(b, v, -1)
    wanted = for_each(b, j, kind.shape) if Tensor.of(j).rank else number(b, j, at)
    kept = b.where_true(b.compare(at, wanted, direction="eq"), v)
    return b.reduce_sum(kept, axes=(kind.rank - 1,))


def steps(b: Builder, count: int) -> Value:
    """Emit the indices 0 … count - 1 that a scan iterates over."""
    return b.iota(shape=(count,), axis=0, dtype="i32")


# ---- cholesky -----------------------------------------------------------------------


def cholesky(b: Builder, x: Value) -> Value:
    """Emit the lower Cholesky factor of each matrix; NaN where there is none."""
    n, _ = extents(x)
    x = symmetric(b, x)
    (y,) = control.scan(_cholesky_step, [x], [steps(b, n)], [], n)
    # a pivot that is NaN makes all that come after it NaN
    last = diagonal(b, block(b, y, (n - 1, n), (n - 1, n)))
    last = b.reshape(last, shape=Tensor.of(y).shape[:-2])
    failed = for_each(b, b.compare(last, last, direction="ne"), Tensor.of(y).shape)
    return triangle(b, b.select(failed, b.full_like(y, np.nan), y), lower=True)


def _cholesky_step(values: list[Value]) -> list[Value]:
    """Emit step j of the scan: store column j of the factor, update those behind it."""
    b, (x, j) = Builder(), values
    kind = Tensor.of(x)
    below = column(b, x, j)
    pivot = element(b, below, j)
    positive = b.compare(pivot, b.full_like(pivot, 0.0), direction="gt")
    root = b.select(positive, b.sqrt(pivot), b.full_like(pivot, np.nan))
    factor = b.divide(below, for_each(b, root, Tensor.of(below).shape))
    rank_one = b.multiply(along_rows(b, factor, kind), along_columns(b, factor, kind))
    at = axis_positions(b, x, -1)
    here = b.compare(at, number(b, j, at), direction="eq")
    behind = b.compare(at, number(b, j, at), direction="gt")
    rest = b.select(behind, b.subtract(x, rank_one), x)
    return [b.select(here, along_rows(b, factor, kind), rest)]


# ---- lu -----------------------------------------------------------------------------


def lu(b: Builder, x: Value) -> list[Value]:
    """Emit L and U packed in one matrix, and the order of x's rows by the pivots.

    Rows stay where they are until the end; those that were a pivot are marked.
    """
    (n, _), rows = extents(x), Tensor.of(x).shape[:-1]
    carried = [x, b.full(Tensor(rows, "bool"), True), b.full(Tensor(rows, "i32"), 0)]
    packed, _, order = control.scan(_lu_step, carried, [steps(b, n)], [], n)
    return [rows_at(b, packed, order), order]


def _lu_step(values: list[Value]) -> list[Value]:
    """Emit step j of the scan: choose the pivot of column j, and eliminate below."""
    b, (x, free, order, j) = Builder(), values
    kind = Tensor.of(x)
    here = column(b, x, j)
    size = b.select(free, b.abs(here), b.full_like(here, -1.0))
    pivot_row = b.argmax(size, axis=kind.rank - 2)
    at = axis_positions(b, here, -1)
    chosen = b.compare(at, for_each(b, pivot_row, Tensor.of(at).shape), direction="eq")
    row = b.where_true(along_rows(b, chosen, kind), x)
    row = b.reduce_sum(row, axes=(kind.rank - 2,))
    free = b.select(chosen, b.full(Tensor.of(free), False), free)
    factor = b.where_true(free, b.divide(here, _divisor(b, here, pivot_row)))
    rank_one = b.multiply(along_rows(b, factor, kind), along_columns(b, row, kind))
    columns = axis_positions(b, x, -1)
    behind = b.compare(columns, number(b, j, columns), direction="gt")
    inside = b.compare(columns, number(b, j, columns), direction="eq")
    inside = b.bitwise_and(inside, along_rows(b, free, kind))
    reduced = b.select(behind, b.subtract(x, rank_one), x)
    x = b.select(inside, along_rows(b, factor, kind), reduced)
    now = b.compare(at, number(b, j, at), direction="eq")
    pivot_row = for_each(b, pivot_row, Tensor.of(at).shape)
    return [x, free, b.select(now, pivot_row, order)]


def _divisor(b: Builder, pivot_column: Value, pivot_row: Value) -> Value:
    """Emit `pivot_column[pivot_row]` repeated along the column; 1 where it is 0."""
    pivot = element(b, pivot_column, pivot_row)
    zero = b.compare(pivot, b.full_like(pivot, 0.0), direction="eq")
    pivot = b.select(zero, b.full_like(pivot, 1.0), pivot)
    return for_each(b, pivot, Tensor.of(pivot_column).shape)


def rows_at(b: Builder, x: Value, order: Value) -> Value:
    """Emit the rows of each matrix in the order that `order` has for it."""
    rank = Tensor.of(x).rank
    lead = tuple(range(rank - 2))
    along, kept = (*lead, rank - 2), (*lead, rank - 1)
    return b.gather(x, order, axes=(rank - 2,), along=along, kept=kept, mode="clip")


# ---- triangular_solve ---------------------------------------------------------------

BLOCK = 32


def triangular_solve(b: Builder, a: Value, y: Value, lower: bool) -> Value:
    """Emit a⁻¹ y for triangular `a`, by the inverses of the blocks on its diagonal.

    Multiplying by them is as good as substitution where they are well conditioned: Du
    Croz and Higham, "Stability of methods for matrix inversion", IMA Journal of
    Numerical Analysis 12 (1992).
    """
    n, k = extents(y)
    if n <= BLOCK:
        return product(b, _inverse(b, a, lower), y)
    count = -(-n // BLOCK)
    a, y = (
        _extend_by_identity(b, a, count * BLOCK),
        _extend_by_zero_rows(b, y, count * BLOCK),
    )
    x = _solve_by_blocks(b, _rows_of_blocks(b, a), _rows_of_blocks(b, y), lower)
    x = b.reshape(x, shape=Tensor.of(y).shape)
    return block(b, x, (0, n), (0, k))


def _inverse(b: Builder, a: Value, lower: bool) -> Value:
    """Emit the inverse of a triangle, from those of 1, 2, 4, … rows on its diagonal.

    Two of them and the block B between them make the next: from A and C come
    [A⁻¹ 0; -C⁻¹ B A⁻¹ C⁻¹].
    """
    kind, (n, _) = Tensor.of(a), extents(a)
    one = identity(b, kind)
    inverse = b.where_true(on_diagonal(b, a), b.divide(one, a))
    half = 1
    while half < n:
        between = b.constant(value=_block_pair_mask(n, half, lower))
        axes = (kind.rank - 2, kind.rank - 1)
        mask = b.broadcast(between, shape=kind.shape, axes=axes)
        outer = product(b, inverse, b.where_true(mask, a))
        inverse = b.subtract(inverse, product(b, outer, inverse))
        half *= 2
    return inverse


def _block_pair_mask(n: int, half: int, lower: bool) -> np.ndarray:
    """Return a mask of the off-diagonal block in each pair of `half`-sized blocks."""
    number = np.arange(n) // half
    pair = number[:, None] // 2 == number[None, :] // 2
    after = number[:, None] > number[None, :]
    masked: np.ndarray = pair & (after if lower else after.T)
    return masked


def _extend_by_identity(b: Builder, a: Value, size: int) -> Value:
    """Emit square matrices extended to `size` by an identity block behind `a`."""
    n, _ = extents(a)
    wide = pad_matrices(b, a, size - n, size - n)
    added = b.compare(
        axis_positions(b, wide, -1),
        b.full_like(axis_positions(b, wide, -1), n),
        direction="ge",
    )
    return b.select(added, identity(b, Tensor.of(wide)), wide)


def _extend_by_zero_rows(b: Builder, y: Value, size: int) -> Value:
    """Emit matrices with rows of zeros appended, `size` rows in all."""
    return pad_matrices(b, y, size - extents(y)[0], 0)


def _rows_of_blocks(b: Builder, x: Value) -> Value:
    """Emit a reshape from […, rows, k] to […, blocks, BLOCK, k]."""
    *lead, rows, k = Tensor.of(x).shape
    return b.reshape(x, shape=(*lead, rows // BLOCK, BLOCK, k))


def _solve_by_blocks(b: Builder, a: Value, y: Value, lower: bool) -> Value:
    """Emit a scan that solves by substitution, a block of rows at a time."""
    lead, count = Tensor.of(y).rank - 3, extents(a)[1] // BLOCK
    blocks = b.move_axis(_diagonal_blocks(b, a), lead, 0)
    scanned = [
        b.move_axis(a, lead, 0),
        _inverse(b, blocks, lower),
        b.move_axis(y, lead, 0),
    ]
    (x,) = control.scan(
        _block_step,
        [b.full_like(y, 0.0)],
        [*scanned, steps(b, count)],
        [],
        count,
        reverse=not lower,
    )
    return x


def _diagonal_blocks(b: Builder, a: Value) -> Value:
    """Emit the diagonal blocks: […, blocks, BLOCK, n] → […, blocks, BLOCK, BLOCK]."""
    shape = Tensor.of(a).shape
    lead, count = len(shape) - 3, shape[-3]
    cut = b.reshape(a, shape=(*shape[:-1], count, BLOCK))
    rows, columns = (
        b.iota(shape=Tensor.of(cut).shape, axis=lead + axis, dtype="i32")
        for axis in (0, 2)
    )
    same = b.compare(rows, columns, direction="eq")
    return b.reduce_sum(b.where_true(same, cut), axes=(lead + 2,))


def _block_step(values: list[Value]) -> list[Value]:
    """Emit one step of the scan: solve block i of x from the blocks solved before."""
    b, (x, row, inverse, y, i) = Builder(), values
    kind = Tensor.of(x)
    *lead, count, _, k = kind.shape
    known = b.reshape(x, shape=(*lead, count * BLOCK, k))
    found = product(b, inverse, b.subtract(y, product(b, row, known)))
    at = b.iota(shape=kind.shape, axis=len(lead), dtype="i32")
    here = b.compare(at, number(b, i, at), direction="eq")
    axes = (*range(len(lead)), len(lead) + 1, len(lead) + 2)
    wide = b.broadcast(found, shape=kind.shape, axes=axes)
    return [b.select(here, wide, x)]
