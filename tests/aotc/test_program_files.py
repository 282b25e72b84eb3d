"""IR of a whole program: dumped at any stage, changed, and gone on with."""

import hashlib
import json
import os
import re
import shutil

import numpy as np
import pytest

import aotc
from aotc import pipeline, program_files
from aotc.errors import InputError, SetupError
from aotc.importers import load
from aotc.packager import merge_parameters, weight_files
from aotc.parameter_archive import ArchiveParts, read_archive
from aotc.passes.base import Unit
from aotc.passes.update_in_place import UpdateInPlace
from aotc.pipeline import IR_STAGES, build
from aotc.program_files import write_parameters
from aotc.target import Target

MODEL = """
import numpy
import aotc
import aotc.numpy as np
from collections import namedtuple

Pair = namedtuple("Pair", "left right")
aotc.bundle(version="2.5")
table = aotc.Weights({"b": numpy.ones((3, 2), "u1"), "a": numpy.full((4,), 2.0, "f4")})
state = aotc.State({"w": numpy.ones((4, 3), "f4"), "n": numpy.zeros((), "i8"),
                    "none": numpy.zeros((0, 2), "f2"), "flag": numpy.array(True)})
n = aotc.Dim("n", min=2, max=64, multiple_of=2, optimum=8)


@aotc.entry(x=aotc.Spec((n, 4)), y=aotc.Spec(("m", 3)))
def predict(table, y, x):
    a = np.tanh(x * table["a"])
    return Pair({"z": a, "a": [x, (y,)]}, None)


@aotc.entry(x=aotc.Spec((n, 4)))
def step(state, table, x):
    def loss(w):
        return np.square(np.sin(x * table["a"]) @ w - 1).mean()

    value, slope = aotc.value_and_grad(loss)(state["w"])
    new = {**state, "w": state["w"] - 0.1 * slope, "n": state["n"] + 1}
    return new, value
"""


@pytest.fixture
def source(tmp_path):
    file = tmp_path / "pair.py"
    file.write_text(MODEL)
    return file


def files_of(bundle):
    """The bytes of each file of a bundle, by name."""
    return {
        path.relative_to(bundle).as_posix(): path.read_bytes()
        for path in bundle.rglob("*")
        if path.is_file()
    }


def variants_of(bundle):
    """The rows of a manifest, one for each target."""
    return json.loads((bundle / "manifest.json").read_bytes())["variants"]


def test_every_stage_goes_on_to_the_same_bundle_byte_for_byte(
    source, tmp_path, monkeypatch
):
    monkeypatch.setenv("AOTC_CACHE", str(tmp_path / "cache"))
    choices = {"targets": [Target.parse("cpu")], "sign": False, "self_check": "off"}
    whole = build(
        source, output=tmp_path / "whole", dump=tmp_path / "ir", **choices
    ).bundle
    for stage in IR_STAGES:
        (file,) = (tmp_path / "ir").rglob(f"{stage}.mlir")
        dump = tmp_path / f"{stage}-ir"
        again = build(file, output=tmp_path / stage, dump=dump, **choices)
        (written,) = dump.rglob(f"{stage}.mlir")
        folder = file.relative_to(tmp_path / "ir").parent
        assert written.relative_to(dump).parent == folder
        assert again.variants[0].reuse == "hit"
        assert files_of(again.bundle) == files_of(whole), stage


def test_kernels_and_packed_weights_go_on_to_the_same_bundle(
    source, tmp_path, monkeypatch
):
    monkeypatch.setenv("AOTC_CACHE", str(tmp_path / "cache"))
    source.write_text(
        "import aotc\nimport numpy\nfrom aotc import nn\n"
        "w = aotc.Weights({'a': numpy.ones((64, 100), 'f4'), 'b': numpy.float32(2)})\n"
        "@aotc.entry(x=aotc.Spec((7, 64)))\n"
        "def f(w, x):\n    return nn.relu(x @ w['a'] + w['b'])\n"
    )
    choices = {"targets": [Target.parse("x86_64-v4")], "sign": False}
    choices |= {"self_check": "off"}
    whole = build(
        source, output=tmp_path / "whole", dump=tmp_path / "ir", **choices
    ).bundle
    assert "graph.kernel" in (tmp_path / "ir/x86_64-v4/linalg.mlir").read_text()
    for stage in IR_STAGES:
        (file,) = (tmp_path / "ir").rglob(f"{stage}.mlir")
        again = build(file, output=tmp_path / stage, **choices)
        assert again.variants[0].reuse == "hit"
        assert files_of(again.bundle) == files_of(whole), stage


