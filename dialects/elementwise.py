"""Elementwise ops: operands and result have equal shapes; broadcasting is explicit."""

from collections.abc import Callable
from typing import Any

import numpy as np

from aotc import dtypes as dt
from aotc.dialects import approximations as approx
from aotc.dialects.graph import (
    NOT_DIFFERENTIABLE,
    GraphOp,
    Operand,
    Pure,
    Result,
    Sample,
    Str,
)
from aotc.dialects.types import Tensor, format_shape
from aotc.errors import InputError
from aotc.mlir import arith, math

FLOATS, INTEGERS, NUMBERS = dt.FLOATS, dt.INTEGERS, dt.NUMBERS
SIGNED_NUMBERS = dt.SIGNED + dt.FLOATS
BITS = ("bool", *dt.INTEGERS)
ALL = ("bool", *dt.NUMBERS)


def f32(*shape: Any) -> Tensor:
    """Short for a sample operand of type f32."""
    return Tensor(shape, "f32")


def i32(*shape: Any) -> Tensor:
    """Short for a sample operand of type i32."""
    return Tensor(shape, "i32")


def require_dtype(tensor: Tensor, allowed: Any) -> None:
    """Refuse an operand whose dtype the op is not defined for."""
    if tensor.dtype not in allowed:
        raise InputError(
            "dtype-mismatch",
            f"expected an operand of dtype {', '.join(allowed)}; got {tensor}",
        )


def require_equal(*tensors: Tensor) -> None:
    """Refuse operands that differ in shape or dtype."""
    first = tensors[0]
    for other in tensors[1:]:
        if other.dtype != first.dtype:
            raise InputError(
                "dtype-mismatch",
                f"expected operands of one dtype; got {first} and {other}",
                hint="convert one of them with .astype(...)",
            )
        if other.shape != first.shape:
            raise InputError(
                "shape-mismatch",
                f"expected operands of one shape; got {format_shape(first.shape)} "
                f"and {format_shape(other.shape)}",
            )


def by_kind(**ops: Any) -> Callable[..., Any]:
    """A `lower` rule: one scalar operation per kind of dtype.

    Args:
        ops: `f` float, `i` signed, `u` unsigned, `b` bool, `f64` where f64 differs; each
            maps operand elements to the result element.
    """

    def lower(low: Any, op: Any, *operands: Any) -> Any:
        dtype = Tensor.of(op.operands[0]).dtype
        kind = "b" if dtype == "bool" else {"u": "u", "i": "i"}.get(dtype[0], "f")
        body = ops.get(dtype) or ops[kind]
        return low.pointwise(
            operands,
            Tensor.of(op.results[0]),
            lambda *elements: _value(body(*elements)),
        )

    return staticmethod(lower)


def _value(built: Any) -> Any:
    return built.result if hasattr(built, "result") else built


class Unary(GraphOp, traits=[Pure]):
    """One operand; the result has its type. Subclasses give `derivative`: dy/dx."""

    x: Operand[Any]
    y: Result[Any]

    @classmethod
    def infer(cls, x: Tensor) -> Tensor:
        """The type of the operand."""
        require_dtype(x, cls.dtypes)
        return x

    @classmethod
    def jvp(cls, b: Any, op: Any, dx: Any) -> Any:
        """dy = f'(x) dx."""
        return _scaled(b, dx, cls.derivative(b, op))

    @classmethod
    def vjp(cls, b: Any, op: Any, dy: Any) -> list[Any]:
        """dx = f'(x) dy."""
        return [_scaled(b, dy, cls.derivative(b, op))]

    samples = [Sample((f32(2, 3),)), Sample((f32("n", 4),)), Sample((f32(0),))]


def _scaled(b: Any, x: Any, derivative: Any) -> Any:
    """`derivative * x`, where None means a derivative of zero."""
    return None if derivative is None else b.multiply(derivative, x)


def constant_zero(b: Any, op: Any) -> None:
    """The derivative of a function that is constant almost everywhere."""
    return


