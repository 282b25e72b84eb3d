"""Reductions over axes, which disappear from the shape."""

from typing import Any

import numpy as np

from aotc import dtypes as dt
from aotc.dialects import approximations as approx
from aotc.dialects.elementwise import f32, i32, require_dtype
from aotc.dialects.graph import NOT_DIFFERENTIABLE, GraphOp, Int, Ints, Operand, Pure, Result, Sample
from aotc.dialects.types import Tensor, evaluate_size
from aotc.errors import InputError
from aotc.mlir import arith, ir


def require_axes(x: Tensor, axes: tuple[int, ...]) -> None:
    """Refuse axes that are out of range, repeated or not in rising order."""
    if sorted(set(axes)) != list(axes) or any(not 0 <= a < x.rank for a in axes):
        raise InputError(
            "bad-axis", f"expected distinct rising axes of {x}; got {tuple(axes)}"
        )


def accumulator(dtype: str) -> str:
    """The dtype that sums of `dtype` are kept in: f32 for the half-precision ones."""
    return "f32" if dtype in ("f16", "bf16") else dtype


def reduce_generic(
    low: Any, x: Any, result: Tensor, axes: tuple[int, ...], start: Any, body: Any
) -> Any:
    """`linalg.generic` that reduces `axes` of x into `result`, from `start`."""
    rank = x.type.rank
    loops = [ir.AffineDimExpr.get(axis) for axis in range(rank)]
    kept = [loops[axis] for axis in range(rank) if axis not in axes]
    return low.generic(
        [x],
        [ir.AffineMap.get_identity(rank), ir.AffineMap.get(rank, 0, kept)],
        low.full(result, start),
        ["reduction" if axis in axes else "parallel" for axis in range(rank)],
        body,
    )


def convert(low: Any, x: Any, source: Tensor, dtype: str) -> Any:
    """`x` as elements of `dtype`; nothing when it has that dtype."""
    if source.dtype == dtype:
        return x
    body = approx.conversion(source.dtype, dtype)
    return low.pointwise([x], source.with_dtype(dtype), body)


class Reduction(GraphOp, traits=[Pure]):
    """Subclasses give `start` (of an empty reduction), `combine` and `weights`."""

    x: Operand[Any]
    axes: Ints
    y: Result[Any]
    dtypes = dt.NUMBERS
    needs_elements = False

    @classmethod
    def infer(cls, x: Tensor, *, axes: tuple[int, ...]) -> Tensor:
        """The shape without the reduced axes."""
        require_dtype(x, cls.dtypes)
        require_axes(x, axes)
        if cls.needs_elements and any(x.shape[axis] == 0 for axis in axes):
            raise InputError(
                "empty-reduction", f"{x} has no elements along {axes} to choose from"
            )
        return x.with_shape([n for axis, n in enumerate(x.shape) if axis not in axes])

    @classmethod
    def jvp(cls, b: Any, op: Any, dx: Any) -> Any:
        """The weighted sum of the tangents."""
        weights = cls.weights(b, op)
        weighted = dx if weights is None else b.multiply(weights, dx)
        return b.reduce_sum(weighted, axes=op.axes)

    @classmethod
    def vjp(cls, b: Any, op: Any, dy: Any) -> list[Any]:
        """Every element gets its weight times dy."""
        spread = b.expand(dy, Tensor.of(op.x), op.axes)
        weights = cls.weights(b, op)
        return [spread if weights is None else b.multiply(weights, spread)]

    @classmethod
    def lower(cls, low: Any, op: Any, x: Any) -> Any:
        """One generic; half-precision floats accumulate in f32."""
        source, result = Tensor.of(op.x), Tensor.of(op.y)
        wide = accumulator(source.dtype)
        kind = "f" if dt.is_float(source.dtype) else wide[0]
        combine = cls.combine[kind]
        total = reduce_generic(
            low,
            convert(low, x, source, wide),
            result.with_dtype(wide),
            op.axes,
            low.scalar(wide, cls.start(wide)),
            lambda value, total: combine(total, value).result,
        )
        return convert(low, total, result.with_dtype(wide), result.dtype)

    samples = [
        Sample((f32(2, 3, 4),), {"axes": (0, 2)}),
        Sample((f32("n", 4),), {"axes": (0,)}),
        Sample((i32(5),), {"axes": (0,)}),
        Sample((f32(2, 3),), {"axes": ()}),
    ]