def test_a_bundle_from_ir_lacks_nothing_but_what_checks_of_the_source_found(
    source, tmp_path
):
    source.write_text(
        "import aotc\nimport aotc.numpy as np\n"
        "@aotc.entry(x=aotc.Spec((4,)))\n"
        "def f(x):\n    return aotc.grad(lambda x: np.exp(x).sum())(x)\n"
    )
    choices = {"targets": [Target.parse("cpu")], "sign": False, "self_check": "off"}
    whole, again = (
        files_of(build(file, output=tmp_path / name, **choices, **asked).bundle)
        for name, file, asked in (
            ("whole", source, {"certify_gradients": True, "dump": tmp_path}),
            ("again", tmp_path / "x86_64-v3" / "linalg.mlir", {}),
        )
    )
    checked, plain = (json.loads(x.pop("manifest.json")) for x in (whole, again))
    assert checked.pop("gradient_certificates")
    assert (checked, whole) == (plain, again)


def test_what_is_read_of_a_dump_is_what_was_written(source, tmp_path):
    keep = "fold-parameters"  # which drops table.b, that nothing reads
    build(source, dump=tmp_path / "ir", stop_after="variant", without=keep)
    program = load(source)
    for stage in IR_STAGES:
        (file,) = (tmp_path / "ir").rglob(f"{stage}.mlir")
        other = load(file)
        assert (other.stage, other.source) == (stage, program.source)
        assert (other.title.name, other.title.version) == ("pair", "2.5")
        assert other.states == program.states
        assert [e.input_tree for e in other.entries] == [
            e.input_tree for e in program.entries
        ]
        for mine, theirs in zip(program.entries, other.entries, strict=True):
            assert mine == theirs
        assert list(other.parameters) == list(program.parameters)
        for name, array in program.parameters.items():
            assert other.parameters[name].dtype == array.dtype
            np.testing.assert_array_equal(other.parameters[name], array)


def test_edited_ir_is_what_is_compiled(tmp_path):
    file = tmp_path / "f.py"
    file.write_text(
        "import aotc, numpy\nimport aotc.numpy as np\n"
        "w = aotc.Weights(numpy.full(3, 2.0, 'f4'))\n"
        "@aotc.entry(x=aotc.Spec((3,)))\ndef f(w, x):\n    return np.exp(x) * w\n"
    )
    build(file, dump=tmp_path / "ir", stop_after="optimized")
    ir = tmp_path / "ir" / "optimized.mlir"
    ir.write_text(ir.read_text().replace("graph.exp", "graph.tanh"))
    report = build(ir, output=tmp_path, sign=False, targets=[Target.parse("cpu")])
    assert report.self_checks[0].checked
    model = aotc.load(report.bundle, allow_unsigned=True)
    x = np.arange(3, dtype="f4")
    np.testing.assert_allclose(model.f(x=x), 2 * np.tanh(x), rtol=1e-6)


def test_lowered_ir_has_no_graph_to_be_checked_by_which_is_said(source, tmp_path):
    on_vmvx = {"targets": [Target.parse("vmvx")]}
    build(source, dump=tmp_path / "ir", stop_after="linalg", **on_vmvx)
    ir = tmp_path / "ir" / "vmvx" / "linalg.mlir"
    choices = {"entries": ["predict"], **on_vmvx}
    (row,) = build(ir, output=tmp_path, **choices).self_checks
    assert not row.checked
    assert "stage 'linalg'" in str(row)
    with pytest.raises(InputError) as caught:
        build(ir, output=tmp_path / "full", self_check="full", **choices)
    assert caught.value.code == "no-graph"


def test_ir_for_one_target_is_built_for_that_one(source, tmp_path):
    build(source, dump=tmp_path, stop_after="variant", targets=[Target.parse("vmvx")])
    ir = tmp_path / "vmvx" / "variant.mlir"
    with pytest.raises(InputError, match="expected target 'vmvx'"):
        build(ir, stop_after="variant", targets=[Target.parse("cuda:sm_80")])
    bundle = build(ir, output=tmp_path / "out").bundle
    assert [row["id"] for row in variants_of(bundle)] == ["vmvx"]


