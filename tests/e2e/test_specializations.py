"""Code for some sizes beside the code for any: built, chosen at each call, compared."""

import json
from pathlib import Path

import numpy as np
import pytest

import aotc as compiler
from aotc import reference
from aotc.errors import InputError
from aotc.machine.target import Target
from aotc.pipeline import build

MODEL = Path(__file__).parent / "specialized_model.py"
RNG = np.random.default_rng(1)


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    asked = {"targets": Target.named("native"), "sign": False, "self_check": "full"}
    folder = tmp_path_factory.mktemp("specialized")
    wanted = [{"batch": 8, "length": 4}, {"batch": 3}]
    return build(MODEL, output=folder, specialize=wanted, **asked)


@pytest.fixture(scope="module")
def dumped(tmp_path_factory):
    """The IR of the stage `optimized`."""
    folder = tmp_path_factory.mktemp("ir")
    build(MODEL, dump=folder, stop_after="optimized")
    return folder / "optimized.mlir"


@pytest.fixture
def model(report):
    return compiler.load(report.bundle, allow_unsigned=True, threads=1)


def test_the_manifest_names_an_export_for_each_of_the_sizes(model):
    found = {
        name: [each.sizes for each in point.specializations]
        for name, point in model.manifest.entry_points.items()
    }
    assert found == {
        "predict": [{"batch": 1}, {"batch": 8}, {"batch": 3}],
        "train_step": [{"batch": 1}, {"batch": 8}, {"batch": 3}],
        "recur": [{"batch": 1}, {"batch": 8}, {"batch": 8, "length": 4}, {"batch": 3}],
    }
    recur = model.manifest.entry_points["recur"]
    assert (
        recur.code_for({"batch": 8, "length": 4}).export == "recur__batch_8__length_4"
    )
    assert recur.code_for({"batch": 8, "length": 5}).export == "recur__batch_8"
    assert recur.code_for({"batch": 9, "length": 4}).export == "recur"


@pytest.mark.parametrize("batch", [1, 2, 3, 8, 9])
@pytest.mark.parametrize("length", [1, 4])
def test_calls_of_any_size_compute_what_the_reference_does(
    model, program, batch, length
):
    w = program.parameters["weights.w"]
    x = RNG.normal(size=(batch, 24)).astype("f4")
    (expected,) = reference.evaluate(program.module, "predict", [w, x])
    np.testing.assert_allclose(model.predict(x=x), expected, 1e-5, 1e-6)
    xs = RNG.normal(size=(length, batch, 24)).astype("f4")
    (expected,) = reference.evaluate(program.module, "recur", [w, xs])
    np.testing.assert_allclose(model.recur(xs=xs), expected, 1e-4, 1e-5)


def test_a_state_is_the_same_one_for_the_code_of_all_sizes(model, program):
    entry = program.entry("train_step")
    stored = dict(program.parameters)
    for batch in (1, 5, 8, 3, 2, 1):
        inputs = {
            "x": RNG.normal(size=(batch, 24)).astype("f4"),
            "y": RNG.normal(size=(batch, 5)).astype("f4"),
        }
        given = [inputs.get(p.name, stored.get(p.name)) for p in entry.arguments]
        results = reference.evaluate(program.module, "train_step", given)
        named = zip(entry.results, results, strict=True)
        (value,) = (x for port, x in named if port.kind == "output")
        named = zip(entry.results, results, strict=True)
        stored |= {port.name: x for port, x in named if port.kind == "state"}
        found = model.train_step(**inputs)
        np.testing.assert_allclose(found, value, 1e-4)
    after = model.read_state()["params"]["w"]
    np.testing.assert_allclose(after, stored["state.params.w"], 1e-3, 1e-5)


def test_the_self_check_compares_the_code_of_every_size(report):
    for row in report.self_checks:
        checked = row.to_manifest()["checked"]
        sizes = {each["batch"] for each in checked}
        assert {1, 3, 8} <= sizes, row
    recur = next(row for row in report.self_checks if row.entry == "recur")
    assert {"batch": 8, "length": 4} in recur.to_manifest()["checked"]


