"""Kernels of small integers are exact, whatever their values."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest

import aotc
from aotc import reference
from aotc.core.dtypes import to_numpy
from aotc.dialects.functions.functions import functions_of
from aotc.dialects.functions.fusion import fused_of
from aotc.dialects.types import Tensor
from aotc.importers import load
from aotc.kernels.capabilities import capabilities_of
from aotc.kernels.refusal import refusals_in
from aotc.machine.target import Target
from aotc.mlir import func
from aotc.passes import run_passes
from aotc.passes.base import Unit
from aotc.passes.stages import PASS_STAGES
from aotc.pipeline import build
from benchmarks.inner_loops import assembly
from tests.machines import require_runs_here

MODEL = Path(__file__).parent / "integers.py"
FEW = MODEL.with_name("integer_instructions.py")  # what takes less time to compile
LEVELS = ["x86_64-v3", "x86_64-v3-dot", "x86_64-v4-dot"]
ENTRIES = [entry.name for entry in load(MODEL).entries]


@pytest.fixture(scope="module", params=LEVELS)
def bundle(request, tmp_path_factory):
    target = Target.parse(request.param)
    require_runs_here(target)
    folder = tmp_path_factory.mktemp("integers")
    asked = {"targets": [target], "self_check": "off", "sign": False}
    report = build(MODEL, output=folder, **asked)
    return aotc.load(report.bundle, allow_unsigned=True)


@cache
def _program():
    return load(MODEL)


def _inputs(entry, rows):
    """Numbers of the whole range, and often its ends, of which products are largest."""
    rng, found = np.random.default_rng(1), {}
    for port in entry.ports("input"):
        shape = [n if isinstance(n, int) else rows for n in port.type.shape]
        if port.type.dtype == "f32":
            found[port.name] = rng.uniform(-40, 40, shape).astype("f")
            continue
        info = np.iinfo(to_numpy(port.type.dtype))
        kind = info.dtype
        values = rng.integers(info.min, info.max, shape, kind, endpoint=True)
        ends = rng.choice([info.min, info.max], shape).astype(kind)
        found[port.name] = np.where(rng.random(shape) < 0.3, ends, values)
    return found


@pytest.mark.parametrize("name", ENTRIES)
def test_sums_of_integers_are_exact(bundle, terms, name):
    program = _program()
    for rows in (1, 2, 40) if name == "any_rows" else (1,):
        inputs = _inputs(program.entry(name), rows)
        given = [
            inputs.get(port.name, program.parameters.get(port.name))
            for port in program.entry(name).arguments
        ]
        expected = reference.evaluate(program.module, name, given)
        found = bundle.entries[name](**inputs)
        found = found if isinstance(found, tuple) else (found,)
        by_terms = terms.evaluate(name, inputs)
        for mine, theirs in zip([*found, *by_terms], expected * 2, strict=True):
            assert mine.dtype == theirs.dtype
            if np.issubdtype(theirs.dtype, np.floating):
                np.testing.assert_allclose(mine, theirs, rtol=1e-6)
            else:
                np.testing.assert_array_equal(mine, theirs)


def regions(level):
    unit = Unit(load(MODEL)).fork(Target.parse(level))
    for stage in PASS_STAGES[:2]:
        run_passes(unit, stage.passes())
    return unit


def refusals(level):
    unit = regions(level)
    return refusals_in(unit.module, capabilities_of(unit.target))


def test_quantised_convolutions_read_and_write_bytes():
    unit = regions("x86_64-v4-dot")
    functions = functions_of(unit.module)
    calls = [
        op
        for op in functions["quantized"].entry_block.operations
        if isinstance(op, func.CallOp)
    ]
    of_input, first, second = (
        [Tensor.of(value).dtype for value in (*op.operands, *op.results)]
        for op in calls
    )
    assert of_input == ["f32", "u8"]
    image, kernel, *_, result = first
    assert (image, kernel, result) == ("u8", "i8", "u8")
    assert second[:2] == ["u8", "i8"]


@pytest.mark.parametrize("level", ["x86_64-v3", "x86_64-v4"])
def test_products_that_saturate_are_of_weights_within_bounds(level):
    unit = regions(level)
    functions = functions_of(unit.module)
    terms = {
        name: {
            fused.tile.get("terms", 1)
            for op in functions[name].entry_block.operations
            if isinstance(op, func.CallOp)
            and (fused := fused_of(functions[op.attributes["callee"].value]))
        }
        for name in ENTRIES
    }
    assert terms.pop("seven_bits") == {4}
    assert not any(4 in found for found in terms.values())


@pytest.mark.parametrize("level", [*LEVELS, "x86_64-v4"])
def test_every_product_is_a_region_but_one_of_odd_runs(level):
    found = refusals(level)
    (refusal,) = found.pop("odd_runs")
    why = "its terms do not lie beside each other by 2, as they are multiplied"
    assert refusal.why == why
    assert not any(found.values())


@pytest.mark.parametrize(
    "level", ["aarch64", "aarch64-v8.2", "aarch64-v8.6", "riscv64-v"]
)
def test_arm_and_riscv_multiply_what_lies_apart_one_by_one(level):
    assert not any(refusals(level).values())


@pytest.mark.parametrize(
    ("level", "names"),
    [
        ("aarch64", {"sadalp", "uadalp", "smlal"}),
        pytest.param("aarch64-v8.2", {"sdot", "udot", "smlal"}, marks=pytest.mark.slow),
        ("aarch64-v8.6", {"smmla", "ummla", "usmmla", "udot", "smlal"}),
        ("riscv64-v", {"vwmacc.vx", "vwmaccsu.vx"}),
        ("x86_64-v3", {"vpmaddwd", "vpmaddubsw"}),
        # vpmaddwd: LLVM's, in IREE's code of a product without a kernel
        ("x86_64-v4-dot", {"vpdpwssd", "vpdpbusd", "vpmaddwd"}),
    ],
)
def test_kernels_multiply_by_the_instructions_that_a_level_has(level, names):
    text = assembly(FEW, Target.parse(level))
    known = (
        *("sadalp", "uadalp", "smlal", "sdot", "udot", "smmla", "ummla", "usmmla"),
        *("vwmacc.vx", "vwmaccsu.vx"),
        *("vpmaddwd", "vpmaddubsw", "vpdpwssd", "vpdpbusd"),
    )
    assert {name for name in known if f"\t{name}\t" in text} == names
