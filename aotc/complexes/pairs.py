"""`Complex`: complex numbers as a pair of real arrays.

The graph has no complex dtype: every target computes with the parts, and derivatives
follow from them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from aotc import numpy as np
from aotc.dialects.types import Shape
from aotc.tracing.array import Array
from aotc.tracing.conversion import ArrayLike, as_float, lift


class Complex(NamedTuple):
    """`real + 1j * imag`, two arrays of one shape and float dtype.

    Being a named tuple it is a pytree: an entry that returns one returns its two parts,
    by name, and derivatives by it are `Complex` again (by either part, not conjugated).
    """

    real: Array
    imag: Array

    @property
    def shape(self) -> Shape:
        """The sizes."""
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

    def __add__(self, other: Any) -> Complex:
        x, y = _pair(self, other)
        return Complex(x.real + y.real, x.imag + y.imag)

    def __sub__(self, other: Any) -> Complex:
        x, y = _pair(self, other)
        return Complex(x.real - y.real, x.imag - y.imag)

    def __mul__(self, other: Any) -> Complex:
        x, y = _pair(self, other)
        return Complex(
            x.real * y.real - x.imag * y.imag, x.real * y.imag + x.imag * y.real
        )

    def __truediv__(self, other: Any) -> Complex:
        x, y = _pair(self, other)
        size = y.real * y.real + y.imag * y.imag
        top = x * conj(y)
        return Complex(top.real / size, top.imag / size)

    def __matmul__(self, other: Any) -> Complex:
        x, y = _pair(self, other)
        return Complex(
            x.real @ y.real - x.imag @ y.imag, x.real @ y.imag + x.imag @ y.real
        )

    def __radd__(self, other: Any) -> Complex:
        return self.__add__(other)

    def __rsub__(self, other: Any) -> Complex:
        return as_complex(other, self.dtype).__sub__(self)

    def __rmul__(self, other: Any) -> Complex:
        return self.__mul__(other)

    def __rtruediv__(self, other: Any) -> Complex:
        return as_complex(other, self.dtype).__truediv__(self)

    def __rmatmul__(self, other: Any) -> Complex:
        return as_complex(other, self.dtype).__matmul__(self)

    def __neg__(self) -> Complex:
        return Complex(-self.real, -self.imag)

    def __abs__(self) -> Array:
        return absolute(self)

    # ---- both parts alike -----------------------------------------------------------

    def __getitem__(self, key: Any) -> Complex:  # type: ignore[override]
        return self.map(lambda x: x[key])

    def reshape(self, *shape: Any) -> Complex:
        """In another shape."""
        return self.map(lambda x: x.reshape(*shape))

    def transpose(self, *axes: Any) -> Complex:
        """With the axes in another order; nothing is conjugated."""
        return self.map(lambda x: x.transpose(*axes))

    def sum(self, axis: Any = None, *, keepdims: bool = False) -> Complex:
        """The sum over axes."""
        return self.map(lambda x: x.sum(axis, keepdims=keepdims))

    def mean(self, axis: Any = None, *, keepdims: bool = False) -> Complex:
        """The mean over axes."""
        return self.map(lambda x: x.mean(axis, keepdims=keepdims))

    def map(self, function: Callable[[Array], Array]) -> Complex:
        """`function` of each part; for what treats both alike."""
        return Complex(function(self.real), function(self.imag))


# so that arrays, NumPy's and ours, leave their operators to this class
Complex.__array_ufunc__ = None  # type: ignore[attr-defined]


def as_complex(x: Any, dtype: str = "f32") -> Complex:
    """An array, a number or a Complex as a Complex; `dtype` for Python's numbers."""
    if isinstance(x, Complex):
        return x
    if isinstance(x, complex):
        return Complex(lift(x.real, dtype), lift(x.imag, dtype))
    real = as_float(lift(x, dtype))
    return Complex(real, np.zeros_like(real))


def _pair(x: Complex, other: Any) -> tuple[Complex, Complex]:
    return x, as_complex(other, x.dtype)


def conj(z: Complex) -> Complex:
    """The conjugate."""
    return Complex(z.real, -z.imag)


def absolute(z: Complex) -> Array:
    """`|z|`, without overflow in between; its derivative at 0 is 0."""
    size = np.maximum(np.abs(z.real), np.abs(z.imag))
    scale = np.where(size > 0.0, size, 1.0)
    x, y = z.real / scale, z.imag / scale
    square = np.where(size > 0.0, x * x + y * y, 1.0)
    return np.where(size > 0.0, scale * np.sqrt(square), 0.0)


def angle(z: Complex) -> Array:
    """The angle of z from the positive axis, from -pi to pi."""
    return np.arctan2(z.imag, z.real)


def exp(z: Complex) -> Complex:
    """`e**z`."""
    return polar(np.exp(z.real), z.imag)


def polar(size: ArrayLike, angle: ArrayLike) -> Complex:
    """The number of a size and an angle."""
    turn = as_float(angle)
    return Complex(size * np.cos(turn), size * np.sin(turn))
