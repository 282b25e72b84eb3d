"""Whether results are right, element by element, as far as rounding leaves that open.

An element may be off by `_NOISE_FACTOR` times what random rounding errors do to it
(`rounding`), and by a few units in its last place. Small elements beside large ones are
held to their own size, but for the last places of the largest, which whatever adds them
up or transforms them together may leave on all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import ml_dtypes
import numpy as np

from aotc import dtypes
from aotc.checks.differences import Distance, compare, distance
from aotc.checks.rounding import Noise, is_float, noises, spreads

Arrays = list[Any]

_NOISE_FACTOR = 16.0
_UNITS = 32.0  # in the last place
_PART = 0.05  # of the largest element: units are at least those of this
_RUNS = 4  # with noise, at most, where many elements are too far off
_MOST_RUNS = 16  # where few are, of which some runs may move none by much
_FEW = 2e-2  # of the elements of a result


def error_ratios(found: Any, expected: Any, spread: Any) -> Any:
    """How far each element is off, divided by how far it may be; wrong above 1.

    Elements of which rounding decides whether they are finite may be anything. Runs
    with noise do not show all of them: where there is one, a few others that differ in
    this are taken for more of them.

    Args:
        found: an array.
        expected: the array that it should be, of the same shape and dtype.
        spread: how far rounding moves each element of `expected`, in f64.

    Returns:
        An f64 array of the same shape, infinite where nothing allows a difference.
    """
    if not is_float(expected):
        return np.where((found != expected) & ~(spread > 0), np.inf, 0.0)
    x, y = found.astype(np.float64), expected.astype(np.float64)
    is_open = ~np.isfinite(spread)
    undecided = ~is_open & (np.isfinite(x) != np.isfinite(y))
    if undecided.sum() <= _NOISE_FACTOR * is_open.sum():
        is_open |= undecided
    same = (x == y) | (np.isnan(x) & np.isnan(y)) | is_open
    with np.errstate(invalid="ignore"):
        error = np.where(same, 0.0, np.nan_to_num(np.abs(x - y), nan=np.inf))
        return error / _tolerance(y, expected.dtype, np.where(is_open, 0.0, spread))


def tolerances(expected: Any, spread: Any) -> Any:
    """How far each element may be off, in f64; infinitely where rounding decides.

    Of a few elements that are finite in one array only, `error_ratios` knows more.

    Args:
        expected: the array that a result should be.
        spread: how far rounding moves each of its elements, in f64.
    """
    if not is_float(expected):
        return np.where(spread > 0, np.inf, 0.0)
    is_open = ~np.isfinite(spread)
    decided = np.where(is_open, 0.0, spread)
    y = expected.astype(np.float64)
    return np.where(is_open, np.inf, _tolerance(y, expected.dtype, decided))


def _tolerance(y: Any, dtype: Any, spread: Any) -> Any:
    """How far each element may be off."""
    facts = ml_dtypes.finfo(dtype)
    eps, least = float(facts.eps), float(facts.smallest_normal)
    size = np.where(np.isfinite(y), np.abs(y), 0.0)
    size = np.maximum(size, max(_PART * size.max(initial=0.0), least))
    # Numbers below the normal ones may be zeros; half floats have no such numbers.
    flushed = 0.0 if dtype == np.float16 else least
    return _NOISE_FACTOR * spread + _UNITS * eps * size + flushed


class Rounding:
    """How far rounding moves each element, by as many noisy evaluations as are asked.

    Args:
        expected: results without noise.
        evaluate: the same results, of an evaluation with noise.
    """

    def __init__(
        self, expected: Sequence[Any], evaluate: Callable[[Noise], Arrays]
    ) -> None:
        self._expected = expected
        self._evaluate = evaluate
        self._noises = noises()
        self.runs = 0
        self.spreads = [np.zeros(np.shape(array)) for array in expected]

    def run_again(self) -> None:
        """Evaluate once more."""
        results = self._evaluate(next(self._noises))
        self.runs += 1
        found = spreads(self._expected, [results])
        self.spreads = [
            np.maximum(*pair) for pair in zip(self.spreads, found, strict=True)
        ]

    @property
    def is_all(self) -> bool:
        """Whether rounding decides of every element whether it is finite."""
        elements = [each for each in self.spreads if each.size]
        return bool(elements) and all(np.isinf(each).all() for each in elements)


class Rule(Protocol):
    """Says which of some arrays are wrong."""

    def errors(
        self,
        found: Sequence[Any],
        expected: Sequence[Any],
        noisy: Callable[[Noise], Arrays] | None,
    ) -> list[float | None]:
        """For each array its error, relative to the largest element; None if right.

        Args:
            found: what was computed.
            expected: what it should be.
            noisy: `expected` by an evaluation with noise, where there is one.
        """


@dataclass(frozen=True)
class ToleranceRule:
    """Holds all elements to one tolerance: sources round otherwise than aotc does.

    Args:
        tolerance: for floats, instead of those of their dtypes.
    """

    tolerance: float | None = None

    def errors(
        self,
        found: Sequence[Any],
        expected: Sequence[Any],
        noisy: Callable[[Noise], Arrays] | None,
    ) -> list[float | None]:
        """See `Rule`."""
        compared = (
            compare("", x, y, self.tolerance)
            for x, y in zip(found, expected, strict=True)
        )
        return [None if each.passed else each.error for each in compared]


class RoundingRule:
    """Holds each element to what rounding does to it."""

    def errors(
        self,
        found: Sequence[Any],
        expected: Sequence[Any],
        noisy: Callable[[Noise], Arrays] | None,
    ) -> list[float | None]:
        """See `Rule`."""
        if noisy is None:
            return ToleranceRule().errors(found, expected, None)
        rounding = Rounding(expected, noisy)
        verdicts = judge([""] * len(found), found, expected, rounding)
        return [None if each.passed else each.distance.error for each in verdicts]


@dataclass(frozen=True)
class Verdict:
    """Whether a result is right.

    Args:
        distance: its figures, without the elements that rounding leaves open.
        error_ratio: the largest error of an element, divided by what it may be.
        wrong: which elements are, in words; empty if none is.
    """

    distance: Distance
    error_ratio: float
    wrong: str = ""

    @property
    def passed(self) -> bool:
        """Whether all elements are right."""
        return not self.wrong

    def to_json(self) -> dict[str, Any]:
        """As the report of a build holds it; a figure that is not finite is null."""
        ratio = self.error_ratio if np.isfinite(self.error_ratio) else None
        return {
            **self.distance.to_json(),
            "error_ratio": ratio,
            "passed": self.passed,
        }

    def __str__(self) -> str:
        return f"{self.distance}\n    {self.wrong or 'all elements right'}"

    def worse_of(self, other: Verdict) -> Verdict:
        """The one with the larger error, with the figures of both."""
        worst = max(self, other, key=lambda each: each.error_ratio)
        distance = self.distance.worst_of(other.distance)
        return Verdict(distance, worst.error_ratio, worst.wrong)


def judge(
    names: Sequence[str],
    found: Sequence[Any],
    expected: Sequence[Any],
    rounding: Rounding,
) -> list[Verdict]:
    """The verdict on each result; evaluates with noise as often as it takes.

    Args:
        names: of the results.
        found: what was computed.
        expected: by the reference, without noise.
        rounding: of `expected`.
    """
    while True:
        ratios = [
            error_ratios(*each)
            if each[0].shape == each[1].shape and each[0].dtype == each[1].dtype
            else np.array(np.inf)
            for each in zip(found, expected, rounding.spreads, strict=True)
        ]
        shares = [float(np.mean(each > 1)) for each in ratios if each.size]
        share = max(shares, default=0.0)
        if share == 0 or rounding.runs >= (_MOST_RUNS if share <= _FEW else _RUNS):
            break
        rounding.run_again()
    return [
        _verdict(*each) for each in zip(names, found, expected, ratios, strict=True)
    ]


def _verdict(name: str, found: Any, expected: Any, ratios: Any) -> Verdict:
    kinds = [f"{dtypes.canonical(x.dtype)}{list(x.shape)}" for x in (found, expected)]
    if kinds[0] != kinds[1]:
        far = distance(name, found, expected)
        return Verdict(far, np.inf, f"it is {kinds[0]}, expected {kinds[1]}")
    decided = np.where(ratios == 0, expected, found)
    ratio = float(ratios.max(initial=0.0))
    return Verdict(
        distance(name, decided, expected),
        ratio,
        _wrong_elements(found, expected, ratios) if ratio > 1 else "",
    )


def _wrong_elements(found: Any, expected: Any, ratios: Any) -> str:
    """How many elements are wrong, and the one that is the most."""
    place = tuple(int(i) for i in np.unravel_index(np.argmax(ratios), ratios.shape))
    at = f" at {list(place)}" if place else ""
    got, wanted = (str(x[place]) for x in (found, expected))
    times = f", {ratios[place]:.1e} times too far off" if ratios[place] < np.inf else ""
    return (
        f"{int((ratios > 1).sum())} of {ratios.size} elements wrong:{at} {got}, "
        f"expected {wanted}{times}"
    )
