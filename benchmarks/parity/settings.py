"""Arguments for the public functions, by family: `Setting`s, one call each."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

from tests.dialects.cases import edges

FLOATS = ("f4", "f8")
rng = np.random.default_rng(0)


@dataclass(frozen=True)
class Setting:
    """One call of a public function, by its name in `package`.

    `smooth` ones are differentiated, too, where they have f64 arguments.
    """

    package: str
    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    kind: str = "exact"
    smooth: bool = True
    peers: tuple[str, ...] = ("numpy", "jax")

    def __str__(self) -> str:
        parts = [*map(_shown, self.args)]
        parts += [f"{name}={_shown(value)}" for name, value in self.kwargs.items()]
        return f"({', '.join(parts)})"


def _shown(value: Any) -> str:
    """Return an argument as text, arrays by dtype and shape."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{list(value.shape)}"
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(map(_shown, value))}]"
    return repr(value)


def drawn(shape: Sequence[int], dtype: Any = "f8", low: float = -2, high: float = 2):
    """Return random floats or integers in a range."""
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if dtype.kind in "iu":
        low = max(low, 0) if dtype.kind == "u" else low
        return rng.integers(int(low), int(high) + 1, shape).astype(dtype)
    return rng.uniform(low, high, shape).astype(dtype)


def with_nan(x: Any) -> Any:
    """Return a copy with some elements NaN, but none of the first along any axis."""
    chosen = rng.random(x.shape) < 0.3
    for axis in range(x.ndim):
        np.moveaxis(chosen, axis, 0)[:1] = False
    return np.where(chosen, np.nan, x).astype(x.dtype)


# ---- elementwise --------------------------------------------------------------------

UNARY = {  # names, and where the numbers are drawn from
    "absolute fabs negative positive sign square": ("exact", -3, 3),
    "floor ceil trunc fix rint": ("exact", -3, 3),
    "isnan isinf isfinite isposinf isneginf signbit logical_not": ("exact", -3, 3),
    "sqrt reciprocal": ("exact", 0.1, 9),
    "exp exp2 expm1 cbrt sinh cosh tanh arcsinh arctan": ("elementwise", -3, 3),
    "sin cos tan deg2rad rad2deg degrees radians": ("elementwise", -3, 3),
    "sinc": ("cancelling", -3, 3),
    "log log2 log10 log1p": ("elementwise", 0.1, 9),
    "arcsin arccos arctanh": ("elementwise", -0.9, 0.9),
    "arccosh": ("elementwise", 1.1, 9),
    "asin acos atan": ("elementwise", -0.9, 0.9),
    "asinh": ("elementwise", -3, 3),
    "acosh": ("elementwise", 1.1, 9),
    "atanh": ("elementwise", -0.9, 0.9),
}
STEPS = set(
    ["floor", "ceil", "trunc", "fix", "rint", "sign"]
)  # NumPy's on integers are ints
WHOLE = set(["absolute", "negative", "positive", "sign", "square"])
NOT_IN_TORCH = set(["fabs", "fix", "rint", "cbrt", "isnan"])


def unary() -> Iterator[Setting]:
    """Yield settings of functions of one array."""
    for names, (kind, low, high) in UNARY.items():
        for name in names.split():
            yield from _unary(name, kind, low, high)


def _unary(name: str, kind: str, low: float, high: float) -> Iterator[Setting]:
    """Yield settings of one function for several dtypes and shapes."""
    for dtype in ("f2", ml_dtypes.bfloat16, *FLOATS):
        for shape in ((), (3, 4), (2, 0)) if dtype in FLOATS else ((3, 4),):
            x = drawn(shape, dtype, low, high)
            yield Setting(
                "numpy", name, (x,), {}, kind, peers=("numpy", "jax", "torch")
            )
    for dtype in ("f32", "f64"):
        kind_at_edges = "chosen" if name == "sign" else kind
        yield Setting("numpy", name, (edges(dtype),), {}, kind_at_edges, smooth=False)
    if name in WHOLE:
        for dtype in ("i8", "i32", "i64"):
            yield Setting("numpy", name, (edges(dtype),), {}, kind)
    elif kind != "exact":
        yield Setting("numpy", name, (drawn((5,), "i4", 1, 1),), {}, kind)


