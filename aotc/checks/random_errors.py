"""Random relative errors of arrays, as large as those that rounding makes.

Evaluations with noise do little else. So random numbers are drawn once for an
evaluation, more than an array has as a rule, and each part of an array takes those that
begin at a random one; and arrays are gone through in parts that stay, with these, in a
processor's caches.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import ml_dtypes
import numpy as np

from aotc.checks.array_extents import ArrayExtents, Extent
from aotc.checks.cached_parts import PART, cached_parts
from aotc.dialects.lowering.summation import LONGEST

_ULPS = 4.0  # at most, of each element
_LANES = 8  # at least, that sums are made in at once
_BEGINNINGS = 2**16 + 1  # where the numbers for a part may begin


class RandomErrors:
    """A generator of random rounding errors for one noisy evaluation.

    Args:
        seed: of them.
        extents: of the arrays of the evaluation; those with errors are added.
    """

    def __init__(self, seed: int, extents: ArrayExtents | None = None) -> None:
        self._extents = extents or ArrayExtents()
        self._rng = np.random.default_rng(seed)
        count = _BEGINNINGS + PART
        drawn = self._rng.random(count, np.float32) - np.float32(0.5)
        # Uniform: errors that were all of one size would often cancel exactly.
        self._places = drawn * np.float32(2 * _ULPS)
        steps = self._rng.random(count, np.float32) - np.float32(0.5)
        self._walk = np.cumsum(steps, dtype=np.float64).astype(np.float32)
        self._span = float(np.ptp(self._walk))
        self._scaled: dict[tuple[np.dtype, float], np.ndarray] = {}

    def added_to(
        self,
        array: np.ndarray,
        terms: float = 1.0,
        axes: Sequence[int] | None = None,
        scale: float = 1.0,
    ) -> np.ndarray:
        """Return a copy of a float array with random rounding errors added.

        Args:
            array: of any dtype of floats.
            terms: of it that are added up to one result.
            axes: along which they are, where that is known.
            scale: of the errors.
        """
        wide, eps, most = _facts_of(array.dtype)
        whole: np.ndarray = np.asarray(array, wide)
        x = whole.reshape(-1)
        found = np.empty(x.shape, wide)
        unit = scale * eps
        is_sum, drift, reached = terms > 1, 0.0, 0.0
        if is_sum and _is_repetitive(whole, axes):
            most_terms = min(terms, LONGEST)
            drift = self._rng.uniform(-1.0, 1.0) * most_terms / (2 * _LANES)
        stride = unit * np.sqrt(terms / max(x.size, 1))
        largest = unit * (_ULPS + abs(drift))
        if is_sum:
            largest += stride * self._span * (1 + x.size / PART)
        known = self._extents.find(array)
        is_small = known is not None and _is_within(known, most / (2 + 2 * largest))
        places = self._scaled_errors(wide, unit)
        extent = np.inf, -np.inf
        with np.errstate(over="ignore", invalid="ignore"):
            for part in cached_parts(x.size):
                errors, own = found[part], x[part]
                begin = self._draw_offset()
                sizes = _error_scales(own, array.dtype)
                drawn = places[begin : begin + own.size]
                is_turned = self._draw_sign_flip()
                if not is_sum:
                    np.multiply(drawn, sizes, out=errors)
                    add = np.subtract if is_turned else np.add
                    add(own, errors, out=errors)
                else:
                    reached = self._walk_on(errors, reached)
                    errors *= wide.type(stride)
                    add = np.subtract if is_turned else np.add
                    add(errors, drawn, out=errors)
                    if drift:
                        errors += wide.type(drift * unit)
                    errors *= sizes
                    errors += own
                if not is_small:  # else no error could make one too large
                    extent = _joined(extent, errors)
        is_known = not is_small and x.size > 0 and array.dtype == wide
        if not is_small and not _is_within(extent, most / 2):
            # The largest number is what masks are made of. What compiled code adds to
            # it rounds to it again, and never to infinity.
            found = np.where(np.isfinite(found) & (np.abs(x) < most), found, x)
            is_known = False
        disturbed = found.reshape(whole.shape).astype(array.dtype, copy=False)
        if is_known:
            self._extents.note(disturbed, extent)
        return disturbed

    def _walk_on(self, errors: np.ndarray, reached: float) -> float:
        """Write the next values of a random walk to `errors`; return the last one.

        Sums in series make such errors of operands: those of neighbours are alike. What
        is added later rounds all that came before. Backward error of recursive
        summation: Higham, "Accuracy and Stability of Numerical Algorithms", 2002,
        section 4.2.
        """
        begin = self._draw_offset()
        steps = self._walk[begin + 1 : begin + 1 + errors.size]
        before = self._walk[begin]
        if self._draw_sign_flip():
            np.subtract(steps.dtype.type(reached + before), steps, out=errors)
        else:
            np.add(steps, steps.dtype.type(reached - before), out=errors)
        return float(errors[-1])

    def _draw_sign_flip(self) -> bool:
        """Draw whether the errors of a slice have the opposite sign.

        Parts of one array share most of theirs, as there are few of them; with one sign
        their errors would add up and not cancel.
        """
        return bool(self._rng.random() < 0.5)

    def _draw_offset(self) -> int:
        """Draw a start offset into the precomputed random numbers."""
        return int(self._rng.random() * (_BEGINNINGS - 1))

    def _scaled_errors(self, wide: np.dtype, unit: float) -> np.ndarray:
        """Return the precomputed random numbers scaled by `unit`, in a dtype;
        cached.
        """
        if (wide, unit) not in self._scaled:
            self._scaled[wide, unit] = self._places.astype(wide) * wide.type(unit)
        return self._scaled[wide, unit]


@cache
def _facts_of(dtype: np.dtype) -> tuple[np.dtype, float, float]:
    """Return the dtype to compute a dtype's errors in, its epsilon, and its maximum."""
    facts = ml_dtypes.finfo(dtype)
    wide = np.dtype(np.float64 if dtype == np.float64 else np.float32)
    return wide, float(facts.eps), float(facts.max)


