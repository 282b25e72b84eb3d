"""Files of IR that are refused, and what their errors say."""

import hashlib
import re

import pytest

from aotc import pipeline
from aotc.errors import InputError
from aotc.importers import load
from aotc.machine.target import Target
from aotc.pipeline import build


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
from aotc import control


@aotc.custom_vjp
def cut(x):
    return np.minimum(x, 1.0)


cut.defvjp(lambda x: (cut(x), x < 1), lambda below, dy: (np.where(below, dy, 0),))


@aotc.entry(x=aotc.Spec((4, 3)), n=aotc.Spec((2,), "i32"))
def f(x, n):
    def loss(x, n):
        return np.sum(cut(x)) * np.sum(n).astype("float32")

    return aotc.grad(loss)(x, n), aotc.vmap(lambda row: np.sin(row).sum())(x)


@aotc.entry(x=aotc.Spec((4, 3)), n=aotc.Spec((), "i32"))
def h(x, n):
    total, _ = control.scan(lambda c, row: (c + row, c), x[0], x)
    return control.switch(n, [np.sin, np.cos], total)
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
        ('kind = "scan"', 'kind = "scam"', "kind of switch, while, scan; got 'scam'"),
        ("[@h.lambda]", "[@h.sin, @h.cos]", "expected 1 functions of a scan; got 2"),
        ("[@h.sin, @h.cos]", "[]", "expected one or more functions of a switch; got 0"),
        ("[@h.sin, @h.cos]", "[@h.sin, @no_h]", "'no_h', which the module does not"),
        ("carries = 1", "carries = -1", "expected carries of 0 or more; got -1"),
        ("length = #map\\d*", "length = affine_map<() -> ()>", "expected one length"),
    ],
)
def test_what_stands_for_a_function_must_fit_it(tmp_path, old, new, words):
    """So an edit that is wrong is no failure of a pass."""
    (tmp_path / "f.py").write_text(DERIVED)
    build(tmp_path / "f.py", dump=tmp_path, stop_after="graph")
    ir = tmp_path / "graph.mlir"
    text, count = re.subn(old.replace("[@", r"\[@"), new, ir.read_text())
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