BINARY = {
    "add subtract multiply divide true_divide": ("exact", -3, 3),
    "maximum minimum fmax fmin": ("chosen", -3, 3),
    "copysign nextafter": ("exact", -3, 3),
    "equal not_equal less less_equal greater greater_equal": ("exact", -3, 3),
    "logical_and logical_or logical_xor heaviside": ("exact", -3, 3),
    "fmod remainder mod floor_divide": ("exact", -3, 3),
    "divmod": ("exact", -3, 3),
    "power pow float_power": ("elementwise", 0.1, 3),
    "arctan2 atan2 hypot": ("elementwise", -3, 3),
    "logaddexp logaddexp2": ("cancelling", -3, 3),
}
INTEGERS = {  # of integers at their extremes
    "add subtract multiply maximum minimum equal not_equal less less_equal greater "
    "greater_equal bitwise_and bitwise_or bitwise_xor": (
        "i8",
        "i32",
        "u8",
        "u32",
        "i64",
    ),
    "floor_divide remainder fmod divmod": ("i8", "i32", "u8", "i64"),
}
PAIRS = [((3, 4), (4,)), ((2, 1, 3), (4, 1)), ((), (3,)), ((0, 3), (1, 3))]


def binary() -> Iterator[Setting]:
    """Yield settings of functions of two arrays."""
    for names, (kind, low, high) in BINARY.items():
        for name, dtype in itertools.product(names.split(), FLOATS):
            for shapes in PAIRS:
                pair = tuple(drawn(shape, dtype, low, high) for shape in shapes)
                peers = ("numpy", "jax") if name == "mod" else ("numpy", "jax", "torch")
                yield Setting("numpy", name, pair, {}, kind, peers=peers)
            values = edges({"f4": "f32", "f8": "f64"}[dtype])
            pair = tuple(x.ravel() for x in np.meshgrid(values, values))
            yield Setting("numpy", name, pair, {}, kind, smooth=False)
    for names, dtypes in INTEGERS.items():
        for name, dtype in itertools.product(names.split(), dtypes):
            x, y = (x.ravel() for x in np.meshgrid(edges(dtype), edges(dtype)))
            if name in ("floor_divide", "remainder", "fmod", "divmod"):
                x, y = x[y != 0], y[y != 0]
            yield Setting("numpy", name, (x, y))
    for dtype in ("i4", "u1"):
        x, shift = drawn((4, 5), dtype, 0, 100), drawn((5,), dtype, 0, 7)
        for name in (
            "left_shift",
            "right_shift",
            "bitwise_left_shift",
            "bitwise_right_shift",
        ):
            yield Setting("numpy", name, (x, shift))
        for name in ("invert", "bitwise_not", "bitwise_invert", "bitwise_count"):
            yield Setting("numpy", name, (x,))


def several() -> Iterator[Setting]:
    """Yield settings of the other elementwise functions."""
    for dtype in FLOATS:
        x, y = drawn((3, 4), dtype), drawn((4,), dtype)
        condition = drawn((3, 1), "?")
        yield Setting("numpy", "where", (condition, x, y))
        for bounds in ((-1.0, 1.0), (None, 0.5), (-0.5, None), (y - 1, y + 1)):
            yield Setting("numpy", "clip", (x, *bounds))
        values = edges({"f4": "f32", "f8": "f64"}[dtype])
        yield Setting("numpy", "nan_to_num", (values,), smooth=False)
        instead = {"nan": 1.0, "posinf": 2.0, "neginf": -3.0}
        yield Setting("numpy", "nan_to_num", (values,), instead, smooth=False)
        x1, x2 = (part.ravel() for part in np.meshgrid(values, values))
        for name, equal_nan in itertools.product(
            ("isclose", "allclose"), (False, True)
        ):
            yield Setting(
                "numpy", name, (x1, x2), {"equal_nan": equal_nan}, smooth=False
            )
            near = x + 1e-6
            yield Setting("numpy", name, (x, near.astype(dtype)), {"rtol": 1e-5})
        for decimals in (0, 1, 2, -1):
            yield Setting("numpy", "round", (30 * x, decimals), {}, "elementwise")
        yield Setting("numpy", "modf", (3 * x,))
        yield Setting("numpy", "frexp", (3 * x,))
        yield Setting("numpy", "frexp", (values[np.isfinite(values)],), smooth=False)
        yield Setting("numpy", "ldexp", (x, drawn((4,), "i4", -3, 3)))
        for p in ((3,), (1,), (5,)):
            yield Setting("numpy", "polyval", (drawn(p, dtype), x), {}, "accumulated")


