"""Factorizations of matrices and triangular systems, differentiated by implicit rules.

The derivatives are those of Giles, "Collected matrix derivative results for forward and
reverse mode algorithmic differentiation", Advances in Automatic Differentiation (2008).
They ask for the factors only, never for the steps of the algorithm. The last two axes
are the matrix, those before them a batch. `elimination` and `reflections` say how they
are compiled.
"""

from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np

from aotc.dialects.attributes import Bool
from aotc.dialects.builder import Builder
from aotc.dialects.factorizations import elimination, reflections
from aotc.dialects.graph import Operand, Pure, Result, Tangent
from aotc.dialects.rules.batching import leading
from aotc.dialects.rules.matrices import (
    LEFT,
    RIGHT,
    MatrixEquation,
    identity,
    matrix_transpose,
    on_diagonal,
    product,
    require_matrices,
    require_square,
    require_tall,
    symmetric,
    triangle,
)
from aotc.dialects.rules.samples import OpSample, f32
from aotc.dialects.types import Tensor, element_count, format_shape
from aotc.errors import InputError
from aotc.mlir import Value

_DEFINITE = np.array([[4, 1, -1], [1, 3, 0.5], [-1, 0.5, 2]], "f")


def _map_matrices(
    function: Callable[..., Sequence[np.ndarray]], *stacks: np.ndarray
) -> list[np.ndarray]:
    """Return the stacked results of a NumPy function of one matrix of each stack."""
    lead = stacks[0].shape[:-2]
    found = [
        function(*(stack[place].astype(np.float64) for stack in stacks))
        for place in np.ndindex(lead)
    ]
    return [
        np.stack(part).reshape(*lead, *np.shape(part[0]))
        for part in zip(*found, strict=True)
    ]


class Cholesky(MatrixEquation, name="cholesky", traits=[Pure]):
    """y = the lower triangle with y yᵀ = (x + xᵀ) / 2; NaN if that is not definite."""

    x: Operand[Any]
    y: Result[Any]

    @staticmethod
    def infer(x: Tensor) -> Tensor:
        """Return the result type, that of x."""
        require_square(x)
        return x

    @staticmethod
    def ref(x: np.ndarray) -> np.ndarray:
        """Return np.linalg.cholesky of each matrix; NaN if that fails."""

        def factor(a: np.ndarray) -> tuple[np.ndarray]:
            try:
                return (np.linalg.cholesky((a + a.T) / 2),)
            except np.linalg.LinAlgError:
                return (np.tril(np.full_like(a, np.nan)),)

        return _map_matrices(factor, x)[0] if x.size else x

    @staticmethod
    def jvp(b: Builder, op: "Cholesky", dx: Value) -> Value:
        """Return y low(y⁻¹ dx y⁻ᵀ); low: the lower triangle, half of the diagonal."""
        inner = _solve(b, op.y, symmetric(b, dx))
        inner = matrix_transpose(b, _solve(b, op.y, matrix_transpose(b, inner)))
        return product(b, op.y, _half_lower(b, inner))

    @staticmethod
    def vjp(b: Builder, op: "Cholesky", dy: Value) -> list[Value]:
        """Return the symmetric part of y⁻ᵀ low(yᵀ dy) y⁻¹."""
        inner = symmetric(b, _half_lower(b, product(b, op.y, dy, turn=LEFT)))
        half = _solve(b, op.y, inner, transpose=True)
        return [_solve(b, op.y, matrix_transpose(b, half), transpose=True)]

    batch = leading()

    @staticmethod
    def decompose(b: Builder, op: "Cholesky") -> Value:
        """Emit the elimination column by column, as a loop."""
        if not Tensor.of(op.x).shape[-1]:
            return op.x
        return elimination.cholesky(b, op.x)

    samples = [
        OpSample((_DEFINITE,)),
        OpSample((f32("n", 2, 2),), smooth=False),  # definite or not
        OpSample((f32(2, 0, 0),), smooth=False),
    ]


def _half_lower(b: Builder, x: Value) -> Value:
    """Emit the lower triangle with half of the diagonal."""
    return b.select(on_diagonal(b, x), b.scale(x, 0.5), triangle(b, x, lower=True))


