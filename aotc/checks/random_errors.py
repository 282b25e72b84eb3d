"""Random relative errors of arrays, as large as those that rounding makes.

Evaluations with noise do little else. So arrays are gone through in parts that stay in
a processor's caches; the numbers are those that one draw for a whole array gives.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import ml_dtypes
import numpy as np

from aotc.dialects.lowering.summation import LONGEST

_ULPS = 4.0  # at most, of each element
_LANES = 8  # at least, that sums are made in at once
_PART = 2**15  # elements


def with_errors(
    array: np.ndarray,
    rng: np.random.Generator,
    terms: float = 1.0,
    axes: Sequence[int] | None = None,
    scale: float = 1.0,
) -> np.ndarray:
    """Return an array of floats with random errors.

    Args:
        array: of any dtype of floats.
        rng: draws the errors.
        terms: of it that are added up to one result.
        axes: along which they are, where that is known.
        scale: of the errors.
    """
    facts = ml_dtypes.finfo(array.dtype)
    wide = np.float64 if array.dtype == np.float64 else np.float32
    whole = np.asarray(array, wide)
    x = whole.reshape(-1)
    found = np.empty(x.shape, wide)
    eps, most = float(facts.eps), float(facts.max)
    is_sum, drift = terms > 1, 0.0
    if is_sum:
        _draw(rng, found, eps)
        _add_walk(rng, found, terms, eps)
        if _is_repetitive(whole, axes):
            drift = rng.uniform(-1.0, 1.0) * min(terms, LONGEST) / (2 * _LANES)
    is_below = True
    for part in _parts(x.size):
        errors, own = found[part], x[part]
        if not is_sum:
            _draw(rng, errors, eps)
        if drift:
            errors += wide(drift * eps)
        if scale != 1.0:
            errors *= wide(scale)
        errors *= _sizes(own, array.dtype)
        with np.errstate(over="ignore"):
            errors += own
        is_below &= bool(np.abs(errors).max() < most / 2)
    if not is_below:
        # The largest number is what masks are made of. What compiled code adds to it
        # rounds to it again, and never to infinity.
        found = np.where(np.isfinite(found) & (np.abs(x) < most), found, x)
    return found.reshape(whole.shape).astype(array.dtype, copy=False)


def _parts(size: int) -> Iterator[slice]:
    return (slice(begin, begin + _PART) for begin in range(0, size, _PART))


def _draw(rng: np.random.Generator, errors: np.ndarray, eps: float) -> None:
    """Draw errors of some last places.

    They are uniform: errors that were all of one size would often cancel exactly.
    """
    wide = errors.dtype.type
    for part in _parts(errors.size):
        own = errors[part]
        rng.random(dtype=wide, out=own)
        own -= wide(0.5)
        own *= wide(2 * _ULPS * eps)


def _add_walk(
    rng: np.random.Generator, errors: np.ndarray, terms: float, eps: float
) -> None:
    """Add errors of operands, as sums in series have: those of neighbours are alike.

    What is added later rounds all that came before. Backward error of recursive
    summation: Higham, "Accuracy and Stability of Numerical Algorithms", 2002,
    section 4.2.
    """
    wide, reached = errors.dtype.type, 0.0
    scale = np.sqrt(terms / max(errors.size, 1))
    for part in _parts(errors.size):
        own = errors[part]
        sums = rng.random(own.size, np.float32) - np.float32(0.5)
        sums = sums.astype(np.float64)
        sums[0] += reached
        np.cumsum(sums, out=sums)
        reached = sums[-1]
        sums *= scale
        own += sums.astype(np.float32) * wide(eps)


def _sizes(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return the numbers that errors are relative to, of an array of a dtype.

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
    counts = x != 0
    flat = x.reshape(-1) if counts.all() else x[counts]
    return bool(2 * np.count_nonzero(flat[1:] == flat[:-1]) > flat.size)
