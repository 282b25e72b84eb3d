"""Sums of products: dot_general, convolution and the windows it is made of.

Axes of images are N, spatial…, C inside the dialect; kernels are spatial…, C/groups, F.
"""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from aotc.core import dtypes as dt
from aotc.dialects.attributes import Ints, Str
from aotc.dialects.builder import Builder
from aotc.dialects.graph import (
    LOW,
    GraphOp,
    Operand,
    Pure,
    Result,
    remembered_by_signature,
)
from aotc.dialects.lowering import Lowering
from aotc.dialects.lowering.conversion import accumulator, conversion
from aotc.dialects.lowering.scalars import Body
from aotc.dialects.lowering.summation import (
    BLOCK,
    LONGEST,
    addition,
    block_of,
    is_long,
    lowered_sum,
)
from aotc.dialects.movement.nests import Access, Nest
from aotc.dialects.movement.permutations import inverse, permute
from aotc.dialects.patterns.rows import RewriteRow
from aotc.dialects.patterns.terms import X, Y, this
from aotc.dialects.reference.products import sum_of_products
from aotc.dialects.rules.batching import shift_axes
from aotc.dialects.rules.checks import require_distinct, require_dtype
from aotc.dialects.rules.linearity import linear
from aotc.dialects.rules.padding import BucketPadding
from aotc.dialects.rules.samples import OpSample, f32, i32
from aotc.dialects.types import Size, Tensor, bounds, element_count
from aotc.errors import InputError
from aotc.mlir import Value, arith, ir, linalg

Axes = tuple[int, ...]
Side = tuple[Value, Axes, Axes]  # an operand, its batch and its contracted axes

BYTES = ("i8", "u8")  # of which either may be multiplied by the other

_I8 = Tensor((3, 3), "i8")
_U8 = Tensor((3, 3), "u8")
_F16 = Tensor((3, 3), "f16")


def dot_axes(
    contract: tuple[Axes, Axes], batch: tuple[Axes, Axes] = ((), ())
) -> dict[str, Axes]:
    """Return the axis attributes of a dot_general, from pairs (of lhs, of rhs)."""
    return {
        "lhs_batch": batch[0],
        "rhs_batch": batch[1],
        "lhs_contract": contract[0],
        "rhs_contract": contract[1],
    }


MATRICES = dot_axes(contract=((1,), (0,)))


