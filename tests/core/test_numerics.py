"""Levels of numerics: what a build may do to results, and who is told."""

import json

import numpy as np
import pytest

from aotc import reference
from aotc.checks.judging import Rounding, judge
from aotc.cli.main import main
from aotc.dialects.functions.functions import functions_of
from aotc.errors import CompileError, InputError
from aotc.importers import load
from aotc.kernels.winograd import packing
from aotc.kernels.winograd.reference import Transforms, convolve
from aotc.machine.target import Target
from aotc.pipeline import IR_STAGES, build
from aotc.programs.program import numerics_of

MODEL = """
import numpy
import aotc
from aotc import nn

kernel = numpy.random.default_rng(0).normal(size=(3, 3, 48, 64)).astype("f4")
w = aotc.Weights({"kernel": kernel})


@aotc.entry(x=aotc.Spec((1, 12, 12, 48)))
def predict(w, x):
    return nn.relu(nn.conv2d(x, w["kernel"], padding="SAME"))
"""
CHOICES = {"targets": [Target.parse("x86_64-v3")], "sign": False}


@pytest.fixture
def source(tmp_path):
    file = tmp_path / "model.py"
    file.write_text(MODEL)
    return file


def manifest(report):
    return json.loads((report.bundle / "manifest.json").read_bytes())


def families(report):
    (variant,) = manifest(report)["variants"]
    return [row["family"] for row in variant["kernels"]["regions"]]


def test_a_level_is_recorded_and_kept_by_ir_of_every_stage(source, tmp_path):
    """What a build from IR makes is the same, byte for byte."""
    choices = {**CHOICES, "self_check": "off"}
    usual = build(source, output=tmp_path / "usual", **choices)
    assert manifest(usual)["numerics"] == "strict"
    assert families(usual) == ["contraction"]
    whole = build(
        source,
        numerics="relaxed",
        output=tmp_path / "a",
        dump=tmp_path / "ir",
        **choices,
    )
    assert manifest(whole)["numerics"] == "relaxed"
    assert families(whole) == ["winograd"]
    made = json.loads((whole.bundle / "provenance.json").read_bytes())
    outer = made["predicate"]["buildDefinition"]["externalParameters"]
    assert outer["numerics"] == "relaxed"
    for stage in IR_STAGES:
        (file,) = (tmp_path / "ir").rglob(f"{stage}.mlir")
        again = build(file, output=tmp_path / stage, **choices)
        for path in sorted(whole.bundle.rglob("*")):
            other = again.bundle / path.relative_to(whole.bundle)
            assert path.is_dir() or path.read_bytes() == other.read_bytes(), stage


def test_ir_can_be_built_at_another_level_until_regions_are_formed(source, tmp_path):
    dumped = {"dump": tmp_path / "ir", "stop_after": "regions"}
    build(source, numerics="relaxed", **CHOICES, **dumped)
    optimized, regions = (
        next((tmp_path / "ir").rglob(f"{stage}.mlir"))
        for stage in ("optimized", "regions")
    )
    asked = {"stop_after": "regions", "numerics": "strict", **CHOICES}
    assert "winograd" not in build(optimized, **asked).ir
    with pytest.raises(InputError, match="expected IR of the stage 'optimized'"):
        build(regions, **asked | {"stop_after": None})


def test_refuses_a_level_that_there_is_not(source, tmp_path, capsys):
    with pytest.raises(InputError, match="of strict, relaxed; got 'fast'") as caught:
        build(source, numerics="fast")
    assert caught.value.code == "bad-option"
    assert main(["build", str(source), "--numerics", "fast"]) == 2
    assert "'fast' is not one of 'strict', 'relaxed'" in capsys.readouterr().err
    build(source, numerics="relaxed", dump=tmp_path / "ir", stop_after="graph")
    file = tmp_path / "ir" / "graph.mlir"
    file.write_text(file.read_text().replace('"relaxed"', '"fast"'))
    with pytest.raises(InputError, match="got 'fast'") as caught:
        build(file, stop_after="regions", **CHOICES)
    assert caught.value.code == "bad-ir"


# ---- the self-check -----------------------------------------------------------------


def test_the_self_check_takes_the_errors_of_a_level_for_rounding(source, tmp_path):
    report = build(source, numerics="relaxed", output=tmp_path, **CHOICES)
    assert families(report) == ["winograd"]
    assert report.self_checks
    assert all(row.checked and not row.unchecked for row in report.self_checks)


def test_the_self_check_finds_wrong_transforms(source, tmp_path, monkeypatch):
    right = packing._filter_matrix

    def wrong(tile, **kind):
        matrix = right(tile, **kind).copy()
        matrix[7] *= 1.001
        return matrix

    monkeypatch.setattr(packing, "_filter_matrix", wrong)
    with pytest.raises(CompileError, match="does not compute what its graph says"):
        build(source, numerics="relaxed", output=tmp_path, cache=False, **CHOICES)


def test_errors_of_tiles_are_rounding_where_they_are_allowed_alone(source):
    """Large pixels leave last places of theirs on all results of their tiles."""
    program = load(source)
    (kernel,) = program.parameters.values()
    rng = np.random.default_rng(1)
    x = (1e-5 * rng.normal(size=(1, 12, 12, 48))).astype("f")
    x[0, ::5, ::5] = 1e3  # at several places of tiles, whose errors differ
    found = np.maximum(convolve(x, kernel, (1, 1, 1, 1), Transforms.of(4)), 0)

    def verdict(level):
        program.numerics = level

        def evaluate(noise=None):
            given = [kernel, x]
            return reference.evaluate(program.module, "predict", given, with_op=noise)

        expected = evaluate()
        far = np.abs(found - expected[0]) > 1e-4 * np.abs(expected[0]).max()
        assert not far.any()
        # by far more than the 32 units that pass anywhere, on any processor's BLAS
        units = np.finfo("f4").eps * np.abs(expected[0]).max() / 20
        is_small = np.abs(expected[0]) < 1
        assert (np.abs(found - expected[0])[is_small] > 64 * units).any()
        (made,) = judge(["y"], [found], expected, Rounding(expected, evaluate))
        return made

    assert verdict("relaxed").passed
    assert not verdict("strict").passed


def test_an_op_knows_the_level_of_its_module(source):
    program = load(source)
    function = functions_of(program.module)["predict"]
    op = function.entry_block.operations[0]
    assert numerics_of(op) == "strict"
    program.numerics = "relaxed"
    assert numerics_of(op) == "relaxed"
