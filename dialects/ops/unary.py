"""Elementwise ops of one operand, which has the type of the result."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from aotc.core import dtypes as dt
from aotc.dialects.builder import Builder
from aotc.dialects.graph import WIDE, GraphOp, Operand, Pure, Result, Tangent
from aotc.dialects.lowering import Lowering, by_kind, scalars
from aotc.dialects.lowering import approximations as approx
from aotc.dialects.patterns.rows import RewriteRow
from aotc.dialects.patterns.terms import X, call, this
from aotc.dialects.rules.batching import leading
from aotc.dialects.rules.checks import require_dtype
from aotc.dialects.rules.padding import HARMLESS
from aotc.dialects.rules.reordering import in_any_order
from aotc.dialects.rules.samples import OpSample, f32, i32
from aotc.dialects.types import Tensor
from aotc.mlir import Value, arith, math


class Unary(GraphOp, traits=[Pure]):
    """Base of ops on one operand, whose type the result has. Subclasses give
    `derivative`: dy/dx.
    """

    x: Operand[Any]
    y: Result[Any]
    if TYPE_CHECKING:
        derivative: Callable[[Builder, Any], Tangent]
    on_scalars = True

    @classmethod
    def infer(cls, x: Tensor) -> Tensor:
        """Return the result type, that of the operand."""
        require_dtype(x, cls.dtypes)
        return x

    @classmethod
    def jvp(cls, b: Builder, op: Self, dx: Value) -> Tangent:
        """Return f'(x) dx."""
        return _scale(b, dx, cls.derivative(b, op))

    @classmethod
    def vjp(cls, b: Builder, op: Self, dy: Value) -> Sequence[Tangent]:
        """Return f'(x) dy."""
        return [_scale(b, dy, cls.derivative(b, op))]

    batch = leading()
    reorder = in_any_order()

    pad = HARMLESS

    samples = [OpSample((f32(2, 3),)), OpSample((f32("n", 4),)), OpSample((f32(0),))]


def _scale(b: Builder, x: Value, derivative: Tangent) -> Tangent:
    """Emit `derivative * x`; None for a derivative of None, which is zero."""
    return None if derivative is None else b.multiply(derivative, x)


def constant_zero(b: Builder, op: GraphOp) -> None:
    """Return None: the derivative of a function that is piecewise constant."""
    return


class Negate(Unary, name="negate"):
    """y = -x."""

    on_vectors = True
    why = "its adjoint is itself; x * -1 would round differently for -0.0"

    dtypes = dt.SIGNED + dt.FLOATS
    ref = staticmethod(np.negative)

    @staticmethod
    def derivative(b: Builder, op: "Negate") -> Value:
        """Return -1."""
        return b.full_like(op.x, -1.0)

    # Not `arith.negf`: fused into a sum it becomes a difference, which IREE's GPU
    # backends cannot split ("Failed to get an identity value for the reduction").
    lower = by_kind(
        f=lambda x: arith.mulf(x, scalars.constant(x.type, -1.0)),
        i=lambda x: arith.subi(scalars.constant(x.type, 0), x),
    )

    simplify = (
        RewriteRow(
            "-(-x) = x",
            this(call("negate", X)),
            lambda b, m: m.x,
            given=(f32(3),),
            example=lambda b, x: b.negate(b.negate(x)),
            near_miss=lambda b, x: b.negate(b.abs(x)),
        ),
    )


class Abs(Unary, name="abs"):
    """y = |x|; the derivative at 0 is taken as 0."""

    on_vectors = True
    why = "one instruction; its derivative at 0 is chosen"

    dtypes = dt.SIGNED + dt.FLOATS
    ref = staticmethod(np.abs)

    @staticmethod
    def derivative(b: Builder, op: "Abs") -> Value:
        """Return sign(x)."""
        return b.sign(op.x)

    lower = by_kind(f=math.absf, i=math.absi)
    samples = [
        *Unary.samples,
        OpSample((np.array([-0.0, np.inf, -np.inf], "f"),), smooth=False),
    ]


class Sign(Unary, name="sign"):
    """y = -1, 0 or 1 by the sign of x, 0 for -0.0 too; NaN stays NaN."""

    why = "the derivative of abs"

    dtypes = dt.SIGNED + dt.FLOATS
    derivative = staticmethod(constant_zero)
    lower = by_kind(f=scalars.sign_float, i=scalars.sign_int)
    samples = [
        *Unary.samples,
        OpSample((i32(5),)),
        OpSample((np.zeros(2, "f"),), smooth=False),
        OpSample((np.array([-0.0, 0.0, -2.0], "f"),), smooth=False),
    ]

    @staticmethod
    def ref(x: np.ndarray) -> np.ndarray:
        """Return np.sign, without the sign that it keeps of a bf16 zero."""
        return np.where(x == 0, np.zeros_like(x), np.sign(x))


class Exp(Unary, name="exp"):
    """y = e**x."""

    on_vectors = True
    is_approximated = True
    why = "elementary function; its derivative is its own value"
    precision = WIDE

    ref = staticmethod(np.exp)

    @staticmethod
    def derivative(b: Builder, op: "Exp") -> Value:
        """Return y."""
        return op.y

    lower = by_kind(f=math.exp)


class Exp2(Unary, name="exp2"):
    """y = 2**x, exact for whole x."""

    is_approximated = True
    why = "exact at whole numbers, which exp(x ln 2) is not"
    precision = WIDE

    ref = staticmethod(np.exp2)

    @staticmethod
    def derivative(b: Builder, op: "Exp2") -> Value:
        """Return y ln 2."""
        return b.scale(op.y, np.log(2))

    lower = by_kind(f=approx.exp2)


