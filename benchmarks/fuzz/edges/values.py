"""Edge values: what may stand in the place of an argument, by what it is.

Each function yields (label, value). A value of `array` is another array made of the one
that works, so that what a function asks of its other arguments mostly still holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from aotc.complexes import Complex
from aotc.core import dtypes

Edges = Iterator[tuple[str, Any]]

NUMPY_DTYPES = {name: dtypes.to_numpy(name) for name in dtypes.NAMES}


# ---- arrays: other elements ---------------------------------------------------------


def _planted(x: Any, values: Sequence[float]) -> Any:
    """Return a copy of `x` with `values` spread over it."""
    y = x.copy().ravel()
    if y.size:
        with np.errstate(all="ignore"):
            for i, value in enumerate(values):
                y[i * y.size // len(values)] = value
    return y.reshape(x.shape)


def _filled(x: Any, values: Sequence[float]) -> Any:
    """Return an array like `x` filled with `values` in turn."""
    with np.errstate(all="ignore"):
        return np.resize(np.array(values, x.dtype), x.shape)


def _float_elements(x: Any) -> Edges:
    """Yield (label, array) with edge values of floats, such as NaN and denormals."""
    info = np.finfo(x.dtype) if x.dtype.kind == "f" else dtypes_finfo(x.dtype)
    inf, nan, most = np.inf, np.nan, float(info.max)
    tiny, normal = float(info.smallest_subnormal), float(info.smallest_normal)
    yield "an infinity", _planted(x, [inf])
    yield "a negative infinity", _planted(x, [-inf])
    yield "infinities of one sign", _planted(x, [inf, inf])
    yield "infinities of both signs", _planted(x, [inf, -inf])
    yield "only infinities", _filled(x, [inf])
    yield "NaN", _planted(x, [nan])
    yield "NaN and an infinity", _planted(x, [nan, inf])
    yield "only NaN", _filled(x, [nan])
    yield "zeros of both signs", _filled(x, [-0.0, 0.0])
    yield "negative zeros", _filled(x, [-0.0])
    yield "ones", _filled(x, [1.0])
    yield "ties", _filled(x, [1.0, 0.0, 1.0, 2.0, 2.0])
    yield "whole and half numbers", _filled(x, [0.5, -1.5, 2.5, -0.5, 3.0, -2.0])
    yield "numbers around 1", _filled(x, [1.0, 1 - float(info.eps), -1.0, 1.5])
    yield "negatives", -x
    yield "the largest number", _planted(x, [most])
    yield "subnormals", _filled(x, [tiny, normal, 2 * tiny, normal / 2])
    yield "extremes", _filled(x, [most, -inf, tiny, -most, inf, -tiny, 0.0, -0.0, nan])


def dtypes_finfo(dtype: Any) -> Any:
    """Return the limits of bf16."""
    import ml_dtypes

    return ml_dtypes.finfo(dtype)


def _integer_elements(x: Any) -> Edges:
    """Yield (label, array) with edge values of integers."""
    info = np.iinfo(x.dtype)
    yield "the largest integers", _filled(x, [info.max])
    yield "the least integers", _filled(x, [info.min])
    yield "extremes", _filled(x, [info.max, 0, info.min, 1, info.max - 1])
    yield "zeros", _filled(x, [0])
    yield "ones", _filled(x, [1])
    yield "ties", _filled(x, [1, 0, 1, 2, 2])
    if info.min < 0:
        yield "negatives", _filled(x, [-1, -2, 1, -3])
    yield "out of range", _planted(x, [100])


def _bool_elements(x: Any) -> Edges:
    """Yield (label, array) with edge values of bools."""
    yield "all false", np.zeros_like(x)
    yield "all true", np.ones_like(x)
    yield "one true", _planted(np.zeros_like(x), [True])


def elements(x: Any) -> Edges:
    """Yield (label, array) with edge elements, in the dtype and shape of `x`."""
    kind = "f" if x.dtype == NUMPY_DTYPES["bf16"] else x.dtype.kind
    yield from {
        "f": _float_elements, "i": _integer_elements, "u": _integer_elements,
        "b": _bool_elements,
    }[kind](x)  # fmt: skip


# ---- arrays: other dtypes and shapes ------------------------------------------------


def in_dtype(x: Any, dtype: str) -> Any:
    """Return `x` in another dtype; fractions become small integers."""
    wanted = NUMPY_DTYPES[dtype]
    if wanted.kind in "iu" and x.dtype.kind == "f":
        x = np.rint(x * 7) - (2 if wanted.kind == "i" else 0)
        x = np.maximum(x, 0) if wanted.kind == "u" else x
    elif wanted.kind == "b" and x.dtype.kind == "f":
        x = x > 0.5
    elif wanted.kind == "u" and x.dtype.kind == "i":
        x = abs(x)
    return x.astype(wanted)


def in_dtypes(x: Any, names: Sequence[str] = dtypes.NAMES) -> Edges:
    """Yield (label, array) of `x` in other dtypes, and with their extremes."""
    for name in names:
        if NUMPY_DTYPES[name] == x.dtype:
            continue
        y = in_dtype(x, name)
        yield name, y
        for label, value in elements(y):
            if label in ("extremes", "the least integers", "the largest integers"):
                yield f"{name}: {label}", value
    # a Python number or list takes the dtype of the arrays that it meets
    if x.ndim == 0:
        yield "a Python number", x.item()


def in_shapes(x: Any) -> Edges:
    """Yield (label, array) of edge shapes: no elements, size 1, more or fewer axes."""
    yield "0-d", x.ravel()[0] if x.size else x
    if not x.ndim:
        yield "size 1", x.reshape(1)
        yield "no elements", x.reshape(1)[:0]
        return
    yield "no rows", x[:0]
    yield "one row", x[:1]
    if x.ndim > 1:
        yield "no columns", x[..., :0]
        yield "one column", x[..., :1]
        yield "no elements along any axis", x[(slice(0),) * x.ndim]
        yield "one element", x[(slice(1),) * x.ndim]
        yield "one axis less", x[0]
        yield "a vector", x.ravel()
    else:
        yield "no elements, two axes", x[None, :0]
    yield "one axis more", x[None]


def arrays(x: Any) -> Edges:
    """Yield (label, array) of all edges for one of several array arguments."""
    if isinstance(x, Complex):
        yield from complexes(x)
        return
    yield from elements(x)
    yield from in_shapes(x)
    others = ("i8", "u64") if x.dtype.kind in "iu" else ("f64",)
    yield from in_dtypes(x, ("bool", *others))


def complexes(z: Complex) -> Edges:
    """Yield (label, pair) with all special values of both parts, and edge shapes."""
    real, imag = (np.asarray(part) for part in z)
    parts = {
        "moderate": [0.0, -0.0, 1.0, -1.0, 0.5, -2.0],
        "extreme": [1e-38, -1e-38, 1e38, -1e38],
        "infinite": [np.inf, -np.inf, np.nan],
    }
    for size, line in parts.items():
        for others, other in parts.items():
            pairs = np.array([(x, y) for x in line for y in other], real.dtype)
            yield f"{size} and {others} parts", _pair(*pairs.T, real.dtype)
    for (label, x), (_, y) in zip(in_shapes(real), in_shapes(imag), strict=True):
        yield label, Complex(*map(_array, (x, y)))


def _pair(real: Sequence[float], imag: Sequence[float], dtype: Any) -> Complex:
    """Return a complex array of aotc with these parts."""
    return Complex(*(_array(np.array(part, dtype)) for part in (real, imag)))


def _array(x: Any) -> Any:
    """Return an array of aotc."""
    from aotc import numpy as anp

    return anp.asarray(x)


# ---- what is no array ---------------------------------------------------------------


def axes(x: Any) -> Edges:
    """Yield (label, axis) from out of range to out of range, tuples and None."""
    rank = np.ndim(x)
    yield from ((str(n), n) for n in range(-rank - 1, rank + 2))
    yield "None", None
    yield "no axes", ()
    if rank > 1:
        yield "two axes", (0, 1)
        yield "a negative axis first", (-1, 0)
        yield "all axes backwards", tuple(reversed(range(rank)))
    if rank:
        yield "a tuple of one", (0,)
        yield "an axis twice", (0, 0)
        yield "an axis twice, from both ends", (0, -rank)
        yield "an axis out of range", (0, rank)


def counts(x: Any) -> Edges:
    """Yield (label, integer) around 0 and around an array's sizes."""
    numbers = {-100, -2, -1, 0, 1, 2, 100}
    for size in np.shape(x):
        numbers |= {s * n for n in (size - 1, size, size + 1) for s in (-1, 1)}
    yield from ((str(n), n) for n in sorted(numbers))