class ReduceSum(Reduction, name="reduce_sum"):
    """y = the sum over `axes`; 0 for no elements."""

    @staticmethod
    def ref(x: Any, *, axes: tuple[int, ...]) -> Any:
        """np.sum in the operand's dtype."""
        return np.sum(x, axis=axes, dtype=dt.to_numpy(accumulator(dt.canonical(x.dtype))))

    @staticmethod
    def weights(b: Any, op: Any) -> Any:
        """1 everywhere."""
        return

    start = staticmethod(lambda dtype: 0)
    combine = {"f": arith.AddFOp, "i": arith.AddIOp, "u": arith.AddIOp}
    samples = [*Reduction.samples, Sample((f32(0, 3),), {"axes": (0,)})]


class ReduceProd(Reduction, name="reduce_prod"):
    """y = the product over `axes`; 1 for no elements."""

    @staticmethod
    def ref(x: Any, *, axes: tuple[int, ...]) -> Any:
        """np.prod in the operand's dtype."""
        return np.prod(x, axis=axes, dtype=dt.to_numpy(accumulator(dt.canonical(x.dtype))))

    @staticmethod
    def weights(b: Any, op: Any) -> Any:
        """The product of the other elements; right also where one or more are zero."""
        x, zero = op.x, b.full_like(op.x, 0.0)
        one = b.full_like(x, 1.0)
        is_zero = b.compare(x, zero, direction="eq")
        nonzero = b.select(is_zero, one, x)
        like = Tensor.of(x)
        product = b.expand(b.reduce_prod(nonzero, axes=op.axes), like, op.axes)
        zeros = b.reduce_sum(b.select(is_zero, one, zero), axes=op.axes)
        zeros = b.expand(zeros, like, op.axes)
        alone = b.bitwise_and(is_zero, b.compare(zeros, one, direction="eq"))
        none = b.compare(zeros, zero, direction="eq")
        usual = b.divide(product, nonzero)
        return b.select(none, usual, b.select(alone, product, zero))

    start = staticmethod(lambda dtype: 1)
    combine = {"f": arith.MulFOp, "i": arith.MulIOp, "u": arith.MulIOp}
    samples = [
        *Reduction.samples,
        Sample((np.array([[1, 0, 2], [0, 0, 3]], "f"),), {"axes": (1,)}),
    ]


def _share_of_ties(b: Any, op: Any) -> Any:
    """1 / (number of elements equal to the extreme) at those elements, 0 elsewhere."""
    like = Tensor.of(op.x)
    chosen = b.compare(op.x, b.expand(op.y, like, op.axes), direction="eq")
    mask = b.where_true(chosen, b.full_like(op.x, 1.0))
    count = b.expand(b.reduce_sum(mask, axes=op.axes), like, op.axes)
    return b.divide(mask, count)


def _lowest(dtype: str) -> float | int:
    return -np.inf if dt.is_float(dtype) else approx.integer_bounds(dtype)[0]


def _highest(dtype: str) -> float | int:
    return np.inf if dt.is_float(dtype) else approx.integer_bounds(dtype)[1]


class ReduceMax(Reduction, name="reduce_max"):
    """y = the largest element over `axes`; NaN if any is. Ties share the derivative."""

    needs_elements = True

    @staticmethod
    def ref(x: Any, *, axes: tuple[int, ...]) -> Any:
        """np.max."""
        return np.max(x, axis=axes)

    weights = staticmethod(_share_of_ties)
    start = staticmethod(_lowest)
    combine = {"f": arith.MaximumFOp, "i": arith.MaxSIOp, "u": arith.MaxUIOp}


