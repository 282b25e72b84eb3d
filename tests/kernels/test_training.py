"""Steps of training by kernels: states are read before they are written over."""

from pathlib import Path

import numpy as np
import pytest

import aotc
from aotc import reference
from aotc.dialects.functions.functions import functions_of
from aotc.dialects.ops.contraction import DotGeneral
from aotc.importers import load
from aotc.machine.target import Target
from aotc.passes import run_passes
from aotc.passes.base import Unit
from aotc.passes.stages import PASS_STAGES
from aotc.pipeline import build
from tests.machines import require_runs_here

MODEL = Path(__file__).parent / "trained.py"
LEVELS = ["x86_64-v3", "x86_64-v4"]
STEPS = 4


def _inputs(count):
    rng = np.random.default_rng(3)
    return {
        "x": rng.normal(size=(count, 24)).astype("f"),
        "y": rng.normal(size=(count, 40)).astype("f"),
    }


@pytest.fixture(scope="module", params=LEVELS)
def bundle(request, tmp_path_factory):
    target = Target.parse(request.param)
    require_runs_here(target)
    folder = tmp_path_factory.mktemp("trained")
    asked = {"targets": [target], "self_check": "off", "sign": False}
    return build(MODEL, output=folder, **asked).bundle


@pytest.mark.parametrize(("name", "count"), [("step", 32), ("any_step", 19)])
def test_steps_leave_the_states_that_the_graph_says(bundle, terms, name, count):
    model = aotc.load(bundle, allow_unsigned=True)
    program, inputs = load(MODEL), _inputs(count)
    run_passes(program.module, ("autodiff",), silently=True)
    entry = program.entry(name)
    known = dict(program.parameters) | inputs
    for _ in range(STEPS):
        given = [known[port.name] for port in entry.arguments]
        results = reference.evaluate(program.module, name, given)
        for mine, theirs in zip(terms.evaluate(name, known), results, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)
        made = dict(zip([port.name for port in entry.results], results, strict=True))
        known |= {p.name: made[p.name] for p in entry.results if p.kind == "state"}
        loss = model.entries[name](**inputs)
        (expected,) = (made[p.name] for p in entry.results if p.kind == "output")
        np.testing.assert_allclose(loss, expected, rtol=1e-5)


def _lowered(level, last):
    unit = Unit(load(MODEL)).fork(Target.parse(level))
    for stage in PASS_STAGES[: 1 + [each.name for each in PASS_STAGES].index(last)]:
        run_passes(unit, stage.passes())
    return unit.module


@pytest.mark.parametrize("level", LEVELS)
def test_all_products_of_a_step_are_regions_and_none_is_turned_after(level):
    module = _lowered(level, "regions")
    functions = functions_of(module)
    for name in ("step", "any_step"):
        ops = [*functions[name].entry_block.operations]
        assert not any(isinstance(op, DotGeneral) for op in ops), name
        shapes = {str(op.results[0].type) for op in ops if "transpose" in op.name}
        assert not any("tensor<24x48xf32" in each for each in shapes), name


def test_new_states_are_still_written_in_place():
    """A kernel reads what it is given itself: its readers do not read a state."""
    module = _lowered("x86_64-v3", "variant")
    calls = [line for line in str(module).splitlines() if "call @iree.update" in line]
    counts = [line.partition(" = ")[0].partition(":")[2] or "1" for line in calls]
    assert sum(map(int, counts)) == 2 * 4  # all parameters of both entries
