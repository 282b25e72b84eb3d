"""Lowering of qr: one reflection for each column, then their product at once."""

import math

from aotc.dialects import control
from aotc.dialects.builder import Builder
from aotc.dialects.factorizations.elimination import column, element, number, steps
from aotc.dialects.rules.matrices import (
    along_columns,
    along_rows,
    axis_positions,
    block,
    diagonal,
    extents,
    for_each,
    identity,
    matrix_transpose,
    product,
    scale_to_one,
    signs,
    triangle,
)
from aotc.dialects.types import Tensor
from aotc.mlir import Value


def qr(b: Builder, x: Value) -> list[Value]:
    """Emit Q and R by Householder reflections; the diagonal of R is nonnegative.

    The reflections I - v vᵀ multiply to I - V T Vᵀ with T⁻¹ = I + the part of Vᵀ V
    above its diagonal: Schreiber and Van Loan, "A storage-efficient WY representation
    for products of Householder transformations", SIAM Journal on Scientific and
    Statistical Computing 10 (1989); Puglisi, "Modification of the Householder method
    based on the compact WY representation", the same journal 13 (1992).
    """
    kind = Tensor.of(x)
    _, n = extents(x)
    x, scale = scale_to_one(b, x)
    carried = [x, b.full_like(x, 0.0)]
    reduced, v = control.scan(_reflect, carried, [steps(b, n)], [], n)
    r = triangle(b, block(b, reduced, (0, n), (0, n)), lower=False)
    top = block(b, v, (0, n), (0, n))
    inner = product(b, v, v, turn=(True, False))
    turned_top = b.triangular_solve(
        inner,
        matrix_transpose(b, top),
        lower=False,
        transpose=False,
        unit_diagonal=True,
    )
    q = b.subtract(identity(b, kind), product(b, v, turned_top))
    sign = signs(b, diagonal(b, r))
    q = b.multiply(q, along_columns(b, sign, kind))
    r = b.multiply(r, along_rows(b, sign, Tensor.of(r)))
    return [q, b.multiply(r, for_each(b, scale, Tensor.of(r).shape))]


def _reflect(values: list[Value]) -> list[Value]:
    """Emit step k of the scan: reflect column k onto axis k, store the reflection."""
    b, (x, vectors, k) = Builder(), values
    kind = Tensor.of(x)
    here = column(b, x, k)
    at = axis_positions(b, here, -1)
    below = b.compare(at, number(b, k, at), direction="ge")
    here = b.where_true(below, here)
    v = _householder_vector(b, here, k)
    shares = b.multiply(along_rows(b, v, kind), x)
    shares = b.reduce_sum(shares, axes=(kind.rank - 2,))
    rank_one = b.multiply(along_rows(b, v, kind), along_columns(b, shares, kind))
    columns = axis_positions(b, x, -1)
    now = b.compare(columns, number(b, k, columns), direction="eq")
    return [b.subtract(x, rank_one), b.select(now, along_rows(b, v, kind), vectors)]


def _householder_vector(b: Builder, x: Value, k: Value) -> Value:
    """Emit the Householder vector x + sign(x[k]) ‖x‖ e[k], scaled to length sqrt 2.

    For x = 0 it is sqrt 2 e[k].
    """
    shape = Tensor.of(x).shape
    norm = b.sqrt(b.reduce_sum(b.multiply(x, x), axes=(len(shape) - 1,)))
    pivot = element(b, x, k)
    far = b.add(norm, b.abs(pivot))
    half = b.sqrt(b.multiply(norm, far))  # ‖v‖ / sqrt 2
    zero = b.compare(norm, b.full_like(norm, 0.0), direction="eq")
    half = b.select(zero, b.full_like(half, 1.0), half)
    end = b.multiply(signs(b, pivot), b.divide(far, half))
    end = b.select(zero, b.full_like(end, math.sqrt(2)), end)
    at = axis_positions(b, x, -1)
    on_axis = b.compare(at, number(b, k, at), direction="eq")
    rest = b.divide(x, for_each(b, half, shape))
    return b.select(on_axis, for_each(b, end, shape), rest)