class DotGeneral(GraphOp, name="dot_general", traits=[Pure]):
    """y = the sum of lhs * rhs over the contracted axes, for each index of the others.

    Result axes: batch axes, free axes of lhs, free axes of rhs. The result has `dtype`,
    a wider one than the operands' perhaps (i8 products summed in i32); "" means theirs.
    Of i8 and u8 one operand may be the other, if the result is i32. bf16 and f16
    accumulate in f32.
    """

    why = "all products of matrices; its adjoints are again one"
    is_costly = True
    in_memory = True
    precision = LOW
    adds_products = True

    lhs: Operand[Any]
    rhs: Operand[Any]
    lhs_batch: Ints
    rhs_batch: Ints
    lhs_contract: Ints
    rhs_contract: Ints
    dtype: Str
    y: Result[Any]
    dtypes = dt.NUMBERS

    @classmethod
    def build(cls, *operands: Value, dtype: str = "", **axes: Axes) -> Any:
        """Emit this op; without a `dtype` the result has that of the operands."""
        return super().build(*operands, dtype=dtype, **axes)

    @staticmethod
    def infer(lhs: Tensor, rhs: Tensor, *, dtype: str = "", **axes: Axes) -> Tensor:
        """Return the type: batch axes, free axes of lhs, free axes of rhs."""
        require_dtype(lhs, dt.NUMBERS)
        is_of_bytes = lhs.dtype in BYTES and dtype == "i32"
        require_dtype(rhs, BYTES if is_of_bytes else (lhs.dtype,))
        _require_wider(lhs, dtype)
        for x, side in ((lhs, "lhs"), (rhs, "rhs")):
            require_distinct(x, (*axes[f"{side}_batch"], *axes[f"{side}_contract"]))
        for kind in ("batch", "contract"):
            left, right = axes[f"lhs_{kind}"], axes[f"rhs_{kind}"]
            if [lhs.shape[a] for a in left] != [rhs.shape[a] for a in right]:
                raise InputError(
                    "shape-mismatch",
                    f"{kind} axes {tuple(left)} of {lhs} and {tuple(right)} of {rhs} "
                    "differ in size",
                )
        batch = [lhs.shape[axis] for axis in axes["lhs_batch"]]
        left_free = free_axes(lhs.rank, axes["lhs_batch"], axes["lhs_contract"])
        right_free = free_axes(rhs.rank, axes["rhs_batch"], axes["rhs_contract"])
        free = [lhs.shape[a] for a in left_free] + [rhs.shape[a] for a in right_free]
        return Tensor((*batch, *free), dtype or lhs.dtype)

    @staticmethod
    def ref(lhs: np.ndarray, rhs: np.ndarray, *, dtype: str = "", **axes: Axes) -> Any:
        """Return the sums of products in NumPy, by matrix products."""
        left, right, out = loop_numbers(lhs.ndim, rhs.ndim, **axes)
        wide = dt.to_numpy(accumulator(dtype or dt.canonical_dtype(lhs.dtype)))
        lhs, rhs = (x.astype(wide, copy=False) for x in (lhs, rhs))
        return sum_of_products(lhs, left, rhs, right, out)

    @staticmethod
    def nests(op: "DotGeneral") -> tuple[Nest, ...]:
        """Return loops over the batch, rows, columns and contracted axes.

        The latter in the order in which it lies in lhs.
        """
        contract = contracted_axes(op)
        lhs, rhs = Tensor.of(op.lhs), Tensor.of(op.rhs)
        rows = free_axes(lhs.rank, op.lhs_batch, op.lhs_contract)
        columns = free_axes(rhs.rank, op.rhs_batch, op.rhs_contract)
        left = *op.lhs_batch, *rows, *contract[0]
        right = *op.rhs_batch, *columns, *contract[1]
        batch, kept = len(op.lhs_batch), len(op.lhs_batch) + len(rows)
        sizes = [lhs.shape[axis] for axis in left]
        sizes[kept:kept] = [rhs.shape[axis] for axis in columns]
        last = range(kept + len(columns), len(sizes))

        def read(order: Axes, loops: Axes) -> Access:
            return lambda x: x.transpose(order).broadcast(tuple(sizes), loops)

        reads = (
            read(left, (*range(kept), *last)),
            read(right, (*range(batch), *range(kept, len(sizes)))),
        )
        return (Nest(tuple(sizes), len(contract[0]), reads),)

    jvp = linear

    @staticmethod
    def vjp(b: Builder, op: "DotGeneral", dy: Value) -> list[Value]:
        """Return dy contracted with each operand, over its free axes, as cotangents."""
        sides: list[Side] = [
            (op.lhs, op.lhs_batch, op.lhs_contract),
            (op.rhs, op.rhs_batch, op.rhs_contract),
        ]
        return [_operand_adjoint(b, dy, sides, which) for which in (0, 1)]

    @staticmethod
    def batch(
        b: Builder,
        op: "DotGeneral",
        operands: Sequence[Value],
        batched: Sequence[bool],
        size: Size,
    ) -> Value:
        """Emit the op with one more batch axis of both, or free axis of one operand."""
        axes = DotGeneral.attributes_of(op)
        for side, has in zip(("lhs", "rhs"), batched, strict=True):
            for kind in ("batch", "contract"):
                name = f"{side}_{kind}"
                axes[name] = shift_axes(axes[name], size) if has else axes[name]
        if all(batched):
            axes["lhs_batch"] = (0, *axes["lhs_batch"])
            axes["rhs_batch"] = (0, *axes["rhs_batch"])
            return b.dot_general(*operands, **axes)
        y = b.dot_general(*operands, **axes)
        first = len(op.lhs_batch)
        if batched[1]:
            first = Tensor.of(op.lhs).rank - len(op.lhs_contract)
        return b.move_axis(y, first, 0)

    @staticmethod
    def pad(p: BucketPadding, op: "DotGeneral", operands: Sequence[Value]) -> Any:
        """Emit the op with zeros for padding in summed axes of both: 0 * NaN is NaN."""
        axes = op.lhs_contract, op.rhs_contract
        hidden = [
            p.hide(value, Tensor.of(exact), each, 0)
            for value, exact, each in zip(operands, op.operands, axes, strict=True)
        ]
        return p.build(op, hidden)

    @classmethod
    def scaled_axes(cls, op: Self, operand: int) -> dict[int, int]:
        """Return a mapping from result axes to the operand's free and batch axes."""
        lhs, rhs = map(Tensor.of, op.operands)
        *sides, out = loop_numbers(lhs.rank, rhs.rank, **_axes_of(op))
        loops = sides[operand]
        return {loop: axis for axis, loop in enumerate(loops) if loop in out}

    @classmethod
    def summed_axes(cls, op: Self) -> dict[int, int]:
        """Return {axis of lhs: axis of rhs} of the contracted axes."""
        return dict(zip(op.lhs_contract, op.rhs_contract, strict=True))

    simplify = (
        # Elementwise ops fuse with more, and IREE computes them right where both
        # operands come from one value (Note [two reads of a reduction]).
        RewriteRow(
            "if nothing is summed up, a product of repeated operands",
            this(X, Y),
            lambda b, m: product_of_repeated(b, m.op, m.op.operands),
            given=(f32(2), f32(2)),
            example=lambda b, x, y: _product_of_lines(b, x, y, contract=()),
            near_miss=lambda b, x, y: _product_of_lines(b, x, y, contract=(0,)),
            where=lambda m: not m.op.lhs_contract,
        ),
    )

    @staticmethod
    def lower(low: Lowering, op: "DotGeneral", lhs: Value, rhs: Value) -> Value:
        """Emit a linalg.matmul where it applies, else a linalg.generic."""
        result = Tensor.of(op.y)
        if element_count(Tensor.of(op.lhs).shape) == 0:
            return low.full(result, 0)  # IREE's compiler dies of a sum over nothing
        wide = result.with_dtype(accumulator(result.dtype))
        block, is_marked = _block_of(op), _is_marked(op)
        factors = Tensor.of(op.lhs).dtype, Tensor.of(op.rhs).dtype
        is_matmul = _is_matmul(op) and len({*factors}) == 1
        if block is not None:
            total = _in_blocks(low, op, lhs, rhs, block)
        elif is_matmul and not is_marked:
            lhs, rhs = low.vary_one(lhs, rhs)
            init = low.full(wide, 0)
            total = low.matmul(lhs, rhs, init, _widening(op))
        else:
            body = multiply_accumulate(wide.dtype, *factors, is_long=is_marked)
            total = contract(low, _axes_of(op), lhs, rhs, wide, body)
        return low.convert(total, wide, result.dtype)

    @classmethod
    def flops(cls, op: Self) -> Size:
        """Return the number of operations: two for each product."""
        sizes = Tensor.of(op.lhs).shape
        summed = element_count(tuple(sizes[axis] for axis in op.lhs_contract))
        return 2 * Tensor.of(op.y).elements * summed

    @classmethod
    def is_merged(cls, op: Self) -> bool:
        """Return whether IREE fuses the op into its readers: if nothing is summed."""
        return not op.lhs_contract

    @classmethod
    def kept_axes(cls, op: Self, operand: int) -> dict[int, int]:
        """Return a mapping from the operand's free and batch axes to result axes."""
        return {axis: at for at, axis in cls.scaled_axes(op, operand).items()}

    samples = [
        OpSample((f32(2, 3), f32(3, 4)), dot_axes(contract=((1,), (0,)))),
        OpSample(
            (f32("n", 2, 3), f32("n", 4, 3)),
            dot_axes(batch=((0,), (0,)), contract=((2,), (2,))),
        ),
        OpSample((f32(3, 2), f32(3, 2, 2)), dot_axes(contract=((0, 1), (0, 2)))),
        OpSample((i32(2, 3), i32(3)), dot_axes(contract=((1,), (0,)))),
        OpSample((f32(3), f32(3)), dot_axes(contract=((0,), (0,)))),
        OpSample((f32(2, 0), f32(0, 3)), dot_axes(contract=((1,), (0,)))),
        OpSample((f32("n", 3), f32("n", "m")), dot_axes(contract=((0,), (0,)))),
        OpSample((_I8, _I8), {**dot_axes(contract=((1,), (0,))), "dtype": "i32"}),
        OpSample((_U8, _U8), {**dot_axes(contract=((1,), (0,))), "dtype": "i32"}),
        OpSample((_U8, _U8), {**dot_axes(contract=((0,), (1,))), "dtype": "i32"}),
        OpSample((_U8, _I8), {**dot_axes(contract=((1,), (0,))), "dtype": "i32"}),
        OpSample(
            (_F16, _F16),
            {**dot_axes(contract=((1,), (0,))), "dtype": "f32"},
            smooth=False,
        ),
    ]


