"""The order of elements along an axis."""

from collections.abc import Sequence
from typing import Any, Self, TypeGuard

import numpy as np

from aotc.core import dtypes as dt
from aotc.dialects.attributes import Bool, Int, Sizes
from aotc.dialects.graph import NOT_DIFFERENTIABLE, GraphOp, Operand, Pure, Result
from aotc.dialects.lowering import Lowering
from aotc.dialects.lowering.conversion import accumulator, integer_bounds
from aotc.dialects.lowering.scalars import constant, int_compare
from aotc.dialects.lowering.sorting import (
    first_words,
    key,
    key_width,
    padded_size,
    sorted_positions,
)
from aotc.dialects.movement.nests import ARGSORT, ARGSORT_DESCENDING, Nest
from aotc.dialects.movement.views import View
from aotc.dialects.rules.batching import leading, shift_axes
from aotc.dialects.rules.checks import require_axes, require_dtype
from aotc.dialects.rules.padding import BucketPadding
from aotc.dialects.rules.reordering import in_any_order, rename_axes
from aotc.dialects.rules.samples import OpSample, f32
from aotc.dialects.types import Shape, Size, SymbolicDim, Tensor
from aotc.errors import InputError
from aotc.mlir import Value, arith, ir

# Up to so many elements out of many more are found faster one after the other than by
# sorting all: 32 of 32,000 in 0.4 ms, which sort in 16 ms.
FEW, OF_EACH = 128, 8


# float operations that take as long as comparing two elements while rows are sorted,
# and as writing the place of one
_COMPARED, _PLACED = 8, 400


class Argsort(GraphOp, name="argsort", traits=[Pure]):
    """y = the positions (i32) of x in order along `axis`, the first `count` of them.

    Equal elements keep their order, also where it is `descending`. NaN counts as
    greater than any number, and both zeros are equal.
    """

    why = (
        "the one sort; sorted values are a gather, so their derivative is the "
        "permutation"
    )

    x: Operand[Any]
    axis: Int
    descending: Bool
    count: Sizes
    y: Result[Any]
    in_memory = True
    dtypes = dt.NUMBERS

    @staticmethod
    def infer(x: Tensor, *, axis: int, descending: bool, count: Shape) -> Tensor:
        """Return the type: i32, with `count` (of one size) elements along `axis`."""
        require_dtype(x, dt.NUMBERS)
        require_axes(x, (axis,))
        if len(count) != 1:
            raise InputError("bad-attribute", f"expected one count; got {count}")
        (wanted,), have = count, x.shape[axis]
        known = isinstance(wanted, int) and isinstance(have, int)
        if known and not 0 <= wanted <= have:
            raise InputError(
                "bad-attribute",
                f"expected a count of 0 to {have} along axis {axis} of {x}; "
                f"got {wanted}",
            )
        return Tensor((*x.shape[:axis], wanted, *x.shape[axis + 1 :]), "i32")

    @staticmethod
    def ref(
        x: np.ndarray, *, axis: int, descending: bool, count: tuple[int, ...]
    ) -> np.ndarray:
        """Return np.argsort; to descend, of the flipped array and read from the end.

        Of bf16 it takes NaN for no more than any number, so that is sorted as f32.
        """
        x = x.astype("f4") if dt.canonical_dtype(x.dtype) == "bf16" else x
        order = np.flip(x, axis) if descending else x
        order = np.argsort(order, axis, stable=True)
        if descending:
            order = x.shape[axis] - 1 - np.flip(order, axis)
        return np.take(order, range(*count), axis)

    jvp = NOT_DIFFERENTIABLE("integer result")
    vjp = NOT_DIFFERENTIABLE("integer result")

    batch = leading(axis=shift_axes)
    reorder = in_any_order(axis=rename_axes)

    @staticmethod
    def pad(p: BucketPadding, op: "Argsort", operands: Sequence[Value]) -> Any:
        """Emit the op with padding that sorts to the end, behind equal elements."""
        (x,), exact = operands, Tensor.of(op.x)
        last = _last(exact.dtype, op.descending)
        return p.build(op, [p.hide(x, exact, (op.axis,), last)])

    @staticmethod
    def lower(low: Lowering, op: "Argsort", x: Value) -> Value:
        """Emit a sort as in Note [sorting]; a few elements by a reduction for each."""
        source, (count,) = Tensor.of(op.x), op.count
        keys, of = _keys(low, op, x, source)
        if of.dtype == "i32" and is_few(count, source.shape[op.axis]):
            words = first_words(low, keys, of, count)
        else:
            words = sorted_positions(low, keys, of)
        return _positions(low, op, words, of)

    @staticmethod
    def nests(op: "Argsort") -> tuple[Nest, ...]:
        """Return loops over rows, positions in order, and elements of a row."""
        kind, axis = Tensor.of(op.x), op.axis
        rows = tuple(n for n in range(kind.rank) if n != axis)
        sizes = *(kind.shape[n] for n in rows), *op.count, kind.shape[axis]
        along = *range(len(rows)), len(rows) + 1

        def read(x: View) -> View:
            return x.transpose((*rows, axis)).broadcast(sizes, along)

        return (
            Nest(
                sizes,
                1,
                (read,),
                ARGSORT_DESCENDING if op.descending else ARGSORT,
                dtype=accumulator(kind.dtype),
                place=lambda y: y.transpose((*rows, axis)),
            ),
        )

    @classmethod
    def flops(cls, op: Self) -> Size:
        """Return a number of operations that take as long as a kernel that sorts."""
        return _COMPARED * Tensor.of(op.x).elements + _PLACED * Tensor.of(op.y).elements

    samples = [
        OpSample((f32(2, 40),), {"axis": 1, "descending": False, "count": (40,)}),
        OpSample((f32(100, 2),), {"axis": 0, "descending": True, "count": (70,)}),
        OpSample((f32(2, "n"),), {"axis": 1, "descending": False, "count": ("n",)}),
        OpSample((f32("n", 50),), {"axis": 1, "descending": True, "count": (3,)}),
        OpSample(
            (np.array([1, np.nan, -0.0, 0, np.inf, -np.inf, 1, np.nan, -2], "f"),),
            {"axis": 0, "descending": False, "count": (9,)},
        ),
        OpSample(
            (np.array([1, np.nan, -0.0, 0, np.inf, -np.inf, 1, np.nan, -2], "f"),),
            {"axis": 0, "descending": True, "count": (8,)},
        ),
        OpSample(
            (np.array([3, 255, 0, 3, 128, 127], "u1"),),
            {"axis": 0, "descending": False, "count": (6,)},
        ),
        OpSample((f32(2, 0),), {"axis": 1, "descending": True, "count": (0,)}),
    ]


