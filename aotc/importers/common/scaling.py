"""Sizes times factors that are not whole, for sizes that only a call decides.

A runtime multiplies floats and rounds the product down: 10 times 0.7 is 7, though the
float 0.7 is less than 7/10. A size of the graph is whole numbers' arithmetic, here
`n * 7 // 10`; the few sizes for which the product of floats is another number (90 times
0.7 is 62 in f64) are refused by a guard.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy

from aotc.artifacts.conditions import Condition
from aotc.dialects.types import Size, bounds
from aotc.importers.common.guards import require_sizes

Float = type[numpy.floating[Any]]
Numbers = numpy.ndarray[Any, Any]

_COMPARED = 1 << 20  # larger sizes are refused


def scaled_size(size: Size, factor: float, kind: Float = numpy.float64) -> Size:
    """A size times a factor, rounded down, where the product is one of floats.

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
    fraction = _simplest_fraction(rounded)
    p, q = fraction.numerator, fraction.denominator
    low, high = bounds(size)
    n = numpy.arange(max(int(low), 0), int(min(high, _COMPARED)) + 1)
    wrong = n[(n.astype(kind) * rounded).astype(int) != n * p // q]
    limit = _COMPARED if high > _COMPARED else None
    if len(wrong) or limit:
        text = _other_sizes(wrong, q, limit)
        why = f"{rounded} times a size is rounded as floats are, for others differently"
        require_sizes(Condition.parse(text), {"size": size}, why)
    return size * p // q


def _simplest_fraction(factor: numpy.floating[Any]) -> Fraction:
    """A fraction of small numbers that rounds to the factor, such as 7/10 for 0.7."""
    exact = Fraction(float(factor))
    for bits in range(64):
        near = exact.limit_denominator(1 << bits)
        if type(factor)(float(near)) == factor:
            return near
    return exact


def _other_sizes(wrong: Numbers, step: int, limit: int | None) -> str:
    """The condition that a size is none of the wrong ones.

    Args:
        wrong: sizes in order. Those are multiples of `step`, where the product is
            whole, and come in runs; from the first other one on all are refused.
        step: the denominator of the factor.
        limit: the greatest size of all.
    """
    others = wrong[wrong % step != 0]
    if len(others):
        limit = int(others[0]) - 1
        wrong = wrong[wrong <= limit]
    parts = [f"size <= {limit}"] if limit is not None else []
    if len(wrong):
        between = [f"{a} < size < {b}" for a, b in _gaps(wrong // step, step)]
        last = f"size > {wrong[-1]}"
        parts.append(f"({' or '.join([f'size % {step} != 0', *between, last])})")
    return " and ".join(parts)


def _gaps(places: Numbers, step: int) -> Iterator[tuple[int, int]]:
    """The multiples of `step` between runs of neighbours, by their ends."""
    before = -1
    for place in places.tolist():
        if place > before + 1:
            yield max(before * step, -1), place * step
        before = place
