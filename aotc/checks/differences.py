"""Distances between two arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import reduce
from math import sqrt

import numpy as np

from aotc.checks.cached_parts import cached_parts
from aotc.core import dtypes
from aotc.core.json_values import JsonObject

# largest error allowed, relative to the largest value of the array; others are exact
TOLERANCES = {"f64": 1e-9, "f32": 1e-4, "f16": 1e-2, "bf16": 4e-2}

_INFINITE = float("inf")
_EXPONENT = 0x7FF << 52  # its bits of an f64
_MANY = 1e6  # from where on nobody wants all digits


@dataclass(frozen=True)
class Distance:
    """Measures of how far an array is from its expected value.

    Args:
        name: of the array.
        dtype: of both.
        max_abs: largest difference.
        max_rel: the same, relative to each element that is not 0.
        ulp: the same, in units of the last place of each element.
        cosine: of the angle between them, as vectors.
        error: largest difference relative to the largest element.
        reason: why there are no figures, as where the shapes differ; they are infinite
            then.
    """

    name: str
    dtype: str
    max_abs: float
    max_rel: float
    ulp: float
    cosine: float
    error: float
    reason: str = field(default="", kw_only=True)

    def to_json(self) -> JsonObject:
        """Return the measures by name; one that is not finite is null."""
        return {
            key: None if isinstance(value, float) and not np.isfinite(value) else value
            for key, value in asdict(self).items()
            if key != "reason" or value
        }

    def __str__(self) -> str:
        return self._describe(f"{self.error:.1e}")

    def _describe(self, error: str) -> str:
        """Return one line with all measures, with `error` as the relative error's
        text.
        """
        if self.reason:
            return f"{self.name} ({self.dtype}): {self.reason}"
        ulp = f"{self.ulp:.0f}" if self.ulp < _MANY else f"{self.ulp:.1e}"
        return (
            f"{self.name} ({self.dtype}): error {error}, "
            f"abs {self.max_abs:.1e}, rel {self.max_rel:.1e}, {ulp} ulp, "
            f"cosine {self.cosine:.7f}"
        )

    def worst_of(self, other: Distance) -> Distance:
        """Return the worse of each measure of two calls."""
        return Distance(
            self.name,
            self.dtype,
            max(self.max_abs, other.max_abs),
            max(self.max_rel, other.max_rel),
            max(self.ulp, other.ulp),
            min(self.cosine, other.cosine),
            max(self.error, other.error),
            reason=self.reason or other.reason,
        )


@dataclass(frozen=True)
class Difference(Distance):
    """The distance of an array from its expected value, and its tolerance.

    Args:
        tolerance: what `error` may be.
        by_rounding: whether a larger one is what rounding does to the results.
    """

    tolerance: float
    by_rounding: bool = False

    @property
    def passed(self) -> bool:
        """Return whether the error is within the tolerance or due to rounding."""
        return self.error <= self.tolerance or self.by_rounding

    def to_json(self) -> JsonObject:
        """Return a row of `aotc.parity/1`; a measure that is not finite is null."""
        return {**super().to_json(), "passed": self.passed}

    def __str__(self) -> str:
        verdict = "ok  " if self.passed else "FAIL"
        figures = self._describe(f"{self.error:.1e} of {self.tolerance:.0e}")
        return f"{verdict} {figures}{', by rounding' if self.by_rounding else ''}"

    def worst_of(self, other: Distance) -> Difference:
        """Return the worse of each measure of two calls, with this tolerance."""
        far = asdict(super().worst_of(other))
        worst = Difference(**far, tolerance=self.tolerance)
        both = (self, other) if isinstance(other, Difference) else (self,)
        if worst.passed or not all(each.passed for each in both):
            return worst
        return replace(worst, by_rounding=True)


def mixed_tolerance(compute: str | None) -> float | None:
    """Return the tolerance of results in a build in mixed precision.

    Args:
        compute: that dtype; None where each dtype has its own tolerance.
    """
    return None if compute is None else TOLERANCES[compute]


def compare(
    name: str, found: object, expected: object, tolerance: float | None = None
) -> Difference:
    """Return the difference of `found` and `expected`; infinite if their types differ.

    Args:
        name: what they are.
        found: an array.
        expected: the array it should be.
        tolerance: instead of that in `TOLERANCES`; integers are always exact.
    """
    far = distance(name, np.asarray(found), np.asarray(expected))
    allowed = TOLERANCES.get(far.dtype, 0.0)
    if tolerance is not None and far.dtype in TOLERANCES:
        allowed = tolerance
    return Difference(**asdict(far), tolerance=allowed)


def distance(name: str, found: np.ndarray, expected: np.ndarray) -> Distance:
    """Measure how far `found` is from `expected`; infinite for other shapes or dtypes.

    Numbers that are not finite must be the same ones in both.

    Args:
        name: what they are.
        found: an array.
        expected: the array it should be.
    """
    dtype = dtypes.canonical_dtype(expected.dtype)
    for what, got, wanted in (
        ("shapes", list(found.shape), list(expected.shape)),
        ("dtypes", dtypes.canonical_dtype(found.dtype), dtype),
    ):
        if got != wanted:
            reason = f"{what} differ: got {got}, expected {wanted}"
            return _infinite_distance(name, dtype, reason)
    x, y = found.ravel(), expected.ravel()
    if not dtypes.is_float(dtype):
        x, y = x.astype(object), y.astype(object)
    elif (apart := _differ_nonfinite(x, y)).any():
        return _infinite_distance(name, dtype, _not_finite(x, y, apart))
    figures = _Figures()
    for part in cached_parts(x.size):
        figures.include(x[part], y[part], dtype)
    return Distance(
        name,
        dtype,
        figures.worst,
        figures.relative,
        figures.ulp,
        figures.cosine,
        figures.worst / figures.largest if figures.largest else figures.worst,
    )


def _differ_nonfinite(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return a mask of the floats that differ where one of them is not finite."""
    found = np.zeros(x.size, bool)
    for part in cached_parts(x.size):
        a, b = x[part], y[part]
        is_known = np.isfinite(a) & np.isfinite(b)
        found[part] = False if is_known.all() else ~_same(a, b) & ~is_known
    return found


