"""Kernels read a number for each row where it is, and compute what the graph says."""

from pathlib import Path

import numpy as np
import pytest

import aotc
from aotc import reference
from aotc.dialects.functions.functions import functions_of
from aotc.importers import load
from aotc.machine.target import Target
from aotc.passes import run_passes
from aotc.passes.base import Unit
from aotc.passes.stages import PASS_STAGES
from aotc.pipeline import build
from tests.machines import require_runs_here

MODEL = Path(__file__).parent / "scaled_rows.py"
LEVELS = ["x86_64-v3", "x86_64-v4"]
ENTRIES = [entry.name for entry in load(MODEL).entries]
# tensors that are repeated before the kernel: not by element of a row
AS_WHOLE = {
    "of_each_product": 1,
    "reductions": 1,
    "same_in_every_group": 1,
    "between_groups": 1,
}
ANY_ROWS = ["any_rows", "any_groups"]


@pytest.fixture(scope="module", params=LEVELS)
def bundle(request, tmp_path_factory):
    target = Target.parse(request.param)
    require_runs_here(target)
    folder = tmp_path_factory.mktemp("scaled")
    asked = {"targets": [target], "self_check": "off", "sign": False}
    report = build(MODEL, output=folder, **asked)
    return aotc.load(report.bundle, allow_unsigned=True)


def compare(bundle, terms, program, name, rows=None):
    rng, entry = np.random.default_rng(1), program.entry(name)
    inputs = {
        port.name: rng.normal(
            size=[n if isinstance(n, int) else rows for n in port.type.shape]
        ).astype("f")
        for port in entry.ports("input")
    }
    known = program.parameters | inputs
    given = [known[port.name] for port in entry.arguments]
    expected = reference.evaluate(program.module, name, given)
    found = bundle.entries[name](**inputs)
    found = found if isinstance(found, tuple) else (found,)
    by_terms = terms.evaluate(name, inputs)
    for mine, theirs in zip([*found, *by_terms], expected * 2, strict=True):
        scale = np.abs(theirs).max(initial=0)
        np.testing.assert_allclose(mine, theirs, rtol=2e-5, atol=2e-6 * scale)


@pytest.mark.parametrize("name", [name for name in ENTRIES if name not in ANY_ROWS])
def test_rows_are_scaled_as_the_graph_says(bundle, terms, program, name):
    compare(bundle, terms, program, name)


@pytest.mark.parametrize("rows", [0, 1, 2, 33, 200])
@pytest.mark.parametrize("name", ANY_ROWS)
def test_a_call_decides_how_many_rows_are_scaled(bundle, terms, program, name, rows):
    compare(bundle, terms, program, name, rows)


@pytest.mark.parametrize("level", LEVELS)
def test_what_scales_a_row_is_not_repeated_along_it(level):
    unit = Unit(load(MODEL)).fork(Target.parse(level))
    for stage in PASS_STAGES[:2]:
        run_passes(unit, stage.passes(), silently=True)
    functions = functions_of(unit.module)
    for name in ENTRIES:
        ops = [op.operation.name for op in functions[name].entry_block.operations]
        assert ops.count("graph.broadcast") == AS_WHOLE.get(name, 0), name
        assert "graph.multiply" not in ops, name
