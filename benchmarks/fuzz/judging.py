"""Judgement of results: are they right, as far as rounding leaves that open?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from aotc import reference
from aotc.checks.judging import Rounding, Unseen, error_ratios
from aotc.checks.rounding import is_float

RUNS = 12  # with noise; an element at an edge moves in every other one


@dataclass(frozen=True)
class Judgement:
    """The comparison of all results of a call with the reference.

    Args:
        wrong: what differs, in words; empty if nothing does.
        elements: how many were compared.
        open: how many of them rounding may change at will.
    """

    wrong: str
    elements: int
    open: int


def rounding_of(
    module: Any, name: str, inputs: Sequence[Any], wanted: Sequence[Any]
) -> Rounding:
    """Measure how far rounding moves each element of a function's results.

    Args:
        module: with graph ops.
        name: of the function.
        inputs: of the call.
        wanted: the results without noise.
    """
    rounding = Rounding(
        wanted, lambda noise: reference.evaluate(module, name, inputs, with_op=noise)
    )
    for _ in range(RUNS):
        rounding.run_again()
    return rounding


def judge(
    found: Sequence[Any], wanted: Sequence[Any], rounding: Rounding | None = None
) -> Judgement:
    """Compare results with the reference, within the measured rounding.

    Without it, within a few units in the last place.
    """
    rounding = rounding or Rounding(wanted, lambda noise: list(wanted))
    wrong, elements, left_open = "", 0, 0
    if len(found) != len(wanted):
        return Judgement(f"{len(found)} results; expected {len(wanted)}", 0, 0)
    for number, (got, want, *moved) in enumerate(
        zip(found, wanted, rounding.spreads, rounding.unseen, strict=True)
    ):
        differs, is_open = _compared(got, want, *moved)
        elements += want.size
        left_open += int(np.sum(is_open))
        if differs and not wrong:
            wrong = f"result {number} {differs}"
    return Judgement(wrong, elements, left_open)


def _compared(got: Any, want: Any, spread: Any, unseen: Unseen) -> tuple[str, Any]:
    """Describe how an array differs, and return a mask of undecided elements."""
    if got.shape != want.shape or got.dtype != want.dtype:
        kinds = [f"{x.dtype}{list(x.shape)}" for x in (got, want)]
        return f"is {kinds[0]}; expected {kinds[1]}", np.zeros(want.shape, bool)
    wrong = error_ratios(got, want, spread, unseen) > 1
    return _told(got, want, wrong), _is_open(want, spread)


def _is_open(want: Any, spread: Any) -> Any:
    """Return a mask of elements whose first digit rounding may change."""
    if not is_float(want):
        return spread > 0
    size = np.where(np.isfinite(want), np.abs(want.astype("f8")), 0)
    size = np.maximum(size, max(0.05 * size.max(initial=0), 1e-3))
    return ~np.isfinite(spread) | (spread > 0.1 * size)


def _told(got: Any, want: Any, wrong: Any) -> str:
    """Describe the first wrong element and how many there are; empty if none is."""
    if not wrong.any():
        return ""
    place = tuple(int(i) for i in np.argwhere(wrong)[0])  # () of a number
    return (
        f"differs in {int(wrong.sum())} of {wrong.size} elements: at {place} it is "
        f"{got[place]}; expected {want[place]}"
    )
