"""Elementwise ops of two operands of one type; broadcasting is explicit."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from aotc.core import dtypes as dt
from aotc.dialects.builder import Builder
from aotc.dialects.graph import WIDE, GraphOp, Operand, Pure, Result, Tangent
from aotc.dialects.lowering import approximations as approx
from aotc.dialects.lowering import by_kind, scalars
from aotc.dialects.patterns.rows import Captured, RewriteRow
from aotc.dialects.patterns.terms import NumberTerm, X, Y, call, this
from aotc.dialects.rules.batching import leading
from aotc.dialects.rules.checks import require_dtype, require_equal
from aotc.dialects.rules.padding import HARMLESS
from aotc.dialects.rules.reordering import in_any_order
from aotc.dialects.rules.samples import OpSample, f32, i32
from aotc.dialects.types import Tensor
from aotc.mlir import Value, arith


def is_whole(m: Captured) -> bool:
    """Return whether the captured `x` is not of floats, so without NaN and -0."""
    return not dt.is_float(Tensor.of(m.x).dtype)


# What a tangent of the left and of the right operand is multiplied by.
Partials = tuple[Callable[[Value], Value], Callable[[Value], Value]]


class Binary(GraphOp, traits=[Pure]):
    """Base of ops on two operands of one type, which is also the result's."""

    lhs: Operand[Any]
    rhs: Operand[Any]
    y: Result[Any]
    if TYPE_CHECKING:
        partials: Callable[[Builder, Any], Partials]
    on_scalars = True
    dtypes = tuple(dt.NUMBERS)

    @classmethod
    def infer(cls, lhs: Tensor, rhs: Tensor) -> Tensor:
        """Return the result type, which both operands have."""
        require_dtype(lhs, cls.dtypes)
        require_equal(lhs, rhs)
        return lhs

    @classmethod
    def jvp(cls, b: Builder, op: Self, dl: Tangent, dr: Tangent) -> Value:
        """Return the sum of the partial derivatives times their tangents."""
        left, right = cls.partials(b, op)
        terms = [
            partial(tangent)
            for partial, tangent in ((left, dl), (right, dr))
            if tangent is not None
        ]
        return b.add(*terms) if len(terms) == 2 else terms[0]

    @classmethod
    def vjp(cls, b: Builder, op: Self, dy: Value) -> list[Value]:
        """Return each partial derivative times dy, as cotangents."""
        left, right = cls.partials(b, op)
        return [left(dy), right(dy)]

    batch = leading()
    reorder = in_any_order()

    pad = HARMLESS

    samples = [
        OpSample((f32(2, 3), f32(2, 3))),
        OpSample((f32("n", 4), f32("n", 4))),
        OpSample((i32(3), i32(3))),
    ]


_POSITIVE = [
    OpSample((f32(2, 3), f32(2, 3)), low=0.3),
    OpSample((f32("n", 4), f32("n", 4)), low=0.3),
]


class Add(Binary, name="add"):
    """y = lhs + rhs."""

    on_vectors = True
    on_integers = True
    commutes = True
    why = "arithmetic"

    ref = staticmethod(np.add)

    @staticmethod
    def partials(b: Builder, op: "Add") -> Partials:
        """Return functions that multiply by the partial derivatives 1 and 1."""
        return (lambda d: d), (lambda d: d)

    lower = by_kind(f=arith.addf, i=arith.addi, u=arith.addi)

    simplify = (
        RewriteRow(
            "x + 0 = x",
            this(X, NumberTerm(0.0)),
            lambda b, m: m.x,
            given=(f32(3),),
            example=lambda b, x: b.add(b.full_like(x, 0.0), x),
            near_miss=lambda b, x: b.add(b.full_like(x, 1.0), x),
        ),
        RewriteRow(
            "zeros after x, and before y, as x and y side by side",
            this(call("pad", X).named("first"), call("pad", Y).named("second")),
            lambda b, m: _add_adjacent_pads(b, m.first, m.second),
            given=(f32(3), f32(2)),
            example=lambda b, x, y: b.add(
                _pad_vector(b, y, 4, 0), _pad_vector(b, x, 1, 2)
            ),
            near_miss=lambda b, x, y: b.add(
                _pad_vector(b, y, 3, 1), _pad_vector(b, x, 1, 2)
            ),
        ),
    )


