"""Arithmetic on sizes that are known while a model is imported: numbers and
`SymbolicDim`s.

Models compute shapes with tensors of integers. Where these hold sizes, importers
compute with the sizes themselves, in NumPy arrays of objects, so that shapes stay
symbolic. What the contracts of the sizes do not decide is an InputError,
`symbolic-size`, as it is from the operators of `SymbolicDim`; the model computes it
then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from aotc.dialects.types import Size, SymbolicDim, bounds, compare_sizes
from aotc.errors import InputError


def undecided_error(question: str) -> InputError:
    """Return an InputError: the answer to `question` depends on the sizes of a call."""
    return InputError("symbolic-size", f"'{question}' depends on the sizes")


def elementwise(
    function: Callable[..., object], arity: int = 2
) -> Callable[..., numpy.ndarray]:
    """Vectorise a function of sizes over NumPy object arrays, with broadcasting."""
    many = numpy.frompyfunc(function, arity, 1)
    return lambda *arrays: numpy.asarray(many(*arrays), object)


def select(
    condition: numpy.ndarray, x: numpy.ndarray, y: numpy.ndarray
) -> numpy.ndarray:
    """Return the sizes of `x` where the condition holds, else those of `y`."""
    return numpy.where(condition.astype(bool), x, y)


# ---- one dtype for all --------------------------------------------------------------


def whole(number: Size | float) -> Size:
    """Return a whole float as an integer; other sizes as they are.

    Raises:
        InputError: it is not whole.
    """
    if not isinstance(number, float):
        size: Size = number
        return size
    if not number.is_integer():
        raise undecided_error(str(number))
    return int(number)


def wrap(size: Size, bits: int) -> Size:
    """Return a number wrapped to a signed integer of `bits`; symbols as they are."""
    if isinstance(size, SymbolicDim):
        return size
    half = 1 << (bits - 1)
    return (int(size) + half) % (2 * half) - half


# ---- arithmetic ---------------------------------------------------------------------


def divide(a: Size, b: Size) -> Size:
    """Return `a / b` rounded towards zero, as in C.

    Raises:
        InputError: b may be 0, or the sign of the result is not known.
    """
    if isinstance(a, int) and isinstance(b, int):
        if b == 0:
            raise undecided_error(f"{a} / {b}")
        return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    if bounds(a)[0] < 0 or bounds(b)[0] < 1:
        raise undecided_error(f"{a} / {b}")
    return a // b


def remainder(a: Size, b: Size) -> Size:
    """Return the remainder of `divide`, which has the sign of a.

    Raises:
        InputError: as for `divide`.
    """
    quotient = divide(a, b)
    numbers = isinstance(a, int) and isinstance(b, int)
    return a - quotient * b if numbers else a % b


def modulo(a: Size, b: Size) -> Size:
    """Return `a % b` with the sign of b, as in Python.

    Raises:
        InputError: b is 0, or a symbol that may be less than 1.
    """
    if b == 0:
        raise undecided_error(f"{a} % {b}")
    return a % b


def sign(a: Size) -> int:
    """Return the sign of a size, if the contracts decide it; refuse otherwise.

    Raises:
        InputError: the contracts do not decide which.
    """
    low, high = bounds(a)
    if low > 0 or high < 0 or low == high == 0:
        return (low > 0) - (high < 0)
    raise undecided_error(f"sign({a})")


def is_equal(a: Any, b: Any) -> bool:
    """Return whether two sizes or numbers are equal; refuse if contracts leave it open.

    Raises:
        InputError: the contracts do not decide it.
    """
    if not isinstance(a, SymbolicDim) and not isinstance(b, SymbolicDim):
        return bool(a == b)
    answer = compare_sizes(a, "==", b)
    if answer is None:
        raise undecided_error(f"{a} == {b}")
    return answer


def is_different(a: object, b: object) -> bool:
    """Return whether two sizes differ; refuse if contracts leave it open."""
    return not is_equal(a, b)
