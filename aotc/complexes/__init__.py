"""Complex numbers as pairs of real arrays: `Complex`, and NumPy's functions of them.

The graph has no complex dtype. `Complex` computes with `+ - * / @`, and the functions
here have the names that they have in `aotc.numpy` for real arrays. All of them are made
of real functions of the parts, which every target computes and derivatives follow from.
Where a part is infinite, NaN or near the range of its dtype, results are what these
functions give: NaN in cases for which C's Annex G, and so NumPy, names a limit.
"""

from __future__ import annotations

from aotc.complexes.functions import (
    arccos,
    arccosh,
    arcsin,
    arcsinh,
    arctan,
    arctan2,
    arctanh,
    cbrt,
    cos,
    cosh,
    equal,
    exp2,
    expit,
    expm1,
    log,
    log1p,
    log2,
    log10,
    not_equal,
    power,
    rsqrt,
    sign,
    sin,
    sinh,
    sqrt,
    square,
    tan,
    tanh,
)
from aotc.complexes.pairs import (
    Complex,
    absolute,
    angle,
    as_complex,
    conj,
    exp,
    polar,
)
from aotc.tracing.calls import guard

__all__ = [
    "Complex",
    "absolute",
    "angle",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "as_complex",
    "cbrt",
    "conj",
    "cos",
    "cosh",
    "equal",
    "exp",
    "exp2",
    "expit",
    "expm1",
    "log",
    "log1p",
    "log2",
    "log10",
    "not_equal",
    "polar",
    "power",
    "rsqrt",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "tan",
    "tanh",
]

guard(globals(), __all__)
