"""Kernels that transpose give the elements that the reference gives, bit for bit."""

import re
from pathlib import Path

import numpy as np
import pytest

from aotc import reference
from aotc.core import dtypes
from aotc.dialects.calls.callees import reachable_functions
from aotc.dialects.functions.functions import functions_of
from aotc.dialects.functions.fusion import fused_of
from aotc.errors import InputError
from aotc.importers import load
from aotc.machine.target import Target
from aotc.passes import run_passes
from aotc.passes.base import Unit
from aotc.passes.stages import PASS_STAGES
from aotc.pipeline import build
from aotc.programs.files import read_program

from . import transposes

MODEL = Path(__file__).parent / "transposes.py"
ENTRIES = [entry.name for entry in load(MODEL).entries]
SYMBOLIC = [name for name in ENTRIES if name.startswith("any_")]
STATIC = [name for name in ENTRIES if name not in SYMBOLIC]
COMPUTED = ("between_products", "in_a_loop", "slope", "around_elementwise_ops")


def compare(compiled, terms, program, name, rows=1):
    rng = np.random.default_rng(7)
    given = {}
    for port in program.entry(name).ports("input"):
        shape = [size if isinstance(size, int) else rows for size in port.type.shape]
        bits = rng.integers(-(2**31), 2**31, shape, np.int32)  # NaNs among them
        dtype = dtypes.to_numpy(port.type.dtype)
        values = (rng.normal(size=shape) / 8).astype(dtype)
        given[port.name] = values if name in COMPUTED else bits.view(dtype)
    expected = reference.evaluate(program.module, name, list(given.values()))
    found = compiled.entries[name](**given)
    leaves = found if isinstance(found, (tuple, list)) else [found]
    by_terms = terms.evaluate(name, given)
    for mine, theirs in zip([*leaves, *by_terms], expected * 2, strict=True):
        assert mine.dtype == theirs.dtype
        if name in COMPUTED:
            np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-4)
        else:
            np.testing.assert_array_equal(mine.view("i4"), theirs.view("i4"))


@pytest.mark.parametrize("name", STATIC)
def test_a_kernel_gives_the_elements_of_the_graph(compiled, terms, program, name):
    compare(compiled, terms, program, name)


@pytest.mark.parametrize("rows", [0, 1, 2, 37])
@pytest.mark.parametrize("name", SYMBOLIC)
def test_a_call_decides_how_many_there_are(compiled, terms, program, name, rows):
    compare(compiled, terms, program, name, rows)


def test_what_is_in_memory_and_stays_there_is_transposed_by_a_kernel():
    unit = Unit(load(MODEL)).fork(Target.parse("x86_64-v4"))
    for stage in PASS_STAGES[:2]:
        run_passes(unit, stage.passes(), silently=True)
    functions = functions_of(unit.module)
    found = {
        name: sum(
            fused_of(functions[each]) is not None
            and fused_of(functions[each]).kernel == "transpose"
            for each in reachable_functions(functions, name)
        )
        for name in ENTRIES
    }
    left = {name for name, count in found.items() if not count}
    calls = {"any_last", "any_but_nothing_moves"}  # which decide, or do not matter
    assert left == {*transposes.LEFT, *calls, "around_elementwise_ops"}
    before = [*map(str, functions.values())]
    run_passes(unit, ("fuse-regions",), silently=True)
    assert [*map(str, functions_of(unit.module).values())] == before


EDITED = """
import aotc
import aotc.numpy as np


@aotc.entry(x=aotc.Spec((60, 40)))
def f(x):
    return x.T
"""


_X = "tensor<60x40xf32>"
EDITS = {
    "such as {": [("lanes = 8", "lanes = 16")],
    "schedules .* got {'block': 0": [(r"block = \d+", "block = 0")],
    "a transpose of its argument alone": [
        (
            rf"call @transpose\((%\w+)\) : \({_X}\)",
            rf"call @transpose(\1, \1) : ({_X}, {_X})",
        ),
        (rf"private @transpose\((%\w+: {_X})", rf"private @transpose(\1, %other: {_X}"),
    ],
}


@pytest.mark.parametrize("words", EDITS)
def test_a_region_without_such_a_kernel_is_refused(tmp_path, words):
    model, target = tmp_path / "model.py", Target.parse("x86_64-v3")
    model.write_text(EDITED, encoding="utf-8")
    build(model, targets=[target], dump=tmp_path / "ir", stop_after="regions")
    regions = tmp_path / "ir" / "x86_64-v3" / "regions.mlir"
    text = regions.read_text(encoding="utf-8")
    for old, new in EDITS[words]:
        text, count = re.subn(old, new, text, count=1)
        assert count
    regions.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=words) as caught:
        read_program(regions)
    assert (caught.value.code, caught.value.where) == ("bad-ir", str(regions))
