"""States that were trained: entries that only read them are quantised as weights."""

import json

import numpy as np
import pytest
from safetensors.numpy import save_file

import aotc
from aotc.cli.main import main
from aotc.core.pytree import leaf_names
from aotc.errors import InputError
from aotc.quantization.measuring import run
from aotc.quantization.models import freeze_states
from tests.quantization.models import load

MODEL = """
import numpy
import aotc
from aotc import optim

params = {"kernel": numpy.zeros((32, 4), "f"), "bias": numpy.zeros(4, "f")}
optimizer = optim.adam(1e-3)
state = aotc.State({"params": params, "moments": optimizer.init(params)})


def network(params, x):
    return x @ params["kernel"] + params["bias"]


@aotc.entry(state=state, x=aotc.Spec((8, 32)))
def train(state, x):
    value, grads = aotc.value_and_grad(lambda p: network(p, x).sum())(state["params"])
    updates, moments = optimizer.update(grads, state["moments"], state["params"])
    params = optim.apply_updates(state["params"], updates)
    return {"params": params, "moments": moments}, value


@aotc.entry(state=state.frozen, x=aotc.Spec(("batch", 32)))
def predict(state, x):
    return network(state["params"], x)
"""
RNG = np.random.default_rng(0)
KERNEL = RNG.standard_normal((32, 4)).astype("f")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text(MODEL)
    leaves = load("model.py", "predict").parameters
    arrays = {name: np.array(array) for name, array in leaves.items()}
    arrays["state.params.kernel"] = KERNEL
    save_file(arrays, "trained.safetensors")
    return tmp_path


def test_trained_states_become_weights_that_are_quantised(folder, capsys):
    source, options = "model.py:predict", ["--recipe", "int8-weights", "-q"]
    states = ["--state", "trained.safetensors"]
    command = ["quantize", source, *options, *states, "-o", "q.mlir"]
    assert main([*command, "--format", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    (layer,) = report["layers"]
    assert layer["layer"] == "predict/state.params.kernel"
    assert report["bytes_before"] == 4 * (32 * 4 + 4)  # without moments
    program = load("q.mlir")
    assert not program.states
    x = RNG.standard_normal((3, 32)).astype("f")
    (found,) = run(program, {"predict": [[x]]})["predict"]
    np.testing.assert_allclose(found, x @ KERNEL, atol=0.1)
    assert not np.array_equal(found, x @ KERNEL)


def test_states_that_are_trained_are_told_how_to_quantise(folder, capsys):
    assert main(["quantize", "model.py", "--recipe", "int8-weights", "-q"]) == 2
    said = capsys.readouterr().err
    assert "model.py:ENTRY --state FILE" in said
    assert "its weight is a State, which changes between calls (2×)" in said


@pytest.mark.parametrize(
    ("entries", "change", "code", "said"),
    [
        ((), {}, "bad-option", "train updates them"),
        (("predict",), {"state.params.kernel": None}, "bad-state-file", "got none"),
        (("predict",), {"state.params.bias": KERNEL}, "bad-state-file", "32, 4"),
    ],
)
def test_refuses_states_of_something_else(folder, entries, change, code, said):
    arrays = aotc.Weights.load(folder / "trained.safetensors")
    stored = dict(zip(leaf_names(arrays.structure), arrays.arrays, strict=True))
    kept = {k: np.array(x) for k, x in (stored | change).items() if x is not None}
    save_file(kept, "other.safetensors")
    with pytest.raises(InputError, match=said) as refused:
        freeze_states(load("model.py", *entries), folder / "other.safetensors")
    assert refused.value.code == code