def _product_of_lines(
    b: Builder, x: Value, y: Value, contract: tuple[int, ...]
) -> Value:
    """Emit a product of two vectors, for examples."""
    return b.dot_general(x, y, **dot_axes((contract, contract)), dtype="f32")


def has_single_terms(op: DotGeneral) -> bool:
    """Return whether contracted axes have size 1, so that no sum has two terms."""
    return all(Tensor.of(op.lhs).shape[axis] == 1 for axis in op.lhs_contract)


def product_of_repeated(b: Builder, op: DotGeneral, operands: Sequence[Value]) -> Value:
    """Emit a product of both operands, each broadcast along the other's axes.

    Args:
        b: emits the ops.
        op: a product whose sums have one term each.
        operands: the values to multiply in the place of its operands.
    """
    result = Tensor.of(op.y)
    *sides, _ = loop_numbers(
        Tensor.of(op.lhs).rank, Tensor.of(op.rhs).rank, **_axes_of(op)
    )
    factors = []
    contracted = op.lhs_contract, op.rhs_contract
    for x, loops, summed in zip(operands, sides, contracted, strict=True):
        kept = [axis for axis in range(len(loops)) if axis not in summed]
        shape = tuple(Tensor.of(x).shape[axis] for axis in kept)
        x = b.to_shape(cast(b, x, result.dtype), shape)
        factors.append(b.spread(x, result.shape, [loops[axis] for axis in kept]))
    return b.multiply(*factors)