def _last(dtype: str, descending: bool) -> float:
    """Return a value of a dtype that sorts last."""
    if dt.is_float(dtype):
        return -np.inf if descending else np.nan
    return integer_bounds(dtype)[0 if descending else 1]


def is_few(count: Size, size: Size) -> TypeGuard[int]:
    """Return whether selecting `count` of `size` elements one by one is cheap."""
    if isinstance(count, SymbolicDim) or count > FEW:
        return False
    return isinstance(size, SymbolicDim) or count * OF_EACH <= size


def _keys(low: Lowering, op: Argsort, x: Value, source: Tensor) -> tuple[Value, Tensor]:
    """Return sort keys of x, `axis` last and padded by the greatest, and their type."""
    axis, rank, size = op.axis, source.rank, source.shape[op.axis]
    padded = list(source.shape)
    padded[axis] = padded_size(size)
    none = [0] * rank
    after = [n - have for n, have in zip(padded, source.shape, strict=True)]
    x = low.pad(x, source.with_shape(padded), none, after, 0)
    of = Tensor(
        (*padded[:axis], *padded[axis + 1 :], padded[axis]),
        f"i{key_width(source.dtype)}",
    )

    def body(element: Value, _: Value) -> Value:
        found = key(element, source.dtype)
        greatest = constant(found.type, -1)
        if op.descending:
            found = arith.xori(found, greatest)
        exists = int_compare("ult", low.loop_index(rank - 1), low.size(size))
        return arith.select(exists, found, greatest)

    loops = [ir.AffineDimExpr.get(loop) for loop in range(rank)]
    read = [*loops[:axis], loops[-1], *loops[axis:-1]]
    maps = [ir.AffineMap.get(rank, 0, read), ir.AffineMap.get_identity(rank)]
    keys = low.generic([x], maps, low.empty(of), ["parallel"] * rank, body)
    return keys, of


def _positions(low: Lowering, op: Argsort, words: Value, words_type: Tensor) -> Value:
    """Emit the positions that the first words hold, the last axis put at `op.axis`."""
    result, axis, rank = Tensor.of(op.y), op.axis, words_type.rank
    first = Tensor((*words_type.shape[:-1], *op.count), "i64")
    words = low.slice(words, first, (0,) * rank, [1] * rank)
    loops = [ir.AffineDimExpr.get(loop) for loop in range(rank)]
    read = [*loops[:axis], *loops[axis + 1 :], loops[axis]]
    maps = [ir.AffineMap.get(rank, 0, read), ir.AffineMap.get_identity(rank)]
    return low.generic(
        [words],
        maps,
        low.empty(result),
        ["parallel"] * rank,
        lambda word, _: arith.trunci(ir.IntegerType.get_signless(32), word),
    )
