"""`AOTC_EAGER=1 aotc run model.py`: the entry is executed, not compiled."""

import json

import numpy as np
import pytest

from aotc.cli.main import main

MODEL = """
import aotc
import numpy

weights = aotc.Weights({"k": numpy.ones((3, 2), "f4")})
total = aotc.State(numpy.ones((), "f4"))

@aotc.entry(x=aotc.Spec(("n", 3)))
def predict(weights, x):
    y = x @ weights["k"]
    if y.sum() > 0:
        print("y is", y.tolist())
    return {"y": y}

@aotc.entry(x=aotc.Spec(()))
def add(total, x):
    return total + x, total * 2

@aotc.entry(x=aotc.Spec(()))
def fails(x):
    return x.reshape(2)
"""


@pytest.fixture
def model(tmp_path, monkeypatch):
    monkeypatch.setenv("AOTC_EAGER", "1")
    path = tmp_path / "model.py"
    path.write_text(MODEL)
    return str(path)


def test_prints_of_the_model_see_values(model, capsys):
    assert main(["run", model, "--entry", "predict", "-i", "x=[[1,2,3]]"]) == 0
    said = capsys.readouterr()
    assert said.err == "y is [[6.0, 6.0]]\n"  # answers alone go to standard output
    assert said.out.startswith("y: f32[1, 2]\n")


def test_outputs_are_those_of_a_bundle_and_states_begin_as_declared(model, capsys):
    assert main(["run", model, "--entry", "add", "-i", "x=3", "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["entry"] == "add"
    assert [output["values"] for output in document["outputs"]] == [2.0]


def test_outputs_are_written_to_files(model, tmp_path):
    file = str(tmp_path / "out.npz")
    assert main(["run", model, "--entry", "add", "-i", "x=3", "-o", file]) == 0
    assert np.load(file)["output"] == 2


@pytest.mark.parametrize(
    ("arguments", "code", "where"),
    [
        (["-i", "x=3"], "unknown-entry", ""),
        (["--entry", "none", "-i", "x=3"], "unknown-entry", ""),
        (["--entry", "add"], "missing-input", ""),
        (["--entry", "add", "-i", "y=3"], "unknown-input", ""),
        (["--entry", "predict", "-i", "x=3"], "rank-mismatch", "model.py:8"),
        (["--entry", "fails", "-i", "x=3"], "shape-mismatch", "model.py:21"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(model, arguments, code, where, capsys):
    assert main(["run", model, *arguments]) != 0
    error = capsys.readouterr().err
    assert f"[{code}]" in error
    assert where in error


def test_options_of_bundles_are_refused(model, capsys):
    arguments = ["--entry", "add", "-i", "x=3", "--target", "cpu"]
    assert main(["run", model, *arguments]) == 2
    assert "need a bundle" in capsys.readouterr().err


def test_without_the_setting_a_model_is_no_bundle(model, monkeypatch, capsys):
    monkeypatch.delenv("AOTC_EAGER")
    assert main(["run", model, "--entry", "add", "-i", "x=3"]) != 0
    assert "bundle-not-directory" in capsys.readouterr().err
