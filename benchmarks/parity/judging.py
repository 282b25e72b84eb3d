"""Runs a part of the comparison, and judges its results by limits and exceptions."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from benchmarks.parity import derivatives, functions, nn, ops, optim, transformations
from benchmarks.parity.accepted import reason
from benchmarks.parity.agreement import Compared

PARTS: dict[str, Callable[[], Iterator[Compared]]] = {
    "functions": functions.compared,  # the longest first: parts run side by side
    "ops": ops.compared,
    "derivatives": derivatives.compared,
    "transformations": transformations.compared,
    "nn": nn.compared,
    "optim": optim.compared,
}
VERDICTS = ("agree", "accepted", "differ", "refused")


@dataclass(frozen=True)
class Judged:
    """The verdict on one comparison, without its arrays."""

    part: str
    name: str
    setting: str
    peer: str
    kind: str
    refusal: str
    verdict: str
    difference: float


def judge(part: str, only: str) -> list[Judged]:
    """Return the verdicts on a part's settings whose names contain `only`."""
    warnings.simplefilter("ignore")
    return [_judged(each) for each in PARTS[part]() if only in each.name]


def _judged(each: Compared) -> Judged:
    """Return the verdict on a comparison."""
    verdict, difference = "refused", 0.0
    if not each.refusal:
        why, difference = reason(each), each.difference
        verdict = "differ" if why is None else "accepted" if why else "agree"
    told = (each.part, each.name, each.setting, each.peer, each.kind, each.refusal)
    return Judged(*told, verdict, difference)