class Negate(Unary, name="negate"):
    """y = -x."""

    dtypes = SIGNED_NUMBERS
    ref = staticmethod(np.negative)

    @staticmethod
    def derivative(b: Any, op: Any) -> Any:
        """-1."""
        return b.full_like(op.x, -1.0)

    lower = by_kind(
        f=arith.NegFOp, i=lambda x: arith.SubIOp(approx.constant(x.type, 0), x)
    )

    @staticmethod
    def simplify(b: Any, op: Any) -> Any:
        """-(-x) = x."""
        inner = op.x.owner
        return inner.operands[0] if getattr(inner, "name", "") == "graph.negate" else None


class Abs(Unary, name="abs"):
    """y = |x|; the derivative at 0 is taken as 0."""

    dtypes = SIGNED_NUMBERS
    ref = staticmethod(np.abs)

    @staticmethod
    def derivative(b: Any, op: Any) -> Any:
        """sign(x)."""
        return b.sign(op.x)

    lower = by_kind(f=math.AbsFOp, i=math.AbsIOp)
    samples = [*Unary.samples, Sample((np.array([-0.0, np.inf, -np.inf], "f"),))]


class Sign(Unary, name="sign"):
    """y = -1, 0 or 1 by the sign of x; NaN stays NaN."""

    dtypes = SIGNED_NUMBERS
    ref = staticmethod(np.sign)
    derivative = staticmethod(constant_zero)
    lower = by_kind(f=approx.sign_float, i=approx.sign_int)
    samples = [*Unary.samples, Sample((i32(5),)), Sample((np.zeros(2, "f"),), smooth=False)]


class Exp(Unary, name="exp"):
    """y = e**x."""

    ref = staticmethod(np.exp)

    @staticmethod
    def derivative(b: Any, op: Any) -> Any:
        """y."""
        return op.y

    lower = by_kind(f=math.ExpOp)


class Expm1(Unary, name="expm1"):
    """y = e**x - 1, exact near 0."""

    ref = staticmethod(np.expm1)

    @staticmethod
    def derivative(b: Any, op: Any) -> Any:
        """y + 1."""
        return b.offset(op.y, 1.0)

    lower = by_kind(f=math.ExpM1Op)


class Log(Unary, name="log"):
    """y = ln x; NaN for x < 0."""

    ref = staticmethod(np.log)

    @staticmethod
    def derivative(b: Any, op: Any) -> Any:
        """1 / x."""
        return b.divide(b.full_like(op.x, 1.0), op.x)

    lower = by_kind(f=math.LogOp)
    samples = [
        Sample((f32(2, 3),), low=0.1),
        Sample((f32("n", 4),), low=0.1),
        Sample((np.array([0, 1, np.inf, -1], "f"),), smooth=False),
    ]


class Log1p(Unary, name="log1p"):
    """y = ln(1 + x), exact near 0."""

    ref = staticmethod(np.log1p)

    @staticmethod
    def derivative(b: Any, op: Any) -> Any:
        """1 / (1 + x)."""
        return b.divide(b.full_like(op.x, 1.0), b.offset(op.x, 1.0))

    lower = by_kind(f=math.Log1pOp)
    samples = [
        Sample((f32(2, 3),), low=-0.9),
        Sample((f32("n", 4),), low=-0.9),
        Sample((np.array([0, 1e-8, np.inf, -1], "f"),), smooth=False),
    ]


class Tanh(Unary, name="tanh"):
    """y = tanh x."""

    ref = staticmethod(np.tanh)

    @staticmethod
    def derivative(b: Any, op: Any) -> Any:
        """1 - y**2."""
        return b.subtract(b.full_like(op.y, 1.0), b.multiply(op.y, op.y))

    lower = by_kind(f=math.TanhOp, f64=approx.tanh)


class Logistic(Unary, name="logistic"):
    """y = 1 / (1 + e**-x)."""

    @staticmethod
    def ref(x: Any) -> Any:
        """Computed from e**-|x|, which cannot overflow."""
        z = np.exp(-np.abs(x))
        return np.where(x >= 0, 1 / (1 + z), z / (1 + z))

    @staticmethod
    def derivative(b: Any, op: Any) -> Any:
        """y (1 - y)."""
        return b.multiply(op.y, b.subtract(b.full_like(op.y, 1.0), op.y))

    lower = by_kind(f=approx.logistic)