def _without_archive(folder):
    (folder / "parameters.irpa").unlink()


def _with_another_archive(folder):
    archive = folder / "parameters.irpa"
    archive.write_bytes(archive.read_bytes()[:-1] + b"?")


def _with_a_parameter_more(folder):
    file = folder / "graph.mlir"
    text = file.read_text().replace('@"model::table.a"', '@"model::table.other"')
    file.write_text(text)


def _with_a_wider_parameter(folder):
    file = folder / "graph.mlir"
    file.write_text(file.read_text().replace("tensor<4x3xf32>", "tensor<4x6xf32>"))


def _at_another_stage(folder):
    file = folder / "graph.mlir"
    text = file.read_text().replace('graph.stage = "graph"', 'graph.stage = "grap"')
    file.write_text(text)


def _with(old, new):
    def change(folder):
        file = folder / "graph.mlir"
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new))

    return change


def _with_half_the_text(folder):
    file = folder / "graph.mlir"
    file.write_text(file.read_text()[:-200])


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        (_without_archive, "bad-parameters", "it is not there"),
        (_with_another_archive, "bad-parameters", "got another"),
        (_with_a_parameter_more, "bad-parameters", "'table.other'"),
        (_with_a_wider_parameter, "bad-ir", "not valid"),
        (_at_another_stage, "bad-ir", "got 'grap'"),
        (_with_half_the_text, "bad-ir", "not valid"),
        (
            _with('graph.name = "table.a"', 'graph.name = "a"'),
            "bad-ir",
            "parameter 'a'",
        ),
        (_with('graph.kind = "weight", ', ""), "bad-ir", "malformed"),
        (_with("graph.entry", "graph.entr"), "bad-ir", "there is no entry"),
        (
            _with('graph.kind = "state"} loc', 'graph.kind = "weight"} loc'),
            "bad-ir",
            "",
        ),
        (_with("min = 2 : i64", "min = 99 : i64"), "bad-ir", "no size can be"),
        (_with('updates = ["state"]', "updates = []"), "bad-ir", "it updates state"),
        (_with('graph.stage = "graph"', 'graph.stage = "variant"'), "bad-ir", "target"),
        (_with("graph.entry = {", "graph.entry = {a = 1, "), None, None),
        (_with('reads = ["', 'read = ["'), "bad-ir", "'reads'"),
        (_with('"state.flag", ', ""), "bad-ir", "'state' lacks"),
        (_with('"state.flag", ', '"state.n", '), "bad-ir", "'state' lacks"),
        (_with('version = "2.5"', 'version = "2 5"'), "bad-ir", "a version of at most"),
        (_with('name = "pair", v', 'name = "../p", v'), "bad-ir", "a name of at most"),
        (_with("graph.vjp = {", "graph.vpj = {"), "bad-ir", "has no body"),
        (
            _with('graph.kind = "input"', 'graph.kind = "output"'),
            "bad-ir",
            "is a output; expected one of input, weight, state",
        ),
    ],
)
def test_ir_that_is_not_whole_is_refused(source, tmp_path, change, code, words):
    build(source, dump=tmp_path / "ir", stop_after="graph")
    change(tmp_path / "ir")
    if code is None:
        assert build(tmp_path / "ir" / "graph.mlir", stop_after="optimized").ir
        return
    with pytest.raises(InputError, match=words) as caught:
        build(tmp_path / "ir" / "graph.mlir", stop_after="optimized")
    assert caught.value.code == code


def test_a_build_of_ir_stops_at_its_stage_and_not_before(source, tmp_path):
    asked = {"stop_after": "linalg", "targets": [Target.parse("vmvx")]}
    lowered = build(source, dump=tmp_path / "ir", **asked).ir
    ir = tmp_path / "ir" / "vmvx" / "linalg.mlir"
    assert build(ir, stop_after="linalg").ir == lowered
    with pytest.raises(InputError) as caught:
        build(ir, stop_after="optimized")
    assert caught.value.code == "bad-option"


def test_parts_of_a_dump_can_be_taken_elsewhere(source, tmp_path):
    build(source, dump=tmp_path / "ir", stop_after="optimized")
    shutil.move(tmp_path / "ir", tmp_path / "elsewhere")
    report = build(tmp_path / "elsewhere" / "optimized.mlir", stop_after="linalg")
    assert report.ir == build(source, stop_after="linalg").ir