def _pad_vector(b: Builder, x: Value, low: int, high: int) -> Value:
    """Emit a vector padded by so many zeros before and after it."""
    found: Value = b.pad(x, low=(low,), high=(high,), interior=(0,), value=0.0)
    return found


def _add_adjacent_pads(b: Builder, first: Any, second: Any) -> Value | None:
    """Emit the sum of two zero-padded, adjacent values as a concatenation; or None.

    The gradients of slices are such sums.
    """
    if first.value or second.value or any((*first.interior, *second.interior)):
        return None
    around, others = ([*zip(op.low, op.high, strict=True)] for op in (first, second))
    axes = [n for n, each in enumerate(around) if each != others[n]]
    if len(axes) != 1:
        return None
    (axis,) = axes
    sizes = *around[axis], *others[axis]
    if not all(isinstance(size, int) and size >= 0 for size in sizes):
        return None
    if first.low[axis] + Tensor.of(first.x).shape[axis] != second.low[axis]:
        return None
    joined = b.concatenate(first.x, second.x, axis=axis)
    zeros = {"low": first.low, "high": second.high, "interior": first.interior}
    found: Value = b.pad(joined, **zeros, value=0.0)
    return found


class Subtract(Binary, name="subtract"):
    """y = lhs - rhs."""

    on_vectors = True
    on_integers = True
    why = "arithmetic"

    ref = staticmethod(np.subtract)

    @staticmethod
    def partials(b: Builder, op: "Subtract") -> Partials:
        """Return functions that multiply by the partial derivatives 1 and -1."""
        return (lambda d: d), b.negate

    lower = by_kind(f=arith.subf, i=arith.subi, u=arith.subi)

    simplify = (
        RewriteRow(
            "x - x = 0, of integers",
            this(X, X),
            lambda b, m: b.full_like(m.x, 0),
            given=(i32(3), f32(3)),
            example=lambda b, x, y: b.subtract(x, x),
            near_miss=lambda b, x, y: b.subtract(y, y),
            where=is_whole,
        ),
        RewriteRow(
            "x - 0 = x",
            this(X, NumberTerm(0.0)),
            lambda b, m: m.x,
            given=(f32(3),),
            example=lambda b, x: b.subtract(x, b.full_like(x, 0.0)),
            near_miss=lambda b, x: b.subtract(b.full_like(x, 0.0), x),
        ),
    )


class Multiply(Binary, name="multiply"):
    """y = lhs * rhs."""

    on_vectors = True
    on_integers = True
    commutes = True
    why = "arithmetic"

    ref = staticmethod(np.multiply)

    @staticmethod
    def partials(b: Builder, op: "Multiply") -> Partials:
        """Return functions that multiply by the partial derivatives rhs and lhs."""
        return (lambda d: b.multiply(d, op.rhs)), (lambda d: b.multiply(d, op.lhs))

    lower = by_kind(f=arith.mulf, i=arith.muli, u=arith.muli)

    simplify = (
        RewriteRow(
            "x * 1 = x",
            this(X, NumberTerm(1.0)),
            lambda b, m: m.x,
            given=(f32(3),),
            example=lambda b, x: b.multiply(x, b.full_like(x, 1.0)),
            near_miss=lambda b, x: b.multiply(x, b.full_like(x, 2.0)),
        ),
        RewriteRow(
            "x * 0 = 0, of integers",
            this(X, NumberTerm(0.0)),
            lambda b, m: b.full_like(m.x, 0),
            given=(i32(3), f32(3)),
            example=lambda b, x, y: b.multiply(x, b.full_like(x, 0)),
            near_miss=lambda b, x, y: b.multiply(y, b.full_like(y, 0.0)),
            where=is_whole,
        ),
        RewriteRow(
            "x * -1 = -x, of floats",
            this(X, NumberTerm(-1.0)),
            lambda b, m: b.negate(m.x),
            given=(f32(3), i32(3)),
            example=lambda b, x, y: b.multiply(b.full_like(x, -1.0), x),
            near_miss=lambda b, x, y: b.multiply(b.full_like(y, -1), y),
            where=lambda m: not is_whole(m),
        ),
    )