class Expm1(Unary, name="expm1"):
    """y = e**x - 1, exact near 0."""

    on_vectors = True
    is_approximated = True
    why = "exact near 0, where exp(x) - 1 has no digits left"
    precision = WIDE

    ref = staticmethod(np.expm1)

    @staticmethod
    def derivative(b: Builder, op: "Expm1") -> Value:
        """Return y + 1."""
        return b.offset(op.y, 1.0)

    lower = by_kind(f=approx.expm1)


class Log(Unary, name="log"):
    """y = ln x; NaN for x < 0."""

    on_vectors = True
    is_approximated = True
    why = "elementary function"
    precision = WIDE

    ref = staticmethod(np.log)

    @staticmethod
    def derivative(b: Builder, op: "Log") -> Value:
        """Return 1 / x."""
        return b.divide(b.full_like(op.x, 1.0), op.x)

    lower = by_kind(f=math.log)
    samples = [
        OpSample((f32(2, 3),), low=0.1),
        OpSample((f32("n", 4),), low=0.1),
        OpSample((np.array([0, 1, np.inf, -1], "f"),), smooth=False),
    ]


class Log1p(Unary, name="log1p"):
    """y = ln(1 + x), exact near 0."""

    on_vectors = True
    is_approximated = True
    why = "exact near 0, where log(1 + x) has no digits left"
    precision = WIDE

    ref = staticmethod(np.log1p)

    @staticmethod
    def derivative(b: Builder, op: "Log1p") -> Value:
        """Return 1 / (1 + x)."""
        return b.divide(b.full_like(op.x, 1.0), b.offset(op.x, 1.0))

    lower = by_kind(f=approx.log1p)
    samples = [
        OpSample((f32(2, 3),), low=-0.9),
        OpSample((f32("n", 4),), low=-0.9),
        OpSample((np.array([0, 1e-8, np.inf, -1], "f"),), smooth=False),
    ]


class Logistic(Unary, name="logistic"):
    """y = 1 / (1 + e**-x)."""

    on_vectors = True
    is_approximated = True
    why = "no overflow, and a derivative from its own value"

    @staticmethod
    def ref(x: np.ndarray) -> Any:
        """Return the formula in NumPy from e**-|x|, which cannot overflow."""
        z = np.exp(-np.abs(x))
        return np.where(x >= 0, 1 / (1 + z), z / (1 + z))

    @staticmethod
    def derivative(b: Builder, op: "Logistic") -> Value:
        """Return y (1 - y)."""
        return b.multiply(op.y, b.subtract(b.full_like(op.y, 1.0), op.y))

    lower = by_kind(f=approx.logistic)


class Sqrt(Unary, name="sqrt"):
    """y = sqrt x; NaN for x < 0."""

    on_vectors = True
    why = "elementary function; correctly rounded"

    ref = staticmethod(np.sqrt)

    @staticmethod
    def derivative(b: Builder, op: "Sqrt") -> Value:
        """Return 1 / (2 y)."""
        return b.divide(b.full_like(op.y, 0.5), op.y)

    lower = by_kind(f=math.sqrt)
    samples = [
        OpSample((f32(2, 3),), low=0.1),
        OpSample((f32("n", 4),), low=0.1),
        OpSample((np.array([0, np.inf, -1], "f"),), smooth=False),
    ]


class Cbrt(Unary, name="cbrt"):
    """y = the cube root of x."""

    is_approximated = True
    why = "defined for negative x, where a power is not; its derivative uses its value"
    precision = WIDE

    ref = staticmethod(np.cbrt)

    @staticmethod
    def derivative(b: Builder, op: "Cbrt") -> Value:
        """Return 1 / (3 y**2)."""
        return b.divide(b.full_like(op.y, 1 / 3), b.multiply(op.y, op.y))

    lower = by_kind(f=approx.cbrt)
    samples = [
        OpSample((f32(2, 3),), low=0.1),
        OpSample((f32("n", 4),), low=-2, high=-0.1),
        OpSample((np.array([0, 27, -1e-30, 1e30], "f"),), smooth=False),
    ]


class Rsqrt(Unary, name="rsqrt"):
    """y = 1 / sqrt x."""

    on_vectors = True
    is_approximated = True
    why = "one instruction on GPUs; the derivative needs no division by a root"
    precision = WIDE

    @staticmethod
    def ref(x: np.ndarray) -> Any:
        """Return 1 / sqrt(x) in NumPy."""
        return 1 / np.sqrt(x)

    @staticmethod
    def derivative(b: Builder, op: "Rsqrt") -> Value:
        """Return -y / (2 x)."""
        return b.divide(b.scale(op.y, -0.5), op.x)

    lower = by_kind(f=math.rsqrt)
    samples = [OpSample((f32(2, 3),), low=0.1), OpSample((f32("n", 4),), low=0.1)]


class StopGradient(Unary, name="stop_gradient"):
    """y = x, but a constant to differentiation."""

    why = "cuts differentiation; nothing else says so"

    is_constant = True
    dtypes = dt.NAMES
    ref = staticmethod(np.array)
    derivative = staticmethod(constant_zero)

    @staticmethod
    def lower(low: Lowering, op: "StopGradient", x: Value) -> Value:
        """Return the operand, as there is nothing to compute."""
        return x

    samples = [OpSample((f32(2, 3),), smooth=False), OpSample((i32("n"),))]
