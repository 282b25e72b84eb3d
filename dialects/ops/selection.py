"""Elementwise comparison, choice and conversion."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from aotc.core import dtypes as dt
from aotc.dialects.attributes import Bool, Str
from aotc.dialects.builder import Builder
from aotc.dialects.graph import (
    NOT_DIFFERENTIABLE,
    GraphOp,
    Operand,
    Pure,
    Result,
    Tangent,
)
from aotc.dialects.lowering import Lowering, by_kind, scalars
from aotc.dialects.lowering.conversion import conversion, saturate_numpy
from aotc.dialects.patterns.rows import RewriteRow
from aotc.dialects.patterns.terms import CaptureTerm, NumberTerm, TruthTerm, X, Y, this
from aotc.dialects.rules.batching import leading
from aotc.dialects.rules.checks import require_dtype, require_equal
from aotc.dialects.rules.padding import HARMLESS
from aotc.dialects.rules.reordering import in_any_order
from aotc.dialects.rules.samples import OpSample, boolean, f32, i32
from aotc.dialects.rules.signs import is_nonnegative
from aotc.dialects.types import Tensor
from aotc.errors import InputError
from aotc.mlir import Value, arith

_COMPARE = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


def _beside_zero(b: Builder, x: Value, direction: str) -> Value:
    """Emit a comparison with zero, for examples."""
    return b.compare(x, b.full_like(x, 0), direction=direction, exact=False)


class Compare(GraphOp, name="compare", traits=[Pure]):
    """y = lhs <direction> rhs, as bool; direction is eq, ne, lt, le, gt or ge.

    Comparisons with NaN are false, except ne. Those that are `exact` tell subnormal
    numbers from 0; others see numbers as the arithmetic of compiled code does, which
    may take them for 0: a derivative that asks whether it divides by 0 needs that.
    """

    why = "where values become conditions"

    lhs: Operand[Any]
    rhs: Operand[Any]
    direction: Str
    exact: Bool
    y: Result[Any]
    on_scalars = True
    on_masks = True
    dtypes = dt.NAMES

    @classmethod
    def build(cls, *operands: Value, exact: bool = False, **attributes: Any) -> Any:
        """Emit this op; by default subnormal numbers may equal 0, as in arithmetic."""
        return super().build(*operands, exact=exact, **attributes)

    @staticmethod
    def infer(
        lhs: Tensor, rhs: Tensor, *, direction: str, exact: bool = False
    ) -> Tensor:
        """Return the type: bool, in the operands' shape."""
        require_equal(lhs, rhs)
        if direction not in _COMPARE:
            raise InputError(
                "bad-attribute",
                f"expected a direction out of {', '.join(_COMPARE)}; got {direction!r}",
            )
        return lhs.with_dtype("bool")

    @staticmethod
    def ref(
        lhs: np.ndarray, rhs: np.ndarray, *, direction: str, exact: bool = False
    ) -> Any:
        """Return NumPy's comparison."""
        return _COMPARE[direction](lhs, rhs)

    jvp = NOT_DIFFERENTIABLE("bool result")
    vjp = NOT_DIFFERENTIABLE("bool result")

    batch = leading()
    reorder = in_any_order()

    pad = HARMLESS

    simplify = (
        RewriteRow(
            "x beside itself is equal, of integers",
            this(X, X),
            lambda b, m: b.full(
                Tensor.of(m.op.y), m.op.direction in ("eq", "le", "ge")
            ),
            given=(i32(3), f32(3)),
            example=lambda b, x, y: b.compare(x, x, direction="le", exact=False),
            near_miss=lambda b, x, y: b.compare(y, y, direction="le", exact=False),
            where=lambda m: not dt.is_float(Tensor.of(m.x).dtype),
        ),
        RewriteRow(
            "x < 0 is false, and x >= 0 true, if x is not negative",
            this(X, NumberTerm(0.0)),
            lambda b, m: b.full(Tensor.of(m.op.y), m.op.direction == "ge"),
            given=(i32(3),),
            example=lambda b, x: _beside_zero(b, b.maximum(x, b.full_like(x, 1)), "lt"),
            near_miss=lambda b, x: _beside_zero(b, x, "lt"),
            where=lambda m: m.op.direction in ("lt", "ge") and is_nonnegative(m.x),
        ),
        RewriteRow(
            "0 > x is false, and 0 <= x true, if x is not negative",
            this(NumberTerm(0.0), X),
            lambda b, m: b.full(Tensor.of(m.op.y), m.op.direction == "le"),
            given=(i32(3),),
            example=lambda b, x: b.compare(
                b.full_like(x, 0),
                b.bitwise_and(x, b.full_like(x, 7)),
                direction="le",
                exact=False,
            ),
            near_miss=lambda b, x: b.compare(
                b.full_like(x, 0), x, direction="le", exact=False
            ),
            where=lambda m: m.op.direction in ("gt", "le") and is_nonnegative(m.x),
        ),
    )

    @staticmethod
    def lower(low: Lowering, op: "Compare", lhs: Value, rhs: Value) -> Value:
        """Emit a comparison: ordered for floats (ne unordered), signed if integers."""
        dtype = Tensor.of(op.lhs).dtype
        if op.lhs == op.rhs and op.direction == "ne" and dt.is_float(dtype):
            return low.pointwise([lhs], Tensor.of(op.y), scalars.is_nan)
        body = scalars.comparison(dtype, op.direction, is_exact=op.exact)
        return low.pointwise([lhs, rhs], Tensor.of(op.y), body)

    samples = [
        OpSample((i32(2, 3), i32(2, 3)), {"direction": "le", "exact": False}),
        OpSample((f32("n"), f32("n")), {"direction": "gt", "exact": True}),
        OpSample(
            (np.array([np.nan, 1, -0.0], "f"), np.array([np.nan, 1, 0.0], "f")),
            {"direction": "ne", "exact": True},
        ),
    ]