class Erf(Unary, name="erf"):
    """y = erf x, the Gauss error function."""

    ref = staticmethod(approx.erf_numpy)

    @staticmethod
    def derivative(b: Any, op: Any) -> Any:
        """2 / sqrt(pi) * e**(-x**2)."""
        return b.scale(b.exp(b.negate(b.multiply(op.x, op.x))), 2 / np.sqrt(np.pi))

    lower = by_kind(f=math.ErfOp, f64=approx.erf)


class Sqrt(Unary, name="sqrt"):
    """y = sqrt x; NaN for x < 0."""

    ref = staticmethod(np.sqrt)

    @staticmethod
    def derivative(b: Any, op: Any) -> Any:
        """1 / (2 y)."""
        return b.divide(b.full_like(op.y, 0.5), op.y)

    lower = by_kind(f=math.SqrtOp)
    samples = [
        Sample((f32(2, 3),), low=0.1),
        Sample((f32("n", 4),), low=0.1),
        Sample((np.array([0, np.inf, -1], "f"),), smooth=False),
    ]


class Rsqrt(Unary, name="rsqrt"):
    """y = 1 / sqrt x."""

    @staticmethod
    def ref(x: Any) -> Any:
        """1 / sqrt(x)."""
        return 1 / np.sqrt(x)

    @staticmethod
    def derivative(b: Any, op: Any) -> Any:
        """-y / (2 x)."""
        return b.divide(b.scale(op.y, -0.5), op.x)

    lower = by_kind(f=math.RsqrtOp)
    samples = [Sample((f32(2, 3),), low=0.1), Sample((f32("n", 4),), low=0.1)]


class Sin(Unary, name="sin"):
    """y = sin x (x in radians)."""

    ref = staticmethod(np.sin)

    @staticmethod
    def derivative(b: Any, op: Any) -> Any:
        """cos x."""
        return b.cos(op.x)

    lower = by_kind(f=math.SinOp, f64=approx.sin)


class Cos(Unary, name="cos"):
    """y = cos x (x in radians)."""

    ref = staticmethod(np.cos)

    @staticmethod
    def derivative(b: Any, op: Any) -> Any:
        """-sin x."""
        return b.negate(b.sin(op.x))

    lower = by_kind(f=math.CosOp, f64=approx.cos)


class Floor(Unary, name="floor"):
    """y = the largest whole number not above x."""

    ref = staticmethod(np.floor)
    derivative = staticmethod(constant_zero)
    lower = by_kind(f=math.FloorOp)


class Relu(Unary, name="relu"):
    """y = max(x, 0); the derivative at 0 is 0."""

    dtypes = SIGNED_NUMBERS

    @staticmethod
    def ref(x: Any) -> Any:
        """max(x, 0); NaN stays NaN."""
        return np.maximum(x, np.zeros((), x.dtype))

    @staticmethod
    def _mask(b: Any, op: Any) -> Any:
        return b.compare(op.y, b.full_like(op.y, 0.0), direction="gt")

    @classmethod
    def jvp(cls, b: Any, op: Any, dx: Any) -> Any:
        """dx where y > 0."""
        return b.where_true(cls._mask(b, op), dx)

    @classmethod
    def vjp(cls, b: Any, op: Any, dy: Any) -> list[Any]:
        """dy where y > 0."""
        return [b.where_true(cls._mask(b, op), dy)]

    lower = by_kind(
        f=lambda x: arith.MaximumFOp(x, approx.constant(x.type, 0.0)),
        i=lambda x: arith.MaxSIOp(x, approx.constant(x.type, 0)),
    )
    samples = [*Unary.samples, Sample((i32(4),))]


