"""Lowering of eigh and svd: rotations of pairs of rows until all are orthogonal.

One-sided Jacobi: Hestenes, "Inversion of matrices by biorthogonalization and related
results", Journal of the Society for Industrial and Applied Mathematics 6 (1958). All
disjoint pairs of a round are rotated at once, and the rounds of a sweep bring each row
together with each other one, like teams of a tournament: Brent and Luk, "The solution
of singular-value and symmetric eigenvalue problems on multiprocessor arrays", SIAM
Journal on Scientific and Statistical Computing 6 (1985).
"""

import math
from functools import partial

import numpy as np

from aotc.core import dtypes
from aotc.dialects import control
from aotc.dialects.builder import Builder
from aotc.dialects.factorizations.elimination import element, rows_at
from aotc.dialects.rules.matrices import (
    along_columns,
    along_rows,
    axis_positions,
    block,
    epsilon,
    extents,
    for_each,
    identity,
    matrix_transpose,
    pad_matrices,
    product,
    scale_to_one,
    signs,
    symmetric,
)
from aotc.dialects.types import Tensor
from aotc.mlir import Value

SWEEPS = 30  # far more than are ever needed: NaN must not keep a model running


# ---- eigh ---------------------------------------------------------------------------


def eigh(b: Builder, x: Value) -> list[Value]:
    """Emit eigenvalues in rising order, and unit eigenvectors in columns.

    Rotations that make the rows of a positive definite matrix orthogonal give its
    eigenvectors; x becomes one by a multiple of the identity. The eigenvalues are
    Rayleigh quotients of x itself.
    """
    kind = Tensor.of(x)
    x, scale = scale_to_one(b, symmetric(b, x))
    shift = _largest_row_sum(b, x)
    one = identity(b, kind)
    definite = b.add(x, b.multiply(one, for_each(b, shift, kind.shape)))
    _, vectors = _orthogonal_rows(b, definite)
    rank = kind.rank
    values = b.reduce_sum(b.multiply(vectors, product(b, vectors, x)), axes=(rank - 1,))
    order = _order(b, values, descending=False)
    values, vectors = _elements_at(b, values, order), rows_at(b, vectors, order)
    vectors = b.multiply(vectors, along_rows(b, largest_signs(b, vectors), kind))
    values = b.multiply(values, for_each(b, scale, kind.shape[:-1]))
    return [values, matrix_transpose(b, vectors)]


def _largest_row_sum(b: Builder, x: Value) -> Value:
    """Emit an upper bound of each matrix' largest |eigenvalue|, by Gershgorin."""
    rank = Tensor.of(x).rank
    sums = b.reduce_sum(b.abs(x), axes=(rank - 1,))
    return b.reduce_max(sums, axes=(rank - 2,))


# ---- svd ----------------------------------------------------------------------------


def svd(b: Builder, x: Value) -> list[Value]:
    """Emit u, s and vh, by rotating the columns of x until they are orthogonal.

    A QR decomposition makes unit vectors of these columns, those of length 0 included.
    Demmel and Veselić, "Jacobi's method is more accurate than QR", SIAM Journal on
    Matrix Analysis and Applications 13 (1992).
    """
    x, scale = scale_to_one(b, x)
    columns, vh = _orthogonal_rows(b, matrix_transpose(b, x))
    values = _norms(b, columns)
    order = _order(b, values, descending=True)
    values, vh = _elements_at(b, values, order), rows_at(b, vh, order)
    u, _ = b.qr(matrix_transpose(b, rows_at(b, columns, order)))
    sign = largest_signs(b, matrix_transpose(b, u))
    u = b.multiply(u, along_columns(b, sign, Tensor.of(u)))
    vh = b.multiply(vh, along_rows(b, sign, Tensor.of(vh)))
    values = b.multiply(values, for_each(b, scale, Tensor.of(values).shape))
    return [u, values, vh]


# ---- order and sign -----------------------------------------------------------------


def _norms(b: Builder, x: Value) -> Value:
    """Emit the Euclidean length of each row."""
    return b.sqrt(b.reduce_sum(b.multiply(x, x), axes=(Tensor.of(x).rank - 1,)))


def _order(b: Builder, values: Value, descending: bool) -> Value:
    """Emit the indices that sort values along the last axis."""
    kind = Tensor.of(values)
    return b.argsort(
        values, axis=kind.rank - 1, descending=descending, count=(kind.shape[-1],)
    )


def _elements_at(b: Builder, values: Value, order: Value) -> Value:
    """Emit the values along the last axis at the indices `order`."""
    lead = tuple(range(Tensor.of(values).rank - 1))
    axes = (len(lead),)
    return b.gather(
        values, order, axes=axes, along=(*lead, *axes), kept=lead, mode="clip"
    )


def largest_signs(b: Builder, x: Value) -> Value:
    """Emit the sign of each row's element that is largest in magnitude."""
    kind = Tensor.of(x)
    at = b.argmax(b.abs(x), axis=kind.rank - 1)
    return signs(b, element(b, x, at))


# ---- rotations ----------------------------------------------------------------------


