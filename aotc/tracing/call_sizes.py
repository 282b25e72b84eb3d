"""Sizes as the code of a model sees them: comparisons ask for values.

The compiler's `SymbolicDim` is equal to another one when both are the same expression,
which is what types need. A model that asks `x.shape[0] == 3` means the number. So
arrays show their sizes as `CallSize`, of which no question is answered that the
contracts leave open: while `aotc.jit` traces for a call, the call answers, and the code
is for calls that answer alike; an entry of a model is refused. Where the answer goes
into a function of arrays (`where`, `cond`, …) it is a bool that each call computes.

Code of aotc that asks whether two types are the same looks at `array.type.shape`, whose
sizes are the compiler's. Types take no others, and `emit` converts those of ops.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from fractions import Fraction
from typing import Any

import numpy as np

from aotc.core.dtypes import DTypeLike
from aotc.dialects.types import (
    COMPARISONS,
    Shape,
    Size,
    SymbolicDim,
    bounds,
    compare_sizes,
    is_linear,
    symbols_of,
    undecided_error,
)
from aotc.errors import InputError
from aotc.tracing.call_values import current_specializer
from aotc.tracing.source_locations import user_line

_MOST_FACTORS = 63  # of a power that is written out
_LARGEST = 2**62  # sizes are smaller
_IN_WHOLE_NUMBERS = "write it in whole numbers, n * 7 // 10 for n * 0.7; "
_OPPOSITES = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_Operation = Callable[..., object]
_of_compiler: ContextVar[bool] = ContextVar("aotc_compiler_sizes", default=False)


@contextmanager
def with_compiler_sizes() -> Iterator[None]:
    """Make `Array.shape` give SymbolicDims, not CallSizes, within the `with` block.

    For interpreters of foreign graphs, which ask for values by functions of their own
    (`aotc.importers.common.known_sizes`).
    """
    token = _of_compiler.set(True)
    try:
        yield
    finally:
        _of_compiler.reset(token)


def call_shape(shape: Shape) -> Shape:
    """Return a shape with its SymbolicDims as CallSizes, as models see it."""
    if all(type(size) is int for size in shape) or _of_compiler.get():
        return shape
    return tuple(map(call_size, shape))


def call_size(size: Size) -> Size:
    """Return a SymbolicDim as a CallSize, as models see it; numbers unchanged."""
    if type(size) is SymbolicDim and not _of_compiler.get():
        return CallSize(size.expr)
    return size


def compiler_size(size: Size) -> Size:
    """Return a CallSize as the SymbolicDim of types; the inverse of `call_size`."""
    return SymbolicDim(size.expr) if isinstance(size, CallSize) else size


def in_compiler_sizes(part: object) -> Any:
    """Return an op's attribute with CallSizes, also in lists and tuples, as
    SymbolicDims.
    """
    if type(part) is tuple:
        return tuple(map(in_compiler_sizes, part))
    if type(part) is list:
        return [*map(in_compiler_sizes, part)]
    return compiler_size(part) if isinstance(part, CallSize) else part


# ---- operators of numbers -----------------------------------------------------------

# Operators have names of special methods: what they raise, the model has raised
# (`aotc.tracing.user_errors`).


def _by_value(operation: _Operation, hint: str = "") -> Any:
    """Return an operator that computes with the values of sizes in the traced call.

    Args:
        operation: on numbers.
        hint: what to write instead, where there is no call.
    """

    def __operator__(self: object, *others: object) -> object:
        if not all(isinstance(other, _NUMBERS) for other in others):
            return NotImplemented  # an array computes with sizes and conditions itself
        return operation(*(_value(each, hint) for each in (self, *others)))

    return __operator__


def _both_by_value(operation: _Operation, hint: str = "") -> tuple[Any, Any]:
    """Return an operator on two sizes' values, and its reflected operator."""

    def reflected(self: object, other: object) -> object:
        return operation(other, self)

    return _by_value(operation, hint), _by_value(reflected, hint)