class Divide(Binary, name="divide"):
    """y = lhs / rhs; integers round towards zero, and division by zero gives -1.

    (An all-ones pattern for unsigned ones: the value that StableHLO defines.)
    """

    on_vectors = True
    why = "arithmetic; integer division by zero is defined"

    @staticmethod
    def ref(lhs: np.ndarray, rhs: np.ndarray) -> Any:
        """Return lhs / rhs in NumPy, by kind of dtype."""
        if lhs.dtype.kind not in "iu":
            return np.divide(lhs, rhs)
        safe = np.where(rhs == 0, np.ones((), rhs.dtype), rhs)
        quotient = lhs // safe
        if lhs.dtype.kind == "i":
            quotient = quotient + ((quotient < 0) & (quotient * safe != lhs))
        return np.where(rhs == 0, np.array(-1).astype(lhs.dtype), quotient)

    @staticmethod
    def partials(b: Builder, op: "Divide") -> Partials:
        """Return functions that multiply by the partials 1 / rhs and -y / rhs."""
        return (
            lambda d: b.divide(d, op.rhs),
            lambda d: b.negate(b.divide(b.multiply(d, op.y), op.rhs)),
        )

    lower = by_kind(f=arith.divf, i=scalars.divide_signed, u=scalars.divide_unsigned)

    simplify = (
        RewriteRow(
            "x / 1 = x",
            this(X, NumberTerm(1.0)),
            lambda b, m: m.x,
            given=(f32(3),),
            example=lambda b, x: b.divide(x, b.full_like(x, 1.0)),
            near_miss=lambda b, x: b.divide(b.full_like(x, 1.0), x),
        ),
    )

    samples = [
        *_POSITIVE,
        OpSample((i32(3), i32(3))),
        OpSample((np.array([7, -7, 7, 0], "i4"), np.array([2, 2, -2, 0], "i4"))),
    ]


class Power(Binary, name="power"):
    """y = lhs ** rhs; as C's pow, NaN for a negative base with a fractional rhs.

    On integers a negative rhs gives 1 / lhs ** -rhs, rounded towards zero.
    """

    is_approximated = True
    why = "C's special cases; two partial derivatives that are safe at 0"
    precision = WIDE

    @staticmethod
    def ref(lhs: np.ndarray, rhs: np.ndarray) -> Any:
        """Return lhs ** rhs in NumPy, by kind of dtype."""
        if lhs.dtype.kind != "i":
            return np.power(lhs, rhs)
        vanishing = (rhs < 0) & (np.sign(lhs) != lhs)
        base = np.where(vanishing, np.zeros((), lhs.dtype), lhs)
        # of a negative exponent to 1 or -1 only the parity matters
        return np.power(base, np.where(rhs < 0, 2 - (rhs & 1), rhs))

    @staticmethod
    def partials(b: Builder, op: "Power") -> Partials:
        """Return functions that multiply by rhs * lhs**(rhs-1), and y * ln(lhs).
        The latter is 0 where lhs is 0.
        """

        def left(d: Value) -> Value:
            less = b.offset(op.rhs, -1.0)
            zero = b.full_like(op.rhs, 0.0)
            flat = b.compare(op.rhs, zero, direction="eq")
            slope = b.multiply(op.rhs, b.power(op.lhs, less))
            return b.multiply(d, b.select(flat, zero, slope))

        def right(d: Value) -> Value:
            zero = b.full_like(op.lhs, 0.0)
            at_zero = b.compare(op.lhs, zero, direction="eq")
            safe = b.select(at_zero, b.full_like(op.lhs, 1.0), op.lhs)
            return b.multiply(d, b.multiply(op.y, b.log(safe)))

        return left, right

    lower = by_kind(f=approx.power, i=scalars.power_signed, u=scalars.power_unsigned)
    samples = [
        *_POSITIVE,
        OpSample((np.array([3, -2, 0, 7], "i4"), np.array([4, 3, 0, 20], "i4"))),
        OpSample((np.zeros(2, "f"), np.array([2, 1], "f")), smooth=False),
    ]