@pytest.mark.parametrize(
    "passes",
    [
        "autodiff, inline",
        "simplify, cse, autodiff, inline",
        "inline, simplify, autodiff, cse, inline, simplify",
        "inline, cse, autodiff, inline, simplify, cse, relax-order",
    ],
)
def test_derivatives_are_the_same_before_and_after_optimisations(
    source, tmp_path, passes
):
    choices = {"targets": [Target.parse("cpu")], "sign": False, "entries": ["step"]}
    bundle = build(source, output=tmp_path, passes=passes, **choices).bundle
    model = aotc.load(bundle, allow_unsigned=True)
    x = np.linspace(-1, 1, 8, dtype="f4").reshape(2, 4)
    loss = model.step(x=x)
    w, s = np.ones((4, 3), "f8"), np.sin(2 * x.astype("f8"))
    np.testing.assert_allclose(loss, np.square(s @ w - 1).mean(), rtol=1e-6)
    slope = s.T @ (s @ w - 1) * 2 / 6
    found = model.read_state("state")["w"]
    np.testing.assert_allclose(found, w - 0.1 * slope, rtol=1e-5)
    ran = variants_of(bundle)[0]["passes"]
    assert ran[: passes.count(",") + 1] == passes.replace(" ", "").split(",")


def test_the_manifest_says_what_ran_with_options_for_each_target(tmp_path):
    file = tmp_path / "deep.py"
    file.write_text(
        "import aotc, numpy\nimport aotc.numpy as np\n"
        "ws = aotc.State([numpy.ones((64, 64), 'f4') / 64 for _ in range(8)])\n"
        "@aotc.entry(x=aotc.Spec((512, 64)))\ndef step(ws, x):\n"
        "    def loss(ws):\n        y = x\n        for w in ws:\n"
        "            y = np.tanh(y @ w)\n        return y.sum()\n"
        "    value, grads = aotc.value_and_grad(loss)(ws)\n"
        "    return [w - 0.1 * g for w, g in zip(ws, grads)], value\n"
    )
    choices = {"targets": [Target.parse("cpu")], "sign": False, "self_check": "off"}
    taken = build(file, output=tmp_path, **choices).variants[0].memory["step"]
    least = int(taken.peak_bytes * 0.6)
    report = build(file, output=tmp_path, force=True, peak_memory=least, **choices)
    (row,) = variants_of(report.bundle)
    fitted = row["passes"].index(f"fit-memory{{bytes={least}}}")
    first, second = row["passes"][fitted - 2 : fitted]
    assert first.startswith("rematerialize{entry=step,bytes=")
    assert second == "cse"
    assert row["passes"][fitted + 1 :] == ["update-in-place", "control-to-blocks"]
    assert report.fits[0].after <= least < report.fits[0].before


@pytest.mark.parametrize(
    ("spelled", "code"),
    [
        ("rematerialize", "bad-pass-option"),
        ("rematerialize{entry=f,bytes=x}", "bad-pass-option"),
        ("cse{of=1}", "bad-pass-option"),
        ("rematerialize{entry=g,bytes=1}", "unknown-entry"),
        ("rematerialize{entry=step,bytes=9000}", "symbolic-memory"),
        ("rematerialize{bytes=10,entry=f}", "memory-budget"),
        ("rematerialize{entry=f,bytes=100000},cse", None),
    ],
)
def test_a_pass_takes_its_options_in_braces(source, spelled, code):
    source.write_text(
        f"{MODEL}\n\n@aotc.entry(x=aotc.Spec((8, 4)))\n"
        "def f(x):\n    return np.sin(x) @ np.cos(x).T\n"
    )
    text = build(source, stop_after="linalg").ir
    if code is None:
        assert spelled.partition(",cse")[0] in pipeline.optimize(text, spelled)
        return
    with pytest.raises(InputError) as caught:
        pipeline.optimize(text, spelled)
    assert caught.value.code == code