def _require_wider(x: Tensor, dtype: str) -> None:
    """Raise InputError for a result dtype that cannot hold the operands' values."""
    if dtype in ("", x.dtype):
        return
    kinds = dt.FLOATS if dt.is_float(x.dtype) else dt.SIGNED
    if dtype not in kinds or dt.bits(dtype) <= dt.bits(x.dtype):
        wider = [kind for kind in kinds if dt.bits(kind) > dt.bits(x.dtype)]
        raise InputError(
            "dtype-mismatch",
            f"expected a result of dtype {', '.join([x.dtype, *wider])}; got {dtype}",
        )


def contracted_axes(op: DotGeneral) -> tuple[Axes, Axes]:
    """Return the contracted axes of both operands, in their order in the left one."""
    pairs = sorted(zip(op.lhs_contract, op.rhs_contract, strict=True))
    return tuple(left for left, _ in pairs), tuple(right for _, right in pairs)


def free_axes(rank: int, batch: Sequence[int], contract: Sequence[int]) -> list[int]:
    """Return the axes that are neither batch nor contracted, in order."""
    return [axis for axis in range(rank) if axis not in batch and axis not in contract]


def loop_numbers(
    lhs_rank: int,
    rhs_rank: int,
    *,
    lhs_batch: Axes,
    rhs_batch: Axes,
    lhs_contract: Axes,
    rhs_contract: Axes,
) -> tuple[list[int], list[int], list[int]]:
    """Return the loop index of each axis of lhs, rhs and result; result loops first."""
    left_free = free_axes(lhs_rank, lhs_batch, lhs_contract)
    right_free = free_axes(rhs_rank, rhs_batch, rhs_contract)
    results = len(lhs_batch) + len(left_free) + len(right_free)
    contracted = range(results, results + len(lhs_contract))
    left, right = [0] * lhs_rank, [0] * rhs_rank
    for axes, numbers, start in (
        (lhs_batch, left, 0),
        (rhs_batch, right, 0),
        (left_free, left, len(lhs_batch)),
        (right_free, right, len(lhs_batch) + len(left_free)),
    ):
        for offset, axis in enumerate(axes):
            numbers[axis] = start + offset
    for axes, numbers in ((lhs_contract, left), (rhs_contract, right)):
        for axis, number in zip(axes, contracted, strict=True):
            numbers[axis] = number
    return left, right, list(range(results))