def _solve(
    b: Builder, a: Value, y: Value, transpose: bool = False, **kind: bool
) -> Value:
    """Emit a⁻¹ y or a⁻ᵀ y for a lower triangle, unless `kind` says otherwise."""
    attributes = {"lower": True, "unit_diagonal": False, **kind}
    return b.triangular_solve(a, y, transpose=transpose, **attributes)


class TriangularSolve(MatrixEquation, name="triangular_solve", traits=[Pure]):
    """y = a⁻¹ x, or a⁻ᵀ x with `transpose`, where a is a triangle.

    Of `a` one triangle is read, the lower or the upper one, and with `unit_diagonal`
    not its diagonal, which counts as ones.
    """

    why = "its adjoints are triangular solves"

    a: Operand[Any]
    x: Operand[Any]
    lower: Bool  # type: ignore[assignment]  # SciPy's name; the rule is `decompose`
    transpose: Bool
    unit_diagonal: Bool
    y: Result[Any]

    @staticmethod
    def infer(a: Tensor, x: Tensor, **_: object) -> Tensor:
        """Return the type of x, whose rows are as many as those of a."""
        require_square(a)
        require_matrices(x)
        if x.dtype != a.dtype:
            raise InputError(
                "dtype-mismatch", f"expected operands of one dtype; got {a} and {x}"
            )
        if (*x.shape[:-2], x.shape[-2]) != a.shape[:-1]:
            raise InputError(
                "shape-mismatch",
                f"expected as many matrices, with as many rows, as "
                f"{format_shape(a.shape)} has; got {format_shape(x.shape)}",
            )
        return x

    @staticmethod
    def ref(
        a: np.ndarray,
        x: np.ndarray,
        *,
        lower: bool,
        transpose: bool,
        unit_diagonal: bool,
    ) -> np.ndarray:
        """Return the solutions in NumPy, by substitution."""
        if not x.size:
            return x
        triangle = np.tril(a) if lower else np.triu(a)
        if unit_diagonal:
            places = np.arange(a.shape[-1])
            triangle[..., places, places] = 1
        triangle = np.swapaxes(triangle, -1, -2) if transpose else triangle
        with np.errstate(all="ignore"):
            return _map_matrices(_substitute, triangle, x)[0]

    @staticmethod
    def jvp(b: Builder, op: "TriangularSolve", da: Tangent, dx: Tangent) -> Value:
        """Return a⁻¹ (dx - da y), or with aᵀ."""
        terms = [] if dx is None else [dx]
        if da is not None:
            turn = (op.transpose, False)
            terms.append(b.negate(product(b, _read(b, op, da), op.y, turn=turn)))
        total = terms[0] if len(terms) == 1 else b.add(*terms)
        dy: Value = op.rebuild(op.a, total)
        return dy

    @staticmethod
    def vjp(b: Builder, op: "TriangularSolve", dy: Value) -> list[Value]:
        """Return dx = a⁻ᵀ dy, and da, the triangle of -dx yᵀ."""
        dx = op.rebuild(op.a, dy, transpose=not op.transpose)
        left, right = (op.y, dx) if op.transpose else (dx, op.y)
        outer = product(b, left, right, turn=RIGHT)
        return [_read(b, op, b.negate(outer)), dx]

    batch = leading()

    @staticmethod
    def decompose(b: Builder, op: "TriangularSolve") -> Value:
        """Emit products with the inverses of blocks on the diagonal."""
        if element_count(Tensor.of(op.x).shape[-2:]) == 0:
            return op.x
        a, lower = _read(b, op, op.a), op.lower
        if op.unit_diagonal:
            a = b.add(a, identity(b, Tensor.of(a)))
        if op.transpose:
            a, lower = matrix_transpose(b, a), not lower
        return elimination.triangular_solve(b, a, op.x, lower)

    samples = [
        OpSample(
            (f32(3, 3), f32(3, 2)),
            {"lower": True, "transpose": False, "unit_diagonal": False},
            low=0.5,
        ),
        OpSample(
            (f32("n", 3, 3), f32("n", 3, 1)),
            {"lower": False, "transpose": True, "unit_diagonal": True},
            low=-0.5,
            high=0.5,
        ),
        OpSample(
            (f32(2, 3, 3), f32(2, 3, 0)),
            {"lower": False, "transpose": False, "unit_diagonal": False},
        ),
    ]


