"""`aotc explain`: one run finds everything, and says whether a build would succeed."""

import json

import numpy as np
import pytest

from aotc.cli.main import main
from aotc.tracing.findings import grouped_findings

MODEL = """
import aotc, aotc.linalg
import aotc.numpy as np

@aotc.entry(x=aotc.Spec((2, 3)))
def wrong_shape(x):
    return x @ x

@aotc.entry(x=aotc.Spec((2, 3)))
def no_such_method(x):
    return x.foo()

@aotc.entry(x=aotc.Spec((3, 3)))
def composed(x):
    return aotc.linalg.qr(np.sin(x))
"""


@pytest.fixture
def explained(tmp_path, capsys):
    """What a command of `explain` over a file prints, and its exit code."""

    def run(name, content, *arguments):
        file = tmp_path / name
        if isinstance(content, str):
            content = content.encode()
        file.write_bytes(content)
        code = main(["explain", str(file), *arguments])
        return code, capsys.readouterr().out

    return run


def rows(text):
    """Findings by kind and op."""
    found = json.loads(text)["findings"]
    return {f"{each['kind']} {each['op']}": each for each in found}


def test_every_entry_that_fails_is_found_with_its_line(explained):
    code, text = explained("model.py", MODEL, "--format", "json")
    found = rows(text)
    assert code == 1
    assert found["unsupported entry 'wrong_shape'"]["places"] == ["model.py:7"]
    assert found["unsupported entry 'no_such_method'"]["code"] == "unknown-name"
    for row in ("decomposed graph.qr", "approximated graph.qr"):
        assert found[row]["places"] == ["model.py:15"]


ATTENTION = """
import aotc
from aotc import nn

@aotc.entry(x=aotc.Spec((1, 16, 2, 8)))
def attended(x):
    return nn.attention(x, x, x)
"""


@pytest.mark.parametrize(("target", "is_decomposed"), [("x86_64-v3", 0), ("vmvx", 1)])
def test_ops_are_decomposed_where_a_target_has_no_kernel_for_them(
    explained, target, is_decomposed
):
    arguments = "--format", "json", "--target", target
    code, text = explained("model.py", ATTENTION, *arguments)
    assert code == 0
    assert ("decomposed graph.attention" in rows(text)) == is_decomposed


def test_a_model_that_builds_is_told_with_exit_code_0(explained):
    good = MODEL.partition("@aotc")[0] + MODEL[MODEL.rindex("@aotc") :]
    code, text = explained("model.py", good)
    assert code == 0
    assert "model.py can be built for" in text
    assert "graph.qr (1×)" in text


def test_a_model_with_quotients_of_sizes_that_builds_is_told_so(explained):
    model = """
import aotc

@aotc.entry(x=aotc.Spec(("n",)))
def first_of_every_other(x):
    return x[::2][:1] * 2
"""
    code, text = explained("model.py", model)
    assert code == 0, text


def test_what_a_target_cannot_do_is_found_for_each_target(explained):
    model = MODEL.partition("@aotc")[0] + (
        "@aotc.entry(x=aotc.Spec((3,), 'f16'))\n"
        "def half(x):\n    return np.tanh(x) + x\n"
    )
    targets = ("--target", "cpu", "--target", "vmvx")
    code, text = explained("model.py", model, *targets, "--format", "json")
    assert code == 1
    assert {row["code"] for row in rows(text).values()} == {"not-on-target"}
    assert all("'vmvx'" in row["reason"] for row in rows(text).values())


def test_weights_of_bytes_are_explained_for_the_targets_that_a_build_has(
    explained, monkeypatch
):
    monkeypatch.delenv("AOTC_TARGETS", raising=False)
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    model = MODEL.partition("@aotc")[0] + (
        "weights = aotc.Weights(np.ones((4, 3), 'i8'))\n"
        "@aotc.entry(x=aotc.Spec((2, 4)))\n"
        "def product(weights, x):\n    return x @ weights.astype('f32')\n"
    )
    code, text = explained("model.py", model)
    assert code == 0
    assert "can be built for x86_64-v3, x86_64-v4, x86_64-v4-dot\n" in text


