"""Functions of `aotc.numpy` that sum products; all of them are `dot_general`."""

from __future__ import annotations

from collections.abc import Sequence

from aotc.core.dtypes import DTypeLike, canonical_dtype
from aotc.numpy.axes import axis_list, one_axis
from aotc.numpy.broadcasting import broadcast_shapes, broadcast_to, common
from aotc.numpy.elementwise import multiply, subtract
from aotc.numpy.shaping import expand_dims, moveaxis, ravel, reshape, roll, squeeze
from aotc.tracing.array import Array
from aotc.tracing.conversion import ArrayLike, lift, one_dtype
from aotc.tracing.source_locations import fail
from aotc.tracing.tracing import emit

__all__ = [
    "cross", "dot", "dot_general", "inner", "kron", "matmul", "matvec", "outer",
    "tensordot", "vdot", "vecdot", "vecmat",
]  # fmt: skip

AxisPair = tuple[Sequence[int], Sequence[int]]
Axes = int | Sequence[int]


def dot_general(
    x: ArrayLike,
    y: ArrayLike,
    contract: AxisPair,
    batch: AxisPair = ((), ()),
    dtype: DTypeLike | None = None,
) -> Array:
    """Sum of products over the axes `contract` for each index of the axes `batch`.

    Result axes: batch, the rest of x, the rest of y. `dtype` may be wider than the
    operands': products of i8 summed in i32, or of u8 by i8.
    """
    x, y = lift(x), lift(y)
    if dtype is None or not {x.dtype, y.dtype} <= {"i8", "u8"}:
        x, y = one_dtype(x, y)
    return emit(
        "dot_general",
        x,
        y,
        lhs_batch=tuple(batch[0]),
        rhs_batch=tuple(batch[1]),
        lhs_contract=tuple(contract[0]),
        rhs_contract=tuple(contract[1]),
        dtype="" if dtype is None else canonical_dtype(dtype),
    )