def _orthogonal_rows(b: Builder, x: Value) -> tuple[Value, Value]:
    """Emit rotations W of the rows of x; return W x with orthogonal rows, and W."""
    kind = Tensor.of(x)
    k, n = extents(x)
    whole = b.concatenate(
        x, identity(b, kind.with_shape((*kind.shape[:-1], k))), axis=kind.rank - 1
    )
    if k > 1:
        whole = block(b, _sweeps(b, whole, k + k % 2, n), (0, k), (0, n + k))
    # many rotations change the length of a row by more than rounding
    lengths = _norms(b, block(b, whole, (0, k), (n, n + k)))
    whole = b.divide(whole, along_rows(b, lengths, Tensor.of(whole)))
    return block(b, whole, (0, k), (0, n)), block(b, whole, (0, k), (n, n + k))


def _sweeps(b: Builder, rows: Value, k: int, n: int) -> Value:
    """Emit Jacobi sweeps over `k` rows until these are orthogonal in `n` elements."""
    kind = Tensor.of(rows)
    rows = pad_matrices(b, rows, k - extents(rows)[0], 0)
    enough = epsilon(kind) * math.sqrt(n)

    def cond(values: list[Value]) -> list[Value]:
        b, (_, cosine, count) = Builder(), values
        unfinished = b.compare(cosine, b.full_like(cosine, enough), direction="gt")
        left = b.compare(count, b.full_like(count, SWEEPS), direction="lt")
        return [b.bitwise_and(unfinished, left)]

    def sweep(values: list[Value]) -> list[Value]:
        b, (rows, _, count) = Builder(), values
        small = b.full(Tensor(Tensor.of(rows).shape[:-1], kind.dtype), 0.0)
        rows, cosines = control.scan(
            partial(_round, n), [rows, small], [_opponents(b, k)], [], k - 1
        )
        cosine = b.reduce_max(cosines, axes=tuple(range(kind.rank - 1)))
        return [rows, cosine, b.offset(count, 1)]

    first = b.constant(value=np.array(1, dtypes.to_numpy(kind.dtype)))
    zero = b.constant(value=np.array(0, "i4"))
    return control.while_loop(cond, sweep, [rows, first, zero], [])[0]


def _opponents(b: Builder, k: int) -> Value:
    """Emit [round, row]: the row that each row is rotated with, as in a tournament.

    In round r rows i and j < k - 1 meet where i + j = 2 r modulo k - 1; the row that
    would meet itself meets the last one.
    """
    r, i = (b.iota(shape=(k - 1, k), axis=axis, dtype="i32") for axis in (0, 1))
    other = b.subtract(b.add(r, r), i)
    for bound, direction, by in ((0, "lt", k - 1), (k - 1, "ge", 1 - k)):
        out = b.compare(other, b.full_like(other, bound), direction=direction)
        other = b.select(out, b.offset(other, by), other)
    other = b.select(b.compare(other, i, direction="eq"), b.full_like(i, k - 1), other)
    last = b.compare(i, b.full_like(i, k - 1), direction="eq")
    return b.select(last, r, other)


def _round(row_length: int, values: list[Value]) -> list[Value]:
    """Emit one round of a sweep: rotate each row with its opponent; track cosines.

    Both rows of a pair compute the same rotation, each for itself.
    """
    b, (rows, cosines, opponents) = Builder(), values
    kind = Tensor.of(rows)
    pairs = b.broadcast(opponents, shape=kind.shape[:-1], axes=(kind.rank - 2,))
    others = rows_at(b, rows, pairs)
    cosine, c, s = _rotation(b, _products(b, rows, others, row_length), pairs)
    turned = b.subtract(
        b.multiply(along_rows(b, c, kind), rows),
        b.multiply(along_rows(b, s, kind), others),
    )
    return [turned, b.maximum(cosines, cosine)]


def _products(b: Builder, rows: Value, others: Value, row_length: int) -> list[Value]:
    """Emit x·x, y·y and x·y for each row x and its opponent y."""
    (k, _), rank = extents(rows), Tensor.of(rows).rank
    x, y = (block(b, part, (0, k), (0, row_length)) for part in (rows, others))
    return [
        b.reduce_sum(b.multiply(left, right), axes=(rank - 1,))
        for left, right in ((x, x), (y, y), (x, y))
    ]


def _rotation(b: Builder, products: list[Value], opponents: Value) -> list[Value]:
    """Emit |cos| of the angle between rows x and y, and c and s of their rotation.

    The rotation, c x - s y and the opponent's c y + s x, makes them orthogonal by the
    smaller of the two angles.
    """
    xx, yy, xy = products
    zero, one = b.full_like(xx, 0.0), b.full_like(xx, 1.0)
    norms = b.multiply(b.sqrt(xx), b.sqrt(yy))
    apart = b.compare(b.abs(xy), zero, direction="gt")
    cosine = b.where_true(apart, b.divide(b.abs(xy), b.select(apart, norms, one)))
    zeta = b.divide(b.subtract(yy, xx), b.select(apart, b.add(xy, xy), one))
    root = b.sqrt(b.add(one, b.multiply(zeta, zeta)))
    tangent = b.divide(one, b.add(b.abs(zeta), root))
    first = b.compare(axis_positions(b, opponents, -1), opponents, direction="lt")
    even = b.select(first, one, b.negate(one))
    direction = b.select(b.compare(zeta, zero, direction="eq"), even, b.sign(zeta))
    tangent = b.where_true(apart, b.multiply(direction, tangent))
    c = b.divide(one, b.sqrt(b.add(one, b.multiply(tangent, tangent))))
    return [cosine, c, b.multiply(c, tangent)]