# ---- along axes ---------------------------------------------------------------------

AXES = (None, 0, -1, (0, 2), (-2, 1))


def reductions() -> Iterator[Setting]:
    """Yield reductions over no, one, several and all axes."""
    kinds = {"max": "chosen", "min": "chosen", "amax": "chosen", "amin": "chosen"}
    kinds |= dict.fromkeys(("all", "any", "count_nonzero", "argmax", "argmin"), "exact")
    names = "sum prod max min amax amin mean var std all any ptp count_nonzero median"
    for name, dtype in itertools.product(names.split(), ("f4", "f8", "i4")):
        kind = kinds.get(name, "accumulated")
        for axis, keepdims in itertools.product((None, 0, -1, (0, 2)), (False, True)):
            x = drawn((2, 3, 4), dtype)
            options = {"axis": axis, "keepdims": keepdims}
            yield Setting("numpy", name, (x,), options, kind)
        if name not in ("max", "min", "amax", "amin", "ptp", "median"):
            smooth = name not in ("mean", "median", "var", "std")
            yield Setting(
                "numpy", name, (drawn((0, 3), dtype),), {"axis": 0}, kind, smooth
            )
            yield Setting("numpy", name, (drawn((2, 0, 3), dtype),), {"axis": -1}, kind)
    for name, dtype in itertools.product(("argmax", "argmin"), FLOATS):
        for axis, keepdims in itertools.product((None, 0, -1), (False, True)):
            options = {"axis": axis, "keepdims": keepdims}
            yield Setting("numpy", name, (drawn((2, 3, 4), dtype),), options)
            yield Setting(
                "numpy",
                name,
                (with_nan(drawn((2, 3, 4), dtype)),),
                options,
                smooth=False,
            )
    yield from _masked()


def _masked() -> Iterator[Setting]:
    """Yield settings of reductions with a mask."""
    for name, dtype, axis in itertools.product(
        ("sum", "prod", "mean", "var", "std", "max", "min", "all", "any"),
        FLOATS,
        (None, 1, (0, -1)),
    ):
        x, where = drawn((3, 4, 2), dtype), drawn((4, 1), "?")
        where[:3] = True
        options = {"axis": axis, "where": where}
        if name in ("max", "min"):
            options["initial"] = 0.5
        yield Setting("numpy", name, (x,), options, "accumulated")
        if name in ("var", "std"):
            yield Setting("numpy", name, (x,), {"axis": axis, "ddof": 1}, "accumulated")
        if name in ("sum", "prod"):
            yield Setting(
                "numpy", name, (x,), {"axis": axis, "initial": 2.0}, "accumulated"
            )


def nan_reductions() -> Iterator[Setting]:
    """Yield reductions that leave out NaN."""
    names = "nansum nanprod nanmax nanmin nanmean nanvar nanstd nanmedian"
    for name, dtype in itertools.product(names.split(), FLOATS):
        for axis, keepdims in itertools.product((None, 0, -1, (0, 2)), (False, True)):
            x = with_nan(drawn((2, 3, 4), dtype))
            options = {"axis": axis, "keepdims": keepdims}
            yield Setting("numpy", name, (x,), options, "accumulated")
    for name, dtype, axis in itertools.product(
        ("nanargmax", "nanargmin", "nancumsum", "nancumprod"), FLOATS, (None, 0, -1)
    ):
        x = with_nan(drawn((2, 3, 4), dtype))
        yield Setting("numpy", name, (x,), {"axis": axis}, "accumulated")