def matmul(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The matrix product over the last axis of x1 and the second-last of x2."""
    x, y = one_dtype(x1, x2)
    if not x.ndim or not y.ndim:
        fail(
            "shape-mismatch", f"matmul needs at least one axis; got {x.type}, {y.type}"
        )
    inner = _second_last(y)
    if x.type.shape[-1] != y.type.shape[inner]:
        fail(
            "shape-mismatch",
            f"matmul of {x.type} and {y.type}: the sizes {x.type.shape[-1]} and "
            f"{y.type.shape[inner]} of the summed axes differ",
        )
    if y.ndim <= 2:
        return dot_general(x, y, ((x.ndim - 1,), (inner,)))
    return _batched_matmul(x, y)


def _second_last(y: Array) -> int:
    """Return the axis of a right operand that `dot` contracts."""
    return max(y.ndim - 2, 0)


def _batched_matmul(x: Array, y: Array) -> Array:
    """Multiply stacks of matrices, broadcast to one another; x may be a vector."""
    vector = x.ndim == 1
    x = reshape(x, (1, x.shape[0])) if vector else x
    batch = broadcast_shapes(x.shape[:-2], y.shape[:-2])
    x = broadcast_to(x, batch + x.shape[-2:])
    y = broadcast_to(y, batch + y.shape[-2:])
    rank = len(batch)
    axes = tuple(range(rank))
    result = dot_general(x, y, ((rank + 1,), (rank,)), (axes, axes))
    return squeeze(result, rank) if vector else result


def dot(a: ArrayLike, b: ArrayLike) -> Array:
    """Contract the last axis of a with the second-last of b, without batches."""
    x, y = one_dtype(a, b)
    if not x.ndim or not y.ndim:
        return multiply(x, y)
    return dot_general(x, y, ((x.ndim - 1,), (_second_last(y),)))


def inner(a: ArrayLike, b: ArrayLike) -> Array:
    """Sum of products over the last axis of both."""
    x, y = one_dtype(a, b)
    if not x.ndim or not y.ndim:
        return multiply(x, y)
    return dot_general(x, y, ((x.ndim - 1,), (y.ndim - 1,)))


def outer(a: ArrayLike, b: ArrayLike) -> Array:
    """Return the products of each element of a with each of b."""
    x, y = one_dtype(a, b)
    return multiply(reshape(x, (-1, 1)), reshape(y, (1, -1)))


def vdot(a: ArrayLike, b: ArrayLike) -> Array:
    """Sum of products of all elements."""
    return dot(ravel(a), ravel(b))


def vecdot(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1) -> Array:
    """Sum of products along `axis`; the other axes broadcast."""
    x, y = (moveaxis(v, axis, -1) for v in one_dtype(x1, x2))
    if x.type.shape[-1] != y.type.shape[-1]:
        fail(
            "shape-mismatch",
            f"expected vectors of one size along axis {axis}; got {x.type}, {y.type}",
        )
    x, y = common(x, y)
    last, others = [x.ndim - 1], list(range(x.ndim - 1))
    return dot_general(x, y, (last, last), (others, others))


def matvec(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Multiply matrices by vectors (the last axis of x2); the others broadcast."""
    matrices, vectors = _with_axes(x1, 2), _with_axes(x2, 1)
    return squeeze(matmul(matrices, expand_dims(vectors, -1)), -1)


def vecmat(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Multiply vectors (the last axis of x1) by matrices; the others broadcast."""
    vectors, matrices = _with_axes(x1, 1), _with_axes(x2, 2)
    return squeeze(matmul(expand_dims(vectors, -2), matrices), -2)


def _with_axes(x: ArrayLike, least: int) -> Array:
    """Return an array; raise if it has fewer than `least` axes."""
    array = lift(x)
    if array.ndim < least:
        kind = "vectors" if least == 1 else "matrices"
        fail("shape-mismatch", f"expected {kind}; got {array.type}")
    return array


def tensordot(a: ArrayLike, b: ArrayLike, axes: int | tuple[Axes, Axes] = 2) -> Array:
    """Sum of products over `axes`: a count, or a pair of axis lists."""
    x, y = one_dtype(a, b)
    if isinstance(axes, int):
        if not 0 <= axes <= min(x.ndim, y.ndim):
            fail("bad-axis", f"cannot sum over {axes} axes of {x.type} and {y.type}")
        axes = (range(x.ndim - axes, x.ndim), range(axes))
    left, right = axis_list(x, axes[0]), axis_list(y, axes[1])
    if len(left) != len(right):
        fail("bad-axis", f"expected as many axes of both arrays; got {axes}")
    return dot_general(x, y, (left, right))


def kron(a: ArrayLike, b: ArrayLike) -> Array:
    """Multiply every element of `a` by the whole of `b`, in its place."""
    x, y = one_dtype(a, b)
    rank = max(x.ndim, y.ndim)
    x = reshape(x, (1,) * (rank - x.ndim) + x.shape)
    y = reshape(y, (1,) * (rank - y.ndim) + y.shape)
    pairs = list(zip(x.shape, y.shape, strict=True))
    blocks = multiply(
        reshape(x, [size for n, _ in pairs for size in (n, 1)]),
        reshape(y, [size for _, n in pairs for size in (1, n)]),
    )
    return reshape(blocks, [n * m for n, m in pairs])


def cross(a: ArrayLike, b: ArrayLike, *, axis: int = -1) -> Array:
    """The vector at right angles to two vectors of three elements along `axis`."""
    x, y = common(*(_vectors_last(v, axis) for v in one_dtype(a, b)))

    def rotate(v: Array, by: int) -> Array:
        return roll(v, -by, -1)

    product = subtract(
        multiply(rotate(x, 1), rotate(y, 2)), multiply(rotate(x, 2), rotate(y, 1))
    )
    return moveaxis(product, -1, axis)


def _vectors_last(v: Array, axis: int) -> Array:
    """Move the axis of 3-element vectors to the end."""
    if v.type.shape[one_axis(v, axis)] != 3:
        fail("shape-mismatch", f"expected 3 elements along axis {axis}; got {v.type}")
    return moveaxis(v, axis, -1)
