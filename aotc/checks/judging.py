"""Verdicts on results, element by element, as far as rounding decides them.

An element may be off by `_NOISE_FACTOR` times what random rounding errors do to it
(`rounding`), and by a few units in its last place. Small elements beside large ones are
held to their own size, but for the last places of the largest, which whatever adds them
up or transforms them together may leave on all.

Note [elements that no run showed]: runs with noise do not show all elements of which
rounding decides whether they are finite. How many more a further run, and so compiled
code, would show is about the number of those that exactly one of the runs showed,
divided by the number of runs (Good, "The population frequencies of species and the
estimation of population parameters", Biometrika 40, 1953). No more than some times
that, and some standard deviations of such a count (Poisson's: where a quarter of an
element is expected, two are not rare), are taken for open; any other that is finite on
one side alone is wrong, whatever its neighbours are.

So it is with jumps: what is rounded to whole numbers in the graph, as a quantised
network rounds its activations, is a step off where rounding errors carry a number past
the middle, and so may be any result after it; and so is the derivative of a relu or of
a maximum where they carry one past the kink. Such an element is further off in one run
than the others with noise allow. As many as that may be further off than their own
noise, or as many as one run has moved so, since one jump may move many; but none
further than noise has moved any. All results of a call are of the same numbers: where
one shows jumps, as large a part of a smaller one, and as many of a larger one, may.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import ml_dtypes
import numpy as np

from aotc.checks.cached_parts import cached_parts
from aotc.checks.differences import Distance, compare, distance
from aotc.checks.rounding import Noise, deviations, is_float, largest_finite, noises
from aotc.core import dtypes
from aotc.core.dtypes import DTypeLike
from aotc.core.json_values import JsonObject
from aotc.errors import InputError

Arrays = list[np.ndarray]

_NOISE_FACTOR = 16.0
UNITS = 32.0  # in the last place
_PART = 0.05  # of the largest element: units are at least those of this
_RUNS = 4  # with noise, at most, where many elements are too far off
_MOST_RUNS = 16  # where few are, or some are open, which some runs do not show
_FEW = 2e-2  # of the elements of a result
_KNOWN = 16.0  # so many elements that no run showed are estimated well by few runs
_UNSEEN_FACTOR = 4.0  # times the open elements that a further run is expected to show
_DEVIATIONS = 3.0  # and so many standard deviations of a count that is expected


@dataclass(frozen=True)
class Unseen:
    """The estimated number of elements that rounding affects though no noisy run showed
    it.

    Args:
        open: of which rounding may decide whether they are finite.
        jumps: that rounding may move by a step.
    """

    open: float = 0.0
    jumps: float = 0.0

    def __bool__(self) -> bool:
        return bool(self.open or self.jumps)


def error_ratios(
    found: np.ndarray,
    expected: np.ndarray,
    spread: np.ndarray,
    unseen: Unseen | None = None,
) -> np.ndarray:
    """Return each element's error divided by its tolerance; wrong above 1.

    Elements of which rounding decides whether they are finite may be anything.

    Args:
        found: an array.
        expected: the array that it should be, of the same shape and dtype.
        spread: how far rounding moves each element of `expected`, in f64.
        unseen: how many others may be off (`Rounding.unseen`); None for none.

    Returns:
        An f64 array of the same shape, infinite where nothing allows a difference.
    """
    unseen = unseen or Unseen()
    slices = list(cached_parts(expected.size))
    flat = [np.reshape(each, -1) for each in (found, expected, spread)]
    parts = [(flat[0][at], flat[1][at], flat[2][at]) for at in slices]
    ratios: np.ndarray = np.empty(expected.size)
    if not is_float(expected):
        for at, (x, y, moved) in zip(slices, parts, strict=True):
            ratios[at] = np.where((x != y) & ~(moved > 0), np.inf, 0.0)
    else:
        ignore_undecided = sum(_undecided(*each).sum() for each in parts) <= unseen.open
        least = _least_size(expected)
        for at, (x, y, moved) in zip(slices, parts, strict=True):
            ratios[at] = _float_ratios(
                x, y, moved, least, ignore_undecided=ignore_undecided
            )
    shaped = ratios.reshape(expected.shape)
    if not unseen.jumps or not np.any(shaped > 1):
        return shaped
    return _without_jumps(shaped, deviations(expected, found), spread, unseen)


def _undecided(x: np.ndarray, y: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """Return a mask of elements that only one array has finite though no noise shows
    it.
    """
    found: np.ndarray = np.isfinite(spread) & (np.isfinite(x) != np.isfinite(y))
    return found


def _float_ratios(
    found: np.ndarray,
    expected: np.ndarray,
    spread: np.ndarray,
    least: float,
    *,
    ignore_undecided: bool,
) -> np.ndarray:
    """Return each float's error divided by its tolerance, as `error_ratios`.

    Args:
        found: some elements.
        expected: what they should be.
        spread: how far rounding moves them.
        least: the size of which units are told of smaller ones, of the whole array.
        ignore_undecided: whether those that `_undecided` finds may be anything.
    """
    is_open = ~np.isfinite(spread)
    if ignore_undecided:
        is_open |= _undecided(found, expected, spread)
    error = np.where(is_open, 0.0, deviations(expected, found))
    y = expected.astype(np.float64)
    decided = np.where(is_open, 0.0, spread)
    with np.errstate(invalid="ignore", over="ignore"):
        ratios: np.ndarray = error / _tolerance(y, expected.dtype, decided, least)
    return ratios


def _without_jumps(
    ratios: np.ndarray, errors: np.ndarray, spread: np.ndarray, unseen: Unseen
) -> np.ndarray:
    """Return the ratios, with 1 at elements that may have jumped by a rounding step.

    Args:
        ratios: above 1 where an element is wrong by its own noise.
        errors: how far each element is off.
        spread: how far noise has moved each of them.
        unseen: how many may have moved.
    """
    most = np.max(spread, initial=0.0, where=np.isfinite(spread))
    moved = (ratios > 1) & (errors <= most)
    return np.where(moved & (moved.sum() <= unseen.jumps), 1.0, ratios)


def elementwise_tolerances(expected: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """Return the allowed error of each element; infinite where rounding decides it.

    Of a few elements that are finite in one array only, `error_ratios` knows more.

    Args:
        expected: the array that a result should be.
        spread: how far rounding moves each of its elements, in f64.

    Returns:
        An array in f64.
    """
    least = _least_size(expected) if is_float(expected) else 0.0
    return _allowed(expected, spread, least)


def _allowed(expected: np.ndarray, spread: np.ndarray, least: float) -> np.ndarray:
    """Return the allowed error of each element of any dtype; `least` as in `_units`."""
    if not is_float(expected):
        return np.where(spread > 0, np.inf, 0.0)
    is_open = ~np.isfinite(spread)
    decided = np.where(is_open, 0.0, spread)
    y = expected.astype(np.float64)
    allowed = _tolerance(y, expected.dtype, decided, least)
    return np.where(is_open, np.inf, allowed)


def _tolerance(
    y: np.ndarray, dtype: np.dtype, spread: np.ndarray, least: float
) -> np.ndarray:
    """Return the allowed error of each float; `least` as in `_units`."""
    # Numbers below the normal ones may be zeros; half floats have no such numbers.
    facts = ml_dtypes.finfo(dtype)
    flushed = 0.0 if dtype == np.float16 else float(facts.smallest_normal)
    by_noise: np.ndarray = _NOISE_FACTOR * spread
    return by_noise + UNITS * _units(y, dtype, least) + flushed


def _least_size(expected: np.ndarray) -> float:
    """Return the magnitude below which elements share the unit of their error.

    It is a twentieth of the largest one.
    """
    facts = ml_dtypes.finfo(expected.dtype)
    return max(_PART * largest_finite(expected), float(facts.smallest_normal))


def _units(y: np.ndarray, dtype: DTypeLike, least: float) -> np.ndarray:
    """Return the unit of each element's error: the last place of its size, or of
    `least`.

    It is the last place of the element, or of `_least_size`.

    Args:
        y: elements of an array, in f64.
        dtype: that it has.
        least: of the array.
    """
    size = np.where(np.isfinite(y), np.abs(y), 0.0)
    units: np.ndarray = float(ml_dtypes.finfo(dtype).eps) * np.maximum(size, least)
    return units


class Rounding:
    """The effect of rounding on each element, estimated by repeated noisy evaluations.

    Args:
        expected: results without noise.
        evaluate: the same results, of an evaluation with noise.
        count: is called for each evaluation that is used.
    """

    def __init__(
        self,
        expected: Sequence[np.ndarray],
        evaluate: Callable[[Noise], Arrays],
        count: Callable[[], None] = lambda: None,
    ) -> None:
        self._expected = expected
        self._evaluate = evaluate
        self._count = count
        self._noises = noises()
        self._ahead: deque[Arrays | Exception] = deque()
        self.runs = 0
        self.spreads = [np.zeros(np.shape(array)) for array in expected]
        self._shown = [np.zeros(np.shape(array), np.uint8) for array in expected]
        self._seconds = [np.zeros(np.shape(array), np.float32) for array in expected]
        self._farthest = [np.zeros(np.shape(array), np.uint8) for array in expected]

    @property
    def evaluations(self) -> int:
        """The number of evaluations with noise, those ahead included."""
        return self.runs + len(self._ahead)

    def evaluate_ahead(self) -> None:
        """Evaluate once more with other noise, and keep the result for a later
        `run_again`.
        """
        try:
            self._ahead.append(self._evaluate(next(self._noises)))
        except (InputError, MemoryError) as error:  # raised if it is used
            self._ahead.append(error)

    def run_again(self) -> None:
        """Evaluate once more with other noise, or use an evaluation made ahead; record
        how far each element moved.
        """
        self._count()
        if not self._ahead:
            self.evaluate_ahead()
        results = self._ahead.popleft()
        if isinstance(results, Exception):
            raise results
        self.runs += 1
        for number, pair in enumerate(zip(self._expected, results, strict=True)):
            self._record_result(number, *map(np.ravel, pair))

    def _record_result(
        self, number: int, expected: np.ndarray, found: np.ndarray
    ) -> None:
        """Record how far a result's elements moved in the last noisy evaluation."""
        arrays = self.spreads, self._shown, self._seconds, self._farthest
        flat = [each[number].reshape(-1) for each in arrays]
        for part in cached_parts(expected.size):
            most, shown, seconds, farthest = (each[part] for each in flat)
            spread = deviations(expected[part], found[part])
            shown += np.isinf(spread)
            with np.errstate(over="ignore"):
                lesser = np.minimum(most, spread).astype(np.float32)
            np.maximum(seconds, lesser, out=seconds)
            farthest[spread > most] = self.runs
            np.maximum(most, spread, out=most)

    @property
    def unseen(self) -> list[Unseen]:
        """Return, for each result, how many elements may vary though no noise showed
        it.
        """
        jumps = [self._unseen_jumps(number) for number in range(len(self._expected))]
        sizes = [max(1, each.size) for each in self.spreads]
        return [
            Unseen(
                unseen_open,
                max(
                    n * min(1.0, size / other)
                    for n, other in zip(jumps, sizes, strict=True)
                ),
            )
            for unseen_open, size in zip(self._unseen_open(), sizes, strict=True)
        ]

    def _unseen_open(self) -> list[float]:
        """Estimate, per result, the elements that may be non-finite though no noise
        showed it.
        """
        singles = [int(np.count_nonzero(shown == 1)) for shown in self._shown]
        return [_unseen_elements(number, self.runs) for number in singles]

    def _unseen_jumps(self, number: int) -> float:
        """Estimate how many elements of a result jump though no noisy run has shown it.

        See Note [elements that no run showed].
        """
        expected = np.ravel(self._expected[number])
        arrays = self.spreads, self._seconds, self._farthest
        flat = [each[number].reshape(-1) for each in arrays]
        counts = np.zeros(self.runs + 1, int)
        least = _least_size(expected) if is_float(expected) else 0.0
        for part in cached_parts(expected.size):
            most, seconds, farthest = (each[part] for each in flat)
            allowed = _allowed(expected[part], seconds.astype(np.float64), least)
            has_jumped = np.isfinite(most) & (most > allowed)
            counts += np.bincount(farthest[has_jumped], minlength=self.runs + 1)
        jumps = _unseen_elements(int(counts.sum()), self.runs)
        return max(jumps, float(counts.max(initial=0)))

    @property
    def estimate(self) -> float:
        """The estimated number of elements that may be non-finite though no noise
        showed it, of the result with the most.
        """
        return max(self._unseen_open(), default=0.0)

    @property
    def is_all(self) -> bool:
        """Return whether rounding decides for every element whether it is finite."""
        elements = [each for each in self.spreads if each.size]
        return bool(elements) and all(np.isinf(each).all() for each in elements)


