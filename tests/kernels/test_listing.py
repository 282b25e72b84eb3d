"""What a manifest tells of kernels: from the IR alone, with the reasons for none."""

import json

import pytest

from aotc.cli.main import main
from aotc.cli.sarif import sarif
from aotc.explain import explain
from aotc.importers import load
from aotc.kernels.geometry import ConvolutionGeometry
from aotc.kernels.listing import _places, kernels_listed
from aotc.kernels.machine import machine_of
from aotc.kernels.planning.tile import ContractionTile, choose_tile, cycles
from aotc.machine.target import Target
from aotc.passes import run_passes
from aotc.passes.base import Unit
from aotc.passes.stages import PASS_STAGES
from aotc.pipeline import build
from tests.machines import require_runs_here

MODEL = """
import aotc
import aotc.numpy as np
import numpy
from aotc import control, nn

rng = numpy.random.default_rng(0)
w = aotc.Weights([rng.normal(size=(64, 64)).astype("f4") for _ in range(11)])
n = aotc.Dim("n", min=1, max=64)


@aotc.entry(x=aotc.Spec((32, 64), "f32"))
def layers(w, x):
    for each in w:
        x = nn.gelu(x @ each)
    return x


@aotc.entry(x=aotc.Spec((32, 64), "f32"), z=aotc.Spec((n, 64), "f32"))
def others(w, x, z):
    first = nn.gelu(x @ w[0])
    few = x[:8] @ np.transpose(x)
    uneven = np.einsum("abc,db->acd", np.reshape(x, (2, 16, 64)), x[:, :16])
    double = x.astype("f64") @ w[1].astype("f64")
    tiny = x[:2] @ w[2][:, :3]
    chosen = control.cond(x[0, 0] > 0, lambda x: x @ w[4], lambda x: x, x)
    return first, few, uneven, double, tiny, z @ np.transpose(z), chosen
"""
V3, V2 = Target.parse("x86_64-v3"), Target.parse("x86_64-v2")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    file = tmp_path_factory.mktemp("model") / "listed.py"
    file.write_text(MODEL)
    return file


@pytest.fixture(scope="module")
def built(model):
    """Where IR and bundle of a build for two targets are."""
    folder = model.parent
    choices = {"sign": False, "self_check": "off"}
    report = build(
        model, targets=[V3, V2], output=folder, dump=folder / "ir", **choices
    )
    return folder, report.bundle


@pytest.fixture(scope="module")
def variants(built):
    rows = json.loads((built[1] / "manifest.json").read_bytes())["variants"]
    return {row["id"]: row["kernels"] for row in rows}


def test_tells_what_a_kernel_computes_how_and_where_from(variants, model):
    rows = variants["x86_64-v3"]["regions"]
    (region,) = [row for row in rows if "layers" in row["entries"]]
    assert region["ops"] == ["dot_general", "gelu"]
    assert region["family"] == "contraction"
    schedule = ContractionTile.of_plain(region["tile"])
    assert region["schedule"] == str(schedule)
    assert region["flops"] == 2 * 32 * 64 * 64 + 32 * 64
    assert region["bytes_read"] == 4 * (32 * 64 + 64 * 64)
    assert region["bytes_written"] == 4 * 32 * 64
    assert 2 * 32 * 64 * 64 / region["cycles"] <= 32
    line = 1 + MODEL.splitlines().index("        x = nn.gelu(x @ each)")
    layers = region["entries"]["layers"]
    assert (layers["calls"], layers["more"]) == (11, 0)
    assert [place.partition(" ")[0] for place in layers["places"]] == [
        f"listed.py:{line}"
    ]


def test_tells_why_a_product_has_no_kernel(variants):
    found = variants["x86_64-v3"]["without"]
    assert {row["entry"] for row in found} == {"others"}
    assert {row["why"] for row in found} == {
        "its right operand is no weight, its columns are not side by side, and its "
        "rows are too few to bring it into another order in each call",
        "in a branch or a function that stays a call",
        "rows of its left operand do not lie at one distance from each other",
        "its elements are f64, not f32, bf16 or f16",
        "it is too small or narrow to gain by a kernel, or no schedule fits its shape",
        "only a call decides a size, beside the number of rows",
    }
    assert all(row["places"][0].startswith("listed.py:") for row in found)