class Gelu(GraphOp, name="gelu", traits=[Pure]):
    """y = x * Phi(x), the Gaussian error linear unit (Hendrycks and Gimpel, 2016).

    `form` is "exact" (Phi by erf) or "tanh" (the paper's approximation).
    """

    x: Operand[Any]
    form: Str
    y: Result[Any]

    @classmethod
    def infer(cls, x: Tensor, *, form: str) -> Tensor:
        """The type of the operand."""
        require_dtype(x, cls.dtypes)
        if form not in ("exact", "tanh"):
            raise InputError(
                "bad-attribute", f"expected form 'exact' or 'tanh'; got {form!r}"
            )
        return x

    @staticmethod
    def ref(x: Any, *, form: str) -> Any:
        """x * Phi(x)."""
        if form == "tanh":
            inner = np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)
            return 0.5 * x * (1 + np.tanh(inner))
        return 0.5 * x * (1 + approx.erf_numpy(x / np.sqrt(2)))

    @staticmethod
    def expansion(b: Any, x: Any, form: str) -> tuple[Any, Any]:
        """Phi(x) and its derivative, as graph ops."""
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
    def jvp(cls, b: Any, op: Any, dx: Any) -> Any:
        """(Phi(x) + x Phi'(x)) dx."""
        phi, density = cls.expansion(b, op.x, op.form)
        return b.multiply(b.add(phi, b.multiply(op.x, density)), dx)

    @classmethod
    def vjp(cls, b: Any, op: Any, dy: Any) -> list[Any]:
        """(Phi(x) + x Phi'(x)) dy."""
        return [cls.jvp(b, op, dy)]

    @staticmethod
    def lower(low: Any, op: Any, x: Any) -> Any:
        """One fused generic."""
        body = approx.gelu_tanh if op.form == "tanh" else approx.gelu_exact
        return low.pointwise([x], Tensor.of(op.y), body)

    samples = [
        Sample((f32(2, 3),), {"form": "exact"}),
        Sample((f32("n", 4),), {"form": "tanh"}),
    ]


class StopGradient(Unary, name="stop_gradient"):
    """y = x, but a constant to differentiation."""

    dtypes = ALL
    ref = staticmethod(np.array)
    derivative = staticmethod(constant_zero)

    @staticmethod
    def lower(low: Any, op: Any, x: Any) -> Any:
        """Nothing to compute."""
        return x

    samples = [Sample((f32(2, 3),), smooth=False), Sample((i32("n"),))]


class BitwiseNot(Unary, name="bitwise_not"):
    """y = ~x; logical not on bool."""

    dtypes = BITS
    ref = staticmethod(np.invert)
    jvp = NOT_DIFFERENTIABLE("bit patterns have no derivative")
    vjp = NOT_DIFFERENTIABLE("bit patterns have no derivative")
    lower = by_kind(**{kind: approx.invert for kind in "iub"})
    samples = [Sample((i32(2, 3),)), Sample((Tensor((4,), "bool"),))]


# ---- two operands -------------------------------------------------------------------


class Binary(GraphOp, traits=[Pure]):
    """Two operands of one type, which is also the result's."""

    lhs: Operand[Any]
    rhs: Operand[Any]
    y: Result[Any]
    dtypes = NUMBERS

    @classmethod
    def infer(cls, lhs: Tensor, rhs: Tensor) -> Tensor:
        """The common type of the operands."""
        require_dtype(lhs, cls.dtypes)
        require_equal(lhs, rhs)
        return lhs

    @classmethod
    def jvp(cls, b: Any, op: Any, dl: Any, dr: Any) -> Any:
        """The sum of the partial derivatives times their tangents."""
        left, right = cls.partials(b, op)
        terms = [
            partial(tangent)
            for partial, tangent in ((left, dl), (right, dr))
            if tangent is not None
        ]
        return b.add(*terms) if len(terms) == 2 else terms[0]

    @classmethod
    def vjp(cls, b: Any, op: Any, dy: Any) -> list[Any]:
        """Each partial derivative times dy."""
        left, right = cls.partials(b, op)
        return [left(dy), right(dy)]

    samples = [
        Sample((f32(2, 3), f32(2, 3))),
        Sample((f32("n", 4), f32("n", 4))),
        Sample((i32(3), i32(3))),
    ]


_POSITIVE = [
    Sample((f32(2, 3), f32(2, 3)), low=0.3),
    Sample((f32("n", 4), f32("n", 4)), low=0.3),
]


class Add(Binary, name="add"):
    """y = lhs + rhs."""

    ref = staticmethod(np.add)

    @staticmethod
    def partials(b: Any, op: Any) -> Any:
        """1 and 1."""
        return (lambda d: d), (lambda d: d)

    lower = by_kind(f=arith.AddFOp, i=arith.AddIOp, u=arith.AddIOp)

    @staticmethod
    def simplify(b: Any, op: Any) -> Any:
        """x + 0 = x."""
        return _neutral(op, 0.0, both=True)


