"""LAPACK's routines, which JAX's factorisations for CPUs call.

What LAPACK leaves open (signs of vectors) the graph's ops decide in their own way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from aotc import control, linalg
from aotc import numpy as np
from aotc.importers.stablehlo.operation import Op
from aotc.importers.stablehlo.ops.matrices import (
    cholesky_factor,
    real_matrix,
    solve_triangle,
)
from aotc.importers.stablehlo.values import Value, array
from aotc.mlir import ir
from aotc.tracing.array import Array
from aotc.tracing.source_locations import fail
from aotc.tracing.tracing import emit


def _letter(op: Op, name: str) -> str:
    """Return a character option of a LAPACK call, or ""."""
    config = op.attribute("mhlo.backend_config")
    found = ir.DictAttr(config)[name] if config is not None else None
    return chr(ir.IntegerAttr(found).value) if found is not None else ""


def _info(a: Array) -> Array:
    """Return LAPACK's status, 0 for each matrix of a batch: failures show as NaN."""
    return np.zeros(a.shape[:-2], "i32")


def _potrf(op: Op, a: Value) -> tuple[Array, Array]:
    """Return the Cholesky factor, with the input's other triangle, and the status."""
    x = real_matrix(op, a)
    lower = _letter(op, "uplo") == "L"
    other = np.triu(x, 1) if lower else np.tril(x, -1)
    return cholesky_factor(x, lower) + other, _info(x)


def _trsm(op: Op, a: Value, b: Value) -> Array:
    """Return the solution of a triangular system."""
    return solve_triangle(
        real_matrix(op, a),
        real_matrix(op, b),
        left=_letter(op, "side") == "L",
        lower=_letter(op, "uplo") == "L",
        transpose=_letter(op, "trans_x") != "N",
        unit_diagonal=_letter(op, "diag") == "U",
    )


def _getrf(op: Op, a: Value) -> tuple[Array, Array, Array]:
    """Return LU packed in one matrix, LAPACK's 1-based row swaps, and the status."""
    x = real_matrix(op, a)
    packed, permutation = linalg.lu_factor(x)
    return packed, _exchanges(permutation) + 1, _info(x)


def _exchanges(permutation: Array) -> Array:
    """Return the row swaps, one for each row in order, that make up a permutation."""
    *batch, size = permutation.shape
    places = emit("iota", shape=permutation.shape, axis=len(batch), dtype="i32")

    def step(rows: Array, i: Array) -> tuple[Array, Array]:
        wanted = np.take(permutation, i, -1)[..., None]
        found = np.argmax(rows == wanted, -1)[..., None]
        here = np.take(rows, i, -1)[..., None]
        moved = np.where(places == found, here, rows)
        return np.where(places == i, wanted, moved), found[..., 0]

    order = emit("iota", shape=(size,), axis=0, dtype="i32")
    return np.moveaxis(control.scan(step, places, order)[1], 0, -1)


def _geqrf(op: Op, a: Value) -> tuple[Array, Array]:
    """Return QR in LAPACK's form: R with Householder vectors below, and their
    factors.
    """
    x = real_matrix(op, a)
    *batch, rows, columns = x.shape
    place = emit("iota", shape=(rows,), axis=0, dtype="i32")

    def step(carried: Array, k: Array) -> tuple[Array, Array]:
        column = np.take(carried, k, -1)
        head = np.where(place == k, column, 0.0)
        tail = np.where(place > k, column, 0.0)
        alpha = np.sum(head, -1, keepdims=True)
        rest = np.sum(tail * tail, -1, keepdims=True)
        beta = -np.copysign(np.sqrt(alpha * alpha + rest), alpha)
        none = rest == 0.0
        safe = np.where(none, 1.0, alpha - beta)
        tau = np.where(none, 0.0, (beta - alpha) / np.where(none, 1.0, beta))
        below = tail / safe
        vector = np.where(place == k, 1.0, below)
        products = np.matmul(vector[..., None, :], carried)
        changed = carried - tau[..., None] * vector[..., None] * products
        later = emit("iota", shape=(columns,), axis=0, dtype="i32") > k
        carried = np.where(later, changed, carried)
        kept = np.where(place < k, column, below)
        packed = np.where(place == k, np.where(none, alpha, beta), kept)
        now = emit("iota", shape=(columns,), axis=0, dtype="i32") == k
        return np.where(now, packed[..., None], carried), tau[..., 0]

    order = emit("iota", shape=(min(rows, columns),), axis=0, dtype="i32")
    packed, factors = control.scan(step, x, order)
    return packed, np.moveaxis(factors, 0, -1)