def _value(x: object, hint: str = "") -> object:
    """Return a size's or condition's value in the traced call; numbers unchanged."""
    if isinstance(x, CallSize):
        return x.pin(hint=hint)
    return int(bool(x)) if isinstance(x, SizeCondition) else x


def _integer(x: object) -> object:
    """Return an integer or bool of NumPy, or a condition, as an int; others
    unchanged.
    """
    if isinstance(x, bool | np.integer | np.bool_ | SizeCondition):
        return int(x)
    return x


# ---- conditions ---------------------------------------------------------------------


def _logical(operation: _Operation) -> Any:
    """Return a logical operator of conditions, by their truth in the traced call."""

    def __operator__(self: SizeCondition, other: object) -> object:
        if isinstance(other, bool | np.bool_ | SizeCondition):
            return operation(bool(self), bool(other))
        return _by_value(operation)(self, other)

    return __operator__


class SizeCondition:
    """A comparison of symbolic sizes that only a call can decide: `n == 3`.

    As an array (`aotc.numpy.asarray`, `where`, `cond`, …) it is computed in each call.
    Python that asks for its truth is answered by the call that a function of `aotc.jit`
    is traced for, and later calls are held to the answer.

    Args:
        left: a size of the compiler.
        sign: one of `COMPARISONS`.
        right: another size.
    """

    __slots__ = ("left", "right", "sign")

    def __init__(self, left: Size, sign: str, right: Size) -> None:
        self.left, self.sign, self.right = left, sign, right

    def __bool__(self) -> bool:
        current = current_specializer()
        if current is None:
            raise _refusal(f"'{self!r}'", "compare or branch on it")
        return current.decide(self)

    @property
    def opposite(self) -> SizeCondition:
        """The negated condition."""
        return SizeCondition(self.left, _OPPOSITES[self.sign], self.right)

    @property
    def equal_symbol(self) -> int | None:
        """The one symbol that an equality fixes to a number; None otherwise."""
        difference = self.left - self.right
        symbols = symbols_of(difference)
        if self.sign != "==" or len(symbols) != 1 or not is_linear(difference):
            return None
        return symbols.pop()

    def __repr__(self) -> str:
        return f"{self.left!r} {self.sign} {self.right!r}"

    def __str__(self) -> str:
        return str(bool(self))

    def __format__(self, spec: str) -> str:
        return format(bool(self), spec)

    def __hash__(self) -> int:
        return hash(bool(self))

    def __array__(
        self, dtype: DTypeLike | None = None, copy: bool | None = None
    ) -> np.ndarray:
        return np.array(bool(self), dtype=dtype)

    __and__ = __rand__ = _logical(operator.and_)
    __or__ = __ror__ = _logical(operator.or_)
    __xor__ = __rxor__ = _logical(operator.xor)

    __eq__, __ne__ = _by_value(operator.eq), _by_value(operator.ne)
    __lt__, __le__ = _by_value(operator.lt), _by_value(operator.le)
    __gt__, __ge__ = _by_value(operator.gt), _by_value(operator.ge)

    __index__ = __int__ = _by_value(operator.index)
    __float__, __complex__ = _by_value(float), _by_value(complex)
    __neg__, __pos__ = _by_value(operator.neg), _by_value(operator.pos)
    __abs__, __invert__ = _by_value(operator.abs), _by_value(operator.invert)

    __add__, __radd__ = _both_by_value(operator.add)
    __sub__, __rsub__ = _both_by_value(operator.sub)
    __mul__, __rmul__ = _both_by_value(operator.mul)
    __truediv__, __rtruediv__ = _both_by_value(operator.truediv)
    __floordiv__, __rfloordiv__ = _both_by_value(operator.floordiv)
    __mod__, __rmod__ = _both_by_value(operator.mod)
    __divmod__, __rdivmod__ = _both_by_value(divmod)
    __pow__, __rpow__ = _both_by_value(operator.pow)
    __lshift__, __rlshift__ = _both_by_value(operator.lshift)
    __rshift__, __rrshift__ = _both_by_value(operator.rshift)


# ---- sizes --------------------------------------------------------------------------


