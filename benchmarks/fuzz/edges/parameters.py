"""Kinds of the parameters of public functions, by name: which edges they have."""

from __future__ import annotations

import inspect
from typing import Any

from .values import KINDS, Edges

NAMES = {
    "axis": "axis axes axis1 axis2 source destination start",
    "count": """M N k m n n_fft num ddof decimals hop_length win_length ind length
        minlength ndim offset size type block group_sizes count groups lower upper
        index num_classes""",
    "counts": "indices_or_sections kth obj repeats reps shift pad_width trans s key",
    "number": """a_max a_min atol base beta bias constant_values d default discont dx
        fill_value initial left max min nan neginf period posinf rcond right rtol step
        stop to_begin to_end tol alpha b negative_slope value threshold""",
    "shape": "dimensions dims new_shape shape shapes slice_sizes",
    "bool": """center compute_uv density descending endpoint equal_nan full_matrices
        include_initial increasing invert keepdims largest normalized onesided
        return_counts return_index return_inverse returned reverse rowvar sparse
        unit_diagonal approximate""",
    "dtype": "dtype int_type",
}
KIND_OF = {name: kind for kind, names in NAMES.items() for name in names.split()}
# Where one name means several things.
EXCEPTIONS = {
    "numpy.linspace.start": "number", "numpy.geomspace.start": "number",
    "numpy.logspace.start": "number", "numpy.arange.start": "number",
    "numpy.cov.bias": "bool", "numpy.digitize.right": "bool",
    "numpy.trapezoid.x": "array", "linalg.cho_factor.lower": "bool",
    "linalg.solve_triangular.lower": "bool", "linalg.cholesky.upper": "bool",
}  # fmt: skip
TEXTS = {
    "indexing": "xy ij",
    "method": "linear lower higher midpoint nearest weibull",
    "mode": """raise wrap clip full same valid constant edge reflect symmetric wrap
        linear_ramp reduced complete r raw""",
    "norm": "backward ortho forward",
    "side": "left right",
    "ord": "fro nuc",
    "p": "fro nuc",
    "trans": "N T C",
}
# An order of a norm is a number or a text.
ORDERS = (None, 0, 1, -1, 2, -2, 3, 0.5, float("inf"), float("-inf"))
# Values that only one parameter has.
PARTICULAR: dict[str, list[Any]] = {
    "range": [None, (0.0, 1.0), (0.5, 0.5), (1.0, 0.0), (-1.0, -0.5),
              (0.0, float("inf"))],
    "bins": [1, 2, 0, -1, [0.0, 0.5, 1.0], [0.5], [], [1.0, 0.0], [0.5, 0.5]],
    "varargs": [],
    "contract": [((), ()), ((0, 1), (0, 1)), ((2,), (1,)), ((-1,), (-1,))],
    "batch": [((), ()), ((-2,), (-2,)), ((1,), (0,))],
    "subscripts": ["ij,ij", "ij,ij->", "ii,ij", "...,...->...", "ij,kj->ik",
                   "ij,ij->ii", "ij", "ij,ij,ij", "", "i j, i j -> j", "ij,ji->i",
                   "a...,a...->a"],
}  # fmt: skip

# Functions of which no arrays come, and those that NumPy has for real numbers only.
NOT_COMPARED = {
    "numpy.finfo", "numpy.iinfo", "numpy.fromfunction", "complexes.arctan2",
    "complexes.cbrt",
}  # fmt: skip
CHOOSING = """
    sort partition median nanmedian quantile nanquantile percentile nanpercentile max
    min amax amin nanmax nanmin maximum minimum fmax fmin clip unique union1d
    intersect1d setdiff1d polyval inner dot
"""


def has_signed_zeros(function: str) -> bool:
    """Return whether a function's zeros are compared with their signs.

    Functions that choose elements may take either zero, in sums of many products their
    order decides, and SciPy and JAX drop signs that ours have.
    """
    family, name = function.split(".")
    return (
        family not in ("fft", "linalg", "special", "nn")
        and name not in CHOOSING.split()
    )


# Arrays that must be in order, or the result means nothing.
SORTED = {"numpy.searchsorted.a", "numpy.digitize.bins", "numpy.interp.xp",
          "numpy.histogram.bins", "numpy.histogram_bin_edges.bins"}  # fmt: skip


def edges_of(
    function: str, parameter: inspect.Parameter, old: Any, first: Any
) -> Edges:
    """Yield (label, edge value) for a parameter that is not an array."""
    name = parameter.name
    if name in PARTICULAR:
        yield from ((repr(value), value) for value in PARTICULAR[name])
        return
    if name in ("ord", "p") and function.startswith("linalg"):
        yield from ((str(order), order) for order in ORDERS)
    if name in TEXTS:
        yield from ((text, text) for text in TEXTS[name].split())
        yield "an unknown text", "nonsense"
    kind = EXCEPTIONS.get(f"{function}.{name}", KIND_OF.get(name))
    kind = _by_annotation(str(parameter.annotation)) if kind is None else kind
    if kind in KINDS:
        yield from KINDS[kind](first)
    if parameter.default is None:
        yield "None", None


def _by_annotation(annotation: str) -> str | None:
    """Return the kind of edge values for an annotation; None if it has none."""
    for text, kind in (("bool", "bool"), ("int", "count"), ("float", "number")):
        if annotation.startswith(text):
            return kind
    return None