def _unseen_elements(singles: int, runs: int) -> float:
    """Estimate how many undecided elements no noisy run has shown.

    See Note [elements that no run showed].

    Args:
        singles: elements that one run alone showed.
        runs: with noise.
    """
    if not runs:
        return 0.0
    expected = singles / runs
    return _UNSEEN_FACTOR * expected + _DEVIATIONS * math.sqrt(expected)


class ComparisonRule(Protocol):
    """Protocol of a rule that decides which computed arrays are wrong."""

    def errors(
        self,
        found: Sequence[np.ndarray],
        expected: Sequence[np.ndarray],
        noisy: Callable[[Noise], Arrays] | None,
    ) -> list[float | None]:
        """Return each array's error relative to its largest element; None if it is
        right.

        Args:
            found: what was computed.
            expected: what it should be.
            noisy: `expected` by an evaluation with noise, where there is one.
        """


@dataclass(frozen=True)
class ToleranceRule:
    """Compares all elements with one tolerance, as frameworks round otherwise than
    aotc.

    Args:
        tolerance: for floats, instead of those of their dtypes.
    """

    tolerance: float | None = None

    def errors(
        self,
        found: Sequence[np.ndarray],
        expected: Sequence[np.ndarray],
        noisy: Callable[[Noise], Arrays] | None,
    ) -> list[float | None]:
        """Return the errors beyond a tolerance, None where within it; see
        `ComparisonRule`.
        """
        compared = (
            compare("", x, y, self.tolerance)
            for x, y in zip(found, expected, strict=True)
        )
        return [None if each.passed else each.error for each in compared]


