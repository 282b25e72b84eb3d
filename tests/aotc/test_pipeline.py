"""The pipeline in process: stages, IR in and out, and what a build reports."""

import pytest

from aotc import pipeline
from aotc.errors import InputError
from aotc.target import Target

MODEL = """
import aotc
import aotc.numpy as np

scale = aotc.Weights({"by": np.full((4,), 2.0)})

@aotc.entry(x=aotc.Spec(("batch", 4)))
def f(scale, x):
    return np.exp(x) * scale["by"]
"""


@pytest.fixture
def model(tmp_path):
    """A small model file."""
    (tmp_path / "small.py").write_text(MODEL)
    return tmp_path / "small.py"


LOWERING = ["simplify", "lower-to-linalg", "update-in-place"]


def test_a_stage_is_printed_edited_and_fed_back(model):
    report = pipeline.build(model, stop_after="graph")
    assert report.bundle is None
    edited = report.ir.replace("graph.exp", "graph.tanh")
    lowered = pipeline.optimize(edited, LOWERING, timing=True)
    assert "math.tanh" in lowered
    assert "graph." not in lowered.replace("graph.symbols", "")
    assert lowered.startswith("// simplify: ")


def test_every_stage_before_the_compiler_can_be_the_last(model):
    for stage, word in (
        ("graph", "graph.exp"),
        ("optimized", "graph.exp"),
        ("linalg", "linalg.generic"),
    ):
        report = pipeline.build(model, stop_after=stage)
        assert word in report.ir
        assert stage in report.stages


def test_people_get_a_form_of_their_own_of_graph_ir(model):
    report = pipeline.build(model, stop_after="optimized", readable=True)
    assert "func f(" in report.ir
    assert "f32[batch, 4]" in report.ir
    assert "small.py:9" in report.ir
    with pytest.raises(InputError, match="only graph IR"):
        pipeline.build(model, stop_after="linalg", readable=True)


def test_the_dump_holds_every_stage_and_every_pass(model, tmp_path):
    pipeline.build(model, stop_after="linalg", dump=tmp_path / "ir")
    names = {file.name for file in (tmp_path / "ir").iterdir()}
    assert {"graph.mlir", "optimized.mlir", "linalg.mlir"} <= names
    passes = sorted(f.name for f in (tmp_path / "ir" / "optimized-passes").iterdir())
    assert passes[:2] == ["01-autodiff.mlir", "02-inline.mlir"]


def test_a_report_says_what_the_build_cost(model, tmp_path, monkeypatch):
    monkeypatch.setenv("AOTC_HOME", str(tmp_path / "home"))
    report = pipeline.build(model, targets=[Target.parse("vmvx")], output=tmp_path)
    document = report.to_json()
    assert set(document["seconds"]) == {
        "graph", "optimized", "linalg", "vmfb", "bundle", "total",
    }  # fmt: skip
    assert document["peak_bytes"] > 0
    variant = document["variants"][0]
    assert variant["statistics"]["dispatches"] >= 1
    assert variant["peak_bytes"] > 0
    assert [p["pass"] for p in document["passes"]] == list(pipeline.PASS_NAMES)
    assert report.bundle.name == "small-1.0.0.aotc"


@pytest.mark.parametrize(
    ("text", "code"),
    [("this is no IR", "bad-ir"), ("func.func @f() {", "bad-ir")],
)
def test_text_that_is_no_ir_is_refused(text, code):
    with pytest.raises(InputError) as caught:
        pipeline.optimize(text, [])
    assert caught.value.code == code


def test_a_bundle_is_named_after_its_source(tmp_path):
    assert pipeline.default_name(tmp_path / "digits" / "model.py") == "digits"
    assert pipeline.default_name(tmp_path / "res net.py") == "res-net"