def _of_sizes(of_sizes: Callable[..., Size], of_numbers: _Operation) -> Any:
    """Return an operator whose result is a size where the other operand is an
    integer or size.
    """

    def __operator__(self: CallSize, other: object) -> object:
        other = _integer(other)
        if isinstance(other, int | SymbolicDim):
            return call_size(of_sizes(self, other))
        return _by_value(of_numbers, _IN_WHOLE_NUMBERS)(self, other)

    return __operator__


def _division(name: str, operation: _Operation) -> tuple[Any, Any]:
    """Return a dividing operator of sizes, `floordiv` or `mod`, and its reflected
    operator.
    """
    by_value, by_value_reflected = _both_by_value(operation)

    def __operator__(self: CallSize, by: object) -> object:
        by = _integer(by)
        if not isinstance(by, int | SymbolicDim):
            return by_value(self, by)
        if isinstance(by, int) and by < 1:
            if by == 0:
                raise ZeroDivisionError("division of a size by zero")
            return -self // -by if name == "floordiv" else -(-self % -by)
        if bounds(by)[0] < 1 and current_specializer() is not None:
            return operation(self, operator.index(call_size(by)))
        return call_size(getattr(SymbolicDim, f"__{name}__")(self, by))

    def __reflected__(self: CallSize, size: object) -> object:
        size = _integer(size)
        if not isinstance(size, int | SymbolicDim):
            return by_value_reflected(self, size)
        if bounds(self)[0] < 1 and current_specializer() is not None:
            return operation(call_size(size), self.pin())
        return call_size(getattr(SymbolicDim, f"__r{name}__")(self, size))

    return __operator__, __reflected__


def _shift(by_power: _Operation, operation: _Operation) -> tuple[Any, Any]:
    """Return a shift operator of sizes, by a power of two, and its reflected
    operator.
    """
    by_value, reflected = _both_by_value(operation)

    def __operator__(self: CallSize, places: object) -> object:
        if type(places) is int and 0 <= places < _MOST_FACTORS:
            return by_power(self, 2**places)
        return by_value(self, places)

    return __operator__, reflected


def _comparison(sign: str) -> Any:
    """Return a comparison operator of sizes."""

    def __operator__(self: CallSize, other: object) -> object:
        other = _integer(other)
        if isinstance(other, complex) and not other.imag and sign in ("==", "!="):
            other = other.real
        if isinstance(other, float | np.floating | Fraction):
            return _compare_with_fraction(self, sign, other)
        return _compare(self, sign, other)

    return __operator__


def _compare(size: CallSize, sign: str, other: object) -> object:
    """Return True or False where the contracts prove it; else the condition."""
    if not isinstance(other, int | SymbolicDim):
        return NotImplemented
    if isinstance(other, int) and abs(other) > _LARGEST:
        return COMPARISONS[sign](0, other)
    left, right = compiler_size(size), compiler_size(other)
    with size.expr.context:  # a size may be looked at long after the trace
        answer = compare_sizes(left, sign, right)
    return SizeCondition(left, sign, right) if answer is None else answer


def _compare_with_fraction(
    size: CallSize, sign: str, other: float | np.floating | Fraction
) -> object:
    """Compare a size with a float or fraction by way of the integers around it."""
    if not math.isfinite(other):
        return COMPARISONS[sign](0, other)
    below = math.floor(other)
    if other == below:
        return _compare(size, sign, below)
    if sign in ("==", "!="):
        return sign == "!="
    return size > below if sign[0] == ">" else size <= below


