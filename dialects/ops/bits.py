"""Ops on bit patterns, none of which has a derivative."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from aotc.core import dtypes as dt
from aotc.dialects.attributes import Str
from aotc.dialects.graph import NOT_DIFFERENTIABLE, WIDE, GraphOp, Operand, Pure, Result
from aotc.dialects.lowering import Lowering, by_kind, scalars
from aotc.dialects.ops.binary import Binary
from aotc.dialects.ops.unary import Unary
from aotc.dialects.patterns.rows import RewriteRow
from aotc.dialects.patterns.terms import TruthTerm, X, call, this
from aotc.dialects.rules.batching import leading
from aotc.dialects.rules.checks import require_dtype
from aotc.dialects.rules.padding import HARMLESS
from aotc.dialects.rules.samples import OpSample, boolean, f32, i32
from aotc.dialects.types import Tensor, lowered_element
from aotc.errors import InputError
from aotc.mlir import Value, arith


class BitwiseNot(Unary, name="bitwise_not"):
    """y = ~x; logical not on bool."""

    why = "one instruction"

    dtypes = ("bool", *dt.INTEGERS)
    ref = staticmethod(np.invert)
    jvp = NOT_DIFFERENTIABLE("bit patterns have no derivative")
    vjp = NOT_DIFFERENTIABLE("bit patterns have no derivative")
    lower = by_kind(**{kind: scalars.invert for kind in "iub"})

    simplify = (
        RewriteRow(
            "~~x = x",
            this(call("bitwise_not", X)),
            lambda b, m: m.x,
            given=(i32(3),),
            example=lambda b, x: b.bitwise_not(b.bitwise_not(x)),
            near_miss=lambda b, x: b.bitwise_not(b.negate(x)),
        ),
    )

    samples = [OpSample((i32(2, 3),)), OpSample((boolean(4),))]


class Bitwise(Binary, traits=[Pure]):
    """Base of bitwise operations on integers, logical ones on bool."""

    dtypes = tuple(["bool", *dt.INTEGERS])
    jvp = NOT_DIFFERENTIABLE("bit patterns have no derivative")
    vjp = NOT_DIFFERENTIABLE("bit patterns have no derivative")
    samples = [
        OpSample((i32(2, 3), i32(2, 3)), low=-9, high=9),
        OpSample((boolean("n"), boolean("n"))),
    ]


def _logical_rows(op: str, sign: str, *, neutral: bool) -> tuple[RewriteRow, ...]:
    """Return the rewrite rows of `and` or `or`: of x and x, of x and a constant."""
    yes, no = str(neutral).lower(), str(not neutral).lower()
    return (
        RewriteRow(
            f"x {sign} x = x",
            this(X, X),
            lambda b, m: m.x,
            given=(i32(3), i32(3)),
            example=lambda b, x, y: getattr(b, op)(x, x),
            near_miss=lambda b, x, y: getattr(b, op)(x, y),
        ),
        RewriteRow(
            f"x {sign} {yes} = x",
            this(X, TruthTerm(neutral)),
            lambda b, m: m.x,
            given=(boolean(3),),
            example=lambda b, x: getattr(b, op)(x, b.full_like(x, neutral)),
            near_miss=lambda b, x: getattr(b, op)(x, b.bitwise_not(x)),
        ),
        RewriteRow(
            f"x {sign} {no} = {no}",
            this(X, TruthTerm(not neutral)),
            lambda b, m: b.full_like(m.x, not neutral),
            given=(boolean(3),),
            example=lambda b, x: getattr(b, op)(b.full_like(x, not neutral), x),
            near_miss=lambda b, x: getattr(b, op)(b.bitwise_not(x), x),
        ),
    )


class BitwiseAnd(Bitwise, name="bitwise_and"):
    """y = lhs & rhs."""

    commutes = True
    why = "one instruction; the logical and on bool"

    ref = staticmethod(np.bitwise_and)
    lower = by_kind(**{kind: arith.andi for kind in "iub"})

    simplify = _logical_rows("bitwise_and", "&", neutral=True)

    @classmethod
    def is_nonnegative(cls, op: Self, is_known: Callable[[Value], bool]) -> bool:
        """Return whether the result is provably nonnegative: one operand is."""
        return is_known(op.lhs) or is_known(op.rhs)


class BitwiseOr(Bitwise, name="bitwise_or"):
    """y = lhs | rhs."""

    commutes = True
    why = "one instruction; the logical or on bool"

    ref = staticmethod(np.bitwise_or)
    lower = by_kind(**{kind: arith.ori for kind in "iub"})

    simplify = _logical_rows("bitwise_or", "|", neutral=False)


class BitwiseXor(Bitwise, name="bitwise_xor"):
    """y = lhs ^ rhs."""

    commutes = True
    why = "one instruction; random bits are made of it"

    ref = staticmethod(np.bitwise_xor)
    lower = by_kind(**{kind: arith.xori for kind in "iub"})


class Shift(Bitwise, traits=[Pure]):
    """Base of shifts; counts below 0 or beyond the width shift out all bits."""

    dtypes = dt.INTEGERS
    samples = [OpSample((i32(2, 3), np.array([[0, 1, 5], [31, 2, 7]], "i4")))]


class ShiftLeft(Shift, name="shift_left"):
    """y = lhs << rhs."""

    why = "one instruction; counts beyond the width are defined"

    ref = staticmethod(np.left_shift)
    lower = by_kind(**dict.fromkeys("iu", scalars.shift(arith.shli, scalars.zero)))


class ShiftRight(Shift, name="shift_right"):
    """y = lhs >> rhs: zeros come in for unsigned, the sign for signed integers."""

    why = "one instruction; by the sign of the dtype"

    ref = staticmethod(np.right_shift)
    lower = by_kind(
        i=scalars.shift(arith.shrsi, scalars.sign_bits),
        u=scalars.shift(scalars.with_zero_extension(arith.shrui), scalars.zero),
    )


class Bitcast(GraphOp, name="bitcast", traits=[Pure]):
    """y = the same bits as another dtype of equal width."""

    why = "bits of a float as an integer, and back"
    on_scalars = True
    precision = WIDE
    reads_bits = True

    x: Operand[Any]
    dtype: Str
    y: Result[Any]
    dtypes = dt.NUMBERS

    @classmethod
    def infer(cls, x: Tensor, *, dtype: str) -> Tensor:
        """Return the result type: the operand's shape with the new dtype."""
        require_dtype(x, cls.dtypes)
        result = x.with_dtype(dt.canonical_dtype(dtype))
        require_dtype(result, cls.dtypes)
        if dt.bits(result.dtype) != dt.bits(x.dtype):
            raise InputError(
                "dtype-mismatch",
                f"expected a dtype of {dt.bits(x.dtype)} bits, like {x.dtype}; "
                f"got {result.dtype}",
            )
        return result

    @staticmethod
    def ref(x: np.ndarray, *, dtype: str) -> np.ndarray:
        """Return NumPy's view of the bits in another dtype."""
        return np.ascontiguousarray(x).view(dt.to_numpy(dtype)).reshape(np.shape(x))

    jvp = NOT_DIFFERENTIABLE("bit patterns have no derivative")
    vjp = NOT_DIFFERENTIABLE("bit patterns have no derivative")

    batch = leading()

    pad = HARMLESS

    @staticmethod
    def lower(low: Lowering, op: "Bitcast", x: Value) -> Value:
        """Emit an arith.bitcast; signed and unsigned are the same in lowered IR."""
        element = lowered_element(op.dtype)
        if lowered_element(Tensor.of(op.x).dtype) == element:
            return x
        return low.pointwise(
            [x], Tensor.of(op.y), lambda value: arith.bitcast(element, value)
        )

    simplify = (
        RewriteRow(
            "x, if it has the dtype",
            this(X),
            lambda b, m: m.x,
            given=(f32(3),),
            example=lambda b, x: b.bitcast(x, dtype="f32"),
            near_miss=lambda b, x: b.bitcast(x, dtype="i32"),
            where=lambda m: Tensor.of(m.x).dtype == m.op.dtype,
        ),
    )

    samples = [
        OpSample((f32(2, 3),), {"dtype": "i32"}),
        OpSample((f32("n"),), {"dtype": "u32"}),
        OpSample((i32(4),), {"dtype": "f32"}, high=1e9),
    ]
