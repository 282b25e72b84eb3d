"""Whether what was computed is right, as far as rounding leaves that open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from aotc import dtypes, reference
from aotc.checks.rounding import Noise, spreads

RUNS = 4  # with noise
TIMES = 16  # the spread that noise has
UNITS = 32  # in the last place of the larger of an element and a part of the largest
PART = 0.05


@dataclass(frozen=True)
class Judgement:
    """Of all results of a call.

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
) -> list[Any]:
    """How far rounding moves each element of the results of a function.

    Args:
        module: with graph ops.
        name: of the function.
        inputs: of the call.
        wanted: the results without noise.
    """
    runs = [
        reference.evaluate(module, name, inputs, with_op=Noise(seed))
        for seed in range(RUNS)
    ]
    return spreads(wanted, runs)


def judge(
    found: Sequence[Any], wanted: Sequence[Any], rounding: Sequence[Any]
) -> Judgement:
    """Compare results with the reference, within what `rounding` moves them."""
    wrong, elements, left_open = "", 0, 0
    if len(found) != len(wanted):
        return Judgement(f"{len(found)} results; expected {len(wanted)}", 0, 0)
    for number, (got, want, spread) in enumerate(
        zip(found, wanted, rounding, strict=True)
    ):
        differs, is_open = _compared(got, want, spread)
        elements += want.size
        left_open += int(np.sum(is_open))
        if differs and not wrong:
            wrong = f"result {number} {differs}"
    return Judgement(wrong, elements, left_open)


def _compared(got: Any, want: Any, spread: Any) -> tuple[str, Any]:
    """How an array differs, and which elements are open."""
    if got.shape != want.shape or got.dtype != want.dtype:
        kinds = [f"{x.dtype}{list(x.shape)}" for x in (got, want)]
        return f"is {kinds[0]}; expected {kinds[1]}", np.zeros(want.shape, bool)
    x, y = got.astype("f8"), want.astype("f8")
    if not dtypes.is_float(dtypes.canonical(want.dtype)):
        is_open = spread > 0
        return _told(got, want, (got != want) & ~is_open), is_open
    finite = np.where(np.isfinite(y), abs(y), 0)
    eps = float(ml_dtypes.finfo(want.dtype).eps)
    size = np.maximum(finite, PART * finite.max(initial=0))
    tiny = float(ml_dtypes.finfo(want.dtype).smallest_normal)
    allowed = TIMES * spread + UNITS * eps * size + tiny
    is_open = ~np.isfinite(spread) | (spread > 0.1 * np.maximum(size, 1e-3))
    with np.errstate(invalid="ignore"):
        near = abs(x - y) <= allowed
    same = near | (x == y) | (np.isnan(x) & np.isnan(y)) | ~np.isfinite(spread)
    return _told(got, want, ~same), is_open


def _told(got: Any, want: Any, wrong: Any) -> str:
    if not wrong.any():
        return ""
    place = tuple(int(i[0]) for i in np.nonzero(wrong))
    return (
        f"differs in {int(wrong.sum())} of {wrong.size} elements: at {place} it is "
        f"{got[place]}; expected {want[place]}"
    )