def _orgqr(op: Op, a: Value, taus: Value) -> Array:
    """Return Q: the first columns of the product of Householder reflections."""
    x, factors = real_matrix(op, a), real_matrix(op, taus)
    *batch, rows, columns = x.shape
    place = emit("iota", shape=(rows,), axis=0, dtype="i32")
    start = np.broadcast_to(np.eye(rows, columns, dtype=x.dtype), x.shape)

    def step(q: Array, k: Array) -> tuple[Array, None]:
        column = np.take(x, k, -1)
        below = np.where(place > k, column, 0.0)
        vector = np.where(place == k, 1.0, below)
        tau = np.take(factors, k, -1)[..., None, None]
        products = np.matmul(vector[..., None, :], q)
        return q - tau * vector[..., None] * products, None

    order = emit("iota", shape=(factors.shape[-1],), axis=0, dtype="i32")
    product: Array = control.scan(step, start, order, reverse=True)[0]
    return product


def _syevd(op: Op, a: Value) -> tuple[Array, Array, Array]:
    """Return eigenvectors and eigenvalues of a symmetric matrix, and the status."""
    x = real_matrix(op, a)
    lower = _letter(op, "uplo") == "L"
    half = np.tril(x, -1) if lower else np.matrix_transpose(np.triu(x, 1))
    whole = half + np.matrix_transpose(half) + np.tril(np.triu(x))
    values, vectors = linalg.eigh(whole)
    return vectors, values, _info(x)


def _gesdd(op: Op, a: Value) -> tuple[Any, ...]:
    """Return the input, singular values, U, Vh and the status of an SVD."""
    x = real_matrix(op, a)
    mode = _letter(op, "mode")
    square = x.shape[-1] == x.shape[-2]
    if mode == "A" and not square:
        fail(
            "unsupported-ops",
            f"the full singular vectors of {x.type} are not unique, and not computed",
            "export svd with full_matrices=False",
        )
    u, s, vh = linalg.svd(x, full_matrices=False)
    if mode == "N":  # what nobody reads has the shape that LAPACK gives it
        kinds: Sequence[Any] = op.kinds[2:4]
        u, vh = (np.zeros(kind.shape, x.dtype) for kind in kinds if kind is not None)
    return x, s, u, vh, _info(x)


def _gtsv(op: Op, below: Value, middle: Value, above: Value, b: Value) -> object:
    """Return the solutions of tridiagonal systems (Thomas algorithm, without pivoting).

    All diagonals have the length of the middle one; `below` starts and `above` ends
    with an element outside of the matrix, which is zero.
    """
    left, main, right, rows = (
        np.moveaxis(real_matrix(op, x), axis, 0)
        for x, axis in ((below, -1), (middle, -1), (above, -1), (b, -2))
    )

    def eliminate(carried: Any, row: Any) -> Any:
        (c, d), (low, centre, high, y) = carried, row
        pivot = centre - low * c
        new = high / pivot, (y - low[..., None] * d) / pivot[..., None]
        return new, new

    start = np.zeros_like(main[0]), np.zeros_like(rows[0])
    reduced = control.scan(eliminate, start, (left, main, right, rows))[1]

    def substitute(x: Array, row: Any) -> Any:
        c, d = row
        x = d - c[..., None] * x
        return x, x

    solved = control.scan(substitute, start[1], reduced, reverse=True)[1]
    x = np.moveaxis(solved, 0, -2)
    return array(below), array(middle), array(above), x, _info(x)


_ROUTINES: dict[str, Callable[..., Any]] = {
    "geqrf": _geqrf,
    "gesdd": _gesdd,
    "getrf": _getrf,
    "gtsv": _gtsv,
    "orgqr": _orgqr,
    "potrf": _potrf,
    "syevd": _syevd,
    "trsm": _trsm,
}
LAPACK = {
    f"lapack_{letter}{name}_ffi": rule
    for letter in "sd"
    for name, rule in _ROUTINES.items()
}