class RoundingRule:
    """Compares each element with a tolerance from the measured effect of rounding on
    it.
    """

    def errors(
        self,
        found: Sequence[np.ndarray],
        expected: Sequence[np.ndarray],
        noisy: Callable[[Noise], Arrays] | None,
    ) -> list[float | None]:
        """Return the errors beyond the effect of rounding, None where within it; see
        `ComparisonRule`.
        """
        if noisy is None:
            return ToleranceRule().errors(found, expected, None)
        rounding = Rounding(expected, noisy)
        verdicts = judge([""] * len(found), found, expected, rounding)
        return [None if each.passed else each.distance.error for each in verdicts]


@dataclass(frozen=True)
class Verdict:
    """The judgement on one result of a call: its measured errors and their bound.

    Args:
        distance: its figures, without the elements that rounding leaves open.
        error_ratio: the largest error of an element, divided by what it may be: with
            noise as far as was needed, so below 1 it says nothing of nearness to 1.
        wrong: which elements are, in words; empty if none is.
        error_ulp: the largest error of an element, in units of `_units`.
        rounding_ulp: how far noise has moved an element at most, in the same units; 0
            where no evaluation with noise was needed.
    """

    distance: Distance
    error_ratio: float
    wrong: str = ""
    error_ulp: float = 0.0
    rounding_ulp: float = 0.0

    @property
    def passed(self) -> bool:
        """Return whether all elements are right."""
        return not self.wrong

    def to_json(self) -> JsonObject:
        """Return the verdict as a build report holds it; a figure that is not finite is
        null.
        """
        ulp = self.error_ulp if np.isfinite(self.error_ulp) else None
        return {
            **self.distance.to_json(),
            "error_ulp": ulp,
            "rounding_ulp": self.rounding_ulp,
            "passed": self.passed,
        }

    def __str__(self) -> str:
        return f"{self.distance}\n    {self.wrong or 'all elements right'}"

    def worse_of(self, other: Verdict) -> Verdict:
        """Return the verdict with the larger error ratio, with the worse figures of
        both.
        """
        worst = max(self, other, key=lambda each: each.error_ratio)
        far = max(self, other, key=lambda each: each.error_ulp)
        distance = self.distance.worst_of(other.distance)
        return replace(
            worst,
            distance=distance,
            error_ulp=far.error_ulp,
            rounding_ulp=far.rounding_ulp,
        )