def _joined(extent: Extent, x: np.ndarray) -> Extent:
    """Return the extent of the elements of `x` and of others whose extent is known."""
    low, high = float(np.minimum.reduce(x)), float(np.maximum.reduce(x))
    return float(np.minimum(extent[0], low)), float(np.maximum(extent[1], high))


def _is_within(extent: Extent, most: float) -> bool:
    """Return whether all elements are numbers of an absolute value below `most`."""
    return -most < extent[0] and extent[1] < most


def _error_scales(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return the numbers, one per element, that errors of an array's elements are
    proportional to.

    Below the normal numbers of half floats the last place is theirs.
    """
    if dtype != np.float16:
        return x
    least = x.dtype.type(ml_dtypes.finfo(dtype).smallest_normal)
    sizes: np.ndarray = np.where(x != 0, np.maximum(np.abs(x), least), x.dtype.type(0))
    return sizes


def _is_repetitive(x: np.ndarray, axes: Sequence[int] | None = None) -> bool:
    """Return whether most elements equal their predecessor, so that sums round one way.

    Zeros, as a mask leaves them, do not count: adding them rounds nothing.

    Args:
        x: an array.
        axes: along which it is added up; by default in the order of memory.
    """
    if axes:  # what is added up lies together then
        x = np.moveaxis(x, axes, range(-len(axes), 0))
    flat = x.reshape(-1)
    equal, seen, before = 0, 0, flat[:0]
    for part in cached_parts(flat.size):
        own = flat[part]
        counts = own != 0
        if not counts.all():
            own = own[counts]
        seen += own.size
        equal += int(np.count_nonzero(own[1:] == own[:-1]))
        equal += int(np.count_nonzero(own[:1] == before))
        before = own[-1:] if own.size else before
        left = flat.size - min(part.stop, flat.size)
        if 2 * (equal + left) <= seen + left:  # whatever follows
            return False
    return 2 * equal > seen
