"""IR of a whole program: dumped at any stage, changed, and gone on with."""

import json
import os
import shutil

import numpy as np
import pytest

import aotc
from aotc import pipeline
from aotc.errors import InputError, SetupError
from aotc.importers import load
from aotc.machine.target import Target
from aotc.packager import merge_parameters, weight_files
from aotc.passes.base import Unit
from aotc.passes.update_in_place import UpdateInPlace
from aotc.pipeline import IR_STAGES, build
from aotc.programs import files as program_files
from aotc.programs.files import write_parameters
from aotc.programs.parameter_archive import ArchiveParts, read_archive
from tests.aotc.dumps import MODEL


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
    least = int(taken.peak_bytes * 0.8)
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


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_who_may_read_a_dump_may_read_its_parameters(source, tmp_path, mask):
    before = os.umask(mask)
    try:
        build(source, dump=tmp_path / "ir", stop_after="graph")
    finally:
        os.umask(before)
    for file in ("graph.mlir", "parameters.irpa"):
        assert (tmp_path / "ir" / file).stat().st_mode & 0o777 == 0o666 & ~mask


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


def test_an_entry_that_takes_weights_without_leaves_is_read_back(tmp_path):
    model = tmp_path / "model.py"
    model.write_text(
        "import aotc\n"
        "@aotc.entry(x=aotc.Spec((2,)), weights=aotc.Weights({}))\n"
        "def double(weights, x):\n"
        "    return 2 * x\n"
    )
    dump = tmp_path / "ir"
    choices = {"targets": [Target.parse("cpu")], "sign": False, "self_check": "off"}
    build(model, output=tmp_path / "whole", dump=dump, **choices)
    again = build(dump / "graph.mlir", output=tmp_path / "again", **choices)
    loaded = aotc.load(again.bundle, allow_unsigned=True)
    assert loaded.double(x=np.ones(2, "f4")).tolist() == [2, 2]


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
