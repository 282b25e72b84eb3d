"""Ops that are piecewise constant or linear: rounding and remainders of division."""

import numpy as np

from aotc.core import dtypes as dt
from aotc.dialects.builder import Builder
from aotc.dialects.lowering import by_kind, scalars
from aotc.dialects.ops.binary import Binary, Partials
from aotc.dialects.ops.unary import Unary, constant_zero
from aotc.dialects.rules.samples import OpSample, f32
from aotc.mlir import Value, math


class Floor(Unary, name="floor"):
    """y = the largest whole number not above x."""

    why = "one instruction; ceil and trunc are made of it"
    on_vectors = True

    ref = staticmethod(np.floor)
    derivative = staticmethod(constant_zero)
    lower = by_kind(f=math.floor)


class RoundEven(Unary, name="round_even"):
    """y = the nearest whole number; of two, the even one."""

    why = "ties to even, which floor(x + 0.5) is not"
    on_vectors = True

    ref = staticmethod(np.rint)
    derivative = staticmethod(constant_zero)
    lower = by_kind(f=math.roundeven)


class Remainder(Binary, name="remainder"):
    """y = lhs - rhs * trunc(lhs / rhs), exact, with the sign of lhs: C's fmod."""

    why = "exact, which x - y * floor(x / y) is not"

    dtypes = dt.FLOATS
    ref = staticmethod(np.fmod)

    @staticmethod
    def partials(b: Builder, op: "Remainder") -> Partials:
        """Return functions that multiply by the partials 1 and -trunc(lhs / rhs)."""

        def right(d: Value) -> Value:
            whole = b.divide(b.subtract(op.lhs, op.y), op.rhs)
            return b.negate(b.multiply(d, whole))

        return (lambda d: d), right

    lower = by_kind(f=scalars.remainder)
    samples = [
        OpSample((np.array([5.3, -7.1, 0.2], "f"), np.array([2, 1.3, -0.7], "f"))),
        OpSample((f32("n", 4), f32("n", 4)), smooth=False),
        OpSample(
            (np.array([1, 1e30, 3e-39], "f"), np.array([0.1, 3e-7, 1e-39], "f")),
            smooth=False,
        ),
    ]
