"""Levels of optimisation: which passes run, and that all compute the same."""

import json

import numpy as np
import pytest

import aotc
from aotc.cli.main import main
from aotc.dialects.functions.functions import functions_of
from aotc.errors import CompileError, InputError
from aotc.machine.target import Target
from aotc.passes.simplify import Simplify
from aotc.passes.stages import PASS_STAGES, all_passes
from aotc.pipeline import IR_STAGES, build
from aotc.programs.program import LEVELS

MODEL = """
import aotc
import aotc.numpy as np
import numpy

state = aotc.State({"w": numpy.full((4, 3), 0.5, "f4"), "n": numpy.int32(0)})


@aotc.entry(state=state.frozen, x=aotc.Spec(("rows", 4)))
def predict(state, x):
    return np.tanh(x * 1.0 + 0.0) @ state["w"], np.tanh(x * 1.0 + 0.0).sum(1)


@aotc.entry(x=aotc.Spec((5, 4)))
def step(state, x):
    def loss(w):
        return np.square(aotc.checkpoint(lambda w: np.sin(x @ w))(w) - 1).mean()

    value, slope = aotc.value_and_grad(loss)(state["w"])
    return {"w": state["w"] - 0.1 * slope, "n": state["n"] + 1}, value
"""
HEADS = """
import aotc
import aotc.numpy as np
from aotc import nn
import numpy

kernel = numpy.linspace(-1, 1, 64 * 48, dtype="f4").reshape(64, 48)
weights = aotc.Weights({"w": kernel})


@aotc.entry(x=aotc.Spec((32, 64)))
def predict(weights, x):
    return nn.softmax(x @ weights["w"])
"""
NEEDED = [
    "autodiff",
    "inline",
    "specialize",
    "pad-entries",
    "record-devices",
    "drop-general",
    "decompose",
    "record-intermediates",
    "lower-to-linalg",
    "separate-updates",
    "control-to-blocks",
]


@pytest.fixture
def source(tmp_path):
    file = tmp_path / "levels.py"
    file.write_text(MODEL)
    return file


def results_of(bundle):
    """What the model computes: of an inference, and of three steps."""
    model = aotc.load(bundle, allow_unsigned=True)
    x = np.linspace(-1, 1, 20, dtype="f4").reshape(5, 4)
    losses = [model.step(x=x) for _ in range(3)]
    return [*model.predict(x=x), *losses, *model.read_state("state").values()]


def test_every_level_computes_the_same_and_the_manifest_says_what_ran(source, tmp_path):
    found = {}
    for level in LEVELS:
        choices = {"level": level, "sign": False, "self_check": "full"}
        report = build(source, output=tmp_path / str(level), **choices)
        assert all(row.checked and not row.unchecked for row in report.self_checks)
        rows = json.loads((report.bundle / "manifest.json").read_bytes())["variants"]
        expected = list(map(str, all_passes(level)))
        assert [row["passes"] for row in rows] == [expected] * len(rows)
        found[level] = results_of(report.bundle)
    assert list(map(str, all_passes(0))) == NEEDED
    assert [len(all_passes(level)) for level in LEVELS] == sorted(
        {len(all_passes(level)) for level in LEVELS}
    )
    for level in LEVELS:
        for x, y in zip(found[level], found[LEVELS[-1]], strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-6, atol=1e-7)


def test_ir_goes_on_at_its_level(source, tmp_path):
    target = [Target.parse("cpu")]
    choices = {"targets": target, "sign": False, "self_check": "off"}
    whole = build(
        source, level=0, dump=tmp_path / "ir", output=tmp_path / "a", **choices
    )
    manifest = (whole.bundle / "manifest.json").read_bytes()
    for stage in IR_STAGES:
        (file,) = (tmp_path / "ir").rglob(f"{stage}.mlir")
        again = build(file, output=tmp_path / stage, **choices)
        assert (again.bundle / "manifest.json").read_bytes() == manifest, stage


