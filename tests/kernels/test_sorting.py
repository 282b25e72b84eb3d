"""Kernels that sort give the positions that the reference gives."""

from pathlib import Path

import numpy as np
import pytest

from aotc import reference
from aotc.core import dtypes
from aotc.dialects.functions.functions import functions_of
from aotc.dialects.functions.fusion import fused_of
from aotc.importers import load
from aotc.kernels.planning import sorting
from aotc.machine.target import Target
from aotc.passes import run_passes
from aotc.passes.base import Unit
from aotc.passes.stages import PASS_STAGES

MODEL = Path(__file__).parent / "sorts.py"
ENTRIES = [entry.name for entry in load(MODEL).entries]
STATIC = [name for name in ENTRIES if name not in ("any_rows", "some_of_any")]


@pytest.fixture(scope="module")
def bundles(bundles):
    """All by kernels, also what IREE sorts faster."""

    def build_for(target):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sorting, "_work", lambda size, count: 0.0)
            return bundles(target)

    return build_for


def compare(compiled, terms, program, name, x):
    expected = reference.evaluate(program.module, name, [x])
    found = compiled.entries[name](x=x)
    by_terms = terms.evaluate(name, {"x": x})
    for mine, theirs in zip([*found, *by_terms], expected * 2, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-6)


def drawn(shape, dtype):
    """Few different elements, so that many are equal, and what is special of floats."""
    rng = np.random.default_rng(4)
    kind = dtypes.to_numpy(dtype)
    if not dtypes.is_float(dtype):
        limits = np.iinfo(kind)
        some = [limits.min, limits.min + 1, 3, limits.max - 1, limits.max]
        return rng.choice(np.array(some, kind), shape)
    some = [0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf, 1.0, -1.0, 2.5]
    return rng.choice(np.array(some), shape).astype(kind)


@pytest.mark.parametrize("name", STATIC)
def test_a_kernel_gives_the_positions_of_the_graph(compiled, terms, program, name):
    (port,) = program.entry(name).ports("input")
    shape, dtype = port.type.shape, port.type.dtype
    rng = np.random.default_rng(5)
    values = 100 * rng.normal(size=shape)
    x = abs(values) if dtype.startswith("u") else values
    compare(compiled, terms, program, name, x.astype(dtypes.to_numpy(dtype)))
    if name != "in_a_loop":
        compare(compiled, terms, program, name, drawn(shape, dtype))


@pytest.mark.parametrize("shape", [(0, 5), (1, 0), (0, 0), (1, 1), (3, 2), (7, 2999)])
def test_a_call_decides_what_is_sorted(compiled, terms, program, shape):
    compare(compiled, terms, program, "any_rows", drawn(shape, "f32"))


@pytest.mark.parametrize("shape", [(0, 7, 1), (1, 7, 1), (2, 8, 1), (3, 100, 1)])
def test_a_call_decides_of_how_many_a_few_are_wanted(compiled, terms, program, shape):
    compare(compiled, terms, program, "some_of_any", drawn(shape, "f32"))


def test_rising_and_falling_rows_are_sorted(compiled, terms, program):
    rows = np.arange(1000, dtype="f").reshape(1, 1000)
    for x in (rows, rows[:, ::-1].copy(), np.zeros_like(rows)):
        compare(compiled, terms, program, "f32_1_1000_1000", x)


KERNELS = """
import aotc
import aotc.numpy as np


@aotc.entry(x=aotc.Spec((2, 50257), "f32"), y=aotc.Spec((512, 8), "f32"))
def by_kernels(x, y):
    return np.top_k(x, 50), np.argsort(x), np.top_k(y, 2)


@aotc.entry(x=aotc.Spec((2, 50257), "f32"), y=aotc.Spec((512, 64), "f32"))
def by_iree(x, y):
    return np.top_k(y, 1), np.argsort(x, 0), np.argsort(np.concatenate([x, x], 1))
"""


def test_there_are_kernels_where_they_are_faster(tmp_path):
    model = tmp_path / "model.py"
    model.write_text(KERNELS, encoding="utf-8")
    unit = Unit(load(model)).fork(Target.parse("x86_64-v4"))
    for stage in PASS_STAGES[:2]:
        run_passes(unit, stage.passes(), silently=True)
    functions = functions_of(unit.module)
    assert {fused.kernel for fused in map(fused_of, functions.values()) if fused} == {
        "sort"
    }
    for name, left in (("by_kernels", 0), ("by_iree", 3)):
        ops = [op.operation.name for op in functions[name].entry_block.operations]
        assert ops.count("graph.argsort") == left, name
