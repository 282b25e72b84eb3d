"""Floats that sources compute of sizes, and round to sizes again.

A runtime multiplies floats and rounds the product down: 10 times 0.7 is 7, though the
float 0.7 is less than 7/10. A size of the graph is whole numbers' arithmetic, here
`n * 7 // 10`; the few sizes for which the floats give another number (90 times 0.7 is
62 in f64) are refused by a guard.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy

from aotc import numpy as np
from aotc.artifacts.conditions import Condition
from aotc.dialects.types import Size, SymbolicDim, bounds
from aotc.errors import InputError
from aotc.importers.common.size_conditions import require_sizes
from aotc.tracing.array import Array
from aotc.tracing.conversion import lift
from aotc.tracing.source_locations import fail

Float = type[numpy.floating]
Numbers = numpy.ndarray

_COMPARED = 1 << 20  # larger sizes are refused
_LARGEST = 1 << 40  # a number that such sizes are multiplied by in 64 bits
_MOST_GAPS = 16  # between sizes that a guard refuses one by one
_WAY_OUT = (
    "compute sizes in whole numbers, such as size * 7 // 10 in the place of size * 0.7"
)


def scaled_size(size: Size, factor: float, kind: Float = numpy.float64) -> Size:
    """Return a size times a factor, rounded down as the source's floats do.

    Args:
        size: what is multiplied.
        factor: by what.
        kind: the floats that the source multiplies.
    """
    rounded = kind(factor)
    if float(rounded).is_integer():
        return size * int(rounded)
    if isinstance(size, int):
        return int(kind(size) * rounded)
    return SymbolicFloat(size, kind, (("*", float(rounded)),)).round(math.floor)


def rounding(function: Callable[..., int]) -> Callable[[object], object]:
    """Wrap a rounding function such as `math.floor` to take sizes and symbolic floats.

    It leaves whole numbers as they are, and those that are not finite.
    """

    def round_size(x: Any) -> object:
        if isinstance(x, SymbolicFloat):
            return x.round(function)
        if isinstance(x, Array):
            fail(
                "symbolic-size",
                "a number that is computed of several sizes, and rounded to one, is "
                "only known when the model runs",
                _WAY_OUT,
            )
        is_whole = isinstance(x, int | SymbolicDim) or not math.isfinite(x)
        return x if is_whole else function(x)

    return round_size


@dataclass(frozen=True)
class SymbolicFloat:
    """A float that a source model computes from a symbolic size, kept as its steps.

    It is computed with numbers until the source rounds it, which gives a size again.

    Args:
        size: that it is computed of.
        kind: of the floats.
        steps: of the computation, in order: an operator and the number to its right.
    """

    size: SymbolicDim
    kind: Float
    steps: tuple[tuple[str, float], ...] = ()

    def __add__(self, number: float) -> object:
        return self._append_step("+", number)

    def __sub__(self, number: float) -> object:
        return self._append_step("-", number)

    def __mul__(self, number: float) -> object:
        return self._append_step("*", number)

    def __truediv__(self, number: float) -> object:
        return self._append_step("/", number)

    __radd__, __rmul__ = __add__, __mul__

    def _append_step(self, sign: str, number: float) -> object:
        """Return the float after one more arithmetic step; NotImplemented if it cannot
        be.
        """
        kinds = (int, float, numpy.floating)
        is_number = isinstance(number, kinds) and math.isfinite(number)
        if not is_number or (sign == "/" and number == 0):
            return NotImplemented
        return replace(self, steps=(*self.steps, (sign, float(number))))

    def __float__(self) -> float:
        raise InputError(
            "symbolic-size",
            f"a number that is computed of the size '{self.size!r}' is only known when "
            "the model runs",
            hint=_WAY_OUT,
        )

    def array(self, dtype: str) -> Array:
        """Emit the float as a scalar array."""
        found = np.astype(lift(self.size), dtype)
        for sign, number in self.steps:
            found = _ARRAYS[sign](found, number)
        return found

    def round(self, rounding: Callable[..., int]) -> Size:
        """Return the float rounded to a size, as exact integer arithmetic.

        Args:
            rounding: `math.floor`, `math.ceil` or `math.trunc`.

        Raises:
            InputError: `symbolic-size`, if it may be negative and is rounded to zero;
                `shape-guard`, if floats give another number for all sizes.
        """
        p, r, divisor = self._exact
        if rounding is math.trunc and bounds(self.size * p + r)[0] < 0:
            raise InputError(
                "symbolic-size",
                f"a number that is computed of the size '{self.size!r}' is rounded to "
                "zero, and only a call decides whether it is negative",
                hint=_WAY_OUT,
            )
        r += divisor - 1 if rounding is math.ceil else 0
        self._require_exact(rounding, (p, r, divisor))
        return (self.size * p + r) // divisor

    @cached_property
    def _exact(self) -> tuple[int, int, int]:
        """Return p, r and q of the float as the exact fraction `(p * size + r) / q`.

        Its numbers are taken for the simplest fractions that are rounded to them.
        """
        slope, start = Fraction(1), Fraction(0)
        for sign, number in self.steps:
            by = _simplest_fraction(self.kind(number))
            start = _FRACTIONS[sign](start, by)
            slope = _FRACTIONS[sign](slope, by) if sign in "*/" else slope
        divisor = math.lcm(slope.denominator, start.denominator)
        found = int(slope * divisor), int(start * divisor), divisor
        if max(map(abs, found)) > _LARGEST:
            raise InputError(
                "symbolic-size",
                f"no fraction of small numbers is what the size '{self.size!r}' is "
                "multiplied by",
                hint=_WAY_OUT,
            )
        return found

    def _require_exact(
        self, rounding: Callable[..., int], numbers: tuple[int, int, int]
    ) -> None:
        """Refuse sizes for which floats round differently than the exact fraction.

        Args:
            rounding: of the floats.
            numbers: p, r and q.
        """
        p, r, divisor = numbers
        low, high = bounds(self.size)
        n = numpy.arange(max(int(low), 0), int(min(high, _COMPARED)) + 1)
        floats = n.astype(self.kind)
        for sign, number in self.steps:
            floats = _FRACTIONS[sign](floats, self.kind(number))
        round_all = getattr(numpy, rounding.__name__)
        wrong = n[round_all(floats).astype(int) != (n * p + r) // divisor]
        limit = _COMPARED if high > _COMPARED else None
        if len(wrong) or limit:
            text = _other_sizes(wrong, *self._integer_sizes, limit)
            sizes = " ".join(f"{sign} {self.kind(x)}" for sign, x in self.steps)
            product = f"size * {p}" if not r else f"(size * {p} + {r})"
            why = (
                f"of others, size {sizes} in floats is rounded to another number than "
                f"{product} // {divisor}, which a model can have instead"
            )
            require_sizes(Condition.parse(text), {"size": self.size}, why)

    @property
    def _integer_sizes(self) -> tuple[int, int]:
        """Period and first of the sizes for which the float is an integer; 0, 0 if
        none.
        """
        p, r, divisor = self._exact
        common = math.gcd(p, divisor)
        if r % common:
            return 0, 0
        step = divisor // common
        return step, -r // common * pow(p // common, -1, step) % step


_FRACTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}
_ARRAYS: dict[str, Callable[[Any, Any], Array]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
}


def _simplest_fraction(factor: numpy.floating) -> Fraction:
    """Return the simplest fraction that rounds to a float, such as 7/10 for 0.7."""
    exact = Fraction(float(factor))
    for bits in range(64):
        near = exact.limit_denominator(1 << bits)
        if type(factor)(float(near)) == factor:
            return near
    return exact


def _other_sizes(wrong: Numbers, step: int, first: int, limit: int | None) -> str:
    """Return a guard's condition, as text, that excludes the wrong sizes.

    Args:
        wrong: sizes in order. Those are at `first` and multiples of `step` from there,
            where the number is whole, and come in runs; from the first other one on
            all are refused.
        step: how many sizes are between them; 0 if the number is never whole.
        first: the first of them.
        limit: the greatest size of all.
    """
    others = wrong[wrong % step != first] if step else wrong
    if len(others):
        limit = int(others[0]) - 1
        wrong = wrong[wrong <= limit]
    parts = [f"size <= {limit}"] if limit is not None else []
    if len(wrong):
        gaps = list(_gaps(wrong // step))
        if len(gaps) > _MOST_GAPS:
            limit = gaps[_MOST_GAPS][1] * step + first - 1
            return _other_sizes(wrong[wrong <= limit], step, first, limit)
        between = [
            f"size < {b * step + first}"
            if a < 0
            else f"{a * step + first} < size < {b * step + first}"
            for a, b in gaps
        ]
        last = f"size > {wrong[-1]}"
        elsewhere = f"size % {step} != {first}"
        parts.append(f"({' or '.join([elsewhere, *between, last])})")
    return " and ".join(parts)


def _gaps(numbers: Numbers) -> Iterator[tuple[int, int]]:
    """Yield the gaps between runs of consecutive numbers, as (last before, first
    after).
    """
    before = -1
    for place in numbers.tolist():
        if place > before + 1:
            yield before, place
        before = place