def _read(b: Builder, op: TriangularSolve, a: Value) -> Value:
    """Emit the triangle of `a` that a triangular_solve reads."""
    return triangle(b, a, lower=op.lower, strict=op.unit_diagonal)


def _substitute(a: np.ndarray, x: np.ndarray) -> tuple[np.ndarray]:
    """Return a⁻¹ x in NumPy for a triangle of either kind, by substitution."""
    y = x.copy()
    order = range(len(a)) if not np.triu(a, 1).any() else reversed(range(len(a)))
    for i in order:
        others = a[i].copy()
        others[i] = 0
        y[i] = (y[i] - others @ np.where(others[:, None] != 0, y, 0)) / a[i, i]
    return (y,)


class Lu(MatrixEquation, name="lu", traits=[Pure]):
    """y = l - 1 + u, where x[permutation] = l u, by elimination with partial pivoting.

    l has ones on its diagonal, u is the upper triangle. The pivot is the first of the
    largest elements of a column; where all are 0, the column of l is 0 below 1.
    """

    x: Operand[Any]
    y: Result[Any]
    permutation: Result[Any]

    @staticmethod
    def infer(x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the type of x, and that of an i32 for each row."""
        require_square(x)
        return x, Tensor(x.shape[:-1], "i32")

    @staticmethod
    def ref(x: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return L and U packed, and the order of rows, of each matrix in NumPy."""
        if not x.size:
            return x, np.zeros(x.shape[:-1], "i4")
        return tuple(_map_matrices(_eliminate, x))

    @staticmethod
    def jvp(b: Builder, op: "Lu", dx: Value) -> tuple[Value, None]:
        """Return l low(f) + up(f) u, where f = l⁻¹ dx[permutation] u⁻¹."""
        inner = _solve_unit(b, op.y, elimination.rows_at(b, dx, op.permutation))
        inner = _right_upper(b, op.y, inner)
        low = triangle(b, inner, lower=True, strict=True)
        dl = b.add(low, product(b, triangle(b, op.y, lower=True, strict=True), low))
        du = product(b, triangle(b, inner, lower=False), triangle(b, op.y, lower=False))
        return b.add(triangle(b, dl, lower=True, strict=True), du), None

    @staticmethod
    def vjp(b: Builder, op: "Lu", dy: Value, _: Value) -> list[Value]:
        """Return l⁻ᵀ (low(lᵀ dl) + up(du uᵀ)) u⁻ᵀ, with its rows put back."""
        low = triangle(b, dy, lower=True, strict=True)
        unit = b.add(
            triangle(b, op.y, lower=True, strict=True), identity(b, Tensor.of(op.y))
        )
        dl = product(b, unit, low, turn=LEFT)
        upper = triangle(b, op.y, lower=False)
        du = product(b, triangle(b, dy, lower=False), upper, turn=RIGHT)
        inner = b.add(
            triangle(b, dl, lower=True, strict=True), triangle(b, du, lower=False)
        )
        inner = _solve_unit(b, op.y, inner, transpose=True)
        inner = matrix_transpose(
            b, _solve(b, op.y, matrix_transpose(b, inner), lower=False)
        )
        return [elimination.rows_at(b, inner, _inverse(b, op.permutation))]

    batch = leading()

    @staticmethod
    def decompose(b: Builder, op: "Lu") -> list[Value]:
        """Emit the elimination column by column, as a loop."""
        if not Tensor.of(op.x).shape[-1]:
            return [op.x, b.full(Tensor.of(op.permutation), 0)]
        return elimination.lu(b, op.x)

    samples = [
        OpSample((np.array([[1, 2, -1], [3, 0.5, 1], [-2, 1, 0.25]], "f"),)),
        OpSample((f32("n", 3, 3),)),
        OpSample((np.array([[0, 1, 2], [0, 0, 3], [0, 2, -1]], "f"),), smooth=False),
    ]


def _eliminate(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return L and U packed, and the order of rows, of one NumPy matrix.

    Rows change places at the end, so that ties have one answer.
    """
    x, order = x.copy(), []
    for j in range(len(x)):
        rest = [i for i in range(len(x)) if i not in order]
        pivot = rest[int(np.argmax(np.abs(x[rest, j])))]
        order.append(pivot)
        rest.remove(pivot)
        x[rest, j] /= x[pivot, j] or 1
        x[rest, j + 1 :] -= np.outer(x[rest, j], x[pivot, j + 1 :])
    return x[order], np.array(order, "i4")


def _solve_unit(b: Builder, a: Value, y: Value, transpose: bool = False) -> Value:
    """Emit a⁻¹ y or a⁻ᵀ y for a lower triangle with ones on its diagonal."""
    return _solve(b, a, y, transpose, unit_diagonal=True)


def _right_upper(b: Builder, u: Value, y: Value) -> Value:
    """Emit y u⁻¹ for an upper triangle u."""
    return matrix_transpose(
        b, _solve(b, u, matrix_transpose(b, y), transpose=True, lower=False)
    )


def _inverse(b: Builder, permutation: Value) -> Value:
    """Emit the inverse of each permutation."""
    kind = Tensor.of(permutation)
    return b.argsort(
        permutation, axis=kind.rank - 1, descending=False, count=(kind.shape[-1],)
    )


class Qr(MatrixEquation, name="qr", traits=[Pure]):
    """y = q, r: x = q r, with orthonormal columns in q and r upper triangular.

    The diagonal of r is at least 0, so the factors of a matrix of full rank are unique.
    x has at least as many rows as columns. At a matrix of lower rank there is no
    derivative: it is infinite or NaN.
    """

    x: Operand[Any]
    q: Result[Any]
    r: Result[Any]

    @staticmethod
    def infer(x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the type of x, and that of square matrices."""
        require_tall(x)
        return x, x.with_shape((*x.shape[:-2], x.shape[-1], x.shape[-1]))

    @staticmethod
    def ref(x: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return np.linalg.qr, with signs that make the diagonal of r nonnegative."""
        q, r = np.linalg.qr(x.astype(np.float64))
        sign = np.where(np.diagonal(r, axis1=-2, axis2=-1) < 0, -1.0, 1.0)
        return q * sign[..., None, :], r * sign[..., :, None]

    @classmethod
    def caveat(cls, op: Self) -> str:
        """Return which of the equally right factorizations the op gives."""
        return "the diagonal of r is at least 0: LAPACK's columns may have other signs"

    @staticmethod
    def jvp(b: Builder, op: "Qr", dx: Value) -> tuple[Value, Value]:
        """Return dq and dr, by c = qᵀ dx r⁻¹ and o = low(c) - low(c)ᵀ.

        dr = (c - o) r, and dq = dx r⁻¹ - q (c - o).
        """
        moved = _right_upper(b, op.r, dx)
        c = product(b, op.q, moved, turn=LEFT)
        low = triangle(b, c, lower=True, strict=True)
        up = b.subtract(c, b.subtract(low, matrix_transpose(b, low)))
        return b.subtract(moved, product(b, op.q, up)), product(b, up, op.r)

    @staticmethod
    def vjp(b: Builder, op: "Qr", dq: Value, dr: Value) -> list[Value]:
        """Return (dq + q s) r⁻ᵀ; s mirrors the lower triangle of r drᵀ - dqᵀ q upwards.

        Walter, Lehmann and Lamour, "On evaluating higher-order derivatives of the QR
        decomposition of tall matrices with full column rank in forward and reverse mode
        algorithmic differentiation", Optimization Methods and Software 27 (2012).
        """
        dr = triangle(b, dr, lower=False)
        m = b.subtract(
            product(b, op.r, dr, turn=RIGHT), product(b, dq, op.q, turn=LEFT)
        )
        low = triangle(b, m, lower=True, strict=True)
        mirrored = b.add(triangle(b, m, lower=True), matrix_transpose(b, low))
        total = b.add(dq, product(b, op.q, mirrored))
        solved = _solve(b, op.r, matrix_transpose(b, total), lower=False)
        return [matrix_transpose(b, solved)]

    batch = leading()

    @staticmethod
    def decompose(b: Builder, op: "Qr") -> list[Value]:
        """Emit Householder reflections, as a loop over columns."""
        if not Tensor.of(op.x).shape[-1]:
            return [op.x, b.full(Tensor.of(op.r), 0.0)]
        return reflections.qr(b, op.x)

    samples = [
        OpSample((np.array([[1, 2, -1], [3, 0.5, 1], [-2, 1, 0.25]], "f"),)),
        OpSample((f32("n", 3, 2),)),
        OpSample((f32(3, 0),)),
    ]
