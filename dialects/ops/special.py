"""Special functions: the error function and its kin, the gamma function's logarithm."""

from typing import Any, Self

import numpy as np

from aotc.dialects.attributes import Int
from aotc.dialects.builder import Builder
from aotc.dialects.graph import WIDE, GraphOp, Operand, Pure, Result
from aotc.dialects.lowering import Lowering, by_kind
from aotc.dialects.lowering import error_functions as functions
from aotc.dialects.lowering import gamma_functions as gamma
from aotc.dialects.ops.unary import Unary
from aotc.dialects.rules.batching import leading
from aotc.dialects.rules.checks import require_dtype
from aotc.dialects.rules.padding import HARMLESS
from aotc.dialects.rules.reordering import in_any_order
from aotc.dialects.rules.samples import OpSample, f32
from aotc.dialects.types import Tensor
from aotc.errors import InputError
from aotc.mlir import Value


class Erf(Unary, name="erf"):
    """y = erf x, the Gauss error function."""

    on_vectors = True
    is_approximated = True
    why = "no elementary form; its derivative is elementary"
    precision = WIDE

    ref = staticmethod(functions.erf_numpy)

    @staticmethod
    def derivative(b: Builder, op: "Erf") -> Value:
        """Return 2 / sqrt(pi) * e**(-x**2)."""
        return _bell(b, op.x, 2 / np.sqrt(np.pi))

    lower = by_kind(f=functions.erf)


class Erfc(Unary, name="erfc"):
    """y = 1 - erf x, exact for large x."""

    is_approximated = True
    why = "keeps its digits where 1 - erf(x) has none"
    precision = WIDE

    ref = staticmethod(functions.erfc_numpy)

    @staticmethod
    def derivative(b: Builder, op: "Erfc") -> Value:
        """Return -2 / sqrt(pi) * e**(-x**2)."""
        return _bell(b, op.x, -2 / np.sqrt(np.pi))

    lower = by_kind(f=functions.erfc)
    samples = [*Unary.samples, OpSample((f32(20),), low=-7, high=14)]


def _bell(b: Builder, x: Value, factor: float) -> Value:
    """Emit `factor * e**(-x**2)`."""
    return b.scale(b.exp(b.negate(b.multiply(x, x))), factor)


class Erfinv(Unary, name="erfinv"):
    """y = the inverse of erf on [-1, 1]; NaN outside."""

    is_approximated = True
    why = "an inverse; its derivative uses its own value"
    precision = WIDE

    ref = staticmethod(functions.erfinv_numpy)

    @staticmethod
    def derivative(b: Builder, op: "Erfinv") -> Value:
        """Return sqrt(pi) / 2 * e**(y**2)."""
        return b.scale(b.exp(b.multiply(op.y, op.y)), np.sqrt(np.pi) / 2)

    lower = by_kind(f=functions.erfinv)
    samples = [
        OpSample((f32(2, 3),), low=-0.9, high=0.9),
        OpSample((f32("n", 4),), low=-0.9, high=0.9),
        OpSample((1 - np.geomspace(1e-7, 1, 20).astype("f"),), smooth=False),
    ]


class Lgamma(Unary, name="lgamma"):
    """y = ln |gamma(x)|; infinite at 0, -1, -2, …"""

    is_approximated = True
    why = "no elementary form; reflection belongs inside"
    precision = WIDE

    ref = staticmethod(gamma.lgamma_numpy)

    @staticmethod
    def derivative(b: Builder, op: "Lgamma") -> Value:
        """Return digamma of x."""
        return b.polygamma(op.x, order=0)

    lower = by_kind(f=gamma.lgamma)
    samples = [
        OpSample((f32(2, 3),), low=0.1, high=12),
        OpSample((f32("n", 4),), low=0.1, high=12),
        OpSample((np.array([-2.6, -1.3, -0.2], "f"),)),
        OpSample((np.array([1e-8, 1.0, 2.0, 2.999, 3.001, 1e6], "f"),), smooth=False),
        OpSample((np.array([3e38, np.inf], "f"),), smooth=False),
    ]


class Polygamma(GraphOp, name="polygamma", traits=[Pure]):
    """y = derivative number `order` of digamma, the derivative of ln gamma.

    At 0, -1, -2, … it is NaN for even orders and infinite for odd ones.
    """

    on_scalars = True
    is_approximated = True
    why = "the derivatives of lgamma, of every order"
    precision = WIDE

    x: Operand[Any]
    order: Int
    y: Result[Any]

    @classmethod
    def infer(cls, x: Tensor, *, order: int) -> Tensor:
        """Return the result type, that of the operand."""
        require_dtype(x, cls.dtypes)
        if order < 0:
            raise InputError("bad-attribute", f"expected an order from 0; got {order}")
        return x

    @staticmethod
    def ref(x: np.ndarray, *, order: int) -> np.ndarray:
        """Return polygamma in NumPy, by the asymptotic series for shifted arguments."""
        return gamma.polygamma_numpy(x, order)

    @staticmethod
    def jvp(b: Builder, op: "Polygamma", dx: Value) -> Value:
        """Return polygamma of the next order times dx."""
        return b.multiply(b.polygamma(op.x, order=op.order + 1), dx)

    @classmethod
    def vjp(cls, b: Builder, op: Self, dy: Value) -> list[Value]:
        """Return polygamma of the next order times dy."""
        return [cls.jvp(b, op, dy)]

    batch = leading()
    reorder = in_any_order()

    pad = HARMLESS

    @staticmethod
    def lower(low: Lowering, op: "Polygamma", x: Value) -> Value:
        """Emit one elementwise linalg.generic."""
        return low.pointwise([x], Tensor.of(op.y), gamma.polygamma(op.order))

    samples = [
        OpSample((f32(2, 3),), {"order": 0}, low=0.5, high=12),
        OpSample((f32("n", 4),), {"order": 1}, low=0.5, high=12),
        OpSample((np.array([-2.6, -1.3, -0.3], "f"),), {"order": 0}),
        OpSample((np.array([-2.6, -1.3, -0.3], "f"),), {"order": 1}),
        OpSample((np.array([0.7, 3.0, 9.0, 40.0], "f"),), {"order": 3}),
    ]
