"""Recorded traffic as the calls of a replay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from aotc.traffic import Traffic


@dataclass(frozen=True)
class RequestSequence:
    """The calls of a replay, as indices into the list of distinct sizes.

    Args:
        sizes: distinct sizes by name of the symbol.
        order: of the calls: positions in `sizes`.
    """

    sizes: tuple[Mapping[str, int], ...]
    order: tuple[int, ...]


def draw_requests(
    traffic: Traffic, count: int, seed: int, fixed: Mapping[str, int]
) -> RequestSequence:
    """Draw calls in random order, each size as often as in the recorded traffic.

    Each size comes as often as its share says, rounded down or up: systematic sampling
    (Madow and Madow, "On the theory of systematic sampling", 1944) takes calls at equal
    distances from a random first one, and they are shuffled. So few calls stand for the
    traffic better than independent draws, and as many as were recorded are just these.

    Args:
        traffic: recorded.
        count: of calls.
        seed: of the random numbers.
        fixed: values of symbols that the traffic does not name.
    """
    rng = np.random.default_rng(seed)
    total, start = traffic.calls, int(rng.integers(1 << 32))
    # in whole numbers, so that no rounding loses a call
    ends = list(accumulate(traffic.counts.values()))
    marks = (((i << 32) + start) * total // (count << 32) for i in range(count))
    taken: list[int] = []
    at = 0
    for mark in marks:
        while ends[at] <= mark:
            at += 1
        taken.append(at)
    order = rng.permutation(taken)
    used = sorted(set(taken))
    rows = list(traffic.counts)
    sizes = [dict(zip(traffic.symbols, rows[row], strict=True)) for row in used]
    places = {row: place for place, row in enumerate(used)}
    return RequestSequence(
        tuple({**fixed, **each} for each in sizes),
        tuple(places[row] for row in order.tolist()),
    )
