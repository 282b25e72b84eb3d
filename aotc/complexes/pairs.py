"""`Complex`: complex numbers as a pair of real arrays.

The graph has no complex dtype: every target computes with the parts, and derivatives
follow from them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from aotc import numpy as np
from aotc.dialects.types import Shape
from aotc.numpy.axes import Axes
from aotc.tracing.array import Array
from aotc.tracing.conversion import ArrayLike, as_float, lift


class Complex(NamedTuple):
    """A complex array `real + 1j * imag`: two arrays of one shape and float dtype.

    Being a named tuple it is a pytree: an entry that returns one returns its two parts,
    by name, and derivatives by it are `Complex` again (by either part, not conjugated).
    """

    real: Array
    imag: Array

    @property
    def shape(self) -> Shape:
        """The shape of both parts."""
        return self.real.shape

    @property
    def dtype(self) -> str:
        """The dtype of the parts."""
        return self.real.dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self.real.ndim

    # ---- arithmetic -----------------------------------------------------------------

    def __add__(self, other: ComplexLike) -> Complex:
        x, y = _pair(self, other)
        return Complex(x.real + y.real, x.imag + y.imag)

    def __sub__(self, other: ComplexLike) -> Complex:
        x, y = _pair(self, other)
        return Complex(x.real - y.real, x.imag - y.imag)

    def __mul__(self, other: ComplexLike) -> Complex:  # type: ignore[override]
        x, y = _pair(self, other)
        return Complex(
            x.real * y.real - x.imag * y.imag, x.real * y.imag + x.imag * y.real
        )

    def __truediv__(self, other: ComplexLike) -> Complex:
        """The quotient; a part within a factor of 2 of the greatest may give NaN.

        R. L. Smith, Algorithm 116: Complex division, Communications of the ACM 5, 1962.
        """
        x, y = _pair(self, other)
        if not isinstance(other, Complex | complex):
            return x.map(lambda part: part / y.real)
        wide = np.abs(y.real) >= np.abs(y.imag)
        most, least = np.where(wide, *y), np.where(wide, y.imag, y.real)
        first, second = np.where(wide, *x), np.where(wide, x.imag, x.real)
        ratio = least / np.where(most == 0.0, 1.0, most)
        size = most + least * ratio
        imag = second - first * ratio
        return Complex(
            (first + second * ratio) / size, np.where(wide, imag, -imag) / size
        )

    def __matmul__(self, other: ComplexLike) -> Complex:
        x, y = _pair(self, other)
        return Complex(
            x.real @ y.real - x.imag @ y.imag, x.real @ y.imag + x.imag @ y.real
        )

    def __radd__(self, other: ComplexLike) -> Complex:
        return self.__add__(other)

    def __rsub__(self, other: ComplexLike) -> Complex:
        return as_complex(other, self.dtype).__sub__(self)

    def __rmul__(self, other: ComplexLike) -> Complex:  # type: ignore[override]
        return self.__mul__(other)

    def __rtruediv__(self, other: ComplexLike) -> Complex:
        return as_complex(other, self.dtype).__truediv__(self)

    def __rmatmul__(self, other: ComplexLike) -> Complex:
        return as_complex(other, self.dtype).__matmul__(self)

    def __neg__(self) -> Complex:
        return Complex(-self.real, -self.imag)

    def __abs__(self) -> Array:
        return absolute(self)

    # ---- both parts alike -----------------------------------------------------------

    def __getitem__(self, key: object) -> Complex:  # type: ignore[override]
        return self.map(lambda x: x[key])

    def reshape(self, *shape: object) -> Complex:
        """Return the array in another shape."""
        return self.map(lambda x: x.reshape(*shape))

    def transpose(self, *axes: object) -> Complex:
        """Return the array with its axes in another order; nothing is conjugated."""
        return self.map(lambda x: x.transpose(*axes))

    def sum(self, axis: Axes = None, *, keepdims: bool = False) -> Complex:
        """The sum over axes."""
        return self.map(lambda x: x.sum(axis, keepdims=keepdims))

    def mean(self, axis: Axes = None, *, keepdims: bool = False) -> Complex:
        """The mean over axes."""
        return self.map(lambda x: x.mean(axis, keepdims=keepdims))

    def map(self, function: Callable[[Array], Array]) -> Complex:
        """Apply a function to the real and to the imaginary part; return the pair."""
        return Complex(function(self.real), function(self.imag))


if TYPE_CHECKING:
    # Everything that `as_complex` takes, which refuses the rest itself.
    ComplexLike: TypeAlias = Complex | complex | ArrayLike
else:
    ComplexLike = Any

# so that arrays, NumPy's and ours, leave their operators to this class
Complex.__array_ufunc__ = None  # type: ignore[attr-defined]


def as_complex(x: ComplexLike, dtype: str = "f32") -> Complex:
    """Convert an array, a number or a Complex to a Complex; `dtype` is for numbers."""
    if isinstance(x, Complex):
        return x
    if isinstance(x, complex):
        return Complex(lift(x.real, dtype), lift(x.imag, dtype))
    real = as_float(lift(x, dtype))
    return Complex(real, np.zeros_like(real))


def _pair(x: Complex, other: ComplexLike) -> tuple[Complex, Complex]:
    """Return `x`, and the other operand as a Complex of its dtype."""
    return x, as_complex(other, x.dtype)


def conj(z: Complex) -> Complex:
    """The complex conjugate."""
    return Complex(z.real, -z.imag)


def absolute(z: Complex) -> Array:
    """`|z|`, without overflow in between; its derivative at 0 is 0.

    It is infinite where a part is, even if the other one is NaN, as C99's hypot.
    """
    length = length_of(z)
    return np.where(length.ordinary, length.most * np.sqrt(length.square), length.most)


class Length(NamedTuple):
    """`|z|` in factors `most * sqrt(square)`, which neither overflow nor underflow."""

    most: Array
    """The larger of the parts' absolute values."""

    square: Array
    """From 1 to 2: the square of `|z| / most`; 1 where that is not ordinary."""

    ordinary: Array
    """Whether `most`, and so `|z|`, is neither 0 nor infinite nor NaN."""


def length_of(z: Complex) -> Length:
    """Return |z| as factors most * sqrt(square), which cannot overflow."""
    across, along = np.abs(z.real), np.abs(z.imag)
    infinite = np.logical_or(across == math.inf, along == math.inf)
    most = np.where(infinite, math.inf, np.maximum(across, along))
    ordinary = np.logical_and(most > 0.0, most < math.inf)
    scale = np.where(ordinary, most, 1.0)
    x, y = z.real / scale, z.imag / scale
    return Length(most, np.where(ordinary, x * x + y * y, 1.0), ordinary)


def angle(z: Complex) -> Array:
    """The angle of z from the positive real axis, from -pi to pi."""
    return np.arctan2(z.imag, z.real)


def exp(z: Complex) -> Complex:
    """`e**z`."""
    return polar(np.exp(z.real), z.imag)


def polar(size: ArrayLike, angle: ArrayLike) -> Complex:
    """Return `size * e**(i angle)`; real for an angle of 0, even if `size` is
    infinite.
    """
    turn = as_float(angle)
    length = as_float(lift(size, turn.dtype))
    return Complex(length * np.cos(turn), times_sine(length, turn))


def times_sine(size: Array, angle: Array) -> Array:
    """Return `size * sin(angle)`; 0 for an angle of 0 even if `size` is infinite."""
    endless = np.logical_and(angle == 0.0, np.isinf(size))
    return np.where(endless, 1.0, size) * np.sin(angle)