class Subtract(Binary, name="subtract"):
    """y = lhs - rhs."""

    ref = staticmethod(np.subtract)

    @staticmethod
    def partials(b: Any, op: Any) -> Any:
        """1 and -1."""
        return (lambda d: d), b.negate

    lower = by_kind(f=arith.SubFOp, i=arith.SubIOp, u=arith.SubIOp)

    @staticmethod
    def simplify(b: Any, op: Any) -> Any:
        """x - 0 = x."""
        return _neutral(op, 0.0, both=False)


class Multiply(Binary, name="multiply"):
    """y = lhs * rhs."""

    ref = staticmethod(np.multiply)

    @staticmethod
    def partials(b: Any, op: Any) -> Any:
        """Rhs and lhs."""
        return (lambda d: b.multiply(d, op.rhs)), (lambda d: b.multiply(d, op.lhs))

    lower = by_kind(f=arith.MulFOp, i=arith.MulIOp, u=arith.MulIOp)

    @staticmethod
    def simplify(b: Any, op: Any) -> Any:
        """x * 1 = x and x * -1 = -x."""
        for side, other in ((op.rhs, op.lhs), (op.lhs, op.rhs)):
            if splat_of(side) == -1.0 and dt.is_float(Tensor.of(other).dtype):
                return b.negate(other)
        return _neutral(op, 1.0, both=True)


class Divide(Binary, name="divide"):
    """y = lhs / rhs; integers round towards zero, and division by zero gives -1.

    (An all-ones pattern for unsigned ones: the value that StableHLO defines.)
    """

    @staticmethod
    def ref(lhs: Any, rhs: Any) -> Any:
        """lhs / rhs, by kind."""
        if lhs.dtype.kind not in "iu":
            return np.divide(lhs, rhs)
        safe = np.where(rhs == 0, np.ones((), rhs.dtype), rhs)
        quotient = lhs // safe
        if lhs.dtype.kind == "i":
            quotient = quotient + ((quotient < 0) & (quotient * safe != lhs))
        return np.where(rhs == 0, np.array(-1).astype(lhs.dtype), quotient)

    @staticmethod
    def partials(b: Any, op: Any) -> Any:
        """1 / rhs and -y / rhs."""
        return (
            lambda d: b.divide(d, op.rhs),
            lambda d: b.negate(b.divide(b.multiply(d, op.y), op.rhs)),
        )

    lower = by_kind(f=arith.DivFOp, i=approx.divide_signed, u=approx.divide_unsigned)

    @staticmethod
    def simplify(b: Any, op: Any) -> Any:
        """x / 1 = x."""
        return _neutral(op, 1.0, both=False)

    samples = [
        *_POSITIVE,
        Sample((i32(3), i32(3))),
        Sample((np.array([7, -7, 7, 0], "i4"), np.array([2, 2, -2, 0], "i4"))),
    ]


class Power(Binary, name="power"):
    """y = lhs ** rhs, as C's pow; NaN for a negative base with a fractional exponent."""

    dtypes = FLOATS
    ref = staticmethod(np.power)

    @staticmethod
    def partials(b: Any, op: Any) -> Any:
        """rhs * lhs**(rhs-1), and y * ln(lhs) (0 where lhs is 0)."""

        def left(d: Any) -> Any:
            less = b.offset(op.rhs, -1.0)
            zero = b.full_like(op.rhs, 0.0)
            flat = b.compare(op.rhs, zero, direction="eq")
            slope = b.multiply(op.rhs, b.power(op.lhs, less))
            return b.multiply(d, b.select(flat, zero, slope))

        def right(d: Any) -> Any:
            zero = b.full_like(op.lhs, 0.0)
            at_zero = b.compare(op.lhs, zero, direction="eq")
            safe = b.select(at_zero, b.full_like(op.lhs, 1.0), op.lhs)
            return b.multiply(d, b.multiply(op.y, b.log(safe)))

        return left, right

    lower = by_kind(f=approx.power)
    samples = _POSITIVE


