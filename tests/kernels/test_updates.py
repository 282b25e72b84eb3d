"""Kernels of many updates leave the states that the graph says, for any threads."""

from pathlib import Path

import numpy as np
import pytest

import aotc
from aotc import reference
from aotc.dialects.functions.functions import functions_of
from aotc.dialects.functions.fusion import fused_of
from aotc.importers import load
from aotc.machine.target import Target
from aotc.passes import run_passes
from aotc.passes.base import Unit
from aotc.passes.stages import PASS_STAGES
from aotc.pipeline import build
from tests.kernels import updates
from tests.machines import require_runs_here

MODEL = Path(updates.__file__)
LEVEL = Target.parse("x86_64-v4")
STEPS = 3
NAMES = ["momentum", "scaled", "narrow", "entangled"]


def _inputs(name, rng, step):
    if name == "entangled":
        return {"x": rng.normal(size=(7, 9)).astype("f4")}
    grads = [rng.normal(size=shape).astype("f4") for shape in updates.SHAPES]
    if name == "scaled" and step == 1:
        grads[0][3] = np.inf  # such a step is left out
    if name == "momentum" and step == 2:
        grads[2][3], grads[6][0, 0, 0, 0] = np.nan, 1e-40
    return {"grads": {f"p{n}": each for n, each in enumerate(grads)}}


def _named(inputs):
    """Inputs by the names that the program has for them."""
    found = {}
    for name, given in inputs.items():
        parts = given if isinstance(given, dict) else {"": given}
        found |= {f"{name}.{part}".rstrip("."): x for part, x in parts.items()}
    return found


@pytest.fixture(scope="module")
def shapes():
    """The shapes of the results of each region of updates."""
    unit = Unit(load(MODEL), LEVEL)
    optimized, regions, *_ = PASS_STAGES
    run_passes(unit, [*optimized.passes(), *regions.passes()], silently=True)
    found = []
    for function in functions_of(unit.module).values():
        fused = fused_of(function)
        if fused is not None and fused.kernel == "updates":
            *_, end = function.entry_block.operations
            found.append([tuple(each.type.shape) for each in end.operands])
    return found


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    require_runs_here(LEVEL)
    folder = tmp_path_factory.mktemp("updates")
    asked = {"targets": [LEVEL], "self_check": "off", "sign": False}
    return build(MODEL, output=folder, **asked).bundle


def _trained(bundle, threads):
    """The leaves of all states after some steps of each entry."""
    model, rng = aotc.load(bundle, allow_unsigned=True, threads=threads), _rng()
    for name in NAMES:
        for step in range(STEPS):
            model.entries[name](**_inputs(name, rng, step))
    names = ["others", *(f"{name}_state" for name in NAMES[:-1])]
    trees = [model.read_state(name) for name in names]
    return [leaf for tree in trees for leaf in aotc.core.pytree.flatten(tree)[0]]


def _rng():
    return np.random.default_rng(3)


def test_states_are_the_same_bits_for_any_number_of_threads(bundle):
    alone, shared = _trained(bundle, 1), _trained(bundle, 2)
    assert len(alone) > 60
    for one, other in zip(alone, shared, strict=True):
        np.testing.assert_array_equal(one, other)


def test_steps_leave_the_states_that_the_graph_says(bundle):
    model, rng = aotc.load(bundle, allow_unsigned=True, threads=1), _rng()
    program = load(MODEL)
    run_passes(program.module, ("autodiff",), silently=True)
    known = dict(program.parameters)
    for name in NAMES:
        entry = program.entry(name)
        for step in range(STEPS):
            inputs = _inputs(name, rng, step)
            known |= _named(inputs)
            given = [known[port.name] for port in entry.arguments]
            results = reference.evaluate(program.module, name, given)
            ports = [*zip(entry.results, results, strict=True)]
            known |= {port.name: x for port, x in ports if port.kind == "state"}
            found = model.entries[name](**inputs)
            (expected,) = (x for port, x in ports if port.kind == "output")
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
        state = "others" if name == "entangled" else f"{name}_state"
        tree = model.read_state(state)
        leaves = aotc.core.pytree.flatten(tree)[0]
        wanted = [
            known[x]
            for x in next(each.leaves for each in program.states if each.name == state)
        ]
        for mine, theirs in zip(leaves, wanted, strict=True):
            as_floats = (np.asarray(x).astype("f8") for x in (mine, theirs))
            np.testing.assert_allclose(*as_floats, rtol=2e-3, atol=1e-5)


def test_updates_of_all_shapes_are_a_few_regions(shapes):
    assert len(shapes) <= 8
    assert {(64,), (40, 65), (1,), (16, 3, 3, 7)} <= {*max(shapes, key=len)}


def test_a_state_that_something_else_reads_is_updated_alone(shapes):
    assert [(7, 9), (7, 9)] in shapes
    assert not [each for each in shapes if {(7, 9), (63,)} <= {*each}]