class CallSize(SymbolicDim):
    """A symbolic size that model code sees: an unproved comparison is decided by the
    call.
    """

    __slots__ = ()

    def pin(self, purpose: str = "use it as a number", hint: str = "") -> int:
        """Return the size's value in the traced call, and specialize the code to it.

        Raises:
            InputError: `symbolic-size`: there is no call yet.
        """
        current = current_specializer()
        if current is None:
            raise _refusal(f"'{self!r}'", purpose, hint)
        return current.pin(self)

    __eq__, __ne__ = _comparison("=="), _comparison("!=")
    __lt__, __le__ = _comparison("<"), _comparison("<=")
    __gt__, __ge__ = _comparison(">"), _comparison(">=")

    def __bool__(self) -> bool:
        return bool(self != 0)

    # ---- what it is as something else

    def __hash__(self) -> int:
        return hash(self.pin("look it up"))

    def __str__(self) -> str:
        return str(self._as_text())

    def __format__(self, spec: str) -> str:
        return format(self._as_text(), spec)

    def _as_text(self) -> int:
        """Return the value in the traced call, for formatting."""
        return self.pin("write its value (messages show its name: {size!r})")

    __repr__ = SymbolicDim.__repr__
    __int__ = __index__ = _by_value(operator.index)
    __float__, __complex__ = _by_value(float), _by_value(complex)
    __truediv__, __rtruediv__ = _both_by_value(operator.truediv, _IN_WHOLE_NUMBERS)
    __or__, __ror__ = _both_by_value(operator.or_)
    __xor__, __rxor__ = _both_by_value(operator.xor)
    bit_length, bit_count = _by_value(int.bit_length), _by_value(int.bit_count)

    # ---- what is a size again

    __add__ = _of_sizes(SymbolicDim.__add__, operator.add)
    __radd__ = _of_sizes(SymbolicDim.__radd__, lambda a, b: b + a)
    __sub__ = _of_sizes(SymbolicDim.__sub__, operator.sub)
    __rsub__ = _of_sizes(SymbolicDim.__rsub__, lambda a, b: b - a)
    __mul__ = _of_sizes(SymbolicDim.__mul__, operator.mul)
    __rmul__ = _of_sizes(SymbolicDim.__rmul__, lambda a, b: b * a)
    __floordiv__, __rfloordiv__ = _division("floordiv", operator.floordiv)
    __mod__, __rmod__ = _division("mod", operator.mod)
    __lshift__, __rlshift__ = _shift(operator.mul, operator.lshift)
    __rshift__, __rrshift__ = _shift(operator.floordiv, operator.rshift)

    def __divmod__(self, by: object) -> Any:
        """Return quotient and remainder as sizes."""
        return self // by, self % by

    def __rdivmod__(self, size: object) -> Any:
        """Return quotient and remainder of another size by this one."""
        return size // self, size % self

    def __pow__(self, exponent: object, modulus: object = None) -> Any:
        """Return the size multiplied by itself; for other exponents, a number."""
        if type(exponent) is int and 0 <= exponent < _MOST_FACTORS and modulus is None:
            return math.prod([self] * exponent)
        others = (exponent,) if modulus is None else (exponent, modulus)
        return _by_value(pow)(self, *others)

    __rpow__ = _by_value(lambda exponent, base: base**exponent)

    def __and__(self, mask: object) -> Any:
        """Return the remainder by a power of two, for a mask of low bits; else a
        number.
        """
        if type(mask) is int and 0 <= mask < _LARGEST and not mask & (mask + 1):
            return self % (mask + 1)
        return _by_value(operator.and_)(self, mask)

    __rand__ = __and__

    def __pos__(self) -> Size:
        return self

    def __neg__(self) -> Size:
        return call_size(SymbolicDim.__neg__(self))

    def __invert__(self) -> Size:
        return -self - 1

    def __abs__(self) -> Size:
        return self if self >= 0 else -self

    def __round__(self, digits: int | None = None) -> Size:
        """Return the size itself; for negative digits, the rounded number."""
        return self if digits is None or digits >= 0 else round(self.pin(), digits)

    __trunc__ = __floor__ = __ceil__ = conjugate = __pos__
    real = numerator = property(__pos__)
    imag, denominator = 0, 1


_NUMBERS = (int, float, complex, Fraction, np.number, np.bool_, CallSize, SizeCondition)


def _refusal(question: str, purpose: str, hint: str = "") -> InputError:
    """Return the error for a question about sizes that no traced call can answer."""
    error = undecided_error(question, purpose, hint)
    error.where = user_line()
    return error