class Maximum(Binary, name="maximum"):
    """y = the larger operand; NaN if either is. Ties share the derivative."""

    ref = staticmethod(np.maximum)

    @staticmethod
    def partials(b: Any, op: Any) -> Any:
        """1 for the operand that is chosen, 1/2 each at a tie."""
        return _choice(b, op, op.lhs, op.rhs), _choice(b, op, op.rhs, op.lhs)

    lower = by_kind(f=arith.MaximumFOp, i=arith.MaxSIOp, u=arith.MaxUIOp)


class Minimum(Binary, name="minimum"):
    """y = the smaller operand; NaN if either is. Ties share the derivative."""

    ref = staticmethod(np.minimum)

    @staticmethod
    def partials(b: Any, op: Any) -> Any:
        """1 for the operand that is chosen, 1/2 each at a tie."""
        return _choice(b, op, op.lhs, op.rhs), _choice(b, op, op.rhs, op.lhs)

    lower = by_kind(f=arith.MinimumFOp, i=arith.MinSIOp, u=arith.MinUIOp)


def _choice(b: Any, op: Any, mine: Any, other: Any) -> Callable[[Any], Any]:
    def partial(d: Any) -> Any:
        chosen = b.compare(op.y, mine, direction="eq")
        tied = b.compare(mine, other, direction="eq")
        share = b.select(tied, b.full_like(d, 0.5), b.full_like(d, 1.0))
        return b.where_true(chosen, b.multiply(d, share))

    return partial


class Bitwise(Binary, traits=[Pure]):
    """On integers bit by bit, on bool the logical operation."""

    dtypes = BITS
    jvp = NOT_DIFFERENTIABLE("bit patterns have no derivative")
    vjp = NOT_DIFFERENTIABLE("bit patterns have no derivative")
    samples = [
        Sample((i32(2, 3), i32(2, 3)), low=-9, high=9),
        Sample((Tensor(("n",), "bool"), Tensor(("n",), "bool"))),
    ]


class BitwiseAnd(Bitwise, name="bitwise_and"):
    """y = lhs & rhs."""

    ref = staticmethod(np.bitwise_and)
    lower = by_kind(**{kind: arith.AndIOp for kind in "iub"})


class BitwiseOr(Bitwise, name="bitwise_or"):
    """y = lhs | rhs."""

    ref = staticmethod(np.bitwise_or)
    lower = by_kind(**{kind: arith.OrIOp for kind in "iub"})


class BitwiseXor(Bitwise, name="bitwise_xor"):
    """y = lhs ^ rhs."""

    ref = staticmethod(np.bitwise_xor)
    lower = by_kind(**{kind: arith.XOrIOp for kind in "iub"})


class Shift(Bitwise, traits=[Pure]):
    """Shifts by rhs bits; all bits leave for counts below 0 or beyond the width."""

    dtypes = INTEGERS
    samples = [Sample((i32(2, 3), np.array([[0, 1, 5], [31, 2, 7]], "i4")))]


class ShiftLeft(Shift, name="shift_left"):
    """y = lhs << rhs."""

    ref = staticmethod(np.left_shift)
    lower = by_kind(**dict.fromkeys("iu", approx.shift(arith.shli, approx.zero)))


class ShiftRight(Shift, name="shift_right"):
    """y = lhs >> rhs: zeros come in for unsigned, the sign for signed integers."""

    ref = staticmethod(np.right_shift)
    lower = by_kind(
        i=approx.shift(arith.shrsi, approx.sign_bits),
        u=approx.shift(arith.shrui, approx.zero),
    )


# ---- comparison and choice ----------------------------------------------------------

_COMPARE = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