def many_counts(x: Any) -> Edges:
    """Yield (label, value) with integers and sequences of integers."""
    yield from counts(x)
    rank, size = np.ndim(x), (*np.shape(x), 1)[0]
    yield "nothing", []
    yield "a list of one", [1]
    yield "a list of a negative", [-1]
    yield "rising", [0, 1, size]
    yield "falling", [2, 1]
    yield "the same twice", [1, 1]
    yield "out of range", [1, size + 5]
    yield "far negative", [-size - 1]
    yield "one for each axis", [1] * rank
    yield "zeros", [0] * size
    yield "one for each element", list(range(size))


def numbers(x: Any) -> Edges:
    """Yield (label, number) with signed zeros, infinities, NaN, small and large
    ones.
    """
    for n in (0.0, -0.0, 1.0, -1.0, 0.5, 2, 1e-30, 1e30, np.inf, -np.inf, np.nan):
        yield str(n), n


def shapes(x: Any) -> Edges:
    """Yield (label, shape) with no axes, sizes 0, 1 and -1, and too large ones."""
    size, shape = np.size(x), np.shape(x)
    yield "()", ()
    for n in (-2, -1, 0, 1, size, size + 1):
        yield str(n), n
        yield f"({n},)", (n,)
    yield "an unknown size", (-1, 1)
    yield "two unknown sizes", (-1, -1)
    yield "an unknown size beside 0", (0, -1)
    yield "a negative size", (2, -3)
    yield "size 0", (0, 3)
    yield "its own", shape
    yield "one axis more", (1, *shape)
    yield "one axis more behind", (*shape, 1)
    yield "turned", shape[::-1]
    yield "larger", tuple(n + 1 for n in shape)
    yield "twice", (2, *shape)


def booleans(x: Any) -> Edges:
    """Yield both booleans."""
    yield from (("True", True), ("False", False))


def dtype_names(x: Any) -> Edges:
    """Yield every dtype, and None."""
    yield "None", None
    yield from ((name, name) for name in NUMPY_DTYPES)


KINDS: dict[str, Callable[[Any], Edges]] = {
    "axis": axes, "count": counts, "counts": many_counts, "number": numbers,
    "shape": shapes, "bool": booleans, "dtype": dtype_names,
}  # fmt: skip
