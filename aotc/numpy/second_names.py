"""NumPy's second names of functions, and what tracing defines of arrays."""

from __future__ import annotations

from aotc.numpy.creation import asarray
from aotc.numpy.elementwise import (
    absolute,
    divide,
    invert,
    left_shift,
    power,
    remainder,
    right_shift,
)
from aotc.numpy.joining import concatenate
from aotc.numpy.reducing import max, min
from aotc.numpy.rounding import round
from aotc.numpy.shaping import transpose
from aotc.numpy.trigonometric import (
    arccos,
    arccosh,
    arcsin,
    arcsinh,
    arctan,
    arctan2,
    arctanh,
    deg2rad,
    rad2deg,
)
from aotc.tracing.array import Array
from aotc.tracing.conversion import ArrayLike, astype

__all__ = [
    "Array", "ArrayLike", "abs", "acos", "acosh", "amax", "amin", "around", "array",
    "asin", "asinh", "astype", "atan", "atan2", "atanh", "bitwise_invert",
    "bitwise_left_shift", "bitwise_not", "bitwise_right_shift", "concat", "degrees",
    "mod", "permute_dims", "pow", "radians", "true_divide",
]  # fmt: skip

abs = absolute
acos = arccos
acosh = arccosh
amax = max
amin = min
around = round
array = asarray
asin = arcsin
asinh = arcsinh
atan = arctan
atan2 = arctan2
atanh = arctanh
bitwise_invert = invert
bitwise_left_shift = left_shift
bitwise_not = invert
bitwise_right_shift = right_shift
concat = concatenate
degrees = rad2deg
mod = remainder
permute_dims = transpose
pow = power
radians = deg2rad
true_divide = divide