def _operand_adjoint(b: Builder, dy: Value, sides: list[Side], which: int) -> Value:
    """Emit the cotangent of operand `which` of a dot_general, in its axis order."""
    (mine, batch, contract), (other, other_batch, other_contract) = (
        sides[which],
        sides[1 - which],
    )
    mine_rank, other_rank = Tensor.of(mine).rank, Tensor.of(other).rank
    mine_free = free_axes(mine_rank, batch, contract)
    other_free = free_axes(other_rank, other_batch, other_contract)
    count = len(batch)
    first = count if which == 1 else count + len(mine_free)
    given: Side = (
        dy,
        tuple(range(count)),
        tuple(range(first, first + len(other_free))),
    )
    factor = cast(b, other, Tensor.of(dy).dtype)
    rest: Side = (factor, other_batch, tuple(other_free))
    # contracted axes of mine are free ones of the other, in the order that they have
    # there; the product whose result has the axes in my order is taken, if one has
    contracted = permute(contract, inverse(other_contract))
    order = [*batch, *contracted, *mine_free]
    if order == [*range(mine_rank)]:
        raw = _product_of(b, rest, given)
    else:
        order = [*batch, *mine_free, *contracted]
        raw = _product_of(b, given, rest)
    ordered = b.transpose(raw, permutation=inverse(order))
    return cast(b, ordered, Tensor.of(mine).dtype)


def _product_of(b: Builder, left: Side, right: Side) -> Value:
    """Emit a dot_general of two operands with their batch and contracted axes."""
    lhs, lhs_batch, lhs_contract = left
    rhs, rhs_batch, rhs_contract = right
    axes = dot_axes((lhs_contract, rhs_contract), (lhs_batch, rhs_batch))
    made: Value = b.dot_general(lhs, rhs, **axes)
    return made


def cast(b: Builder, x: Value, dtype: str) -> Value:
    """Emit `x` cast to `dtype`; return `x` itself if it has that dtype."""
    return x if Tensor.of(x).dtype == dtype else b.cast(x, dtype=dtype)


def _is_matmul(op: DotGeneral) -> bool:
    """Return whether a dot_general is a plain product of two matrices."""
    lhs, rhs = Tensor.of(op.lhs), Tensor.of(op.rhs)
    plain = not op.lhs_batch and (lhs.rank, rhs.rank) == (2, 2)
    return plain and (op.lhs_contract, op.rhs_contract) == ((1,), (0,))


def _widening(op: DotGeneral) -> Any:
    """Return how linalg.matmul extends integer operands: signed or unsigned."""
    unsigned = Tensor.of(op.lhs).dtype in dt.UNSIGNED
    return linalg.TypeFn.cast_unsigned if unsigned else linalg.TypeFn.cast_signed


def multiply_accumulate(
    dtype: str, left: str, right: str, *, is_long: bool = False
) -> Body:
    """Return a body that emits `total + x * y`, x and y widened to `dtype` first."""
    add = addition(dtype, is_long=is_long)
    multiply = arith.mulf if dt.is_float(dtype) else arith.muli
    if left == right == dtype:
        return lambda x, y, total: add(total, multiply(x, y))
    one, other = conversion(left, dtype), conversion(right, dtype)
    return lambda x, y, total: add(total, multiply(one(x), other(y)))


def _axes_of(op: DotGeneral) -> dict[str, Axes]:
    """Return the axis attributes of a dot_general, by name."""
    return {name: getattr(op, name) for name in dot_axes(((), ()))}