class Hypot(Binary, name="hypot"):
    """y = sqrt(lhs**2 + rhs**2), without overflow; the derivative at 0 is 0."""

    is_approximated = True
    commutes = True
    why = "no overflow of the squares; a derivative from its own value"
    precision = WIDE

    dtypes = dt.FLOATS
    ref = staticmethod(np.hypot)

    @staticmethod
    def partials(b: Builder, op: "Hypot") -> Partials:
        """Return functions that multiply by the partials lhs / y and rhs / y."""
        at_zero = b.compare(op.y, b.full_like(op.y, 0.0), direction="eq")
        safe = b.select(at_zero, b.full_like(op.y, 1.0), op.y)

        def part(side: Value) -> Callable[[Value], Value]:
            return lambda d: b.multiply(d, b.divide(side, safe))

        return part(op.lhs), part(op.rhs)

    lower = by_kind(f=approx.hypot)
    samples = [
        OpSample((f32(2, 3), f32(2, 3))),
        OpSample((f32("n", 4), f32("n", 4))),
        OpSample(
            (np.array([3e30, 0, 1e-30], "f"), np.array([4e30, 0, 0], "f")), smooth=False
        ),
    ]


def _rows_of_itself(op: str) -> tuple[RewriteRow, ...]:
    """Return the rewrite row `op(x, x) = x` of `maximum` or `minimum`."""
    return (
        RewriteRow(
            f"{op}(x, x) = x",
            this(X, X),
            lambda b, m: m.x,
            given=(f32(3), f32(3)),
            example=lambda b, x, y: getattr(b, op)(x, x),
            near_miss=lambda b, x, y: getattr(b, op)(x, y),
        ),
    )


class Choice(Binary, traits=[Pure]):
    """Base of ops that choose one of two numbers. Ties share the derivative."""

    selects = True
    on_vectors = True
    on_integers = True
    commutes = True
    why = "one instruction; ties share the derivative"

    @staticmethod
    def partials(b: Builder, op: "Choice") -> Partials:
        """Return functions that multiply by 1 if chosen, else 0; by 1/2 at a tie."""
        return _choice(b, op, op.lhs, op.rhs), _choice(b, op, op.rhs, op.lhs)


class Maximum(Choice, name="maximum"):
    """y = the larger operand; NaN if either is. Ties share the derivative."""

    ref = staticmethod(np.maximum)

    simplify = _rows_of_itself("maximum")

    lower = by_kind(f=arith.maximumf, i=arith.maxsi, u=arith.maxui)

    @classmethod
    def is_nonnegative(cls, op: Self, is_known: Callable[[Value], bool]) -> bool:
        """Return whether the result is provably nonnegative: one operand is."""
        return is_known(op.lhs) or is_known(op.rhs)


class Minimum(Choice, name="minimum"):
    """y = the smaller operand; NaN if either is. Ties share the derivative."""

    ref = staticmethod(np.minimum)

    simplify = _rows_of_itself("minimum")

    lower = by_kind(f=arith.minimumf, i=arith.minsi, u=arith.minui)

    @classmethod
    def is_nonnegative(cls, op: Self, is_known: Callable[[Value], bool]) -> bool:
        """Return whether the result is provably nonnegative: both operands are."""
        return is_known(op.lhs) and is_known(op.rhs)


def _choice(
    b: Builder, op: Choice, operand: Value, other: Value
) -> Callable[[Value], Value]:
    """Return a function that emits d where `operand` is chosen, half at a tie, or 0."""

    def partial(d: Value) -> Value:
        chosen = b.compare(op.y, operand, direction="eq")
        tied = b.compare(operand, other, direction="eq")
        share = b.select(tied, b.full_like(d, 0.5), b.full_like(d, 1.0))
        return b.where_true(chosen, b.multiply(d, share))

    return partial