def judge(
    names: Sequence[str],
    found: Sequence[np.ndarray],
    expected: Sequence[np.ndarray],
    rounding: Rounding,
) -> list[Verdict]:
    """Return the verdict on each result; runs noisy evaluations until all is decided.

    Args:
        names: of the results.
        found: what was computed.
        expected: by the reference, without noise.
        rounding: of `expected`.
    """
    pairs = list(zip(found, expected, strict=True))
    fits = [x.shape == y.shape and x.dtype == y.dtype for x, y in pairs]
    unseen = [Unseen()] * len(pairs)
    ratios = [np.array(np.inf)] * len(pairs)
    wrong = list(range(len(pairs)))
    while True:
        for number in wrong:  # noise only widens what is allowed: the others stay right
            if fits[number]:
                spread, more = rounding.spreads[number], unseen[number]
                ratios[number] = error_ratios(*pairs[number], spread, more)
        wrong = [number for number in wrong if np.any(ratios[number] > 1)]
        if not wrong or any(unseen):
            break
        share = max(float(np.mean(ratios[number] > 1)) for number in wrong)
        is_worth_it = share <= _FEW or 0 < rounding.estimate < _KNOWN
        if rounding.runs < (_MOST_RUNS if is_worth_it else _RUNS):
            rounding.run_again()
            continue
        unseen = rounding.unseen  # for the last time
        if not any(unseen):
            break
    return [
        _verdict(*each)
        for each in zip(names, found, expected, ratios, rounding.spreads, strict=True)
    ]