def test_tells_why_a_target_has_none(variants):
    assert variants["x86_64-v2"] == {
        "none": "kernels need multiply-adds of vectors, which x86_64-v2 does not have",
        "regions": [],
    }


@pytest.mark.parametrize("stage", ["regions", "linalg", "variant"])
def test_ir_gives_the_same_listing(built, variants, tmp_path, stage):
    program = load(built[0] / "ir" / "x86_64-v3" / f"{stage}.mlir")
    names = [each.name for each in PASS_STAGES]
    unit = Unit(program, V3)
    for each in PASS_STAGES[names.index(stage) + 1 :]:
        run_passes(unit, each.passes())
    listed = kernels_listed(unit.module, V3, program.passes)
    assert json.dumps(listed, sort_keys=True) == json.dumps(
        variants["x86_64-v3"], sort_keys=True
    )


def test_a_profile_knows_the_dispatches_that_are_kernels(built, capsys):
    require_runs_here(V3)
    call = ["bench", str(built[1]), "layers", "--allow-unsigned", "--calls", "1"]
    assert main([*call, "--profile", "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    (found,) = document["profile"]["dispatches"]
    assert found["kernel"]["ops"] == ["dot_general", "gelu"]
    assert found["count"] == found["kernel"]["entries"]["layers"]["calls"] == 11
    assert found["gflops"] > 0


def test_many_lines_are_listed_in_part():
    found = _places([f"m.py:{line}" for line in [*range(12), 3, 4]] + [""])
    assert found == {"places": [f"m.py:{line}" for line in range(8)], "more": 4}


def test_explain_notes_what_has_no_kernel_for_a_target(model):
    found = [
        (each.op, each.reason)
        for each in explain(model, targets=[V3, V2]).findings
        if each.kind == "without-kernel"
    ]
    assert (
        "graph.dot_general",
        "x86_64-v3 has no kernel for it: its elements are f64, not f32, bf16 or f16",
    ) in (found)
    of_v2 = {reason for _, reason in found if not reason.startswith("x86_64-v3")}
    assert of_v2 == {
        "x86_64-v2 has no kernel for it: kernels need multiply-adds of vectors, which "
        "x86_64-v2 does not have"
    }
    results = sarif(explain(model, targets=[V3]))["runs"][0]["results"]
    levels = {each["ruleId"]: each["level"] for each in results}
    assert levels["without-kernel"] == "note"


def test_explain_notes_once_what_has_no_kernel_for_several_targets(model):
    found = explain(model, targets=[V3, Target.parse("x86_64-v4")]).findings
    reasons = [each.reason for each in found if each.kind == "without-kernel"]
    assert (
        "x86_64-v3, x86_64-v4 have no kernel for it: its elements are f64, not f32, "
        "bf16 or f16"
    ) in reasons
    tails = [reason.partition(" no kernel for it: ")[2] for reason in reasons]
    assert len(tails) == len({*tails})


@pytest.mark.parametrize("lines", [1, 7, 56])
@pytest.mark.parametrize("target", ["x86_64-v3", "aarch64"])
def test_the_model_of_cycles_is_of_the_whole_call(target, lines):
    """No kernel is above the peak, and a large one comes near to it."""
    machine = machine_of(Target.parse(target))
    shape = ConvolutionGeometry(
        1, (lines, 56), 64, (3, 3), 64, (lines, 56), padding=(1, 1)
    )
    tile = choose_tile(shape, machine)
    expected = cycles(shape, tile.rows, tile.vectors, machine)
    peak = 2 * machine.lanes * machine.multiply_adds
    assert 0.7 * peak < shape.flops / expected <= peak
