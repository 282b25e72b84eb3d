"""Arrays to compare on: random numbers, and numbers with structure.

Random floats are never equal, never zero, and random bits hide no block of positions as
a whole. So what goes wrong on ties, on exact zeros, on a run of a mask, at the first or
last position of an axis is not seen on them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from math import prod

import numpy as np

from aotc.checks.uses import Use


class IntegerRange(Enum):
    """The range of random integers where no example shows their meaning."""

    BITS = "0 and 1"
    SMALL = "from -8 to 7, or from 0 to 15"
    ANY = "all of the dtype, the least and the greatest among them"


class StructureLevel(Enum):
    """The amount of pattern, such as repeated rows, in a drawn array beside random
    values.

    Floats are rounded to a few numbers, rows repeat each other, masks are runs, and
    positions are the first or last ones. Where it is everything, there are exact zeros
    too, and masks that hide all: results that divide by those may say nothing more.
    """

    NONE = "nothing"
    SOME = "every other row, two of three masks, every other position"
    ALL = "everything"


_SHARE_OF_EXTREMES = 0.25
_PATTERNS = 60  # of masks that are made of an array; those beyond repeat them
_BLOCK = 32  # positions that kernels of attention see or skip as a whole


@dataclass(frozen=True)
class Draw:
    """A generator of random arrays for the inputs of checked calls.

    Args:
        rng: random numbers.
        positive: whether floats are from (0, 1), not around 0.
        kind: of integers of which nothing is known.
        structure: how much is other than random.
        turn: number of the call: what has one structure only takes others in turn.
        shows_first: whether masks hide no first position: all that a causal mask leaves
            to the first row.
    """

    rng: np.random.Generator
    positive: bool
    kind: IntegerRange
    structure: StructureLevel = StructureLevel.NONE
    turn: int = 0
    shows_first: bool = False

    # ---- floats ---------------------------------------------------------------------

    def floats(self, shape: tuple[int, ...], use: Use) -> np.ndarray:
        """Draw an array of floats, or 0 and -inf, or 0 and 1, for inputs that are
        masks.
        """
        if use.is_bias and self.has_masks(shape):
            hidden = -1e4 if self.turn % 3 == 2 else -np.inf  # exporters write both
            return np.where(self.bits(shape), 0.0, hidden)
        if use.is_factor and self.has_masks(shape):
            return self.bits(shape).astype(float)
        x = 1 - self.rng.random(shape) if self.positive else self._normal(shape)
        if self.structure is StructureLevel.NONE or prod(shape) < 2:
            return x
        axis = next(n for n, size in enumerate(shape) if size > 1)
        rows = np.moveaxis(x, axis, 0)
        if self.structure is StructureLevel.SOME:
            rows[1::2] = self._round_to_levels(rows[1::2], whole=False)
            rows[3::4] = rows[1]
        else:
            rows[...] = self._round_to_levels(rows, whole=True)
            rows[2::3] = rows[0]
            rows[1::5] = 0.0
        return x

    def _normal(self, shape: tuple[int, ...]) -> np.ndarray:
        """Draw normally distributed floats."""
        return np.asarray(self.rng.standard_normal(shape))

    def _round_to_levels(self, x: np.ndarray, *, whole: bool) -> np.ndarray:
        """Round floats to multiples of 1/2 or 1/8 if `whole`, else to midpoints between
        them.

        Those in the middle are no zeros or ones, at which functions have their poles.
        There is no zero with a sign.
        """
        steps = 8 if self.positive else 2
        if not whole:
            middles: np.ndarray = (np.ceil(x * steps) - 0.5) / steps
            return middles
        rounded: np.ndarray = (
            np.ceil(x * steps) if self.positive else np.round(x * steps)
        )
        return rounded / steps + 0.0

    # ---- masks ----------------------------------------------------------------------

    def has_masks(self, shape: tuple[int, ...]) -> bool:
        """Return whether arrays of 0 and 1 of a shape are drawn as patterned masks."""
        return self.structure is not StructureLevel.NONE and bool(shape)

    def bits(self, shape: tuple[int, ...]) -> np.ndarray:
        """Draw an array of bools: at random, or mask patterns in turn, one per row or
        matrix.

        What has two equal axes, or more than two, is taken for matrices, of which a row
        is what one query sees; else each row is a mask.
        """
        if not self.has_masks(shape) or not prod(shape):
            return self.rng.integers(0, 2, shape) > 0
        is_matrix = len(shape) > 2 or (len(shape) == 2 and shape[0] == shape[1])
        rows = shape[-2] if is_matrix else 1
        count = prod(shape) // (rows * shape[-1])
        made = np.stack(
            [
                self._mask(self.turn + number, rows, shape[-1])
                for number in range(min(count, _PATTERNS))
            ]
        )
        return made[np.arange(count) % len(made)].reshape(shape)

    def _mask(self, number: int, rows: int, length: int) -> np.ndarray:
        """Draw one matrix of a mask by the pattern whose turn it is.

        What sees nothing makes NaN of a softmax, and of all that attends to it: only
        where everything has structure is there a row that does.
        """
        has_all = self.structure is StructureLevel.ALL
        made = _ALL_MASKS if has_all else _SOME_MASKS
        columns, row = np.arange(length), np.arange(rows)[:, None]
        seen = made[number % len(made)](self.rng, columns, row)
        if not has_all and length > 1:
            seen |= ~seen.any(-1, keepdims=True) & (columns == length - 1)
        if self.shows_first:
            seen = seen | (columns == 0)
        return np.broadcast_to(seen, (rows, length))

    # ---- integers -------------------------------------------------------------------

    def between(
        self, low: int, high: int, shape: tuple[int, ...], numpy: np.dtype
    ) -> np.ndarray:
        """Draw integers from `low` to `high`; structured draws have the bounds more
        often.

        Those are every other number; of one number, the random, the greatest and the
        least come in turn.
        """
        x = np.asarray(self.rng.integers(low, high, shape, endpoint=True))
        if self.structure is not StructureLevel.NONE and x.size:
            ends = np.array([high, low])
            if x.size == 1:
                x = (
                    x
                    if self.turn % 3 == 0
                    else np.full_like(x, ends[self.turn % 3 - 1])
                )
            else:
                flat = x.reshape(-1)
                flat[1::2] = np.resize(ends, flat[1::2].size)
                x = flat.reshape(shape)
        return x.astype(numpy)

    def around(self, size: int, shape: tuple[int, ...], numpy: np.dtype) -> np.ndarray:
        """Draw indices along an axis of `size`, some out of bounds on either side."""
        facts = np.iinfo(numpy)
        low, high = max(int(facts.min), -2 * size), min(int(facts.max), 2 * size)
        return self.rng.integers(low, high, shape, numpy, endpoint=True)

    def integers(self, shape: tuple[int, ...], numpy: np.dtype) -> np.ndarray:
        """Draw integers of unknown meaning, in the range of `kind`."""
        facts = np.iinfo(numpy)
        least, most = int(facts.min), int(facts.max)
        if self.kind is IntegerRange.BITS:
            return self.bits(shape).astype(numpy)
        if self.kind is IntegerRange.SMALL:
            low = max(least, -8)
            return self.rng.integers(low, low + 16, shape).astype(numpy)
        drawn = self.rng.integers(least, most, shape, numpy, endpoint=True)
        extremes = np.array([least, most, 0, 1], numpy)
        chosen = self.rng.choice(extremes, shape)
        return np.where(self.rng.random(shape) < _SHARE_OF_EXTREMES, chosen, drawn)


# ---- masks of the positions (columns) that each query (row) sees --------------------

_Pattern = Callable[[np.random.Generator, np.ndarray, np.ndarray], np.ndarray]


def _random(
    rng: np.random.Generator, columns: np.ndarray, rows: np.ndarray
) -> np.ndarray:
    """Draw a mask of random bits."""
    return rng.integers(0, 2, (rows.size, columns.size)) > 0


def _window(
    rng: np.random.Generator, columns: np.ndarray, rows: np.ndarray
) -> np.ndarray:
    """Draw a mask of a window of columns, which may move by one with each row.

    So the first vectors of the block are hidden and others are not.
    """
    length = columns.size
    block = min(length, _BLOCK)
    start = block * int(rng.integers(0, length // block))
    first = start + block // 2 + int(rng.integers(0, max(block // 2, 1)))
    first = np.minimum(first + rows * int(rng.integers(0, 2)), length - 1)
    last = first + 1 + int(rng.integers(0, max(length // 2, 1)))
    seen: np.ndarray = (columns >= first) & (columns < last)
    return seen


def _prefix(
    rng: np.random.Generator, columns: np.ndarray, rows: np.ndarray
) -> np.ndarray:
    """Draw a mask of the first columns: a common number of them, or up to the
    diagonal.
    """
    length = columns.size
    if rows.size > 1 and rng.integers(0, 2):
        seen: np.ndarray = columns <= rows + length - rows.size
    else:
        seen = columns + 0 * rows < int(rng.integers(1, max(length, 2)))
    return seen


def _suffix(
    rng: np.random.Generator, columns: np.ndarray, rows: np.ndarray
) -> np.ndarray:
    """Draw a mask of the last columns: the complement of a prefix."""
    return ~_prefix(rng, columns, rows)


def _all(rng: np.random.Generator, columns: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return a mask that hides nothing."""
    return np.ones((rows.size, columns.size), bool)


def _none(
    rng: np.random.Generator, columns: np.ndarray, rows: np.ndarray
) -> np.ndarray:
    """Return a mask that hides everything."""
    return np.zeros((rows.size, columns.size), bool)


_SOME_MASKS: tuple[_Pattern, ...] = (_window, _random, _prefix)
_ALL_MASKS: tuple[_Pattern, ...] = (_window, _prefix, _none, _suffix, _all)
