"""Eigenvalues of symmetric matrices and singular values, differentiated implicitly.

The derivatives are those of Giles, "Collected matrix derivative results for forward and
reverse mode algorithmic differentiation", Advances in Automatic Differentiation (2008).

Note [equal values]: vectors that belong to equal values are not unique and have no
derivative. The part of it that would divide by the difference of the values counts as
zero where they differ by no more than rounding. So functions of the values alone, or of
the spaces that such vectors span, have the right derivative at equal values, too; one
that joins vectors to their values, as v diag(sqrt w) vᵀ does, has not.
"""

from typing import Any, Self

import numpy as np

from aotc.dialects.builder import Builder
from aotc.dialects.factorizations import rotations
from aotc.dialects.graph import Operand, Pure, Result
from aotc.dialects.rules.batching import leading
from aotc.dialects.rules.matrices import (
    LEFT,
    RIGHT,
    MatrixEquation,
    along_columns,
    along_rows,
    diagonal,
    epsilon,
    for_each,
    matrix_transpose,
    product,
    require_square,
    require_tall,
    symmetric,
    triangle,
)
from aotc.dialects.rules.samples import OpSample, f32
from aotc.dialects.types import Tensor
from aotc.mlir import Value

_SYMMETRIC = np.array([[2, 1, -1], [1, -1, 0.5], [-1, 0.5, 0.25]], "f")


def _reciprocal(b: Builder, x: Value, least: Value) -> Value:
    """Emit 1 / x, and 0 where |x| is not above `least`."""
    far = b.compare(b.abs(x), least, direction="gt")
    one = b.full_like(x, 1.0)
    return b.where_true(far, b.divide(one, b.select(far, x, one)))


def _rounding(b: Builder, values: Value) -> Value:
    """Emit a bound on how much rounding alone separates values of one matrix."""
    kind = Tensor.of(values)
    total = b.reduce_sum(b.abs(values), axes=(kind.rank - 1,))
    return b.scale(total, epsilon(kind))


def _across(b: Builder, values: Value) -> tuple[Value, Value]:
    """Emit values[k] and values[i] at element (i, k) of square matrices."""
    shape = Tensor.of(values).shape
    kind = Tensor((*shape, shape[-1]), Tensor.of(values).dtype)
    return along_columns(b, values, kind), along_rows(b, values, kind)


def _largest_signs(vectors: np.ndarray) -> np.ndarray:
    """Return, in NumPy, the sign of each column's element largest in magnitude."""
    at = np.abs(vectors).argmax(-2, keepdims=True)
    return np.where(np.take_along_axis(vectors, at, -2) < 0, -1.0, 1.0)