def test_a_file_that_cannot_be_read_is_a_finding_and_no_file_is_an_error(explained):
    code, text = explained("model.py", "def broken(:", "--format", "json")
    assert code == 1
    assert [row["places"] for row in rows(text).values()] == [["model.py:1"]]
    assert main(["explain", "missing.py"]) == 2


def test_ir_that_does_not_say_what_was_imported_is_explained(explained):
    ir = """
module attributes {graph.stage = "graph",
    graph.source = {kind = "python", file = "model.py", sha256 = "0"}} {
  func.func @f(%x: tensor<4xf32> {graph.kind = "input", graph.name = "x"})
      -> (tensor<4xf32> {graph.kind = "output", graph.name = "output"})
      attributes {graph.symbols = [], graph.entry = {reads = [], updates = [],
                  inputs = {dict = [["x", "*"]]}, outputs = "*"}} {
    %y = "graph.exp"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    return %y : tensor<4xf32>
  }
}"""
    code, text = explained("model.mlir", ir, "--format", "json")
    assert code == 0
    assert json.loads(text)["coverage"]["graph_ops"] == 1


def test_sarif_has_a_result_for_each_place_with_file_and_line(explained):
    code, text = explained("model.py", MODEL, "--format", "sarif")
    log = json.loads(text)
    (run,) = log["runs"]
    ids = {rule["id"] for rule in run["tool"]["driver"]["rules"]}
    assert code == 1
    assert log["version"] == "2.1.0"
    assert {result["ruleId"] for result in run["results"]} == ids
    lines = [
        (
            result["level"],
            place["artifactLocation"]["uri"],
            place["region"]["startLine"],
        )
        for result in run["results"]
        for place in [result["locations"][0]["physicalLocation"]]
    ]
    assert ("error", "model.py", 7) in lines
    assert ("note", "model.py", 15) in lines


ONNX = """<ir_version: 9, opset_import: ["": 18, "own": 1]>
    net (float[batch, 4] x) => (float[batch, 4] y)
    <float[batch, 4] a, float[batch, 4] b, float[batch, 4] c, float[batch, 4] d,
     float[batch, 4] f> {
        [first] a = own.Mystery(x)
        [slopes] b = HardSigmoid <alpha = 0.3> (a)
        [bad] c = Reshape(b, x_shape)
        [second] d = own.Mystery(c)
        [noise] e = RandomNormal <shape = [2]> ()
        [drop] f = Dropout(b, share, training)
        [bytes] g, h, i = DynamicQuantizeLinear (x)
        [last] y = DequantizeLinear (g, h, i)
    }
"""


def test_a_survey_of_onnx_goes_on_after_what_it_cannot_import(explained):
    onnx = pytest.importorskip("onnx")
    proto = onnx.parser.parse_model(ONNX)
    for name, value in (
        ("x_shape", np.array([3, 3])),
        ("share", np.array(0.5, "f")),
        ("training", np.array(True)),
    ):
        proto.graph.initializer.append(onnx.numpy_helper.from_array(value, name))
    content = proto.SerializeToString()
    code, text = explained("net.onnx", content, "--format", "json")
    found = rows(text)
    assert code == 1
    assert found["unsupported own.Mystery"]["count"] == 2
    assert found["unsupported Reshape"]["places"] == ["net.onnx:3 (bad)"]
    assert found["unsupported Dropout"]["code"] == "unsupported-ops"
    assert "approximated RandomNormal" in found
    assert "decomposed DynamicQuantizeLinear" in found


def test_what_has_no_place_is_told_without_one() -> None:
    (found,) = grouped_findings([("guard", "it is none", "", "help")])
    assert str(found) == "guard (1×): it is none"