def test_weights_are_stored_once_for_the_code_of_all_sizes(report, program):
    stored = sum(file.stat().st_size for file in report.bundle.glob("*.irpa"))
    arrays = sum(array.nbytes for array in program.parameters.values())
    assert stored < 2 * arrays + 16_384


def test_ir_with_specializations_goes_on_to_the_same_code(report, tmp_path):
    asked = {"targets": Target.named("native"), "sign": False, "self_check": "off"}
    whole = build(MODEL, output=tmp_path / "a", dump=tmp_path / "ir", **asked)
    again = build(
        tmp_path / "ir" / "optimized.mlir", output=tmp_path / "b", entries=["predict"],
        name="specialized_model", **asked | {"self_check": "full"},
    )  # fmt: skip
    (row,) = again.self_checks
    sizes = {each["batch"] for each in row.to_manifest()["checked"]}
    assert {1, 8} < sizes, "the general code and each specialization"
    manifests = [
        json.loads((each.bundle / "manifest.json").read_text())
        for each in (whole, again)
    ]
    points = [each["entry_points"][0] for each in manifests]
    assert points[0] == points[1]
    assert len(points[0]["specializations"]) == 2
    x = RNG.normal(size=(8, 24)).astype("f4")
    one, other = (
        compiler.load(each.bundle, allow_unsigned=True, threads=1).predict(x=x)
        for each in (whole, again)
    )
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("{batch = 8 : i64}", "{batch = 9 : i64}", "has not the types of 'predict'"),
        ("{batch = 8 : i64}", "{}", "is specialized for no sizes"),
        ("{batch = 8 : i64}", "{batch = 65 : i64}", "batch = 65, which no call has"),
        ('entry = "predict"', 'entry = "recur"', "has not the types of 'recur'"),
        ('entry = "predict"', 'entry = "elephant"', "'elephant', which is no entry"),
    ],
)
def test_edited_ir_whose_specializations_contradict_it_is_refused(
    dumped, old, new, words, tmp_path
):
    file = dumped.parent / f"{tmp_path.name}.mlir"
    lines = dumped.read_text().splitlines(keepends=True)
    (line,) = (i for i, x in enumerate(lines) if "func.func @predict__batch_8(" in x)
    assert old in lines[line]
    lines[line] = lines[line].replace(old, new)
    file.write_text("".join(lines))
    with pytest.raises(InputError, match=words):
        build(file, output=tmp_path, stop_after="regions")


def test_inspect_and_bench_tell_which_code_a_call_has(report, aotc):
    bundle = report.bundle
    told = aotc("inspect", bundle)
    assert "predict: specialized for batch 8" in told.stdout
    options = ("--allow-unsigned", "--calls", "5", "--profile", "--format", "json")
    for sizes, export in (("batch=8", "predict__batch_8"), ("batch=9", "predict")):
        told = aotc("bench", bundle, "predict", "--sizes", sizes, *options)
        assert json.loads(told.stdout)["profile"]["export"] == export, told.stderr
    told = aotc(
        "inspect", bundle, "--kernels", "--entry", "predict", "--format", "json"
    )
    (variant,) = json.loads(told.stdout)["variants"]
    exports = {name for row in variant["kernels"] for name in row["entries"]}
    exports |= {row["entry"] for row in variant["without_kernel"]}
    assert {"predict", "predict__batch_8"} <= exports
    assert all(name.startswith("predict") for name in exports)


def test_specialize_after_the_graph_stage_or_with_unknown_names_is_refused(
    aotc, tmp_path
):
    run = aotc("build", MODEL, "--specialize", "width=3", "-o", tmp_path)
    assert run.returncode == 2
    assert "[unknown-size]" in run.stderr
    run = aotc("build", MODEL, "--specialize", "batch", "-o", tmp_path)
    assert run.returncode == 2
    assert "--specialize batch=4" in run.stderr
    run = aotc("build", MODEL, "--passes", "autodiff,inline", "-o", tmp_path)
    assert run.returncode == 2
    assert "'specialize'" in run.stderr
    assert list(tmp_path.glob("*.aotc")) == []
