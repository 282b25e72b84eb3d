"""Kernels of bf16 and f16 round as the graph says, and so do those around them."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest

import aotc
from aotc import reference
from aotc.core.dtypes import canonical_dtype, to_numpy
from aotc.dialects.calls.callees import reachable_functions
from aotc.dialects.functions.functions import functions_of
from aotc.dialects.functions.fusion import fused_of
from aotc.importers import load
from aotc.kernels.capabilities import capabilities_of
from aotc.kernels.refusal import refusals_in
from aotc.machine.target import Target
from aotc.passes import run_passes
from aotc.passes.base import Unit
from aotc.passes.stages import PASS_STAGES
from aotc.pipeline import build
from tests.machines import require_runs_here

pytest.importorskip("ml_dtypes")

MODEL = Path(__file__).parent / "narrow_floats.py"
LEVELS = ["x86_64-v3", "x86_64-v4", "x86_64-v4-dot"]
ENTRIES = [entry.name for entry in load(MODEL).entries]
UNIT = {"bf16": 2.0**-8, "f16": 2.0**-11, "f32": 2e-6}


@pytest.fixture(scope="module", params=LEVELS)
def bundle(request, tmp_path_factory):
    target = Target.parse(request.param)
    require_runs_here(target)
    folder = tmp_path_factory.mktemp("narrow")
    asked = {"targets": [target], "self_check": "off", "sign": False}
    report = build(MODEL, output=folder, **asked)
    return aotc.load(report.bundle, allow_unsigned=True)


@cache
def _program():
    loaded = load(MODEL)
    run_passes(loaded.module, ("autodiff",), silently=True)
    return loaded


def _inputs(entry, rows):
    rng, found = np.random.default_rng(1), {}
    for port in entry.ports("input"):
        shape = [n if isinstance(n, int) else rows for n in port.type.shape]
        found[port.name] = rng.normal(size=shape).astype(to_numpy(port.type.dtype))
    return found


def _both(bundle, terms, name, inputs):
    program = _program()
    given = [
        inputs.get(port.name, program.parameters.get(port.name))
        for port in program.entry(name).arguments
    ]
    expected = reference.evaluate(program.module, name, given)
    found = bundle.entries[name](**inputs)
    found = found if isinstance(found, tuple) else (found,)
    return [*found, *terms.evaluate(name, inputs)], expected * 2


@pytest.mark.parametrize("name", ENTRIES)
def test_a_kernel_rounds_as_the_graph_says(bundle, terms, name):
    """Another order of a sum moves few results, and those to a neighbour."""
    for rows in (1, 2, 40) if name == "any_rows" else (1,):
        inputs = _inputs(_program().entry(name), rows)
        for mine, theirs in zip(*_both(bundle, terms, name, inputs), strict=True):
            dtype = canonical_dtype(theirs.dtype)
            assert mine.dtype == theirs.dtype
            assert mine.shape == theirs.shape
            with np.errstate(invalid="ignore"):
                mine, theirs = (x.astype("f") for x in (mine, theirs))
            atol = UNIT[dtype] * np.abs(theirs[np.isfinite(theirs)]).max()
            np.testing.assert_allclose(mine, theirs, rtol=2 * UNIT[dtype], atol=atol)
            if dtype != "f32":
                assert np.mean(mine != theirs) < 0.02


@pytest.mark.parametrize("name", ["square", "halves", "same", "read_twice"])
def test_what_is_not_finite_stays_so(bundle, terms, name):
    entry = _program().entry(name)
    inputs = _inputs(entry, 1)
    x = inputs["x"].reshape(-1)
    for place, value in ((0, np.nan), (x.size // 2, np.inf), (-1, -np.inf)):
        x[place] = value
    for mine, theirs in zip(*_both(bundle, terms, name, inputs), strict=True):
        np.testing.assert_array_equal(np.isnan(mine), np.isnan(theirs))
        np.testing.assert_array_equal(np.isinf(mine), np.isinf(theirs))
        assert np.isnan(theirs).any()


def test_halves_beyond_their_range_are_infinite_and_small_ones_rounded(bundle, terms):
    inputs = _inputs(_program().entry("overflowing"), 1)
    for mine, theirs in zip(*_both(bundle, terms, "overflowing", inputs), strict=True):
        same = mine.view("i2") == theirs.view("i2")
        assert same.mean() > 0.98
        assert np.isinf(theirs).any() or (np.abs(theirs) < 2.0**-14).all()


@pytest.mark.parametrize("level", [*LEVELS, "aarch64"])
def test_every_product_is_a_region(level):
    unit = Unit(load(MODEL)).fork(Target.parse(level))
    for stage in PASS_STAGES[:2]:
        run_passes(unit, stage.passes())
    found = refusals_in(unit.module, capabilities_of(unit.target))
    assert not sum(found.values(), [])


def test_a_processor_without_halves_has_kernels_of_bf16_alone():
    unit = Unit(load(MODEL)).fork(Target.parse("riscv64-v"))
    for stage in PASS_STAGES[:2]:
        run_passes(unit, stage.passes())
    found = refusals_in(unit.module, capabilities_of(unit.target))
    assert not found["square"] + found["scores"] + found["same"]
    assert {each.why for each in found["halves"] + found["pixels"]} == {
        "its elements are f16, not f32 or bf16"
    }


def test_terms_are_multiplied_by_pairs_wherever_they_lie():
    """In the order of terms or of rows, packed or as the right operand lies."""
    unit = Unit(load(MODEL)).fork(Target.parse("x86_64-v4-dot"))
    for stage in PASS_STAGES[:2]:
        run_passes(unit, stage.passes())
    functions = functions_of(unit.module)
    packed = "left_by_columns", "odd_terms_by_columns", "changing", "rounded"
    lying = "few_rows", "few_by_columns", "over_two_axes", "kernel_gradient"
    for name in (*packed, *lying):
        for _, tile in _kernels(functions, name, "contraction"):
            assert tile.get("terms") == 2, name
            assert tile.get("packed", 1) == (name in packed), name
    ((_, tile),) = _kernels(functions, "few_rows_of_odd_terms", "contraction")
    assert "terms" not in tile
    transposes = [ops for ops, _ in _kernels(functions, "rounded", "transpose")]
    assert transposes == [["graph.cast", "graph.transpose"]] * 2


def _kernels(functions, entry, family):
    """The ops and the tile of each region of an entry that a family computes."""
    found = []
    for name in reachable_functions(functions, entry):
        fused = fused_of(functions[name])
        if fused is not None and fused.kernel == family:
            *ops, _ = functions[name].entry_block.operations
            found.append(([op.operation.name for op in ops], fused.tile))
    assert found, entry
    return found