def _verdict(
    name: str,
    found: np.ndarray,
    expected: np.ndarray,
    ratios: np.ndarray,
    spread: np.ndarray,
) -> Verdict:
    """Return the verdict on one result by its ratios of error to tolerance."""
    kinds = [
        f"{dtypes.canonical_dtype(x.dtype)}{list(x.shape)}" for x in (found, expected)
    ]
    if kinds[0] != kinds[1]:
        far = distance(name, found, expected)
        return Verdict(far, np.inf, f"it is {kinds[0]}, expected {kinds[1]}")
    decided = np.where(ratios == 0, expected, found)
    ratio = float(ratios.max(initial=0.0))
    return Verdict(
        distance(name, decided, expected),
        ratio,
        _wrong_elements(found, expected, ratios) if ratio > 1 else "",
        *_in_units(decided, expected, spread),
    )


def _in_units(
    found: np.ndarray, expected: np.ndarray, spread: np.ndarray
) -> tuple[float, float]:
    """Return the largest error and the largest effect of rounding, in units of
    `_units`.
    """
    if not is_float(expected) or not expected.size:
        return float(np.any(found != expected)), 0.0
    least, error, rounding = _least_size(expected), 0.0, 0.0
    flat = [np.reshape(each, -1) for each in (found, expected, spread)]
    for part in cached_parts(expected.size):
        x, y, moved = (each[part] for each in flat)
        units = _units(y.astype(np.float64), expected.dtype, least)
        with np.errstate(over="ignore"):
            error = max(error, float(np.max(deviations(y, x) / units)))
        finite = np.where(np.isfinite(moved), moved, 0.0)
        rounding = max(rounding, float(np.max(finite / units)))
    return error, rounding


def _wrong_elements(found: np.ndarray, expected: np.ndarray, ratios: np.ndarray) -> str:
    """Describe how many elements are wrong, and the worst of them."""
    place = tuple(int(i) for i in np.unravel_index(np.argmax(ratios), ratios.shape))
    at = f" at {list(place)}" if place else ""
    got, wanted = (str(x[place]) for x in (found, expected))
    times = f", {ratios[place]:.1e} times too far off" if ratios[place] < np.inf else ""
    return (
        f"{int((ratios > 1).sum())} of {ratios.size} elements wrong:{at} {got}, "
        f"expected {wanted}{times}"
    )