class Select(GraphOp, name="select", traits=[Pure]):
    """y = on_true where the condition holds, on_false elsewhere."""

    selects = True
    why = "the only choice by element; its derivative goes where it chose"

    condition: Operand[Any]
    on_true: Operand[Any]
    on_false: Operand[Any]
    y: Result[Any]
    on_scalars = True
    on_masks = True
    dtypes = dt.NAMES

    @staticmethod
    def infer(condition: Tensor, on_true: Tensor, on_false: Tensor) -> Tensor:
        """Return the result type, that of both choices."""
        require_dtype(condition, ("bool",))
        require_equal(on_true, on_false)
        require_equal(condition, on_true.with_dtype("bool"))
        return on_true

    ref = staticmethod(np.where)

    @staticmethod
    def jvp(
        b: Builder, op: "Select", _: Tangent, dt_true: Tangent, dt_false: Tangent
    ) -> Value:
        """Return the tangent of the chosen operand, element by element."""
        zero = b.full_like(op.y, 0.0)
        return b.select(
            op.condition,
            zero if dt_true is None else dt_true,
            zero if dt_false is None else dt_false,
        )

    @staticmethod
    def vjp(b: Builder, op: "Select", dy: Value) -> list[Tangent]:
        """Return dy for each choice where it was taken, zero elsewhere."""
        zero = b.full_like(dy, 0.0)
        taken = b.select(op.condition, dy, zero)
        return [None, taken, b.select(op.condition, zero, dy)]

    batch = leading()
    reorder = in_any_order()

    pad = HARMLESS

    simplify = (
        RewriteRow(
            "a choice between x and x is x",
            this(CaptureTerm("condition"), X, X),
            lambda b, m: m.x,
            given=(boolean(3), f32(3), f32(3)),
            example=lambda b, c, x, y: b.select(c, x, x),
            near_miss=lambda b, c, x, y: b.select(c, x, y),
        ),
        RewriteRow(
            "where all is chosen, x",
            this(TruthTerm(True), X, Y),
            lambda b, m: m.x,
            given=(boolean(3), f32(3), f32(3)),
            example=lambda b, c, x, y: b.select(b.full_like(c, True), x, y),
            near_miss=lambda b, c, x, y: b.select(b.bitwise_not(c), x, y),
        ),
        RewriteRow(
            "where nothing is chosen, y",
            this(TruthTerm(False), X, Y),
            lambda b, m: m.y,
            given=(boolean(3), f32(3), f32(3)),
            example=lambda b, c, x, y: b.select(b.full_like(c, False), x, y),
            near_miss=lambda b, c, x, y: b.select(c, x, y),
        ),
    )

    @staticmethod
    def lower(low: Lowering, op: "Select", *operands: Value) -> Value:
        """Emit an arith.select."""
        return low.pointwise(
            operands, Tensor.of(op.y), lambda c, x, y: arith.select(c, x, y)
        )

    @classmethod
    def is_nonnegative(cls, op: Self, is_known: Callable[[Value], bool]) -> bool:
        """Return whether the result is provably nonnegative: both choices are."""
        return is_known(op.on_true) and is_known(op.on_false)

    samples = [
        OpSample((boolean(2, 3), f32(2, 3), f32(2, 3))),
        OpSample((boolean("n"), i32("n"), i32("n"))),
    ]