class ReduceMin(Reduction, name="reduce_min"):
    """y = the smallest element over `axes`; NaN if any is. Ties share the derivative."""

    needs_elements = True

    @staticmethod
    def ref(x: Any, *, axes: tuple[int, ...]) -> Any:
        """np.min."""
        return np.min(x, axis=axes)

    weights = staticmethod(_share_of_ties)
    start = staticmethod(_highest)
    combine = {"f": arith.MinimumFOp, "i": arith.MinSIOp, "u": arith.MinUIOp}


class Argmax(GraphOp, name="argmax", traits=[Pure]):
    """y = the position (i32) of the first largest element along `axis`; NaN is largest."""

    x: Operand[Any]
    axis: Int
    y: Result[Any]
    dtypes = dt.NUMBERS

    @staticmethod
    def infer(x: Tensor, *, axis: int) -> Tensor:
        """i32, without `axis`."""
        require_dtype(x, dt.NUMBERS)
        require_axes(x, (axis,))
        if x.shape[axis] == 0:
            raise InputError("empty-reduction", f"{x} has no elements along axis {axis}")
        return Tensor(x.shape[:axis] + x.shape[axis + 1 :], "i32")

    @staticmethod
    def ref(x: Any, *, axis: int) -> Any:
        """np.argmax."""
        return np.argmax(x, axis=axis)

    jvp = NOT_DIFFERENTIABLE("integer result")
    vjp = NOT_DIFFERENTIABLE("integer result")

    @staticmethod
    def lower(low: Any, op: Any, x: Any) -> Any:
        """The maximum, then the least index that holds it (or a NaN)."""
        source, result = Tensor.of(op.x), Tensor.of(op.y)
        best = ReduceMax.lower(low, _AsReduction(op), x)
        rank, i32_type = source.rank, ir.IntegerType.get_signless(32)
        loops = [ir.AffineDimExpr.get(axis) for axis in range(rank)]
        kept = ir.AffineMap.get(rank, 0, loops[: op.axis] + loops[op.axis + 1 :])
        equal = approx.comparison(source.dtype, "eq")
        is_nan = approx.comparison(source.dtype, "ne")

        def first(value: Any, extreme: Any, index: Any) -> Any:
            here = arith.IndexCastOp(i32_type, low.loop_index(op.axis)).result
            found = equal(value, extreme)
            found = arith.OrIOp(found, is_nan(value, value)).result
            beyond = low.scalar("i32", 2**31 - 1)
            return arith.MinSIOp(
                index, arith.SelectOp(found, here, beyond).result
            ).result

        return low.generic(
            [x, best],
            [ir.AffineMap.get_identity(rank), kept, kept],
            low.full(result, 2**31 - 1),
            ["reduction" if axis == op.axis else "parallel" for axis in range(rank)],
            first,
        )

    samples = [
        Sample((f32(2, 3, 4),), {"axis": 1}),
        Sample((f32("n", 4),), {"axis": 1}),
        Sample((np.array([1, np.nan, 3, np.nan], "f"),), {"axis": 0}),
        Sample((np.array([2, 5, 5], "u1"),), {"axis": 0}),
    ]


class _AsReduction:
    """An argmax seen as the reduce_max that it starts with."""

    def __init__(self, op: Any) -> None:
        source = Tensor.of(op.x)
        self.x = op.x
        self.axes = (op.axis,)
        self.y = Tensor.of(op.y).with_dtype(source.dtype).to_mlir()


def count_elements(shape: Any, axes: Any, symbols: Any) -> int:
    """How many elements are reduced, when symbol i is `symbols[i]`."""
    return int(np.prod([evaluate_size(shape[axis], symbols) for axis in axes]))