def cumulative() -> Iterator[Setting]:
    """Yield settings of cumulative functions."""
    for name, dtype in itertools.product(("cumsum", "cumprod"), ("f4", "f8", "i4")):
        for shape, axis in (((3, 4), None), ((3, 4), 0), ((2, 3, 4), -2), ((0, 3), 1)):
            x = drawn(shape, dtype)
            yield Setting("numpy", name, (x,), {"axis": axis}, "accumulated")
    for name, initial, axis in itertools.product(
        ("cumulative_sum", "cumulative_prod"), (False, True), (0, -1)
    ):
        options = {"axis": axis, "include_initial": initial}
        yield Setting("numpy", name, (drawn((3, 4)),), options, "accumulated")
    for n, axis in itertools.product((0, 1, 2, 3), (0, -1)):
        yield Setting(
            "numpy", "diff", (drawn((4, 5)),), {"n": n, "axis": axis}, "accumulated"
        )
    yield Setting("numpy", "diff", (drawn((4, 5), "i4"),))
    x = drawn((2, 3))
    for begin, end in ((None, None), (drawn((2,)), None), (drawn((1,)), drawn((3,)))):
        yield Setting(
            "numpy", "ediff1d", (x,), {"to_begin": begin, "to_end": end}, "accumulated"
        )
    for axis in (None, 0, -1, (0, 1)):
        yield Setting(
            "numpy", "gradient", (drawn((4, 5)),), {"axis": axis}, "accumulated"
        )
    yield Setting("numpy", "gradient", (drawn((4, 5)), 0.5), {"axis": 0}, "accumulated")
    for axis in (0, -1):
        y, x = drawn((5, 5)), np.sort(drawn((5,)))
        yield Setting("numpy", "trapezoid", (y,), {"axis": axis}, "accumulated")
        yield Setting("numpy", "trapezoid", (y, x), {"axis": axis}, "accumulated")
        yield Setting(
            "numpy", "trapezoid", (y, None, 0.3), {"axis": axis}, "accumulated"
        )
    for axis, returned in itertools.product((None, 0, -1), (False, True)):
        weights = drawn((3, 4), low=0.5)
        options = {"axis": axis, "returned": returned}
        yield Setting("numpy", "average", (drawn((3, 4)),), options, "accumulated")
        yield Setting(
            "numpy",
            "average",
            (drawn((3, 4)),),
            {"weights": weights, **options},
            "accumulated",
        )


def orders() -> Iterator[Setting]:
    """Yield settings of sorts, searches and counts."""
    for name, dtype, axis in itertools.product(
        ("sort", "argsort"), ("f4", "f8", "i4", "u1"), (None, 0, -1)
    ):
        for shape in ((4, 5), (3, 0)):
            x = drawn(shape, dtype, 0, 6)
            yield Setting("numpy", name, (x,), {"axis": axis})
    for values in (edges("f32"), with_nan(drawn((3, 4)))):
        yield Setting("numpy", "sort", (values,), {}, "chosen", smooth=False)
    yield Setting("numpy", "lexsort", ([drawn((7,), "i4"), drawn((7,), "i4")],))
    yield Setting("numpy", "lexsort", (drawn((3, 7), "i4"),))
    for side, dtype in itertools.product(("left", "right"), ("f4", "f8", "i4")):
        a = np.sort(drawn((9,), dtype, -3, 3))
        v = np.concatenate([a[:3], drawn((5,), dtype, -4, 4)]).reshape(2, 4)
        yield Setting("numpy", "searchsorted", (a, v), {"side": side})
        yield Setting("numpy", "digitize", (v, a), {"right": side == "right"})
    for invert in (False, True):
        x, some = drawn((3, 4), "i4", 0, 9), drawn((3,), "i4", 0, 9)
        yield Setting("numpy", "isin", (x, some), {"invert": invert})
    x = drawn((20,), "i4", 0, 6)
    yield Setting("numpy", "bincount", (x,), {"minlength": 9})


def distributions() -> Iterator[Setting]:
    """Yield settings of quantiles and histograms."""
    for method in ("linear", "lower", "higher", "midpoint", "nearest"):
        for axis, keepdims in ((None, False), (0, True), ((0, 1), True)):
            q = np.array([0.0, 0.21, 0.5, 1.0])
            options = {"axis": axis, "method": method, "keepdims": keepdims}
            for name, times in (("quantile", 1), ("percentile", 100)):
                x = drawn((5, 4))
                yield Setting("numpy", name, (x, times * q), options, "accumulated")
                given = (with_nan(x), times * q)
                yield Setting("numpy", f"nan{name}", given, options, "accumulated")
    for bins in (5, np.array([-2.0, -0.5, 0.0, 1.5])):
        for density in (False, True):
            options = {"bins": bins, "density": density}
            if isinstance(bins, int):
                options["range"] = (-1.5, 1.0)
            yield Setting(
                "numpy",
                "histogram",
                (drawn((30,)),),
                options,
                "accumulated",
                smooth=False,
            )