def test_what_a_pass_makes_of_parameters_for_a_target_is_that_targets_own(
    source, tmp_path, monkeypatch
):
    def run(self, unit):
        if unit.target.id == "vmvx":
            doubled = {k: 2 * x for k, x in unit.program.parameters.items() if k == "w"}
            unit.program.parameters |= doubled
        return False

    monkeypatch.setattr(UpdateInPlace, "run", run)
    source.write_text(
        "import aotc, numpy\n"
        "w = aotc.Weights(numpy.arange(3, dtype='f4'))\n"
        "c = aotc.Weights(numpy.ones(3, 'f4'))\n"
        "s = aotc.State(numpy.zeros(3, 'f4'))\n"
        "@aotc.entry(x=aotc.Spec((3,)))\n"
        "def f(w, c, s, x):\n    return s + w, x * w + c\n"
    )
    bundle = build(
        source,
        output=tmp_path,
        targets=[Target.parse("cpu"), Target.parse("vmvx")],
        dump=tmp_path / "ir",
        sign=False,
        self_check="off",
    ).bundle
    x = np.ones(3, "f4")
    for target, times in ((str(Target.parse("cpu")), 1), ("vmvx", 2)):
        model = aotc.load(bundle, allow_unsigned=True, target=target)
        w = times * np.arange(3)
        np.testing.assert_array_equal(model.f(x=x), w + 1)
        np.testing.assert_array_equal(model.read_state("s"), w)
        again = load(tmp_path / "ir" / target / "variant.mlir")
        np.testing.assert_array_equal(again.parameters["w"], w)
    archives = {path.name: [*read_archive(path)] for path in bundle.glob("*.irpa")}
    assert archives == {
        "weights.irpa": ["c", "s"],
        f"weights-{Target.parse('cpu').id}.irpa": ["w"],
        "weights-vmvx.irpa": ["w@vmvx"],
    }


def test_targets_that_replace_a_parameter_by_the_same_array_share_one(source):
    source.write_text(
        "import aotc, numpy\n"
        "w = aotc.Weights({'a': numpy.ones(3, 'f4'), 'a@vmvx': numpy.zeros(3, 'f4')})\n"
        "@aotc.entry(x=aotc.Spec((3,)))\n"
        "def f(w, x):\n    return x * w['a'] + w['a@vmvx']\n"
    )
    targets = [Target.parse(name) for name in ("cpu", "vmvx", "cuda", "vulkan")]
    units = {each.id: Unit(load(source)).fork(each) for each in targets}
    for unit in list(units.values())[1:]:
        unit.program.parameters["w.a"] = np.arange(3, dtype="f4")
    programs = {target: unit.program for target, unit in units.items()}
    merged = merge_parameters(programs)
    assert list(merged) == ["w.a", "w.a@vmvx", "w.a@@vmvx"]
    for target, program in programs.items():
        assert merged.keys() >= program.parameters.keys()
        (w, other, _) = program.entry("f").arguments
        assert other.name == "w.a@vmvx"
        values = [1, 1, 1] if target == targets[0].id else [0, 1, 2]
        assert merged[w.name].tolist() == values
    found = {each.path: each for each in weight_files(programs)}
    assert {path: [*each.parameters] for path, each in found.items()} == {
        f"weights-{targets[0].id}.irpa": ["w.a"],
        "weights-shared.irpa": ["w.a@@vmvx"],
        "weights.irpa": ["w.a@vmvx"],
    }
    assert found["weights-shared.irpa"].required_by == tuple(programs)[1:]


@pytest.mark.parametrize("content", [b"", b"IRPA\0\0\0\0", b"x" * 300])
def test_an_archive_that_is_none_is_refused(source, tmp_path, content):
    build(source, dump=tmp_path, stop_after="graph")
    archive, ir = tmp_path / "parameters.irpa", tmp_path / "graph.mlir"
    before = hashlib.sha256(archive.read_bytes()).hexdigest()
    archive.write_bytes(content)
    after = hashlib.sha256(content).hexdigest()
    ir.write_text(ir.read_text().replace(before, after))
    with pytest.raises(InputError) as caught:
        build(ir, stop_after="optimized")
    assert caught.value.code == "bad-parameters"


def test_a_function_that_calls_itself_in_a_loop_of_lowered_ir_is_refused():
    text = """
func.func @f(%n: index) {
  %zero = arith.constant 0 : index
  scf.for %i = %zero to %n step %n {
    %less = arith.cmpi slt, %i, %n : index
    scf.if %less {
      func.call @g(%i) : (index) -> ()
    }
  }
  return
}
func.func private @g(%n: index) { CALL return }"""
    own = "func.call @f(%n) : (index) -> ()"
    with pytest.raises(InputError, match="calls itself") as caught:
        pipeline.optimize(text.replace("CALL", own), "inline")
    assert caught.value.code == "bad-ir"
    flat = pipeline.optimize(text.replace("CALL", ""), "inline")
    assert "scf.if" in flat
    assert "@g" not in flat


