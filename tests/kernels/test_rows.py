"""Kernels of norms, softmax and reductions compute what the graph says."""

from pathlib import Path

import numpy as np
import pytest

import aotc
from aotc import reference
from aotc.dialects.functions import walking
from aotc.dialects.functions.functions import functions_of
from aotc.dialects.functions.fusion import fused_of
from aotc.importers import load
from aotc.kernels.capabilities import capabilities_of
from aotc.kernels.machine import machine_of
from aotc.kernels.planning import reductions
from aotc.kernels.planning.columns import ColumnTile
from aotc.kernels.planning.columns import choose_tile as choose_columns
from aotc.kernels.planning.reductions import MatrixBatch
from aotc.kernels.planning.rows import RowTile, choose_tile
from aotc.kernels.refusal import refusals_in
from aotc.machine.target import Target
from aotc.passes import run_passes
from aotc.passes.base import Unit
from aotc.passes.stages import PASS_STAGES
from aotc.pipeline import build
from tests.machines import require_runs_here

MODEL = Path(__file__).parent / "rows.py"
LEVELS = ["x86_64-v3", "x86_64-v4"]
ENTRIES = [entry.name for entry in load(MODEL).entries]
STATIC = [name for name in ENTRIES if not name.startswith("any_")]
OF_ALL = [name for name in ENTRIES if name.startswith("of_")]
DERIVATIVES = ["derivatives", "any_derivatives"]
# what is no part of a region
BEFORE = {
    "also_a_result": ["graph.add"],
    "everything": ["graph.slice", "graph.reshape"],
}


@pytest.fixture(scope="module", params=LEVELS)
def bundle(request, tmp_path_factory):
    target = Target.parse(request.param)
    require_runs_here(target)
    report = build(
        MODEL,
        targets=[target],
        output=tmp_path_factory.mktemp("kernels"),
        self_check="off",
        sign=False,
    )
    return aotc.load(report.bundle, allow_unsigned=True)


def compared(bundle, terms, program, name, change=lambda x: x, shape=None):
    """Results of the kernel and the reference for the same inputs, in pairs."""
    rng, entry = np.random.default_rng(1), program.entry(name)
    inputs = {
        port.name: change(rng.normal(size=shape or port.type.shape).astype("f"))
        for port in entry.ports("input")
    }
    given = [
        inputs.get(p.name, program.parameters.get(p.name)) for p in entry.arguments
    ]
    expected = reference.evaluate(program.module, name, given)
    found = bundle.entries[name](**inputs)
    found = found if isinstance(found, tuple) else (found,)
    by_terms = terms.evaluate(name, inputs)
    return list(zip([*found, *by_terms], expected * 2, strict=True))


@pytest.mark.parametrize("name", STATIC)
def test_a_kernel_computes_what_the_graph_says(bundle, terms, program, name):
    for mine, theirs in compared(bundle, terms, program, name):
        scale = np.abs(theirs).max()
        np.testing.assert_allclose(mine, theirs, rtol=2e-5, atol=1e-6 * scale)


@pytest.mark.parametrize("batch", [0, 1, 3, 64])
@pytest.mark.parametrize("name", ["any_rows", "any_images", "any_derivatives"])
def test_a_call_decides_how_many_rows_there_are(bundle, terms, program, name, batch):
    shape = (batch, 5, 3, 72) if name == "any_images" else (batch, 5, 72)
    for mine, theirs in compared(bundle, terms, program, name, shape=shape):
        np.testing.assert_allclose(mine, theirs, rtol=2e-5, atol=2e-6)


def with_odd_rows(x):
    """Rows, and columns, with NaN, infinity, -infinity, and of nothing but the last."""
    rows = x if x.ndim == 2 else x[0].T
    rows[0, -1], rows[1, 0], rows[2, -1] = np.nan, np.inf, -np.inf
    if len(rows) > 3:
        rows[3] = -np.inf
    return x


@pytest.mark.parametrize("name", OF_ALL)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_what_is_not_finite_is_as_the_reference_has_it(bundle, terms, program, name):
    for mine, theirs in compared(bundle, terms, program, name, with_odd_rows):
        np.testing.assert_allclose(mine, theirs, rtol=2e-5, atol=1e-6)


def test_the_error_of_a_long_sum_does_not_grow_with_it(bundle):
    x = np.random.default_rng(2).uniform(size=(1, 1 << 20)).astype("f")
    exact = x.sum(dtype="f8")
    assert abs(bundle.entries["long_sum"](x=x)[0] - exact) < 3e-7 * exact


