"""Activations that are ops of their own, for the sake of their derivatives."""

from typing import Any, Self

import numpy as np

from aotc.core import dtypes as dt
from aotc.dialects.attributes import Str
from aotc.dialects.builder import Builder
from aotc.dialects.graph import GraphOp, Operand, Pure, Result
from aotc.dialects.lowering import Lowering, by_kind, error_functions, scalars
from aotc.dialects.lowering import approximations as approx
from aotc.dialects.lowering.conversion import accumulator
from aotc.dialects.ops.binary import Add, Multiply
from aotc.dialects.ops.contraction import cast
from aotc.dialects.ops.selection import Cast
from aotc.dialects.ops.special import Erf
from aotc.dialects.ops.trigonometric import Tanh
from aotc.dialects.ops.unary import Unary
from aotc.dialects.patterns.rows import RewriteRow
from aotc.dialects.patterns.terms import X, this
from aotc.dialects.rules.batching import leading
from aotc.dialects.rules.checks import require_dtype
from aotc.dialects.rules.padding import HARMLESS
from aotc.dialects.rules.reordering import in_any_order
from aotc.dialects.rules.samples import OpSample, f32, i32
from aotc.dialects.types import Tensor
from aotc.errors import InputError
from aotc.mlir import Value, arith


class Relu(Unary, name="relu"):
    """y = max(x, 0); the derivative at 0 is 0."""

    selects = True
    on_vectors = True
    why = "a derivative that needs only the sign of its value"

    dtypes = dt.SIGNED + dt.FLOATS

    @staticmethod
    def ref(x: np.ndarray) -> Any:
        """Return max(x, 0) in NumPy; NaN stays NaN."""
        return np.maximum(x, np.zeros((), x.dtype))

    @staticmethod
    def _mask(b: Builder, op: "Relu") -> Value:
        """Emit the mask where y > 0."""
        return b.compare(op.y, b.full_like(op.y, 0.0), direction="gt")

    @classmethod
    def jvp(cls, b: Builder, op: Self, dx: Value) -> Value:
        """Return dx where y > 0, zero elsewhere."""
        return b.where_true(cls._mask(b, op), dx)

    @classmethod
    def vjp(cls, b: Builder, op: Self, dy: Value) -> list[Value]:
        """Return dy where y > 0, zero elsewhere."""
        return [b.where_true(cls._mask(b, op), dy)]

    lower = by_kind(
        f=lambda x: arith.maximumf(x, scalars.constant(x.type, 0.0)),
        i=lambda x: arith.maxsi(x, scalars.constant(x.type, 0)),
    )
    samples = [*Unary.samples, OpSample((i32(4),))]