def test_a_function_that_calls_itself_is_refused():
    text = "func.func @f() { func.call @g() : () -> () return }"
    text += "func.func @g() { func.call @f() : () -> () return }"
    with pytest.raises(InputError, match="calls itself"):
        pipeline.optimize(text, "inline")


DERIVED = """
import aotc
import aotc.numpy as np


@aotc.custom_vjp
def cut(x):
    return np.minimum(x, 1.0)


cut.defvjp(lambda x: (cut(x), x < 1), lambda below, dy: (np.where(below, dy, 0),))


@aotc.entry(x=aotc.Spec((4, 3)), n=aotc.Spec((2,), "i32"))
def f(x, n):
    def loss(x, n):
        return np.sum(cut(x)) * np.sum(n).astype("float32")

    return aotc.grad(loss)(x, n), aotc.vmap(lambda row: np.sin(row).sum())(x)
"""
VJP = "graph.vjp = {of = @f.loss, wrt = array<i64: 0>}"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (VJP, "graph.vjp = 3", "expected graph.vjp = {…}; got 3"),
        (VJP, "graph.vjp = {of = @f.loss}", "expected an attribute 'wrt'"),
        (VJP, "graph.vjp = {of = @g, wrt = array<i64: 0>}", "names 'g', which"),
        (VJP, VJP.replace("0", "7"), "wrt to be different inputs.* got [7]"),
        (VJP, VJP.replace("0", "-1"), "wrt to be different inputs.* got [-1]"),
        (VJP, VJP.replace("0", "0, 0"), "wrt to be different inputs.* got [0, 0]"),
        (VJP, VJP.replace("0", "1"), "inputs of a float dtype.* got [1]"),
        (VJP, VJP.replace("i64: 0", "i64"), "of 'f.loss' it returns"),
        (VJP, VJP.replace("vjp", "jvp"), "as graph.jvp of 'f.loss' it takes"),
        (VJP, VJP.replace("@f.loss", "@f.loss.vjp"), "of 'f.loss.vjp' it takes"),
        (
            VJP,
            'graph.precision = {of = @f.loss, compute = "i8"}',
            "compute to be a float dtype; got 'i8'",
        ),
        ("forward = @", "forwards = @", "expected an attribute 'forward'"),
        ("backward = @", "backward = @no_", "which the module does not have"),
        (r"backward = @[\w.]+", "backward = @f.loss", "its backward of .* takes"),
        (r"size = #map\d*", "size = affine_map<() -> (5)>", "graph.batch of .* takes"),
        (r"size = #map\d*", "size = affine_map<() -> ()>", "expected one size"),
    ],
)
def test_what_stands_for_a_function_must_fit_it(tmp_path, old, new, words):
    """So an edit that is wrong is no failure of a pass."""
    (tmp_path / "f.py").write_text(DERIVED)
    build(tmp_path / "f.py", dump=tmp_path, stop_after="graph")
    ir = tmp_path / "graph.mlir"
    text, count = re.subn(old, new, ir.read_text())
    assert count
    ir.write_text(text)
    words = words.replace("[", r"\[").replace("{", r"\{")
    with pytest.raises(InputError, match=words) as caught:
        build(ir, stop_after="linalg")
    assert (caught.value.code, caught.value.where) == ("bad-ir", str(ir))


def test_a_function_made_of_itself_is_refused():
    text = (
        "func.func private @f(tensor<4xf32>) -> tensor<4xf32> attributes "
        '{graph.precision = {of = @f, compute = "f16"}}'
    )
    with pytest.raises(InputError, match="'f' calls itself, or is made of itself"):
        pipeline.optimize(text, "autodiff")


