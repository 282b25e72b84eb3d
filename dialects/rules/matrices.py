"""Graph values as matrices in their last two axes; all axes before those are a batch.

What the rules and the algorithms of the factorizations are written with.
"""

from collections.abc import Sequence

import numpy as np

from aotc.core import dtypes
from aotc.dialects.builder import Builder
from aotc.dialects.graph import GraphOp, Pure
from aotc.dialects.rules.checks import require_dtype
from aotc.dialects.types import Shape, Tensor
from aotc.errors import InputError
from aotc.mlir import Value

DTYPES = ("f32", "f64")


class MatrixEquation(GraphOp, traits=[Pure]):
    """Base of ops whose results solve a matrix equation, such as x = q r."""

    is_costly = True
    in_memory = True
    is_approximated = True
    why = "differentiated by its equation, not through the algorithm"
    dtypes = DTYPES


# ---- checks -------------------------------------------------------------------------


def require_matrices(x: Tensor) -> None:
    """Raise InputError unless `x` is a stack of f32 or f64 matrices of static size."""
    require_dtype(x, DTYPES)
    if x.rank < 2:
        raise InputError(
            "shape-mismatch", f"expected a matrix or a stack of them; got {x}"
        )
    if not all(isinstance(size, int) for size in x.shape[-2:]):
        raise InputError(
            "symbolic-size",
            f"expected matrices of known size in the last two axes; got {x}",
            hint="give these sizes in the Spec as numbers; axes before may be symbolic",
        )


def require_square(x: Tensor) -> None:
    """Raise InputError unless `x` is a stack of square matrices."""
    require_matrices(x)
    if x.shape[-2] != x.shape[-1]:
        raise InputError("shape-mismatch", f"expected square matrices; got {x}")


def require_tall(x: Tensor) -> None:
    """Raise InputError for matrices with more columns than rows."""
    require_matrices(x)
    if x.shape[-2] < x.shape[-1]:
        raise InputError(
            "shape-mismatch",
            f"expected matrices with at least as many rows as columns; got {x}",
        )


def extents(x: Value) -> tuple[int, int]:
    """Return the numbers of rows and columns of matrices of static size."""
    rows, columns = Tensor.of(x).shape[-2:]
    assert isinstance(rows, int)
    assert isinstance(columns, int)
    return rows, columns


# ---- parts --------------------------------------------------------------------------


def axis_positions(b: Builder, x: Value, axis: int) -> Value:
    """Emit the index along `axis` (-2 for rows, -1 for columns) of every element."""
    kind = Tensor.of(x)
    return b.iota(shape=kind.shape, axis=kind.rank + axis, dtype="i32")


def triangle(b: Builder, x: Value, lower: bool, strict: bool = False) -> Value:
    """Emit `x` on one side of the diagonal, without it if `strict`; zero elsewhere."""
    direction = ("gt" if strict else "ge") if lower else ("lt" if strict else "le")
    return b.where_true(
        b.compare(
            axis_positions(b, x, -2), axis_positions(b, x, -1), direction=direction
        ),
        x,
    )


def on_diagonal(b: Builder, x: Value) -> Value:
    """Emit a bool mask of the elements on the diagonal."""
    return b.compare(axis_positions(b, x, -2), axis_positions(b, x, -1), direction="eq")


def diagonal(b: Builder, x: Value) -> Value:
    """Emit the diagonal of each matrix as a vector; no more columns than rows."""
    kept = b.where_true(on_diagonal(b, x), x)
    return b.reduce_sum(kept, axes=(Tensor.of(x).rank - 2,))


def identity(b: Builder, like: Tensor) -> Value:
    """Emit identity matrices of type `like`."""
    ones = b.full(like, 1.0)
    return b.where_true(on_diagonal(b, ones), ones)


def along_rows(b: Builder, v: Value, like: Tensor) -> Value:
    """Emit vectors broadcast to matrices of type `like`, `v[i]` all along row i."""
    axes = tuple(range(like.rank - 1))
    return b.broadcast(v, shape=like.shape, axes=axes)


def along_columns(b: Builder, v: Value, like: Tensor) -> Value:
    """Emit vectors broadcast to matrices of type `like`, `v[k]` along column k."""
    axes = (*range(like.rank - 2), like.rank - 1)
    return b.broadcast(v, shape=like.shape, axes=axes)


def for_each(b: Builder, v: Value, shape: Shape) -> Value:
    """Emit one scalar for each matrix or vector, broadcast to `shape`."""
    return b.broadcast(v, shape=shape, axes=tuple(range(Tensor.of(v).rank)))


def block(
    b: Builder, x: Value, rows: tuple[int, int], columns: tuple[int, int]
) -> Value:
    """Emit the submatrix with rows and columns in half-open ranges."""
    kind = Tensor.of(x)
    lead = kind.rank - 2
    ranges = (rows, columns)
    return b.slice(
        x,
        start=(*[0] * lead, *(first for first, _ in ranges)),
        sizes=(*kind.shape[:lead], *(last - first for first, last in ranges)),
        strides=(1,) * kind.rank,
    )


def pad_matrices(b: Builder, x: Value, rows: int, columns: int) -> Value:
    """Emit matrices padded by so many zero rows below and columns to the right."""
    *lead, height, width = Tensor.of(x).shape
    return b.pad_to(x, (*lead, height + rows, width + columns))


def signs(b: Builder, x: Value) -> Value:
    """Emit -1 for negative elements, 1 for the others."""
    negative = b.compare(x, b.full_like(x, 0.0), direction="lt")
    return b.select(negative, b.full_like(x, -1.0), b.full_like(x, 1.0))


# ---- products -----------------------------------------------------------------------


def matrix_transpose(b: Builder, x: Value) -> Value:
    """Emit the transposed matrices."""
    return b.move_axis(x, -1, -2)


def product(
    b: Builder, x: Value, y: Value, turn: Sequence[bool] = (False, False)
) -> Value:
    """Emit the matrix product; `turn` says which of the two is transposed first."""
    rank = Tensor.of(x).rank
    batch = tuple(range(rank - 2))
    rows, columns = rank - 2, rank - 1
    return b.dot_general(
        x,
        y,
        lhs_batch=batch,
        rhs_batch=batch,
        lhs_contract=(rows if turn[0] else columns,),
        rhs_contract=(columns if turn[1] else rows,),
    )


LEFT, RIGHT = (True, False), (False, True)  # which operand of a product is transposed


def symmetric(b: Builder, x: Value) -> Value:
    """Emit the symmetric part of square matrices, (x + xᵀ) / 2."""
    return b.scale(b.add(x, matrix_transpose(b, x)), 0.5)


def scale_to_one(b: Builder, x: Value) -> tuple[Value, Value]:
    """Emit matrices scaled so that the largest element is ±1, and the divisors.

    Squares of their elements neither overflow nor vanish.
    """
    kind = Tensor.of(x)
    largest = b.reduce_max(b.abs(x), axes=(kind.rank - 2, kind.rank - 1))
    zero = b.compare(largest, b.full_like(largest, 0.0), direction="eq")
    scale = b.select(zero, b.full_like(largest, 1.0), largest)
    return b.divide(x, for_each(b, scale, kind.shape)), scale


def epsilon(kind: Tensor) -> float:
    """Return the machine epsilon of a float dtype: from 1 to the next number."""
    return float(np.finfo(dtypes.to_numpy(kind.dtype)).eps)
