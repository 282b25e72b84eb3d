"""Tensors on a grid of few steps, which memory holds as integers."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from aotc.core import dtypes as dt
from aotc.dialects.attributes import DenseElements, Float, Int
from aotc.dialects.builder import Builder
from aotc.dialects.graph import (
    CUT,
    NOT_DIFFERENTIABLE,
    GraphOp,
    Operand,
    Pure,
    Result,
    Tangent,
)
from aotc.dialects.lowering import Lowering, scalars
from aotc.dialects.lowering.conversion import conversion
from aotc.dialects.lowering.scalars import constant_of
from aotc.dialects.patterns.values import splat_of
from aotc.dialects.rules.batching import add_leading_axes, leading, shift_axes
from aotc.dialects.rules.checks import require_axes, require_dtype
from aotc.dialects.rules.padding import HARMLESS, along_axis, harmless_but_along
from aotc.dialects.rules.reordering import in_any_order, rename_axes
from aotc.dialects.rules.samples import OpSample, f32
from aotc.dialects.types import Shape, Size, Tensor
from aotc.errors import InputError
from aotc.mlir import Value, arith, ir, tensor

BYTES = "i8", "u8"
SCALES = "f32", "f16", "bf16"


class Dequantize(GraphOp, name="dequantize", traits=[Pure]):
    """y = q * scale - offset in f32, each number of these for a block along `axis`.

    q are the lowest `bits` bits of i8 or u8. The blocks are of equal length, the size
    of `axis` over that of the scale. An offset of rank 0 is the same for all blocks.
    """

    why = "weights that stay integers: who reads them can make floats of them"
    expands = True
    dtypes = BYTES

    q: Operand[Any]
    scale: Operand[Any]
    offset: Operand[Any]
    axis: Int
    bits: Int
    y: Result[Any]

    @classmethod
    def infer(
        cls, q: Tensor, scale: Tensor, offset: Tensor, *, axis: int, bits: int
    ) -> Tensor:
        """Return the result type: the shape of q, with f32."""
        require_dtype(q, BYTES)
        require_dtype(scale, SCALES)
        require_dtype(offset, SCALES)
        if not 1 <= bits <= dt.bits(q.dtype) or not 0 <= axis < q.rank:
            raise InputError(
                "bad-attribute",
                f"expected 1 to 8 bits and an axis of {q}; got {bits} and {axis}",
            )
        blocks = scale.shape[axis] if scale.rank == q.rank else 0
        size = q.shape[axis]
        is_static = isinstance(blocks, int) and isinstance(size, int)
        expected = _with_size(q.shape, axis, blocks)
        fits = scale.shape == expected and is_static and blocks and size % blocks == 0
        if not fits or offset.shape not in ((), expected):
            raise InputError(
                "shape-mismatch",
                f"expected a scale of {q.with_shape(q.shape)} but for fewer along axis "
                f"{axis}, which divide it, and such an offset or a number; got {scale} "
                f"and {offset}",
            )
        return q.with_dtype("f32")

    @staticmethod
    def ref(
        q: np.ndarray, scale: np.ndarray, offset: np.ndarray, *, axis: int, bits: int
    ) -> Any:
        """Return q * scale - offset in f32, in NumPy."""
        spare = 8 - bits
        steps = np.right_shift(np.left_shift(q, spare), spare).astype(np.float32)
        blocks = scale.shape[axis]
        split = (*q.shape[:axis], blocks, q.shape[axis] // blocks, *q.shape[axis + 1 :])
        wide = np.expand_dims(scale.astype(np.float32), axis + 1)
        less = offset.astype(np.float32)
        less = np.expand_dims(less, axis + 1) if less.ndim else less
        return (steps.reshape(split) * wide - less).reshape(q.shape)

    @classmethod
    def jvp(
        cls, b: Builder, op: Self, dq: Tangent, dscale: Tangent, doffset: Tangent
    ) -> Tangent:
        """Return the tangent q dscale - doffset."""
        if dscale is None and doffset is None:
            return None
        scale = b.full_like(op.scale, 0.0) if dscale is None else dscale
        offset = b.full(Tensor((), "f32"), 0.0) if doffset is None else doffset
        return b.dequantize(op.q, scale, offset, axis=op.axis, bits=op.bits)

    @classmethod
    def vjp(cls, b: Builder, op: Self, dy: Value) -> list[Tangent]:
        """Return the cotangents: sums of q dy over each block, and of -dy."""
        steps = _as_floats(b, op)
        dscale = _sum_to(b, b.multiply(dy, steps), op.scale, op.axis)
        doffset = b.negate(_sum_to(b, dy, op.offset, op.axis))
        return [None, dscale, doffset]

    @staticmethod
    def batch(
        b: Builder,
        op: "Dequantize",
        operands: Sequence[Value],
        batched: Sequence[bool],
        size: Any,
    ) -> Value:
        """Emit the op with an axis added to the blocks, each with its own offset."""
        *parts, offset = operands
        parts = add_leading_axes(b, parts, batched[:2], size)
        if Tensor.of(op.offset).rank:
            (offset,) = add_leading_axes(b, [offset], batched[2:], size)
        elif batched[2]:
            shape = (size, *Tensor.of(op.scale).shape)
            offset = b.broadcast(offset, shape=shape, axes=(0,))
        found: Value = op.rebuild(*parts, offset, axis=op.axis + 1)
        return found

    pad = CUT

    @staticmethod
    def decompose(b: Builder, op: "Dequantize") -> Value:
        """Emit a product and a difference of values repeated along blocks."""
        y = b.multiply(_as_floats(b, op), _repeated(b, op, op.scale))
        if splat_of(op.offset) == 0:
            return y
        return b.subtract(y, _repeated(b, op, op.offset))

    cascade = decompose

    samples = [
        OpSample(
            (Tensor((4, 3), "i8"), f32(2, 3), f32(2, 3)),
            {"axis": 0, "bits": 8},
        ),
        OpSample(
            (Tensor((2, 6), "u8"), f32(2, 3), f32()),
            {"axis": 1, "bits": 4},
            low=0,
            high=16,
        ),
    ]


_ENTRIES = 256  # as many as there are bytes
_SIGNED = f32("n").with_dtype("i8")
_EVERY = np.arange(_ENTRIES)
_SQUARES = (_EVERY**2 >> 8).astype(np.uint8)


class Lookup(GraphOp, name="lookup", traits=[Pure]):
    """y = the entry of `table` that a byte of x counts, from 0 to 255 by its bits.

    Entries are bytes, or f32.
    """

    why = "a function of a byte, computed by the build: the same on every target"
    on_scalars = True
    dtypes = BYTES

    x: Operand[Any]
    table: DenseElements
    y: Result[Any]

    @classmethod
    def infer(cls, x: Tensor, *, table: np.ndarray) -> Tensor:
        """Return the result type: the shape of x, with the dtype of the table."""
        require_dtype(x, BYTES)
        return x.with_dtype(_require_table(table, (*BYTES, "f32")).dtype)

    @staticmethod
    def ref(x: np.ndarray, *, table: np.ndarray) -> np.ndarray:
        """Return the table's entries at the bytes of x, in NumPy."""
        found: np.ndarray = table[x.view(np.uint8)]
        return found

    jvp = NOT_DIFFERENTIABLE("bytes have no derivative")
    vjp = NOT_DIFFERENTIABLE("bytes have no derivative")
    batch = leading()
    reorder = in_any_order()
    pad = HARMLESS

    @staticmethod
    def lower(low: Lowering, op: "Lookup", x: Value) -> Value:
        """Emit reads of the table, rolled to the order of signed bytes.

        VMVX casts bytes to positions by their sign, also where zeros are asked for.
        """
        is_float = op.table.dtype == np.float32
        table = op.table if is_float else op.table.view(np.int8)  # as tensors hold them
        entries = constant_of(DenseElements.encode(np.roll(table, _ENTRIES // 2)))

        def body(element: Value) -> Value:
            number = conversion("i8", "i32")(element)
            middle = scalars.constant(number.type, _ENTRIES // 2)
            place = arith.index_cast(ir.IndexType.get(), arith.addi(number, middle))
            return tensor.extract(entries, [place])

        return low.pointwise([x], Tensor.of(op.y), body)

    samples = [
        OpSample((Tensor((3, 100), "u8"),), {"table": _SQUARES}, low=0, high=256),
        OpSample((_SIGNED,), {"table": _SQUARES}, low=-128, high=128),
        OpSample(
            (Tensor((0,), "u8"),), {"table": _SQUARES[::-1].astype(np.int8)}, low=0
        ),
        OpSample(
            (_SIGNED,), {"table": np.sqrt(_EVERY).astype("f")}, low=-128, high=128
        ),
    ]


_HALF = 12  # of the 24 bits of a share
MOST_SHARES = 2**_HALF  # of whose halves f32 adds up so many exactly


class ByteSoftmax(GraphOp, name="byte_softmax", traits=[Pure]):
    """y = p / (the sum of p along `axis`), where p = shares(step)[max x - x].

    The sum is one of whole numbers; it is rounded to f32 once, as the quotient is.
    """

    why = "a softmax of bytes, the same on every target, in one pass over a row"
    in_memory = True
    dtypes = BYTES

    x: Operand[Any]
    step: Float
    axis: Int
    y: Result[Any]

    @classmethod
    def infer(cls, x: Tensor, *, step: float, axis: int) -> Tensor:
        """Return the result type: the shape of x, with f32."""
        require_dtype(x, BYTES)
        require_axes(x, (axis,))
        if not 0 <= step < np.inf:
            raise InputError(
                "bad-attribute", f"expected a finite step of at least 0; got {step}"
            )
        return x.with_dtype("f32")

    @staticmethod
    def ref(x: np.ndarray, *, step: float, axis: int) -> Any:
        """Return table entries divided by their i64 sum, in NumPy."""
        least = np.iinfo(x.dtype).min
        below = np.max(x, axis, keepdims=True, initial=least) - x  # modulo 256
        p = shares(step)[below.view(np.uint8)]
        total = p.astype(np.int64).sum(axis, keepdims=True)
        return p / total.astype(np.float32)

    jvp = NOT_DIFFERENTIABLE("bytes have no derivative")
    vjp = NOT_DIFFERENTIABLE("bytes have no derivative")
    batch = leading(axis=shift_axes)
    reorder = in_any_order(axis=rename_axes)
    pad = harmless_but_along(along_axis)

    @staticmethod
    def decompose(b: Builder, op: "ByteSoftmax") -> Value:
        """Emit a maximum, entries of a table, their sum, and quotients.

        Entries are stored: IREE 3.13 would make them again for the sum, with all that
        is widened of them on the stack of a processor, or in Vulkan's shared memory.
        """
        return _quotients(b, op, b.barrier(_entries(b, op)))

    @staticmethod
    def cascade(b: Builder, op: "ByteSoftmax") -> Value:
        """Emit the quotients of entries that are not stored."""
        return _quotients(b, op, _entries(b, op))

    @classmethod
    def flops(cls, op: Self) -> Size:
        """Return the number of operations: two for each element."""
        return 2 * Tensor.of(op.y).elements

    samples = [
        OpSample((Tensor((3, 100), "u8"),), {"step": 0.05, "axis": 1}, low=0, high=256),
        OpSample((f32(5, "n").with_dtype("i8"),), {"step": 1e-3, "axis": 0}, low=-9),
        OpSample(
            (f32("n", 40, 2).with_dtype("i8"),),
            {"step": 2.0, "axis": 1},
            low=-128,
            high=128,
        ),
        OpSample((f32(3, "n").with_dtype("u8"),), {"step": 0.1, "axis": 1}, high=256),
    ]


def share_factors(step: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the factors of `shares` by the upper and by the lower four bits of n."""
    every = np.arange(16)
    upper = 2.0**24 * np.exp(-16 * step * every)
    return upper.astype(np.float32), np.exp(-step * every).astype(np.float32)


def shares(step: float) -> np.ndarray:
    """Return 2**24 e**(-step n) for each n from 0 to 255, as whole numbers of f32.

    Each is the product of two numbers, rounded as f32 and then to a whole number, so
    that few registers hold what they are made of. It is wrong by half a unit and by
    1.5 * 2**-24 of itself at most.
    """
    upper, lower = share_factors(step)
    found: np.ndarray = np.rint(upper[:, None] * lower).reshape(-1)
    return found


def _entries(b: Builder, op: ByteSoftmax) -> Value:
    """Emit the table's entries for x, not yet divided by their sum."""
    axes = (op.axis,)
    highest = b.expand(b.reduce_max(op.x, axes=axes), Tensor.of(op.x), axes)
    found: Value = b.lookup(b.subtract(highest, op.x), table=shares(op.step))
    return found


def _quotients(b: Builder, op: ByteSoftmax, p: Value) -> Value:
    """Emit table entries divided by their sum."""
    length, axes = Tensor.of(op.x).shape[op.axis], (op.axis,)
    is_short = isinstance(length, int) and length <= MOST_SHARES
    total = _sum_of_halves(b, p, axes) if is_short else _whole_sum(b, p, axes)
    found: Value = b.divide(p, b.expand(total, Tensor.of(op.y), axes))
    return found


def _whole_sum(b: Builder, p: Value, axes: Sequence[int]) -> Value:
    """Emit the sum of table entries in i64, cast to f32."""
    total = b.reduce_sum(b.cast(p, dtype="i64"), axes=axes)
    found: Value = b.cast(total, dtype="f32")
    return found


def _sum_of_halves(b: Builder, p: Value, axes: Sequence[int]) -> Value:
    """Emit the sum of up to `MOST_SHARES` entries in f32, by upper and lower bits.

    IREE 3.13 has no code for Vulkan for the sum of i64 along many a last axis.
    """
    upper = b.floor(b.multiply(p, b.full_like(p, 2.0**-_HALF)))
    lower = b.subtract(p, b.multiply(upper, b.full_like(p, 2.0**_HALF)))
    first, second = (b.reduce_sum(x, axes=axes) for x in (upper, lower))
    found: Value = b.add(b.multiply(first, b.full_like(first, 2.0**_HALF)), second)
    return found


def _require_table(table: np.ndarray, allowed: Sequence[str]) -> Tensor:
    """Return the type of a table; raise InputError unless it has an entry per byte."""
    found = Tensor(np.shape(table), dt.canonical_dtype(table.dtype))
    require_dtype(found, allowed)
    if found.shape != (_ENTRIES,):
        raise InputError(
            "bad-attribute", f"expected a table of {_ENTRIES} entries; got {found}"
        )
    return found


def _with_size(shape: Shape, axis: int, size: Any) -> Shape:
    """Return a shape with another size of one axis."""
    return (*shape[:axis], size, *shape[axis + 1 :])


def _as_floats(b: Builder, op: Dequantize) -> Value:
    """Emit q as floats, sign-extended from its `bits`."""
    spare = 8 - op.bits
    q: Value = op.q
    if spare:
        places = b.full_like(q, spare)
        q = b.shift_right(b.shift_left(q, places), places)
    found: Value = b.cast(q, dtype="f32")
    return found


def _repeated(b: Builder, op: Dequantize, part: Value) -> Value:
    """Emit the scale or the offset broadcast to the shape of q, as f32."""
    kind, axis = Tensor.of(op.q), op.axis
    part = part if Tensor.of(part).dtype == "f32" else b.cast(part, dtype="f32")
    if not Tensor.of(part).rank:
        return b.broadcast(part, shape=kind.shape, axes=())
    blocks: Any = Tensor.of(part).shape[axis]
    size: Any = kind.shape[axis]
    split = (*kind.shape[:axis], blocks, size // blocks, *kind.shape[axis + 1 :])
    axes = tuple(n + (n > axis) for n in range(kind.rank))
    return b.reshape(b.broadcast(part, shape=split, axes=axes), shape=kind.shape)


def _sum_to(b: Builder, y: Value, part: Value, axis: int) -> Value:
    """Emit y summed to the shape and dtype of `part`, a scale or an offset."""
    kind, like = Tensor.of(y), Tensor.of(part)
    if not like.rank:
        total = b.reduce_sum(y, axes=tuple(range(kind.rank)))
    else:
        blocks: Any = like.shape[axis]
        size: Any = kind.shape[axis]
        split = (*kind.shape[:axis], blocks, size // blocks, *kind.shape[axis + 1 :])
        total = b.reduce_sum(b.reshape(y, shape=split), axes=(axis + 1,))
    return total if like.dtype == "f32" else b.cast(total, dtype=like.dtype)
