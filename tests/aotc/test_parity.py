"""Parity with the source: figures, inputs, and where a difference begins."""

import json

import numpy as np
import pytest

import aotc
import aotc.numpy as anp
from aotc import pipeline
from aotc.artifacts.manifest import FILE
from aotc.checks.comparable import comparable_targets
from aotc.checks.differences import compare
from aotc.checks.inputs import samples_of
from aotc.checks.parity import ComparisonOptions, InputOptions
from aotc.cli.main import main
from aotc.dialects import OPS
from aotc.dialects.functions.functions import functions_of
from aotc.errors import Finding, InputError, SetupError
from aotc.importers.common.imported import Imported
from aotc.machine.processor import arch
from aotc.machine.target import Target
from aotc.mlir import ir
from aotc.passes.simplify import Simplify

onnx = pytest.importorskip("onnx")

MODEL = """<ir_version: 9, opset_import: ["": 18]>
    net (int64[batch, 3] ids, float[batch, 3] x) => (float[batch, 3, 2] y, int64[batch] best)
    {
        [embed] rows = Gather(table, ids)
        [squash] small = Tanh(rows)
        axes = Constant <value_ints = [2]> ()
        [wide] wide = Unsqueeze(x, axes)
        [join] y = Mul(small, wide)
        [pick] best = ArgMax <axis = 1, keepdims = 0> (x)
    }
"""  # noqa: E501


@pytest.fixture
def model(tmp_path):
    """An .onnx file with an embedding of 7 rows."""
    proto = onnx.parser.parse_model(MODEL)
    table = np.linspace(-1, 1, 14, dtype=np.float32).reshape(7, 2)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(table, "table"))
    file = tmp_path / "net.onnx"
    file.write_bytes(proto.SerializeToString())
    return file


def mismatch(model, tmp_path, bisect=True):
    """The figures of a build that is refused."""
    with pytest.raises(Finding) as caught:
        pipeline.build(
            model, output=tmp_path, sign=False, parity=ComparisonOptions(bisect=bisect)
        )
    assert caught.value.code == "parity"
    assert not list(tmp_path.glob("*.aotc"))
    return caught.value.parities[0]


def test_a_build_with_parity_puts_the_figures_into_the_manifest(model, tmp_path):
    report = pipeline.build(
        model, output=tmp_path, sign=False, parity=ComparisonOptions()
    )
    manifest = json.loads((report.bundle / FILE).read_bytes())
    (found,) = manifest["parity"]
    assert found["passed"]
    assert [each["name"] for each in found["outputs"]] == ["y", "best"]
    assert found["sizes"] == [{"batch": 2}, {"batch": 3}]
    assert "onnx" in found["framework"]
    assert manifest["source"]["coverage"]["captured"] == 5


def test_an_importer_that_is_wrong_is_found_at_the_node(model, tmp_path, monkeypatch):
    from aotc.importers.onnx import ops

    monkeypatch.setitem(ops.TABLE, "Tanh", anp.sin)
    divergence = mismatch(model, tmp_path).divergence
    assert (divergence.stage, divergence.op) == ("import", "Tanh")
    assert divergence.where == "net.onnx:2 (squash)"


def test_a_pass_that_is_wrong_is_named(model, tmp_path, monkeypatch):
    right = Simplify.run

    def wrong(self, unit):
        text = str(unit.module)
        changed = right(self, unit)
        for op in functions_of(unit.module)["main"].entry_block.operations:
            if op.operation.name == "graph.tanh":
                op.result.replace_all_uses_with(op.operands[0])
        return changed or text != str(unit.module)

    monkeypatch.setattr(Simplify, "run", wrong)
    divergence = mismatch(model, tmp_path).divergence
    assert divergence.stage == "simplify"


def test_a_lowering_that_is_wrong_is_found_at_the_op(model, tmp_path, monkeypatch):
    monkeypatch.setattr(OPS["tanh"], "lower", OPS["sin"].lower)
    divergence = mismatch(model, tmp_path).divergence
    assert (divergence.stage, divergence.op) == ("compile", "graph.tanh")
    assert divergence.where == "net.onnx:2 (squash)"


def test_code_that_dies_is_a_failure_at_its_op_not_the_end_of_the_command(
    model, monkeypatch, capsys, deadly_lowering
):
    monkeypatch.setattr(OPS["tanh"], "lower", deadly_lowering)
    assert main(["parity", str(model)]) == 3
    said = capsys.readouterr().err
    assert "died of SIGFPE" in said
    assert "first differs after: compile, in graph.tanh at net.onnx:2 (squash)" in said
    assert "compiled-code-died" in said