class Eigh(MatrixEquation, name="eigh", traits=[Pure]):
    """y = w, v: (x + xᵀ) / 2 = v diag(w) vᵀ, w rising and v orthogonal.

    The largest element of each column of v is positive. See Note [equal values].
    """

    x: Operand[Any]
    w: Result[Any]
    v: Result[Any]

    @staticmethod
    def infer(x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the type of a vector for each matrix, and the type of x."""
        require_square(x)
        return x.with_shape(x.shape[:-1]), x

    @staticmethod
    def ref(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return np.linalg.eigh, with signs that the largest elements decide."""
        if not x.size:
            return np.zeros(x.shape[:-1], x.dtype), x
        x = x.astype(np.float64)
        w, v = np.linalg.eigh((x + np.swapaxes(x, -1, -2)) / 2)
        return w, v * _largest_signs(v)

    @classmethod
    def caveat(cls, op: Self) -> str:
        """Return which of the equally right factorizations the op gives."""
        return "its vectors may have other signs than LAPACK's"

    @staticmethod
    def jvp(b: Builder, op: "Eigh", dx: Value) -> tuple[Value, Value]:
        """Return dw, the diagonal of e = vᵀ dx v; dv = v (e[i, k] / (w[k] - w[i]))."""
        e = product(b, op.v, product(b, symmetric(b, dx), op.v), turn=LEFT)
        return diagonal(b, e), product(b, op.v, b.multiply(e, _gaps(b, op.w)))

    @staticmethod
    def vjp(b: Builder, op: "Eigh", dw: Value, dv: Value) -> list[Value]:
        """Return v (diag dw + (vᵀ dv)[i, k] / (w[k] - w[i])) vᵀ, its symmetric part."""
        e = b.multiply(product(b, op.v, dv, turn=LEFT), _gaps(b, op.w))
        e = _with_diagonal(b, e, dw)
        inner = product(b, product(b, op.v, e), op.v, turn=RIGHT)
        return [symmetric(b, inner)]

    batch = leading()

    @staticmethod
    def decompose(b: Builder, op: "Eigh") -> list[Value]:
        """Emit Jacobi rotations, as a loop."""
        if not Tensor.of(op.x).shape[-1]:
            return [b.full(Tensor.of(op.w), 0.0), op.x]
        return rotations.eigh(b, op.x)

    samples = [
        OpSample((_SYMMETRIC,)),
        OpSample((f32("n", 2, 2),)),
        OpSample((np.eye(3, dtype="f"),), smooth=False),
    ]


def _gaps(b: Builder, w: Value) -> Value:
    """Emit 1 / (w[k] - w[i]) at element (i, k); 0 for equal values."""
    second, first = _across(b, w)
    least = for_each(b, _rounding(b, w), Tensor.of(second).shape)
    return _reciprocal(b, b.subtract(second, first), least)


def _with_diagonal(b: Builder, x: Value, v: Value) -> Value:
    """Emit `x`, whose diagonal is zero, with `v` on it."""
    wide = along_rows(b, v, Tensor.of(x))
    on_it = triangle(b, triangle(b, wide, lower=True), lower=False)
    return b.add(x, on_it)


class Svd(MatrixEquation, name="svd", traits=[Pure]):
    """y = u, s, vh: x = u diag(s) vh, with orthonormal columns in u and rows in vh.

    s falls. The largest element of each column of u is positive. x has at least as many
    rows as columns. See Note [equal values]; the same holds for u where s is 0.
    """

    x: Operand[Any]
    u: Result[Any]
    s: Result[Any]
    vh: Result[Any]

    @staticmethod
    def infer(x: Tensor) -> tuple[Tensor, ...]:
        """Return the types of u, as that of x, of s, a vector, and of square vh."""
        require_tall(x)
        n = x.shape[-1]
        return x, x.with_shape((*x.shape[:-2], n)), x.with_shape((*x.shape[:-2], n, n))

    @staticmethod
    def ref(x: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return np.linalg.svd, with signs changed; NaN where LAPACK would not end."""
        is_finite = np.isfinite(x).all((-2, -1), keepdims=True)
        finite = np.where(is_finite, x, 0).astype(np.float64)
        u, s, vh = np.linalg.svd(finite, full_matrices=False)
        sign = _largest_signs(u) if x.size else np.ones_like(u)[..., :1, :]
        vh = vh * np.swapaxes(sign, -1, -2)
        found = u * sign, s[..., None], vh
        u, s, vh = (np.where(is_finite, part, np.nan) for part in found)
        return u, s[..., 0], vh

    @classmethod
    def caveat(cls, op: Self) -> str:
        """Return which of the equally right factorizations the op gives."""
        return "its vectors may have other signs than LAPACK's"

    @staticmethod
    def jvp(b: Builder, op: "Svd", dx: Value) -> tuple[Value, Value, Value]:
        """Return the tangents of u, s and vh; ds is the diagonal of e = uᵀ dx v.

        With f[i, k] = 1 / (s[k]² - s[i]²):
        du = u f (e s + s eᵀ) + (1 - u uᵀ) dx v / s  and  dv = v f (s e + eᵀ s).
        """
        v, across = matrix_transpose(b, op.vh), _across(b, op.s)
        f, moved = _square_gaps(b, op.s), product(b, dx, v)
        e = product(b, op.u, moved, turn=LEFT)
        et = matrix_transpose(b, e)
        right, left = across
        du = b.add(b.multiply(e, right), b.multiply(et, left))
        dv = b.add(b.multiply(e, left), b.multiply(et, right))
        inside = product(b, op.u, b.multiply(f, du))
        du = b.add(inside, _outer_part(b, op, moved))
        return du, diagonal(b, e), matrix_transpose(b, product(b, v, b.multiply(f, dv)))

    @staticmethod
    def vjp(b: Builder, op: "Svd", du: Value, ds: Value, dvh: Value) -> list[Value]:
        """Return u (j s + s k + diag ds) vᵀ + (1 - u uᵀ) du / s vᵀ.

        Here j and k are the symmetric parts of 2 f uᵀ du and 2 f vᵀ dv.
        """
        right, left = _across(b, op.s)
        f = _square_gaps(b, op.s)
        j = b.multiply(f, product(b, op.u, du, turn=LEFT))
        k = b.multiply(f, product(b, op.vh, dvh, turn=RIGHT))
        inner = b.add(
            b.multiply(b.add(j, matrix_transpose(b, j)), right),
            b.multiply(b.add(k, matrix_transpose(b, k)), left),
        )
        inner = product(b, op.u, _with_diagonal(b, inner, ds))
        return [product(b, b.add(inner, _outer_part(b, op, du)), op.vh)]

    batch = leading()

    @staticmethod
    def decompose(b: Builder, op: "Svd") -> list[Value]:
        """Emit Jacobi rotations, then Householder reflections."""
        if not Tensor.of(op.x).shape[-1]:
            return [op.x, *(b.full(Tensor.of(y), 0.0) for y in (op.s, op.vh))]
        return rotations.svd(b, op.x)

    samples = [
        OpSample((np.array([[1, 2, -1], [3, 0.5, 1], [-2, 1, 0.25]], "f"),)),
        OpSample((f32("n", 3, 2),)),
        OpSample((f32(3, 0),)),
    ]


def _square_gaps(b: Builder, s: Value) -> Value:
    """Emit 1 / (s[k]² - s[i]²) at element (i, k); 0 for equal values."""
    second, first = _across(b, s)
    least = for_each(b, _rounding(b, s), Tensor.of(second).shape)
    apart = _reciprocal(b, b.subtract(second, first), least)
    return b.multiply(apart, _reciprocal(b, b.add(second, first), least))


def _outer_part(b: Builder, op: Svd, x: Value) -> Value:
    """Emit (1 - u uᵀ) x / s: the part outside of the span of u's columns."""
    inside = product(b, op.u, product(b, op.u, x, turn=LEFT))
    least = for_each(b, _rounding(b, op.s), Tensor.of(op.s).shape)
    inverse = _reciprocal(b, op.s, least)
    return b.multiply(b.subtract(x, inside), along_columns(b, inverse, Tensor.of(x)))
