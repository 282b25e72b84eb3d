"""States that are written over equal those of the reference, call after call."""

from pathlib import Path

import numpy as np
import pytest

import aotc
from aotc import reference
from aotc.core.pytree import flatten
from aotc.errors import InputError

MODEL = Path(__file__).with_name("states_model.py")
X = np.array([0.5, -1.0, 2.0], "f4")
NAMES = (
    "together", "exchanged", "scaled", "crossed", "kept", "mixed", "written",
    "checked", "trained", "windowed", "spotted", "read_before"
)  # fmt: skip


def inputs(entry, step):
    """What is given at a call."""
    known = {"x": X + step, "at": np.int32(step % 4)}
    if entry.name == "trained":
        known["x"] = np.outer(np.arange(1.0, 5 + step), X).astype("f4")
    return {port.name: known[port.name] for port in entry.ports("input")}


@pytest.mark.parametrize("name", NAMES)
def test_states_and_results_equal_the_reference_at_every_call(
    bundle, program, name, monkeypatch, home
):
    monkeypatch.setenv("AOTC_HOME", str(home))
    model, entry = aotc.load(bundle), program.entry(name)
    states = dict(program.parameters)
    earlier = []
    for step in range(4):
        given = inputs(entry, step)
        known = {**states, **given}
        values = [known[port.name] for port in entry.arguments]
        wanted = reference.evaluate(program.module, name, values)
        got, _ = flatten(model.entry(name)(**given))
        outputs = []
        for port, value in zip(entry.results, wanted, strict=True):
            if port.kind == "state":
                states[port.name] = value
            else:
                outputs.append(value)
        earlier.append((got, [np.copy(array) for array in got]))
        for one, other in zip(got, outputs, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    for state in program.states:
        leaves, _ = flatten(model.read_state(state.name))
        for leaf, found in zip(state.leaves, leaves, strict=True):
            np.testing.assert_allclose(found, states[leaf], rtol=1e-5, atol=1e-6)
    for results, copies in earlier:  # no call writes into the results of another
        for result, copy in zip(results, copies, strict=True):
            np.testing.assert_array_equal(result, copy)


def test_a_call_that_fails_leaves_the_states_as_they_were(bundle, monkeypatch, home):
    monkeypatch.setenv("AOTC_HOME", str(home))
    model = aotc.load(bundle)
    before = model.read_state("pair")
    with pytest.raises(InputError, match="too large"):
        model.checked(x=X + 1e7)
    for name, array in model.read_state("pair").items():
        np.testing.assert_array_equal(array, before[name])


def test_old_values_are_read_before_they_are_written_over(bundle, monkeypatch, home):
    monkeypatch.setenv("AOTC_HOME", str(home))
    model = aotc.load(bundle)
    old = model.read_state("pair")["a"]
    for _ in range(500):  # IREE runs independent ops at once, so it shows now and then
        np.testing.assert_array_equal(model.kept(x=X), old)
        old = old + X