def test_the_verb_answers_with_figures_and_an_exit_code(
    model, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.zeros((4, 3), np.float32))
    sizes = ["--sizes", "batch=4", "--input", "x=@x.npy", "--samples", "1"]
    assert main(["parity", str(model), *sizes, "--format", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["schema"] == "aotc.parity/1"
    assert answer["parity"][0]["sizes"] == [{"batch": 4}]
    assert not list(tmp_path.glob("*.aotc"))


def test_sizes_and_inputs_that_there_are_not_are_refused(model, tmp_path):
    for choice, code in (
        (InputOptions(sizes={"n": 3}), "unknown-size"),
        (InputOptions(sizes={"batch": 0}), "bad-size"),
        (InputOptions(given={"z": np.zeros(3)}), "unknown-input"),
        (InputOptions(given={"x": np.zeros((2, 4), "f")}), "input-mismatch"),
    ):
        with pytest.raises(InputError) as caught:
            pipeline.build(
                model, output=tmp_path, sign=False, parity=ComparisonOptions(choice)
            )
        assert caught.value.code == code


def test_a_file_that_onnx_runtime_does_not_load_is_no_matter_of_the_inputs(tmp_path):
    pytest.importorskip("onnxruntime")
    from aotc.importers.onnx import original

    file = tmp_path / "net.onnx"
    proto = onnx.parser.parse_model(MODEL)
    proto.ir_version = 1000
    file.write_bytes(proto.SerializeToString())
    with pytest.raises(InputError, match="cannot load net.onnx") as caught:
        original._by_runtime(file, ["y"], {})
    assert caught.value.code == "framework-cannot-load"
    assert "upgrade ONNX Runtime" in caught.value.hint


def test_targets_that_do_not_run_here_are_named_before_any_work(tmp_path):
    here, there = ("x86_64-v2", "aarch64")[:: 1 if arch() == "x86_64" else -1]
    targets = Target.parse(here), Target.parse(there)
    with pytest.warns(UserWarning, match=f"not what this machine .*{there}"):
        assert comparable_targets(targets) == targets[:1]
    with pytest.raises(SetupError, match="no target runs here") as caught:
        pipeline.build(
            tmp_path / "none.py",
            targets=targets[1:],
            parity=ComparisonOptions(),
            sign=False,
        )
    assert caught.value.code == "incompatible"


def test_differences_are_measured_in_every_unit():
    y = np.array([1.0, -2.0, 0.0], np.float32)
    x = y + np.array([2**-23, 0, 0], np.float32)
    found = compare("y", x, y)
    assert found.max_abs == found.max_rel == 2**-23
    assert found.ulp == 1
    assert found.error == 2**-24
    assert found.passed
    assert abs(found.cosine - 1) < 1e-6


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (np.array([np.nan, 1], "f"), np.array([0, 1], "f")),
        (np.array([0, 1], "f"), np.array([np.inf, 1], "f")),
        (np.array([0, 1], "f"), np.array([0, 1], "d")),
        (np.zeros((2, 1), "f"), np.zeros(2, "f")),
        (np.array([1, 2]), np.array([1, 3])),
        (np.array([True]), np.array([False])),
    ],
)
def test_what_is_not_comparable_or_not_equal_fails(x, y):
    assert not compare("y", x, y).passed
    assert json.dumps(compare("y", x, y).to_json(), allow_nan=False)


@pytest.mark.parametrize(
    ("x", "y", "said"),
    [
        (np.zeros(6, "f"), np.zeros(7, "f"), "shapes differ: got [6], expected [7]"),
        (np.zeros(2, "d"), np.zeros(2, "f"), "dtypes differ: got f64, expected f32"),
        (
            np.array([0, np.nan, 2], "f"),
            np.array([0, 1, 2], "f"),
            "1 of 3 elements differ that are not finite: got nan, expected 1.0 at 1",
        ),
    ],
)
def test_why_two_results_cannot_be_compared_is_said(x, y, said):
    far, near = compare("y", x, y), compare("y", y, y)
    for found in (far, far.worst_of(near), near.worst_of(far)):
        assert said in str(found)
        assert "inf" not in str(found)
        assert found.to_json()["reason"] == said
    assert "reason" not in near.to_json()


def test_equal_infinities_and_nans_are_equal():
    y = np.array([np.nan, np.inf, -np.inf, 3], "f")
    assert compare("y", y.copy(), y).passed


def test_examples_belong_to_inputs_by_name():
    """Whatever the order of the names: here that of the alphabet is the other one."""
    inputs = {"x": aotc.Spec(("rows", 2)), "a": aotc.Spec(("terms",), "i32")}
    network = Imported(lambda x, a: (x * 2, a * 2), inputs)
    program = network.program()
    example = {"a": np.array([5, 6, 7], "i4"), "x": np.zeros((4, 2), "f4")}
    with program.module.context, ir.Location.unknown():
        entry = program.entry("main")
        (sample,) = samples_of(program.module, entry, InputOptions(samples=1), example)
    assert sample.sizes == {"rows": 4, "terms": 3}
    assert sample.arrays[1].min() >= 5
