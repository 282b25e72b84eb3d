"""Distances between two arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import reduce

import numpy as np

from aotc.core import dtypes
from aotc.core.json_values import JsonObject

# largest error allowed, relative to the largest value of the array; others are exact
TOLERANCES = {"f64": 1e-9, "f32": 1e-4, "f16": 1e-2, "bf16": 4e-2}

_INFINITE = float("inf")
_MANY = 1e6  # from where on nobody wants all digits


@dataclass(frozen=True)
class Distance:
    """The distance of an array from its expected value.

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
        """The figures; one that is not finite is null, and no reason is left out."""
        return {
            key: None if isinstance(value, float) and not np.isfinite(value) else value
            for key, value in asdict(self).items()
            if key != "reason" or value
        }

    def __str__(self) -> str:
        return self._describe(f"{self.error:.1e}")

    def _describe(self, error: str) -> str:
        if self.reason:
            return f"{self.name} ({self.dtype}): {self.reason}"
        ulp = f"{self.ulp:.0f}" if self.ulp < _MANY else f"{self.ulp:.1e}"
        return (
            f"{self.name} ({self.dtype}): error {error}, "
            f"abs {self.max_abs:.1e}, rel {self.max_rel:.1e}, {ulp} ulp, "
            f"cosine {self.cosine:.7f}"
        )

    def worst_of(self, other: Distance) -> Distance:
        """The largest figures of two calls."""
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
    """A distance held to one tolerance for all elements.

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
        """A row of `aotc.parity/1`; a figure that is not finite is null."""
        return {**super().to_json(), "passed": self.passed}

    def __str__(self) -> str:
        verdict = "ok  " if self.passed else "FAIL"
        figures = self._describe(f"{self.error:.1e} of {self.tolerance:.0e}")
        return f"{verdict} {figures}{', by rounding' if self.by_rounding else ''}"

    def worst_of(self, other: Distance) -> Difference:
        """The largest figures of two calls."""
        far = asdict(super().worst_of(other))
        worst = Difference(**far, tolerance=self.tolerance)
        both = (self, other) if isinstance(other, Difference) else (self,)
        if worst.passed or not all(each.passed for each in both):
            return worst
        return replace(worst, by_rounding=True)


def mixed_tolerance(compute: str | None) -> float | None:
    """Return the tolerance of floats in a build with a cheaper dtype.

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
    """The figures of two arrays; infinite if they are of other shapes or dtypes.

    Numbers that are not finite must be the same ones in both.

    Args:
        name: what they are.
        found: an array.
        expected: the array it should be.
    """
    dtype = dtypes.canonical(expected.dtype)
    for what, got, wanted in (
        ("shapes", list(found.shape), list(expected.shape)),
        ("dtypes", dtypes.canonical(found.dtype), dtype),
    ):
        if got != wanted:
            reason = f"{what} differ: got {got}, expected {wanted}"
            return _infinite_distance(name, dtype, reason)
    wide = np.float64 if dtypes.is_float(dtype) else object
    x, y = found.astype(wide).ravel(), expected.astype(wide).ravel()
    if dtypes.is_float(dtype):
        finite = np.isfinite(y)
        apart = ~_same(x, y) & ~(finite & np.isfinite(x))
        if apart.any():
            return _infinite_distance(name, dtype, _not_finite(x, y, apart))
        x, y = x[finite], y[finite]
    delta, size = np.abs(x - y).astype(np.float64), np.abs(y).astype(np.float64)
    largest = size.max(initial=0.0)
    worst = delta.max(initial=0.0)
    return Distance(
        name,
        dtype,
        float(worst),
        float(np.max(delta[size > 0] / size[size > 0], initial=0.0)),
        float(np.max(delta / _last_place(size, dtype), initial=0.0)),
        _cosine(x.astype(np.float64), y.astype(np.float64)),
        float(worst / largest) if largest else float(worst),
    )


def worst_of(differences: Sequence[Difference]) -> Difference:
    """The largest figures of several calls, for one output."""
    return reduce(Difference.worst_of, differences)


def _infinite_distance(name: str, dtype: str, reason: str) -> Distance:
    far = _INFINITE
    return Distance(name, dtype, far, far, far, -1.0, far, reason=reason)


def _same(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return a mask of the elements that are equal, or both NaN."""
    are_same: np.ndarray = (x == y) | (np.isnan(x) & np.isnan(y))
    return are_same


def _not_finite(found: np.ndarray, expected: np.ndarray, apart: np.ndarray) -> str:
    """Describe the elements that differ and are not both finite."""
    first = int(np.flatnonzero(apart)[0])
    return (
        f"{int(apart.sum())} of {apart.size} elements differ that are not finite: got "
        f"{found[first]}, expected {expected[first]} at {first}"
    )


def _last_place(size: np.ndarray, dtype: str) -> object:
    """The distance of each element from the next one of its dtype."""
    if not dtypes.is_float(dtype):
        return np.ones_like(size)
    import ml_dtypes

    facts = ml_dtypes.finfo(dtypes.to_numpy(dtype))
    _, exponent = np.frexp(np.maximum(size, float(facts.smallest_normal)))
    return np.ldexp(float(facts.eps), exponent - 1)


def _cosine(x: np.ndarray, y: np.ndarray) -> float:
    lengths = float(np.linalg.norm(x) * np.linalg.norm(y))
    return float(x @ y) / lengths if lengths else float(np.array_equal(x, y))
