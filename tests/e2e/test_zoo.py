"""Whole models of several kinds, compiled, equal the reference evaluation."""

from pathlib import Path

import numpy as np
import pytest

import aotc
from aotc import reference
from aotc.core.pytree import flatten
from aotc.pipeline import build

MODEL = Path(__file__).with_name("zoo.py")
STEPS = 3


@pytest.fixture(scope="module")
def model(tmp_path_factory, home):
    """The compiled zoo, which these tests compare in the place of the self-check."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AOTC_HOME", str(home))
        folder = tmp_path_factory.mktemp("zoo")
        report = build(MODEL, output=folder, self_check="off")
        return aotc.load(report.bundle)


def inputs(name, rng):
    """Seeded inputs of an entry."""
    if name == "cnn_step":
        x = rng.normal(size=(5, 16, 16, 3)).astype("f4")
        return {"x": x, "y": rng.integers(0, 5, 5).astype("i4")}
    if name == "lstm_gradient":
        xs, target = rng.normal(size=(3, 6, 4)), rng.normal(size=(3, 8))
        return {"xs": xs.astype("f4"), "target": target.astype("f4")}
    if name == "equal_starts":
        return {"x": rng.normal(size=(5, 3, 4)).astype("f4")}
    if name in ("loop_derivatives", "loops_of_numbers"):
        return {"x": rng.uniform(0.2, 1.0, (5, 3)).astype("f4")}
    if name == "second_derivative":
        return {"x": rng.normal(size=3)}
    if name == "scan_gradient":
        return {"xs": rng.normal(size=(6, 4, 8)).astype("f4")}
    if name == "scans":
        return {"x": rng.normal(size=(9, 3)).astype("f4")}
    if name == "sums":
        x, b = rng.normal(size=(3, 5, 4)), rng.normal(size=4)
        return {"x": x.astype("f4"), "b": b.astype("f4")}
    if name == "branches":
        return {"x": rng.normal(size=5).astype("f4")}
    shape = (3, 8) if name == "gpt_step" else (2, 5)
    return {"ids": rng.integers(0, 20, shape).astype("i4")}


def expected(program, name, values, stored):
    """Outputs by the reference; states in `stored` are brought up to date."""
    entry = program.entry(name)
    arguments = [
        values[p.name] if p.kind == "input" else stored[p.name] for p in entry.arguments
    ]
    results = reference.evaluate(program.module, name, arguments)
    pairs = list(zip(entry.results, results, strict=True))
    stored.update({p.name: value for p, value in pairs if p.kind == "state"})
    return [value for p, value in pairs if p.kind == "output"]


PURE = [
    "gpt_predict", "lstm_gradient", "second_derivative", "sums", "equal_starts",
    "loop_derivatives", "loops_of_numbers",
]  # fmt: skip


@pytest.mark.parametrize("name", PURE)
def test_a_pure_entry_equals_the_reference(model, program, name):
    values = inputs(name, np.random.default_rng(1))
    wanted = expected(program, name, values, dict(program.parameters))
    got, _ = flatten(model.entry(name)(**values))
    precise = name == "second_derivative"
    for a, b in zip(got, wanted, strict=True):
        tolerance = 1e-12 if precise else 1e-5
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def test_control_flow_follows_the_reference_call_by_call(model, program):
    # Results of earlier calls stay as they were: loops write into their own buffers.
    rng, stored = np.random.default_rng(3), dict(program.parameters)
    names = ["scan_gradient", "branches", "scans"] * 4
    calls = [(name, inputs(name, rng)) for name in names]
    found = [flatten(model.entry(name)(**values))[0] for name, values in calls]
    for (name, values), got in zip(calls, found, strict=True):
        for a, b in zip(got, expected(program, name, values, stored), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["cnn_step", "gpt_step"])
def test_training_follows_the_reference_step_by_step(model, program, name):
    rng, stored = np.random.default_rng(2), dict(program.parameters)
    for _ in range(STEPS):
        values = inputs(name, rng)
        (loss,) = expected(program, name, values, stored)
        np.testing.assert_allclose(model.entry(name)(**values), loss, rtol=1e-4)
    state = name.replace("step", "state")
    leaves, _ = flatten(model.read_state(state))
    spec = next(s for s in program.states if s.name == state)
    for leaf, parameter in zip(leaves, spec.leaves, strict=True):
        np.testing.assert_allclose(leaf, stored[parameter], rtol=1e-3, atol=1e-4)
