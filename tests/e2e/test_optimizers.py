"""Compiled optimizers take the steps that they take at once."""

import runpy
from pathlib import Path

import numpy as np
import pytest

import aotc
from aotc.core.pytree import flatten

MODEL = Path(__file__).with_name("optimizers_model.py")
HERE = runpy.run_path(str(MODEL))
STEPS = 5


def gradients(name, step):
    """Random ones; not finite ones for the optimizer that is told of them."""
    rng = np.random.default_rng(step)
    found = {
        key: rng.normal(size=x.shape).astype(np.asarray(x).dtype)
        for key, x in HERE["PARAMS"][name].items()
    }
    if name == "finite" and step == 1:
        found["b"][2] = np.inf
    return found


@pytest.mark.parametrize("name", HERE["OPTIMIZERS"])
def test_compiled_steps_are_those_at_once(name, bundle, monkeypatch, home):
    monkeypatch.setenv("AOTC_HOME", str(home))
    model, optimizer = aotc.load(bundle), HERE["OPTIMIZERS"][name]
    params = HERE["PARAMS"][name]
    state = {"params": params, "moments": optimizer.init(params)}
    tolerance = {"half": 1e-2, "lion": 1e-2, "rounded": 0.0}.get(name, 1e-5)
    for step in range(STEPS):
        grads = gradients(name, step)
        state = HERE["stepped"](optimizer, state, grads)
        got = model.entry(name)(grads=grads)
        for key, wanted in state["params"].items():
            np.testing.assert_allclose(
                np.asarray(got[key], "f8"),
                np.asarray(wanted, "f8"),
                rtol=tolerance,
                atol=tolerance,
            )
    kept, _ = flatten(model.read_state(f"{name}_state"))
    for one, other in zip(kept, flatten(state)[0], strict=True):
        np.testing.assert_allclose(
            np.asarray(one, "f8"),
            np.asarray(other, "f8"),
            rtol=tolerance,
            atol=min(tolerance, 1e-5),
        )
