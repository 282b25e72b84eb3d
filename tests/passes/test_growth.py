"""What aotc does before IREE grows with the graph, and not with its square.

Counted, not timed: the calls of Python functions and of the bindings in each stage, on
the graphs of `benchmarks/growth.py`.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import aotc
from aotc import importers
from aotc import numpy as np
from aotc.backend.crossing import crossing
from aotc.dialects.limits import require_supported
from aotc.dialects.lowering import variation
from aotc.passes import run_passes
from aotc.passes.base import Unit
from aotc.passes.stages import all_passes, passes_between
from aotc.target import Target
from aotc.tracing.assembly import trace

MODEL = Path(__file__).parents[2] / "benchmarks" / "growth_model.py"
KINDS = ("chain", "residual", "branching", "differentiated", "looping", "training")
OF_REGIONS = ("chain", "residual", "branching")
STEPS = 6


def calls_of(work: Callable[[], Any]) -> tuple[int, Any]:
    """How many calls `work` makes, and what it returns."""
    count = 0

    def note(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        found = work()
    finally:
        sys.setprofile(None)
    return count, found


def calls_by_stage() -> dict[str, int]:
    """The calls of each stage up to IREE, for the model of the environment."""
    found = {}
    found["tracing"], program = calls_of(lambda: importers.load(MODEL, ()))
    for number, each in enumerate(all_passes()):
        if each.name == "lower-to-linalg":
            found["limits"], _ = calls_of(
                lambda: require_supported(program.module, Target.default())
            )
        found[f"{number} {each}"], _ = calls_of(
            lambda each=each: run_passes(program.module, [each])
        )
    found["crossing"], _ = calls_of(lambda: crossing(program))
    return found


def calls_by_pass_of_regions() -> dict[str, int]:
    """The calls of each pass that forms kernels, which a target decides about."""
    unit = Unit(importers.load(MODEL, ()))
    run_passes(unit, passes_between(None, "split-products"))
    unit = unit.fork(Target.parse("x86_64-v3"))
    return {
        f"{number} {each}": calls_of(lambda each=each: run_passes(unit, [each]))[0]
        for number, each in enumerate(passes_between("relax-order", "advance-updates"))
    }


@pytest.mark.parametrize(
    ("count_calls", "kind"),
    [
        *((calls_by_stage, kind) for kind in KINDS),
        *((calls_by_pass_of_regions, kind) for kind in OF_REGIONS),
    ],
)
def test_no_stage_grows_faster_than_the_graph(count_calls, kind, monkeypatch):
    monkeypatch.setenv("GROWTH_KIND", kind)
    monkeypatch.setenv("GROWTH_BATCH", "batch")
    counts = []
    for steps in (STEPS, STEPS, 2 * STEPS, 4 * STEPS):  # the first time, all is new
        monkeypatch.setenv("GROWTH_STEPS", str(steps))
        counts.append(count_calls())
    _, one, two, four = counts
    excess = {
        stage: (four[stage] - two[stage]) / (two[stage] - one[stage])
        for stage in four
        # twice, and what caches filled by other tests leave out; squares make it four
        if four[stage] - two[stage] > 2.4 * max(two[stage] - one[stage], 1) + 20
    }
    assert not excess, "the calls of these stages more than double with the graph"


def test_a_product_is_proved_to_vary_without_what_comes_before_it(monkeypatch):
    bodies = []
    known = variation._elements_of_body
    monkeypatch.setattr(
        variation, "_elements_of_body", lambda op, k: bodies.append(op) or known(op, k)
    )

    @aotc.entry(x=aotc.Spec((4, 4)), w=aotc.Spec((4, 4)))
    def deep(x, w):
        for _ in range(3):
            x = np.tanh(x @ w)
        return x

    run_passes(trace([deep], {}).module, all_passes())
    assert not bodies