class Clamp(GraphOp, name="clamp", traits=[Pure]):
    """y = min(max(x, low), high), elementwise bounds; x gets no gradient outside."""

    selects = True
    on_scalars = True
    on_vectors = True
    on_integers = True
    why = "one body, and one rule for the derivative at both bounds"

    x: Operand[Any]
    low: Operand[Any]
    high: Operand[Any]
    y: Result[Any]
    dtypes = dt.NUMBERS

    @staticmethod
    def infer(x: Tensor, low: Tensor, high: Tensor) -> Tensor:
        """Return the result type, which all operands have."""
        require_dtype(x, dt.NUMBERS)
        require_equal(x, low, high)
        return x

    @staticmethod
    def ref(x: np.ndarray, low: np.ndarray, high: np.ndarray) -> Any:
        """Return min(max(x, low), high) in NumPy."""
        return np.minimum(np.maximum(x, low), high)

    @staticmethod
    def _regions(b: Builder, op: "Clamp") -> tuple[Value, Value]:
        """Emit the masks where x is below `low`, and above `high`."""
        below = b.compare(op.x, op.low, direction="lt")
        above = b.compare(op.x, op.high, direction="gt")
        return below, above

    @classmethod
    def jvp(
        cls, b: Builder, op: Self, dx: Tangent, dlow: Tangent, dhigh: Tangent
    ) -> Value:
        """Return the tangent of whichever operand is the result, element by element."""
        below, above = cls._regions(b, op)
        zero = b.full_like(op.y, 0.0)
        dx, dlow, dhigh = (zero if d is None else d for d in (dx, dlow, dhigh))
        return b.select(above, dhigh, b.select(below, dlow, dx))

    @classmethod
    def vjp(cls, b: Builder, op: Self, dy: Value) -> list[Value]:
        """Return dy for whichever operand is the result, element by element."""
        below, above = cls._regions(b, op)
        zero = b.full_like(dy, 0.0)
        rest = b.select(above, zero, dy)
        dx = b.select(below, zero, rest)
        return [dx, b.select(below, rest, zero), b.select(above, dy, zero)]

    batch = leading()
    reorder = in_any_order()

    pad = HARMLESS

    lower = by_kind(
        f=lambda x, lo, hi: arith.minimumf(arith.maximumf(x, lo), hi),
        i=lambda x, lo, hi: arith.minsi(arith.maxsi(x, lo), hi),
        u=lambda x, lo, hi: arith.minui(arith.maxui(x, lo), hi),
    )
    samples = [
        OpSample((f32(2, 3), np.full((2, 3), -0.5, "f"), np.full((2, 3), 0.5, "f"))),
        OpSample((i32(4), np.full(4, -1, "i4"), np.full(4, 1, "i4"))),
    ]


