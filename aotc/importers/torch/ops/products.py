"""ATen ops that are products of vectors and matrices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from aotc import linalg, nn
from aotc import numpy as np
from aotc.tracing.array import Array
from aotc.tracing.source_locations import fail


def linear(x: Array, weight: Array, bias: Array | None = None) -> Array:
    """Return `x @ weight.T + bias`."""
    y = np.tensordot(x, weight, ((x.ndim - 1,), (weight.ndim - 1,)))
    return y if bias is None else np.add(y, bias)


def _scaled_sum(product: Callable[[Array, Array], Array]) -> Callable[..., Array]:
    """Return a function `beta * x + alpha * product(a, b)`."""

    def call(x: Array, a: Array, b: Array, *, beta: Any = 1, alpha: Any = 1) -> Array:
        y = product(a, b)
        y = y if alpha == 1 else np.multiply(y, alpha)
        if beta == 0:
            return y
        return np.add(x if beta == 1 else np.multiply(x, beta), y)

    return call


def _summed_product(a: Array, b: Array) -> Array:
    """Return the sum over a batch of the matrix products."""
    return np.tensordot(a, b, ((0, 2), (0, 1)))


def grouped_product(
    x: Array,
    kernels: Array,
    ends: Array | None = None,
    bias: Array | None = None,
    dtype: str | None = None,
) -> Array:
    """Return rows times the matrix of their group; groups of rows end at `ends`."""
    if ends is None or x.ndim != 2 or kernels.ndim != 3 or bias is not None:
        fail("unsupported", "expected rows in groups and a matrix for each, no bias")
    before = np.concatenate([np.zeros(1, ends.dtype), ends[:-1]])
    y = nn.ragged_dot(x, kernels, np.subtract(ends, before))
    return y if dtype is None else np.astype(y, dtype)


def einsum(equation: str, operands: Sequence[Array], path: object = None) -> Array:
    """Return the contraction that an Einstein-sum equation states."""
    return np.einsum(equation, *operands)


def trilinear(
    a: Array,
    b: Array,
    c: Array,
    expand_a: Sequence[int],
    expand_b: Sequence[int],
    expand_c: Sequence[int],
    sumdim: Sequence[int],
    unroll_dim: int = 1,
) -> Array:
    """Return the product of three tensors with axes inserted, summed over axes."""
    spread = [
        np.expand_dims(x, tuple(axes)) if axes else x
        for x, axes in ((a, expand_a), (b, expand_b), (c, expand_c))
    ]
    rank = spread[0].ndim
    labels = [chr(ord("a") + axis) for axis in range(rank)]
    kept = "".join(label for n, label in enumerate(labels) if n not in set(sumdim))
    line = "".join(labels)
    return np.einsum(f"{line},{line},{line}->{kept}", *spread)


def distances(x: Array, y: Array, p: float = 2.0, mode: int | None = None) -> Array:
    """Return the p-norm distance of each row of x from each row of y."""
    return _norm(np.subtract(np.expand_dims(x, -2), np.expand_dims(y, -3)), p)


def _norm(difference: Array, p: float) -> Array:
    """Return the p-norm over the last axis."""
    size = np.absolute(difference)
    if p == 0:
        return np.sum(np.astype(np.not_equal(size, 0), size.dtype), -1)
    if p == float("inf"):
        return np.max(size, -1, initial=0.0)
    return linalg.vector_norm(size, axis=-1, ord=p)


def pairwise_distances(x: Array, p: float = 2.0) -> Array:
    """Return the p-norm distance of each pair of rows of x."""
    rows, columns = np.triu_indices(int(x.shape[0]), 1)
    return _norm(np.subtract(np.take(x, rows, 0), np.take(x, columns, 0)), p)


OPS: dict[str, Callable[..., Any]] = {
    "aten.linear": linear,
    "aten.mm": np.matmul,
    "aten.bmm": np.matmul,
    "aten.mv": np.matmul,
    "aten.dot": np.matmul,
    "aten.vdot": np.matmul,
    "aten.matmul": np.matmul,
    "aten.addmm": _scaled_sum(np.matmul),
    "aten.addmv": _scaled_sum(np.matmul),
    "aten.baddbmm": _scaled_sum(np.matmul),
    "aten.addbmm": _scaled_sum(_summed_product),
    "aten._grouped_mm": grouped_product,
    "transformers.grouped_mm_fallback": grouped_product,
    "aten.einsum": einsum,
    "aten._trilinear": trilinear,
    "aten._cdist_forward": distances,
    "aten._pdist_forward": pairwise_distances,
}