@dataclass
class _Figures:
    """Running measures of two arrays' distance, updated slice by slice.

    Args:
        worst: the largest difference.
        largest: the largest element.
        relative: the largest difference by its element.
        ulp: the same in last places.
        products: of the two, and of each with itself, added up.
        is_equal: whether no element differs.
    """

    worst: float = 0.0
    largest: float = 0.0
    relative: float = 0.0
    ulp: float = 0.0
    products: np.ndarray = field(default_factory=lambda: np.zeros(3))
    is_equal: bool = True

    def include(self, found: np.ndarray, expected: np.ndarray, dtype: str) -> None:
        """Update the measures by a slice, without elements expected not to be
        finite.
        """
        if dtypes.is_float(dtype):
            x, y = found.astype(np.float64), expected.astype(np.float64)
            finite = np.isfinite(y)
            if not finite.all():
                x, y = x[finite], y[finite]
        else:
            x, y = found, expected  # of any size: Python's
        delta, size = np.abs(x - y).astype(np.float64), np.abs(y).astype(np.float64)
        by_size = np.divide(delta, size, out=np.zeros(size.shape), where=size > 0)
        self.worst = max(self.worst, float(delta.max(initial=0.0)))
        self.largest = max(self.largest, float(size.max(initial=0.0)))
        self.relative = max(self.relative, float(by_size.max(initial=0.0)))
        in_places = delta / _ulps(size, dtype)
        self.ulp = max(self.ulp, float(in_places.max(initial=0.0)))
        x, y = x.astype(np.float64), y.astype(np.float64)
        self.products += [x @ y, x @ x, y @ y]
        self.is_equal &= np.array_equal(x, y)

    @property
    def cosine(self) -> float:
        """The cosine of the angle between the two arrays as vectors."""
        product, *squares = self.products.tolist()
        lengths = sqrt(squares[0]) * sqrt(squares[1])
        return product / lengths if lengths else float(self.is_equal)


def worst_of(differences: Sequence[Difference]) -> Difference:
    """Return the worst of each measure of one output over several calls."""
    return reduce(Difference.worst_of, differences)


def _infinite_distance(name: str, dtype: str, reason: str) -> Distance:
    """Return a distance whose measures are infinite, and the reason why."""
    far = _INFINITE
    return Distance(name, dtype, far, far, far, -1.0, far, reason=reason)


def _same(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return a mask of the elements that are equal, or both NaN."""
    are_same: np.ndarray = (x == y) | (np.isnan(x) & np.isnan(y))
    return are_same


def _not_finite(found: np.ndarray, expected: np.ndarray, mask: np.ndarray) -> str:
    """Describe the elements that differ and are not both finite."""
    first = int(np.flatnonzero(mask)[0])
    return (
        f"{int(mask.sum())} of {mask.size} elements differ that are not finite: got "
        f"{found[first]}, expected {expected[first]} at {first}"
    )


def _ulps(magnitudes: np.ndarray, dtype: str) -> np.ndarray:
    """Return the unit in the last place at each magnitude; 1 for integers."""
    if not dtypes.is_float(dtype):
        return np.ones_like(magnitudes)
    import ml_dtypes

    facts = ml_dtypes.finfo(dtypes.to_numpy(dtype))
    normal = np.maximum(magnitudes, float(facts.smallest_normal))
    powers: np.ndarray = (normal.view(np.int64) & _EXPONENT).view(np.float64)
    return float(facts.eps) * powers