class Compare(GraphOp, name="compare", traits=[Pure]):
    """y = lhs <direction> rhs, as bool; direction is eq, ne, lt, le, gt or ge.

    Comparisons with NaN are false, except ne.
    """

    lhs: Operand[Any]
    rhs: Operand[Any]
    direction: Str
    y: Result[Any]
    dtypes = ALL

    @staticmethod
    def infer(lhs: Tensor, rhs: Tensor, *, direction: str) -> Tensor:
        """Bool, in the operands' shape."""
        require_equal(lhs, rhs)
        if direction not in _COMPARE:
            raise InputError(
                "bad-attribute",
                f"expected a direction out of {', '.join(_COMPARE)}; got {direction!r}",
            )
        return lhs.with_dtype("bool")

    @staticmethod
    def ref(lhs: Any, rhs: Any, *, direction: str) -> Any:
        """NumPy's comparison."""
        return _COMPARE[direction](lhs, rhs)

    jvp = NOT_DIFFERENTIABLE("bool result")
    vjp = NOT_DIFFERENTIABLE("bool result")

    @staticmethod
    def lower(low: Any, op: Any, lhs: Any, rhs: Any) -> Any:
        """Ordered comparison of floats (unordered for ne), by sign for integers."""
        dtype = Tensor.of(op.lhs).dtype
        body = approx.comparison(dtype, op.direction)
        return low.pointwise([lhs, rhs], Tensor.of(op.y), body)

    samples = [
        Sample((i32(2, 3), i32(2, 3)), {"direction": "le"}),
        Sample((f32("n"), f32("n")), {"direction": "gt"}),
        Sample(
            (np.array([np.nan, 1, -0.0], "f"), np.array([np.nan, 1, 0.0], "f")),
            {"direction": "ne"},
        ),
    ]


class Select(GraphOp, name="select", traits=[Pure]):
    """y = on_true where the condition holds, on_false elsewhere."""

    condition: Operand[Any]
    on_true: Operand[Any]
    on_false: Operand[Any]
    y: Result[Any]
    dtypes = ALL

    @staticmethod
    def infer(condition: Tensor, on_true: Tensor, on_false: Tensor) -> Tensor:
        """The common type of the two choices."""
        require_dtype(condition, ("bool",))
        require_equal(on_true, on_false)
        require_equal(condition, on_true.with_dtype("bool"))
        return on_true

    ref = staticmethod(np.where)

    @staticmethod
    def jvp(b: Any, op: Any, _: Any, dt_true: Any, dt_false: Any) -> Any:
        """The tangent of the choice."""
        zero = b.full_like(op.y, 0.0)
        return b.select(
            op.condition,
            zero if dt_true is None else dt_true,
            zero if dt_false is None else dt_false,
        )

    @staticmethod
    def vjp(b: Any, op: Any, dy: Any) -> list[Any]:
        """Each choice gets dy where it was taken."""
        zero = b.full_like(dy, 0.0)
        taken = b.select(op.condition, dy, zero)
        return [None, taken, b.select(op.condition, zero, dy)]

    @staticmethod
    def lower(low: Any, op: Any, *operands: Any) -> Any:
        """arith.select."""
        return low.pointwise(
            operands, Tensor.of(op.y), lambda c, x, y: arith.SelectOp(c, x, y).result
        )

    samples = [
        Sample((Tensor((2, 3), "bool"), f32(2, 3), f32(2, 3))),
        Sample((Tensor(("n",), "bool"), i32("n"), i32("n"))),
    ]


class Clamp(GraphOp, name="clamp", traits=[Pure]):
    """y = min(max(x, low), high), elementwise bounds; x gets no gradient outside."""

    x: Operand[Any]
    low: Operand[Any]
    high: Operand[Any]
    y: Result[Any]
    dtypes = NUMBERS

    @staticmethod
    def infer(x: Tensor, low: Tensor, high: Tensor) -> Tensor:
        """The common type of the operands."""
        require_dtype(x, NUMBERS)
        require_equal(x, low, high)
        return x

    @staticmethod
    def ref(x: Any, low: Any, high: Any) -> Any:
        """min(max(x, low), high)."""
        return np.minimum(np.maximum(x, low), high)

    @staticmethod
    def _regions(b: Any, op: Any) -> tuple[Any, Any]:
        below = b.compare(op.x, op.low, direction="lt")
        above = b.compare(op.x, op.high, direction="gt")
        return below, above

    @classmethod
    def jvp(cls, b: Any, op: Any, dx: Any, dlow: Any, dhigh: Any) -> Any:
        """The tangent of whichever operand is the result."""
        below, above = cls._regions(b, op)
        zero = b.full_like(op.y, 0.0)
        dx, dlow, dhigh = (zero if d is None else d for d in (dx, dlow, dhigh))
        return b.select(above, dhigh, b.select(below, dlow, dx))

    @classmethod
    def vjp(cls, b: Any, op: Any, dy: Any) -> list[Any]:
        """Dy goes to whichever operand is the result."""
        below, above = cls._regions(b, op)
        zero = b.full_like(dy, 0.0)
        rest = b.select(above, zero, dy)
        dx = b.select(below, zero, rest)
        return [dx, b.select(below, rest, zero), b.select(above, dy, zero)]

    lower = by_kind(
        f=lambda x, lo, hi: arith.minimumf(arith.maximumf(x, lo), hi),
        i=lambda x, lo, hi: arith.minsi(arith.maxsi(x, lo), hi),
        u=lambda x, lo, hi: arith.minui(arith.maxui(x, lo), hi),
    )
    samples = [
        Sample((f32(2, 3), np.full((2, 3), -0.5, "f"), np.full((2, 3), 0.5, "f"))),
        Sample((i32(4), np.full(4, -1, "i4"), np.full(4, 1, "i4"))),
    ]


