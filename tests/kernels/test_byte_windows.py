"""Depthwise kernels of bytes compute what the graph says, bit by bit."""

from pathlib import Path

import numpy as np
import pytest

import aotc
from aotc import reference
from aotc.dialects.functions.functions import functions_of
from aotc.dialects.functions.fusion import fused_of
from aotc.dialects.types import Tensor
from aotc.importers import load
from aotc.machine.target import Target
from aotc.passes import run_passes
from aotc.passes.base import Unit
from aotc.passes.stages import PASS_STAGES
from tests.machines import require_runs_here

MODEL = Path(__file__).parent / "byte_windows.py"
LEVELS = [
    "x86_64-v3",
    pytest.param("x86_64-v3-dot", marks=pytest.mark.slow),
    pytest.param("x86_64-v4", marks=pytest.mark.slow),
    "x86_64-v4-dot",
    "vmvx",
]
LINES_TOGETHER = {"x86_64-v4": 1, "x86_64-v4-dot": 4, "aarch64": 1}


@pytest.fixture(scope="module", params=LEVELS)
def bundle(request, bundles):
    target = Target.parse(request.param)
    require_runs_here(target)
    return aotc.load(bundles(target), allow_unsigned=True)


def test_results_are_those_of_the_reference(bundle, program, terms):
    rng = np.random.default_rng(1)
    for entry in program.entries:
        (port,) = entry.ports("input")
        x = rng.normal(0, 3, port.type.shape).astype("f")
        given = [
            x if each.name == port.name else program.parameters[each.name]
            for each in entry.arguments
        ]
        (expected,) = reference.evaluate(program.module, entry.name, given)
        (by_terms,) = terms.evaluate(entry.name, {port.name: x})
        found = bundle.entries[entry.name](x)
        np.testing.assert_array_equal(found, expected, err_msg=entry.name)
        np.testing.assert_array_equal(by_terms, expected, err_msg=entry.name)
        assert len(np.unique(expected)) > 8  # not all at the ends of the range


@pytest.mark.parametrize("level", LINES_TOGETHER)
def test_kernels_read_and_write_bytes(level):
    unit = Unit(load(MODEL)).fork(Target.parse(level))
    for stage in PASS_STAGES[:2]:
        run_passes(unit, stage.passes())
    functions = functions_of(unit.module).values()
    fused = [(each, fused_of(each)) for each in functions]
    kernels = [each for each, how in fused if how and how.kernel == "depthwise"]
    assert len(kernels) == len(load(MODEL).entries)
    for kernel in kernels:
        *_, end = kernel.entry_block.operations
        image, weight, *_ = kernel.entry_block.arguments
        dtypes = [Tensor.of(value).dtype for value in (image, *end.operands)]
        assert {*dtypes} <= {"i8", "u8"}
        is_signed = Tensor.of(weight).dtype == "i8"
        terms = LINES_TOGETHER[level] if is_signed else 1
        assert fused_of(kernel).tile.get("terms", 1) == terms