@pytest.mark.parametrize("stage", ["graph", "linalg"])
def test_ir_that_does_not_say_its_stage_is_not_taken_for_stablehlo(
    source, tmp_path, stage
):
    on_vmvx = [Target.parse("vmvx")]
    build(source, dump=tmp_path, stop_after="linalg", targets=on_vmvx)
    (ir,) = tmp_path.rglob(f"{stage}.mlir")
    ir.write_text(ir.read_text().replace(f'graph.stage = "{stage}", ', ""))
    with pytest.raises(InputError, match="expected the attribute graph.stage") as error:
        load(ir)
    assert error.value.code == "bad-ir"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ('%y = "graph.exp"(%x) : (tensor<4xf32>) -> tensor<4xf32>', "graph.stage"),
        ("%y = math.exp %x : tensor<4xf32>", "it is no op of StableHLO"),
        ("", "public functions are f, g"),
        ("%y = ", "cannot be read as StableHLO"),
    ],
)
def test_what_a_file_of_ir_should_hold_is_said(tmp_path, body, words):
    """Ops of the graph are aotc's own; all else would be StableHLO."""
    file = tmp_path / "some.mlir"
    names = ["f", "g"] if not body else ["main"]
    file.write_text(
        "\n".join(
            f"func.func @{name}(%x: tensor<4xf32>) {{\n  {body}\n  return\n}}"
            for name in names
        )
    )
    with pytest.raises(InputError) as error:
        load(file)
    assert words in str(error.value)
    assert "aotc build --dump" in str(error.value)


def test_ops_of_the_graph_without_quotes_are_refused_with_an_example(tmp_path):
    file = tmp_path / "some.mlir"
    file.write_text("func.func @f(%x: tensor<4xf32>) {\n  %y = graph.exp %x\n return }")
    with pytest.raises(InputError, match="not valid") as error:
        load(file)
    assert '%y = "graph.exp"(%x) : ' in error.value.hint


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_who_may_read_a_dump_may_read_its_parameters(source, tmp_path, mask):
    before = os.umask(mask)
    try:
        build(source, dump=tmp_path / "ir", stop_after="graph")
    finally:
        os.umask(before)
    for file in ("graph.mlir", "parameters.irpa"):
        assert (tmp_path / "ir" / file).stat().st_mode & 0o777 == 0o666 & ~mask


@pytest.mark.parametrize(
    "choice",
    [{"certify_gradients": True}, {"passes": "cse"}, {"peak_memory": 1}],
    ids=str,
)
def test_what_comes_before_the_stage_of_the_ir_cannot_be_asked_for(
    source, tmp_path, choice
):
    build(source, dump=tmp_path, stop_after="variant", targets=[Target.parse("vmvx")])
    with pytest.raises(InputError) as caught:
        build(tmp_path / "vmvx" / "variant.mlir", **choice)
    assert caught.value.code == "bad-option"


def test_weights_may_be_called_anything(tmp_path):
    file = tmp_path / "f.py"
    keys = ["a\\41", 'q"u', "b\\s", "new\nline", "ünï→", "model::x", "%0", ""]
    file.write_text(
        "import aotc, numpy\n"
        f"keys = {keys}\n"
        "w = aotc.Weights({k: numpy.full(2, i, 'f4') for i, k in enumerate(keys)})\n"
        "@aotc.entry(x=aotc.Spec((2,)))\ndef f(w, x):\n"
        "    for i, k in enumerate(sorted(w)):\n"
        "        x = x + w[k] * 10**i\n"
        "    return x\n"
    )
    targets = [Target.parse("vmvx")]
    bundle = build(file, output=tmp_path, sign=False, targets=targets).bundle
    expected = sum(keys.index(k) * 10**i for i, k in enumerate(sorted(keys)))
    x = np.zeros(2, "f4")
    found = aotc.load(bundle, allow_unsigned=True).f(x=x)
    np.testing.assert_allclose(found, [expected] * 2, rtol=1e-6)


def test_parameters_that_cannot_be_written_leave_the_old_file(tmp_path, monkeypatch):
    file = tmp_path / "old.irpa"
    write_parameters({"a": np.arange(4)}, file)
    before = file.read_bytes()

    class DiskIsFull(ArchiveParts):
        def __iter__(self):
            yield self.head
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(program_files, "ArchiveParts", DiskIsFull)
    with pytest.raises(SetupError) as caught:
        write_parameters({"a": np.arange(8)}, file)
    assert caught.value.code == "cannot-write"
    assert file.read_bytes() == before
    assert list(tmp_path.iterdir()) == [file]


def test_parameters_may_be_written_over_the_file_that_they_are_read_from(tmp_path):
    file = tmp_path / "same.irpa"
    wanted = np.arange(5000, dtype="f")
    write_parameters({"a": wanted}, file)
    write_parameters({"a": read_archive(file)["a"].data}, file)
    found = read_archive(file)["a"].array(wanted.dtype, wanted.shape)
    assert np.array_equal(found, wanted)