def test_a_level_is_asked_for_before_its_passes(source, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    build(source, dump=tmp_path / "ir", stop_after="variant")
    late = tmp_path / "ir" / "optimized.mlir"
    assert main(["build", str(late), "-O0"]) == 2
    assert (
        "expected IR of the stage 'graph' or before for -O" in capsys.readouterr().err
    )
    assert main(["build", str(source), "-O7"]) == 2
    assert main(["build", str(source), "-O3"]) == 2
    assert "there is no -O3: -O2, the default, is" in capsys.readouterr().err
    with pytest.raises(InputError, match="level of optimisation of 0, 1, 2; got 3"):
        build(source, level=3)


@pytest.mark.parametrize("wrong", ["9", "-1", '"two"', "[0]"])
def test_ir_of_an_unknown_level_is_refused(source, tmp_path, wrong):
    build(source, level=1, dump=tmp_path / "ir", stop_after="graph")
    file = tmp_path / "ir" / "graph.mlir"
    text = file.read_text()
    file.write_text(text.replace("graph.level = 1 : i64", f"graph.level = {wrong}"))
    assert file.read_text() != text
    with pytest.raises(InputError, match="graph.level is none of 0, 1, 2"):
        build(file)


def test_a_stage_among_the_passes_has_those_of_the_level(source, tmp_path):
    report = build(source, level=0, passes="optimized,cse", stop_after="optimized")
    names = [each.name for each in report.passes]
    needed = ["autodiff", "inline", "specialize", "pad-entries", "record-devices"]
    assert names == [*needed, "cse"]
    build(source, level=0, dump=tmp_path / "ir", stop_after="graph")
    graph = tmp_path / "ir" / "graph.mlir"
    report = build(graph, passes="optimized", stop_after="optimized")
    assert [each.name for each in report.passes] == names[:-1]
    report = build(graph, level=2, stop_after="optimized")
    assert len(report.passes) == len(PASS_STAGES[0].passes())
    assert "graph.level" not in report.ir


def test_a_pass_that_did_not_run_is_not_blamed(source, tmp_path, monkeypatch):
    from aotc.dialects import OPS

    def fail(self, unit):
        raise AssertionError("simplify runs at level 0")

    monkeypatch.setattr(Simplify, "run", fail)
    monkeypatch.setattr(OPS["tanh"], "lower", OPS["sin"].lower)
    with pytest.raises(
        CompileError, match="first differs after: compile, in graph.tanh"
    ):
        build(source, level=0, output=tmp_path)


def test_of_passes_that_are_asked_for_the_wrong_one_is_named(
    source, tmp_path, monkeypatch
):
    right = Simplify.run

    def spoil(self, unit):
        changed = right(self, unit)
        for function in functions_of(unit.module).values():
            for op in [] if function.is_external else function.entry_block.operations:
                if op.operation.name == "graph.tanh":
                    op.result.replace_all_uses_with(op.operands[0])
                    changed = True
        return changed

    monkeypatch.setattr(Simplify, "run", spoil)
    with pytest.raises(CompileError, match="first differs after: simplify"):
        build(source, passes="cse,autodiff,inline,simplify,cse", output=tmp_path)


def test_a_pass_and_a_family_of_kernels_can_be_left_out(tmp_path):
    """The same results, by other passes and kernels; the manifest says which."""
    source = tmp_path / "heads.py"
    source.write_text(HEADS)
    choices = {"targets": [Target.parse("x86_64-v3")], "sign": False}
    whole = build(source, output=tmp_path / "a", self_check="off", **choices)
    less = {"without": "cse,rows", "self_check": "full", "dump": tmp_path / "less"}
    report = build(source, output=tmp_path / "b", **choices, **less)
    assert all(row.checked and not row.unchecked for row in report.self_checks)
    (row,) = json.loads((report.bundle / "manifest.json").read_bytes())["variants"]
    (full,) = json.loads((whole.bundle / "manifest.json").read_bytes())["variants"]
    assert "cse" in full["passes"]
    assert "cse" not in row["passes"]
    assert "fuse-regions{anchors_only=False,without=rows}" in row["passes"]
    assert [len(each["kernels"]["regions"]) for each in (full, row)] == [2, 1]
    (missing,) = row["kernels"]["without"]
    assert missing["why"] == "kernels of the family 'rows' are left out"
    for stage in ("graph", "regions"):
        (file,) = (tmp_path / "less").rglob(f"{stage}.mlir")
        again = build(file, output=tmp_path / stage, **choices, self_check="full")
        assert (again.bundle / "manifest.json").read_bytes() == (
            report.bundle / "manifest.json"
        ).read_bytes(), stage


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ("autodiff", "no code can be made of IR without it"),
        ("cse,lower-to-linalg", "no code can be made of IR without it"),
        ("rematerialize", "only if an option of its own asks for it"),
        ("regions", "a stage, which is of several passes"),
        ("row", "which is neither"),
    ],
)
def test_refuses_to_leave_out_what_a_build_needs(source, wrong, why, capsys):
    with pytest.raises(InputError, match="expected passes that a build can do") as told:
        build(source, without=wrong)
    assert told.value.message.endswith(why)
    assert main(["build", str(source), "--without", wrong]) == 2
    assert "there are recover-attention, simplify, cse" in capsys.readouterr().err


def test_ir_that_leaves_out_what_there_is_not_is_refused(source, tmp_path):
    build(source, without="cse", dump=tmp_path / "ir", stop_after="graph")
    file = tmp_path / "ir" / "graph.mlir"
    file.write_text(file.read_text().replace('["cse"]', '["sce"]'))
    with pytest.raises(InputError, match="got 'sce'"):
        build(file)
