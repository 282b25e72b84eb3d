"""Trigonometric and hyperbolic ops; the other functions are compositions of these."""

import numpy as np

from aotc.core import dtypes as dt
from aotc.dialects.builder import Builder
from aotc.dialects.graph import WIDE
from aotc.dialects.lowering import approximations as approx
from aotc.dialects.lowering import by_kind
from aotc.dialects.ops.binary import Binary, Partials
from aotc.dialects.ops.unary import Unary
from aotc.dialects.rules.samples import OpSample, f32
from aotc.mlir import Value


class Sin(Unary, name="sin"):
    """y = sin x (x in radians)."""

    is_approximated = True
    why = "elementary function; argument reduction belongs inside"
    precision = WIDE

    ref = staticmethod(np.sin)

    @staticmethod
    def derivative(b: Builder, op: "Sin") -> Value:
        """Return cos x."""
        return b.cos(op.x)

    lower = by_kind(f=approx.sin)


class Cos(Unary, name="cos"):
    """y = cos x (x in radians)."""

    is_approximated = True
    why = "elementary function; argument reduction belongs inside"
    precision = WIDE

    ref = staticmethod(np.cos)

    @staticmethod
    def derivative(b: Builder, op: "Cos") -> Value:
        """Return -sin x."""
        return b.negate(b.sin(op.x))

    lower = by_kind(f=approx.cos)


class Tanh(Unary, name="tanh"):
    """y = tanh x."""

    on_vectors = True
    is_approximated = True
    why = "no overflow, and a derivative from its own value"

    ref = staticmethod(np.tanh)

    @staticmethod
    def derivative(b: Builder, op: "Tanh") -> Value:
        """Return 1 - y**2."""
        return b.subtract(b.full_like(op.y, 1.0), b.multiply(op.y, op.y))

    lower = by_kind(f=approx.tanh)


class Asinh(Unary, name="asinh"):
    """y = arsinh x = ln(x + sqrt(x**2 + 1))."""

    is_approximated = True
    why = "no cancellation for negative or large x; a rational derivative"
    precision = WIDE

    ref = staticmethod(np.arcsinh)

    @staticmethod
    def derivative(b: Builder, op: "Asinh") -> Value:
        """Return 1 / sqrt(x**2 + 1)."""
        return b.rsqrt(b.offset(b.multiply(op.x, op.x), 1.0))

    lower = by_kind(f=approx.asinh)


class Atan2(Binary, name="atan2"):
    """y = the angle of the point (rhs, lhs): arctan(lhs / rhs) where rhs > 0.

    The derivative at the origin is taken as 0.
    """

    is_approximated = True
    why = (
        "the quadrant needs both operands; a rational derivative for all inverse "
        "functions"
    )
    precision = WIDE

    dtypes = dt.FLOATS
    ref = staticmethod(np.arctan2)

    @staticmethod
    def partials(b: Builder, op: "Atan2") -> Partials:
        """Return functions that multiply by rhs / r**2 and by -lhs / r**2."""
        r = b.hypot(op.lhs, op.rhs)
        at_origin = b.compare(r, b.full_like(r, 0.0), direction="eq")
        safe = b.select(at_origin, b.full_like(r, 1.0), r)

        def part(d: Value, side: Value) -> Value:
            return b.multiply(d, b.divide(b.divide(side, safe), safe))

        return (lambda d: part(d, op.rhs)), (lambda d: b.negate(part(d, op.lhs)))

    lower = by_kind(f=approx.atan2)
    samples = [
        OpSample((f32(2, 3), f32(2, 3))),
        OpSample((f32("n", 4), f32("n", 4))),
        OpSample((np.zeros(2, "f"), np.array([1, -1], "f")), smooth=False),
    ]
