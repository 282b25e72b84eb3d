"""Kernels that read and write less than f32 compute what the graph says."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest

import aotc
from aotc import reference
from aotc.core.dtypes import canonical_dtype, is_float, to_numpy
from aotc.dialects.functions.functions import functions_of
from aotc.dialects.functions.fusion import fused_of
from aotc.importers import load
from aotc.machine.target import Target
from aotc.passes import run_passes
from aotc.passes.base import Unit
from aotc.passes.stages import PASS_STAGES
from aotc.pipeline import build
from tests.machines import require_runs_here

pytest.importorskip("ml_dtypes")

MODEL = Path(__file__).parent / "narrow_memory.py"
LEVELS = ["x86_64-v4", pytest.param("x86_64-v3", marks=pytest.mark.slow)]
ENTRIES = [entry.name for entry in load(MODEL).entries]
UNIT = {"bf16": 2.0**-8, "f16": 2.0**-11, "f32": 2e-6}


@pytest.fixture(scope="module", params=LEVELS)
def bundle(request, tmp_path_factory):
    target = Target.parse(request.param)
    require_runs_here(target)
    folder = tmp_path_factory.mktemp("narrow")
    asked = {"targets": [target], "self_check": "off", "sign": False}
    report = build(MODEL, output=folder, **asked)
    return aotc.load(report.bundle, allow_unsigned=True, threads=2)


@cache
def _program():
    loaded = load(MODEL)
    run_passes(loaded.module, ("autodiff",), silently=True)
    return loaded


def _inputs(name, rows=3, scale=1.0):
    rng, found = np.random.default_rng(1), {}
    for port in _program().entry(name).ports("input"):
        kind = to_numpy(port.type.dtype)
        shape = [n if isinstance(n, int) else rows for n in port.type.shape]
        if is_float(port.type.dtype):
            found[port.name] = (scale * rng.normal(size=shape)).astype(kind)
        else:
            found[port.name] = rng.integers(0, 127, shape).astype(kind)
    if "position" in found:
        found["position"] = np.array(40, "i4")
    return found


def _compared(bundle, terms, name, inputs):
    """Results of the kernels and of their terms, each with that of the reference."""
    program = _program()
    given = [inputs[port.name] for port in program.entry(name).arguments]
    expected = reference.evaluate(program.module, name, given)
    found = bundle.entries[name](**inputs)
    found = found if isinstance(found, tuple) else (found,)
    by_terms = terms.evaluate(name, inputs)
    return zip([*found, *by_terms], expected * 2, strict=True)


def _assert_near(mine, theirs):
    """Compare results with those of the graph; return the share that differs."""
    dtype = canonical_dtype(theirs.dtype)
    assert (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape)
    with np.errstate(invalid="ignore"):
        mine, theirs = (x.astype("f") for x in (mine, theirs))
    size = np.abs(theirs[np.isfinite(theirs)]).max(initial=0)
    np.testing.assert_allclose(
        mine, theirs, rtol=2 * UNIT[dtype], atol=UNIT[dtype] * size
    )
    return np.mean(mine != theirs) if mine.size and dtype != "f32" else 0.0


@pytest.mark.parametrize("name", ENTRIES)
def test_a_kernel_rounds_as_the_graph_says(bundle, terms, name):
    for rows in (0, 1, 3, 64) if name.startswith("rows") else (1,):
        for mine, theirs in _compared(bundle, terms, name, _inputs(name, rows)):
            moved = _assert_near(mine, theirs)
            # IREE's code, which a gradient is mostly of, rounds no value on the way
            assert moved < (1 if name.startswith("gradient") else 0.05)


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_what_is_not_finite_is_as_the_reference_has_it(bundle, terms, dtype):
    for name in ("rows", "columns", "windows", "moved"):
        inputs = _inputs(f"{name}_{dtype}", 5)
        x = inputs["x"].reshape(-1, inputs["x"].shape[-1])
        x[0, -1], x[1, 0], x[2, -1], x[3] = np.nan, np.inf, -np.inf, -np.inf
        for mine, theirs in _compared(bundle, terms, f"{name}_{dtype}", inputs):
            _assert_near(mine, theirs)


def test_numbers_of_f16_below_the_normal_ones_are_kept(bundle, terms):
    for name in ("rows_f16", "columns_f16", "windows_f16", "moved_f16"):
        inputs = {**_inputs(name), "x": _inputs(name, scale=1e-6)["x"]}
        assert np.abs(inputs["x"].astype("f")).max() < 2.0**-14
        for mine, theirs in _compared(bundle, terms, name, inputs):
            _assert_near(mine, theirs)
            assert name == "rows_f16" or np.abs(theirs.astype("f")).max() > 0


@pytest.mark.parametrize("name", [x for x in ENTRIES if "cache" in x or "step" in x])
def test_hidden_positions_of_a_cache_are_not_seen(bundle, terms, name):
    for position in (0, 31, 74):
        inputs = {**_inputs(name), "position": np.array(position, "i4")}
        for mine, theirs in _compared(bundle, terms, name, inputs):
            _assert_near(mine, theirs)


def _ops_left(target):
    """Return the names of the ops of each entry that no region has."""
    unit = Unit(load(MODEL)).fork(Target.parse(target))
    for stage in PASS_STAGES[:2]:
        run_passes(unit, stage.passes())
    functions = functions_of(unit.module)
    assert any(fused_of(each) for each in functions.values())
    return {
        name: [op.operation.name for op in functions[name].entry_block.operations]
        for name in ENTRIES
    }


@pytest.mark.parametrize("target", ["x86_64-v3", "x86_64-v4-dot", "aarch64"])
def test_nothing_is_widened_in_memory(target):
    """Each cast is in a region, and so are all ops that read a cache or an image."""
    widens = {"graph.cast", "graph.attention", "graph.softmax", "graph.reduce_sum"}
    for name, ops in _ops_left(target).items():
        if not name.startswith("gradient"):
            assert not widens & {*ops}, name


def test_a_processor_without_halves_has_kernels_of_bf16_alone():
    found = _ops_left("riscv64-v")
    assert "graph.softmax" not in found["rows_bf16"]
    assert "graph.softmax" in found["rows_f16"]
    assert "graph.attention" not in found["cache_of_bytes"]
