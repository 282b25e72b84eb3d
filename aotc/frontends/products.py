"""Functions of `aotc.numpy` that sum products; all of them are `dot_general`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aotc.frontends.array import Array
from aotc.frontends.axes import axis_list
from aotc.frontends.broadcasting import broadcast_shapes, broadcast_to
from aotc.frontends.conversion import ArrayLike, one_dtype
from aotc.frontends.elementwise import multiply
from aotc.frontends.places import fail
from aotc.frontends.reducing import sum as total
from aotc.frontends.shaping import ravel, reshape, squeeze, transpose
from aotc.frontends.tracing import emit

AxisPair = tuple[Sequence[int], Sequence[int]]


def dot_general(
    x: ArrayLike, y: ArrayLike, contract: AxisPair, batch: AxisPair = ((), ())
) -> Array:
    """Sum of products over the axes `contract` for each index of the axes `batch`.

    Result axes: batch, the rest of x, the rest of y.
    """
    x, y = one_dtype(x, y)
    return emit(
        "dot_general",
        x,
        y,
        lhs_batch=tuple(batch[0]),
        rhs_batch=tuple(batch[1]),
        lhs_contract=tuple(contract[0]),
        rhs_contract=tuple(contract[1]),
    )


def matmul(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The matrix product over the last axis of x1 and the second-last of x2."""
    x, y = one_dtype(x1, x2)
    if not x.ndim or not y.ndim:
        fail(
            "shape-mismatch", f"matmul needs at least one axis; got {x.type}, {y.type}"
        )
    inner = _second_last(y)
    if x.shape[-1] != y.shape[inner]:
        fail(
            "shape-mismatch",
            f"matmul of {x.type} and {y.type}: the sizes {x.shape[-1]} and "
            f"{y.shape[inner]} of the summed axes differ",
        )
    if y.ndim <= 2:
        return dot_general(x, y, ((x.ndim - 1,), (inner,)))
    return _batched_matmul(x, y)


def _second_last(y: Array) -> int:
    """The axis of a right operand that products sum over."""
    return max(y.ndim - 2, 0)


def _batched_matmul(x: Array, y: Array) -> Array:
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
    """NumPy's dot: the last axis of a with the second-last of b, without batches."""
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
    """All products of an element of a with one of b."""
    x, y = one_dtype(a, b)
    return multiply(reshape(x, (-1, 1)), reshape(y, (1, -1)))


def vdot(a: ArrayLike, b: ArrayLike) -> Array:
    """Sum of products of all elements."""
    return dot(ravel(a), ravel(b))


def tensordot(a: ArrayLike, b: ArrayLike, axes: Any = 2) -> Array:
    """Sum of products over `axes`: a count, or a pair of axis lists."""
    x, y = one_dtype(a, b)
    if isinstance(axes, int):
        axes = (range(x.ndim - axes, x.ndim), range(axes))
    return dot_general(x, y, (axis_list(x, axes[0]), axis_list(y, axes[1])))


# ---- einsum -------------------------------------------------------------------------


def einsum(subscripts: str, /, *operands: ArrayLike) -> Array:
    """Sums of products by Einstein's notation: one letter per axis, no diagonals."""
    inputs, output = _parse(subscripts, len(operands))
    arrays = one_dtype(*operands)
    for letters, array in zip(inputs, arrays, strict=True):
        if len(letters) != array.ndim or len(set(letters)) != len(letters):
            fail(
                "bad-subscripts",
                f"'{letters}' does not name each axis of {array.type} once",
            )
    letters, result = inputs[0], arrays[0]
    for number in range(1, len(arrays)):
        kept = set(output).union(*inputs[number + 1 :])
        letters, result = _product(
            letters, result, inputs[number], arrays[number], kept
        )
    letters, result = _summed(letters, result, set(output))
    return transpose(result, [letters.index(letter) for letter in output])


def _parse(subscripts: str, count: int) -> tuple[list[str], str]:
    """`"ij,jk->ik"` → (["ij", "jk"], "ik"); without an arrow, letters used once."""
    text = subscripts.replace(" ", "")
    left, arrow, output = text.partition("->")
    inputs = left.split(",")
    letters = left.replace(",", "")
    if not arrow:
        output = "".join(sorted(c for c in letters if letters.count(c) == 1))
    valid = all(c.isalpha() for c in letters + output) and set(output) <= set(letters)
    if not valid or len(inputs) != count or len(set(output)) != len(output):
        fail(
            "bad-subscripts",
            f"expected letters for {count} arrays, such as 'ij,jk->ik'; got "
            f"'{subscripts}'",
        )
    return inputs, output


def _summed(letters: str, x: Array, kept: set[str]) -> tuple[str, Array]:
    """`x` without the axes that no one needs any more."""
    gone = [axis for axis, letter in enumerate(letters) if letter not in kept]
    rest = "".join(letter for letter in letters if letter in kept)
    return rest, total(x, tuple(gone)) if gone else x


def _product(
    left: str, x: Array, right: str, y: Array, kept: set[str]
) -> tuple[str, Array]:
    """The product of two operands, with the letters of its axes."""
    left, x = _summed(left, x, kept | set(right))
    right, y = _summed(right, y, kept | set(left))
    shared = [letter for letter in left if letter in right]
    batch = [letter for letter in shared if letter in kept]
    summed = [letter for letter in shared if letter not in kept]
    rest = [c for c in left + right if c not in shared]

    def axes(letters: list[str]) -> AxisPair:
        return [left.index(c) for c in letters], [right.index(c) for c in letters]

    result = dot_general(x, y, axes(summed), axes(batch))
    return "".join(batch + rest), result