class Gelu(GraphOp, name="gelu", traits=[Pure]):
    """y = x * Phi(x), the Gaussian error linear unit (Hendrycks and Gimpel, 2016).

    `form` is "exact" (Phi by erf) or "tanh" (the paper's approximation).
    """

    on_scalars = True
    on_vectors = True
    is_approximated = True
    why = "a derivative that shares Phi(x) with it; one fused body"

    x: Operand[Any]
    form: Str
    y: Result[Any]

    @staticmethod
    def cancelling(x: np.ndarray) -> Any:
        """Return x where both terms of Phi cancel, and 0 where erf is 1."""
        return np.where(np.abs(x) < 9, x, x.dtype.type(0))

    @classmethod
    def infer(cls, x: Tensor, *, form: str) -> Tensor:
        """Return the result type, that of the operand."""
        require_dtype(x, cls.dtypes)
        if form not in ("exact", "tanh"):
            raise InputError(
                "bad-attribute", f"expected form 'exact' or 'tanh'; got {form!r}"
            )
        return x

    @staticmethod
    def ref(x: np.ndarray, *, form: str) -> Any:
        """Return x * Phi(x) in NumPy."""
        if form == "tanh":
            inner = np.sqrt(2 / np.pi) * (x + 0.044715 * (x * x * x))
            return 0.5 * x * (1 + np.tanh(inner))
        return 0.5 * x * (1 + error_functions.erf_numpy(x / np.sqrt(2)))

    @staticmethod
    def expansion(b: Builder, x: Value, form: str) -> tuple[Value, Value]:
        """Emit Phi(x) and its derivative as graph ops, and return both."""
        if form == "exact":
            phi = b.offset(b.scale(b.erf(b.scale(x, np.sqrt(0.5))), 0.5), 0.5)
            half_square = b.scale(b.multiply(x, x), -0.5)
            return phi, b.scale(b.exp(half_square), 1 / np.sqrt(2 * np.pi))
        c = np.sqrt(2 / np.pi)
        square = b.multiply(x, x)
        inner = b.scale(b.multiply(x, b.offset(b.scale(square, 0.044715), 1.0)), c)
        t = b.tanh(inner)
        slope = b.scale(b.offset(b.scale(square, 3 * 0.044715), 1.0), 0.5 * c)
        one_less = b.subtract(b.full_like(t, 1.0), b.multiply(t, t))
        return b.offset(b.scale(t, 0.5), 0.5), b.multiply(one_less, slope)

    @classmethod
    def jvp(cls, b: Builder, op: Self, dx: Value) -> Value:
        """Return (Phi(x) + x Phi'(x)) dx; the sum is made in f32 at least."""
        kind = Tensor.of(op.x).dtype
        x = cast(b, op.x, accumulator(kind))
        phi, density = cls.expansion(b, x, op.form)
        slope = cast(b, b.add(phi, b.multiply(x, density)), kind)
        return b.multiply(slope, dx)

    @classmethod
    def vjp(cls, b: Builder, op: Self, dy: Value) -> list[Value]:
        """Return (Phi(x) + x Phi'(x)) dy."""
        return [cls.jvp(b, op, dy)]

    batch = leading()
    reorder = in_any_order()

    pad = HARMLESS

    simplify = (
        RewriteRow(
            "x Phi(x), if its derivative computes Phi(x), too",
            this(X),
            lambda b, m: _by_phi(b, m.x, m.op.form),
            given=(f32(3),),
            example=lambda b, x: _beside_its_derivative(b, x, x),
            near_miss=lambda b, x: _beside_its_derivative(b, x, b.add(x, x)),
            where=lambda m: _is_phi_read(m.x, m.op.form),
        ),
    )

    @staticmethod
    def lower(low: Lowering, op: "Gelu", x: Value) -> Value:
        """Emit one elementwise linalg.generic."""
        body = approx.gelu_tanh if op.form == "tanh" else error_functions.gelu_exact
        return low.pointwise([x], Tensor.of(op.y), body)

    samples = [
        OpSample((f32(2, 3),), {"form": "exact"}),
        OpSample((f32("n", 4),), {"form": "tanh"}),
    ]


_STEPS_TO_PHI = {"exact": 2, "tanh": 6}  # from x to erf or tanh, each of them a product


def _by_phi(b: Builder, x: Value, form: str) -> Value:
    """Emit gelu of x as x Phi(x), both in f32 for narrow floats."""
    kind = Tensor.of(x).dtype
    wide = cast(b, x, accumulator(kind))
    phi, _ = Gelu.expansion(b, wide, form)
    return cast(b, b.multiply(wide, phi), kind)


def _is_phi_read(x: Value, form: str) -> bool:
    """Return whether an op near gelu computes the Phi of its operand already.

    Narrow floats have too few digits for 1 + erf(x), which is of them as f32.
    """
    wide = accumulator(Tensor.of(x).dtype)
    if wide != Tensor.of(x).dtype:
        casts = [use.owner.opview for use in x.uses]
        return any(
            isinstance(made, Cast) and made.dtype == wide and _is_phi_read(made.y, form)
            for made in casts
        )
    root, reached = {"exact": Erf, "tanh": Tanh}[form], {x}
    for _ in range(_STEPS_TO_PHI[form]):
        users = [use.owner.opview for value in reached for use in value.uses]
        if any(isinstance(user, root) and [*user.y.uses] for user in users):
            return True
        reached = {op.results[0] for op in users if isinstance(op, (Multiply, Add))}
    return False


def _beside_its_derivative(b: Builder, x: Value, other: Value) -> Value:
    """Emit gelu of x, and the Phi of another value, for an example."""
    Gelu.expansion(b, other, "exact")
    return b.gelu(x, form="exact")