def contract(
    low: Lowering,
    axes: dict[str, Axes],
    lhs: Value,
    rhs: Value,
    wide: Tensor,
    body: Body,
) -> Value:
    """Emit a linalg.generic for sums of products over `axes`, of type `wide`.

    Args:
        low: lowers it.
        axes: as `dot_axes` has them.
        lhs: an operand.
        rhs: the other one.
        wide: the type of the sums.
        body: adds a product to a sum.
    """
    left, right, out = loop_numbers(lhs.type.rank, rhs.type.rank, **axes)
    summed = len(axes["lhs_contract"])
    loops = len(out) + summed
    maps = [
        ir.AffineMap.get(loops, 0, [ir.AffineDimExpr.get(n) for n in numbers])
        for numbers in (left, right, out)
    ]
    kinds = ["parallel"] * len(out) + ["reduction"] * summed
    return low.generic([lhs, rhs], maps, low.full(wide, 0), kinds, body)


# ---- in blocks: see Note [sums in blocks] -------------------------------------------

_WORTH = 8  # how much smaller than the factors the blocks' sums must be
_FEW = 1 << 12  # results; those of one block are copied in microseconds


def _block_of(op: DotGeneral) -> int | None:
    """Return the block length for a long sum of products; None to sum it whole."""
    lhs, rhs, result = (Tensor.of(x) for x in (op.lhs, op.rhs, op.y))
    if len(op.lhs_contract) != 1 or not all(x.is_static for x in (lhs, rhs)):
        return None
    size = lhs.shape[op.lhs_contract[0]]
    assert isinstance(size, int)
    block = block_of(size) if is_long(lhs, op.lhs_contract) else None
    if block is None:
        return None
    read = element_count(lhs.shape) + element_count(rhs.shape)
    made = element_count(result.shape) * (size // block)
    return block if made * _WORTH <= read else None


@remembered_by_signature
def is_summed_in_parts(op: DotGeneral) -> bool:
    """Return whether the sums are split: so long that digits would be lost."""
    return _block_of(op) is not None or _is_marked(op)


def _in_blocks(
    low: Lowering, op: DotGeneral, lhs: Value, rhs: Value, block: int
) -> Value:
    """Emit the products of blocks of the contracted axis, and their sum."""
    factors: list[Any] = []
    axes: dict[str, Axes] = {}
    for side, x in (("lhs", lhs), ("rhs", rhs)):
        kind = Tensor.of(getattr(op, side))
        (axis,) = getattr(op, f"{side}_contract")
        before, after = kind.shape[:axis], kind.shape[axis + 1 :]
        count = kind.shape[axis] // block
        split = kind.with_shape((*before, count, block, *after))
        batch = [n + (n > axis) for n in getattr(op, f"{side}_batch")]
        axes |= {f"{side}_batch": (*batch, axis), f"{side}_contract": (axis + 1,)}
        factors.append(low.reshape(x, kind, split))
    result = Tensor.of(op.y)
    first = len(op.lhs_batch)
    shape = (*result.shape[:first], count, *result.shape[first:])
    parts = Tensor(shape, accumulator(result.dtype))
    left, right = factors
    dtypes = Tensor.of(op.lhs).dtype, Tensor.of(op.rhs).dtype
    body = multiply_accumulate(parts.dtype, *dtypes)
    total = contract(low, axes, left, right, parts, body)
    return lowered_sum(low, total, parts, (first,))


def _is_marked(op: DotGeneral) -> bool:
    """Return whether sums are marked to be split by the compiling process.

    Those over a symbolic size are, and those over a fixed one without a fit divisor.
    Every result is kept once for each block, which slows a short sum of many results
    down. So those are in blocks only if the sums are known to be long.
    """
    lhs, rhs, result = (Tensor.of(x) for x in (op.lhs, op.rhs, op.y))
    left, right = op.lhs_contract, op.rhs_contract
    summed = element_count(tuple(lhs.shape[axis] for axis in left))
    if isinstance(summed, int) and (len(left) > 1 or block_of(summed) is not None):
        return False
    if not (is_long(lhs, left) and is_long(rhs, right)):
        return False
    results = bounds(element_count(result.shape))[1]
    if results <= _FEW:
        return True
    rows = [
        element_count(tuple(n for axis, n in enumerate(x.shape) if axis not in axes))
        for x, axes in ((lhs, left), (rhs, right))
    ]
    read = sum(bounds(each)[0] for each in rows) * BLOCK
    return bounds(summed)[0] > LONGEST and results * _WORTH <= read