@pytest.mark.parametrize("level", LEVELS)
def test_rows_with_what_is_around_them_are_one_region(level):
    unit = Unit(load(MODEL)).fork(Target.parse(level))
    for stage in PASS_STAGES[:2]:
        run_passes(unit, stage.passes())
    functions = functions_of(unit.module)
    for name in ENTRIES:
        ops = [op.operation.name for op in functions[name].entry_block.operations]
        computing = [op for op in ops if op not in ("func.call", "func.return")]
        assert "graph.normalize" not in computing, name
        assert name in DERIVATIVES or computing == BEFORE.get(name, []), name
    families = {fused.kernel for fused in map(fused_of, functions.values()) if fused}
    assert families == {"rows", "columns"}


OTHERS = """
import aotc
import aotc.numpy as np
from aotc import nn

n = aotc.Dim("n", min=1, max=64)
SPEC = aotc.Spec((16, 64, 300), "f32")


@aotc.entry(x=SPEC, z=aotc.Spec((64, n), "f32"))
def others(x, z):
    inner = nn.softmax(x, 1)
    tiny = nn.softmax(x[0, :, :3])
    half = nn.layer_norm(x.astype("f64"))
    chosen = np.sum(np.where(x > 0, x, 1.0), -1)  # its elements, in one pass, by IREE
    return inner, tiny, half, nn.softmax(z), chosen


def loss(x):
    return np.sum(np.sin(nn.layer_norm(x)))


@aotc.entry(x=SPEC)
def derivative(x):
    return aotc.grad(loss)(x)
"""


def test_tells_why_a_norm_or_a_softmax_has_no_kernel(tmp_path):
    model = tmp_path / "model.py"
    model.write_text(OTHERS, encoding="utf-8")
    target = Target.parse("x86_64-v3")
    unit = Unit(load(model)).fork(target)
    for stage in PASS_STAGES[:2]:
        run_passes(unit, stage.passes())
    found = refusals_in(unit.module, capabilities_of(target))
    assert {(each.op, each.why) for each in found["others"]} == {
        ("softmax", "it does not go along the last axes"),
        (
            "softmax",
            "it is too small or narrow to gain by a kernel, or no schedule fits its "
            "shape",
        ),
        ("softmax", "only a call decides a size, beside the number of rows"),
        ("normalize", "its elements are f64, not f32, bf16 or f16"),
    }
    assert not found["derivative"]


def test_short_rows_that_give_one_number_are_gone_through_side_by_side():
    machine = machine_of(Target.parse("x86_64-v4"))
    short, long = MatrixBatch(1536, 128), MatrixBatch(64, 50257)
    assert choose_tile(short, machine, is_reduced=True) == RowTile(16, 16, 1, 64)
    assert choose_tile(short, machine, is_reduced=False) == RowTile(16, 1, 8, 64)
    assert choose_tile(long, machine, is_reduced=True) == RowTile(16, 1, 8, 1)


DEEP = """
import aotc
import aotc.numpy as np


@aotc.entry(x=aotc.Spec((64, 64)))
def deep(x):
    for _ in range(14):
        x = np.maximum(x, 0.1) * x  # two readers of every value
    return x.sum(-1)
"""


def test_looks_once_at_each_op_that_a_sum_is_made_of(tmp_path, monkeypatch):
    model, seen = tmp_path / "model.py", []
    model.write_text(DEEP, encoding="utf-8")

    def defining_op(value):
        seen.append(value)
        return walking.defining_op(value)

    monkeypatch.setattr(reductions, "defining_op", defining_op)
    unit = Unit(load(model)).fork(Target.parse("x86_64-v3"))
    for stage in PASS_STAGES[:2]:
        run_passes(unit, stage.passes())
    assert 0 < len(seen) < 200


def test_columns_are_gone_through_side_by_side_and_shared_where_they_are_many():
    machine = machine_of(Target.parse("x86_64-v4"))
    pixels = choose_columns(MatrixBatch(1, 49, 2048), machine)
    assert pixels == ColumnTile(lanes=16, vectors=22, steps=1, tiles=3, block=1)
    narrow = choose_columns(MatrixBatch(64, 49, 32), machine)
    assert narrow == ColumnTile(lanes=16, vectors=2, steps=4, tiles=1, block=32)
