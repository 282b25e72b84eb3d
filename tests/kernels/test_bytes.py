"""Networks of bytes compute the same, bit by bit, on all targets."""

from pathlib import Path

import numpy as np
import pytest

import aotc
from aotc import reference
from aotc.dialects.calls.callees import calls_in
from aotc.dialects.functions.functions import functions_of
from aotc.dialects.functions.fusion import fused_of
from aotc.dialects.types import Tensor
from aotc.importers import load
from aotc.kernels.lowered import called_kernel
from aotc.machine.target import Target
from aotc.mlir import func
from aotc.passes import run_passes
from aotc.passes.base import Unit
from aotc.passes.stages import PASS_STAGES
from tests.machines import require_runs_here

MODEL = Path(__file__).parent / "bytes.py"
X86_64 = ("x86_64-v2", "x86_64-v3", "x86_64-v3-dot", "x86_64-v4", "x86_64-v4-dot")


@pytest.fixture(scope="module")
def program():
    return load(MODEL)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(level, marks=[pytest.mark.slow] * (level == "x86_64-v2"))
        for level in (*X86_64, "vmvx")
    ],
)
def bundle(request, bundles):
    target = Target.parse(request.param)
    require_runs_here(target)
    return aotc.load(bundles(target), allow_unsigned=True)


def test_results_are_those_of_the_reference(bundle, program):
    rng = np.random.default_rng(1)
    for entry in program.entries:
        inputs = {
            port.name: rng.normal(0, 2, port.type.shape).astype("f")
            for port in entry.ports("input")
        }
        given = [
            inputs.get(port.name, program.parameters.get(port.name))
            for port in entry.arguments
        ]
        expected = reference.evaluate(program.module, entry.name, given)
        found = bundle.entries[entry.name](**inputs)
        found = found if isinstance(found, tuple) else (found,)
        for mine, theirs in zip(found, expected, strict=True):
            np.testing.assert_array_equal(mine, theirs, err_msg=entry.name)
            assert len(np.unique(theirs)) > 8  # not all at the ends of the range


@pytest.mark.parametrize("name", ["attention", "residual", "groups"])
def test_kernels_read_and_write_bytes(name):
    unit = Unit(load(MODEL)).fork(Target.parse("x86_64-v4-dot"))
    for stage in PASS_STAGES[:2]:
        run_passes(unit, stage.passes())
    functions = functions_of(unit.module)
    calls = [
        op
        for op in functions[name].entry_block.operations
        if isinstance(op, func.CallOp)
    ]
    kinds = [fused_of(functions[op.attributes["callee"].value]).kernel for op in calls]
    counts = {"attention": 3, "residual": 1, "groups": 2}
    assert kinds.count("contraction") == counts[name]
    for op in calls[:-1]:
        assert {Tensor.of(x).dtype for x in op.results} <= {"u8", "i16"}


def test_tables_of_bytes_are_part_of_kernels_where_vectors_look_up():
    counts = {}
    for name in ("x86_64-v4", "x86_64-v3"):
        unit = Unit(load(MODEL)).fork(Target.parse(name))
        for stage in PASS_STAGES[:2]:
            run_passes(unit, stage.passes())
        functions = functions_of(unit.module).values()
        regions = [x for x in functions if fused_of(x) is not None]
        counts[name] = sum(str(region).count("graph.lookup") for region in regions)
    assert counts == {"x86_64-v4": 5, "x86_64-v3": 0}


def test_layers_that_differ_in_zero_points_and_tables_share_a_kernel():
    unit = Unit(load(MODEL)).fork(Target.parse("x86_64-v4"))
    for stage in PASS_STAGES[:3]:
        run_passes(unit, stage.passes())
    calls = calls_in(functions_of(unit.module)["layers"])
    kernels = [name for call in calls if (name := called_kernel(call))]
    assert (len(kernels), len(set(kernels))) == (4, 2)