class Cast(GraphOp, name="cast", traits=[Pure]):
    """y = x in another dtype.

    Float to integer rounds towards zero and saturates (NaN gives 0); to bool means
    `x != 0`; between integers the low bits are kept.
    """

    why = "the only way between dtypes; saturation is defined"

    x: Operand[Any]
    dtype: Str
    y: Result[Any]
    on_scalars = True
    dtypes = dt.NAMES

    @staticmethod
    def infer(x: Tensor, *, dtype: str) -> Tensor:
        """Return the result type: the operand's shape with the new dtype."""
        return x.with_dtype(dt.canonical_dtype(dtype))

    @staticmethod
    def ref(x: np.ndarray, *, dtype: str) -> np.ndarray:
        """Return NumPy's astype, saturating from float to integer."""
        target = dt.to_numpy(dtype)
        if dt.is_float(dt.canonical_dtype(x.dtype)) and dtype in dt.INTEGERS:
            return saturate_numpy(x, target)
        return x.astype(target)

    @classmethod
    def jvp(cls, b: Builder, op: Self, dx: Value) -> Tangent:
        """Return the tangent in the new dtype."""
        return b.cast(dx, dtype=op.dtype) if dt.is_float(op.dtype) else None

    @staticmethod
    def vjp(b: Builder, op: "Cast", dy: Value) -> list[Tangent]:
        """Return the cotangent in the operand's dtype."""
        source = Tensor.of(op.x).dtype
        return [b.cast(dy, dtype=source) if dt.is_float(source) else None]

    batch = leading()
    reorder = in_any_order()

    pad = HARMLESS

    @staticmethod
    def lower(low: Lowering, op: "Cast", x: Value) -> Value:
        """Emit an elementwise conversion to the new dtype; none if it is the same."""
        source, target = Tensor.of(op.x), Tensor.of(op.y)
        if source.dtype == target.dtype:
            return x
        body = conversion(source.dtype, target.dtype)
        return low.pointwise([x], target, body)

    simplify = (
        RewriteRow(
            "x, if it has the dtype",
            this(X),
            lambda b, m: m.x,
            given=(f32(3),),
            example=lambda b, x: b.cast(x, dtype="f32"),
            near_miss=lambda b, x: b.cast(x, dtype="f64"),
            where=lambda m: Tensor.of(m.x).dtype == m.op.dtype,
        ),
    )

    @classmethod
    def is_nonnegative(cls, op: Self, is_known: Callable[[Value], bool]) -> bool:
        """Return whether integers keep their values and are not negative."""
        source = Tensor.of(op.x).dtype
        is_kept = source in ("bool", op.dtype) or dt.bits(source) < dt.bits(op.dtype)
        return not dt.is_float(source) and is_kept and is_known(op.x)

    @staticmethod
    def counted_axis(op: "Cast", axis: int) -> int | None:
        """Return `axis` if integers are widened, which count on along it, or None."""
        is_wider = dt.bits(op.dtype) > dt.bits(Tensor.of(op.x).dtype)
        return axis if op.dtype in dt.INTEGERS and is_wider else None

    samples = [
        OpSample((f32(2, 3),), {"dtype": "f64"}),
        OpSample((f32("n"),), {"dtype": "i32"}, smooth=False),
        OpSample((i32(4),), {"dtype": "f32"}),
        OpSample((boolean(3),), {"dtype": "f32"}),
        OpSample(
            (np.array([1e10, -1e10, np.nan, 2.9], "f"),), {"dtype": "i32"}, smooth=False
        ),
        OpSample((np.array([-1.0, 300.0, 5.5], "f"),), {"dtype": "u8"}, smooth=False),
    ]