class Cast(GraphOp, name="cast", traits=[Pure]):
    """y = x in another dtype.

    Float to integer rounds towards zero and saturates (NaN gives 0); to bool means
    `x != 0`; between integers the low bits are kept.
    """

    x: Operand[Any]
    dtype: Str
    y: Result[Any]
    dtypes = ALL

    @staticmethod
    def infer(x: Tensor, *, dtype: str) -> Tensor:
        """The operand's shape with the new dtype."""
        return x.with_dtype(dt.canonical(dtype))

    @staticmethod
    def ref(x: Any, *, dtype: str) -> Any:
        """NumPy's astype, with saturation from float to integer."""
        target = dt.to_numpy(dtype)
        if dt.is_float(dt.canonical(x.dtype)) and dtype in INTEGERS:
            return approx.saturate_numpy(x, target)
        return x.astype(target)

    @classmethod
    def jvp(cls, b: Any, op: Any, dx: Any) -> Any:
        """The tangent in the new dtype."""
        return b.cast(dx, dtype=op.dtype) if dt.is_float(op.dtype) else None

    @staticmethod
    def vjp(b: Any, op: Any, dy: Any) -> list[Any]:
        """The cotangent in the operand's dtype."""
        source = Tensor.of(op.x).dtype
        return [b.cast(dy, dtype=source) if dt.is_float(source) else None]

    @staticmethod
    def lower(low: Any, op: Any, x: Any) -> Any:
        """One conversion out of the table of kinds."""
        source, target = Tensor.of(op.x), Tensor.of(op.y)
        if source.dtype == target.dtype:
            return x
        body = approx.conversion(source.dtype, target.dtype)
        return low.pointwise([x], target, body)

    @staticmethod
    def simplify(b: Any, op: Any) -> Any:
        """A cast to the same dtype is nothing."""
        return op.x if Tensor.of(op.x).dtype == op.dtype else None

    samples = [
        Sample((f32(2, 3),), {"dtype": "f64"}),
        Sample((f32("n"),), {"dtype": "i32"}, smooth=False),
        Sample((i32(4),), {"dtype": "f32"}),
        Sample((Tensor((3,), "bool"),), {"dtype": "f32"}),
        Sample((np.array([1e10, -1e10, np.nan, 2.9], "f"),), {"dtype": "i32"}, smooth=False),
        Sample((np.array([-1.0, 300.0, 5.5], "f"),), {"dtype": "u8"}, smooth=False),
    ]


# ---- shared by simplifications ------------------------------------------------------


def splat_of(value: Any) -> float | None:
    """The number that every element of `value` is known to be, if there is one."""
    op = value.owner
    name = getattr(op, "name", "")
    if name == "graph.broadcast":
        return splat_of(op.operands[0])
    if name != "graph.constant":
        return None
    array = op.opview.value
    if array.size == 0 or array.dtype == bool:
        return None
    first = array.flat[0]
    return float(first) if (array == first).all() else None


def _neutral(op: Any, value: float, *, both: bool) -> Any:
    """The other operand, when one is the neutral element."""
    if splat_of(op.rhs) == value:
        return op.lhs
    if both and splat_of(op.lhs) == value:
        return op.rhs
    return None
