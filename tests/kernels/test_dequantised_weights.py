"""Weights of 8 and 4 bits stay integers, which kernels dequantise as they read them."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from aotc import reference
from aotc.core import dtypes
from aotc.dialects.calls.callees import calls_in
from aotc.dialects.functions.functions import callee_of, functions_of
from aotc.dialects.functions.fusion import fused_of
from aotc.dialects.limits import refusals
from aotc.dialects.types import Tensor
from aotc.importers import load
from aotc.kernels.refusal import KernelRefusal
from aotc.machine.target import Target
from aotc.passes import run_passes
from aotc.passes.base import Unit
from aotc.passes.stages import PASS_STAGES
from aotc.pipeline import build
from tests.kernels.evaluation import Regions

MODEL = Path(__file__).parent / "dequantised_weights.py"
NAMES = [entry.name for entry in load(MODEL).entries]


@cache
def _program():
    return load(MODEL)


@cache
def _inputs(name):
    rng, inputs = np.random.default_rng(1), {}
    for port in _program().entry(name).ports("input"):
        shape = [n if isinstance(n, int) else 21 for n in port.type.shape]
        is_integer = port.type.dtype == "i32"
        drawn = rng.integers(0, 120, shape) if is_integer else rng.normal(size=shape)
        inputs[port.name] = drawn.astype(dtypes.to_numpy(port.type.dtype))
    program = _program()
    given = [
        inputs.get(port.name, program.parameters.get(port.name))
        for port in program.entry(name).arguments
    ]
    return inputs, reference.evaluate(program.module, name, given)


def _require_close(found, wanted):
    for y, expected in zip(found, wanted, strict=True):
        np.testing.assert_allclose(y, expected, rtol=0, atol=3e-6 * abs(expected).max())


@pytest.mark.parametrize("name", NAMES)
def test_products_by_integers_are_those_by_floats(compiled, name):
    inputs, wanted = _inputs(name)
    found = getattr(compiled, name)(**inputs)
    _require_close(found if isinstance(found, (tuple, list)) else [found], wanted)


@pytest.mark.parametrize("name", ["halves_128_minima", "bytes_64_zeros"])
def test_integers_have_a_scale_and_a_minimum_for_each_block(name):
    inputs, (wanted,) = _inputs(name)
    parameters = _program().parameters
    parts = {
        part: np.asarray(parameters[f"weights.{name}.{part}"]).astype("f8")
        for part in ("q", "scale", "zero", "less")
        if f"weights.{name}.{part}" in parameters
    }
    axis = 1 if name == "bytes_64_zeros" else 0
    block = parts["q"].shape[axis] // parts["scale"].shape[axis]
    q = parts.pop("q")
    parts = {part: np.repeat(x, block, axis) for part, x in parts.items()}
    w = (q - parts.get("zero", 0)) * parts["scale"] - parts.get("less", 0)
    y = inputs["x"].astype("f8") @ (w.T if axis else w)
    bias = np.asarray(parameters["weights.bias"]).astype("f8")
    _require_close([wanted], [np.maximum(y + bias, 0)])


def test_terms_of_packed_weights_are_right():
    regions = Regions.of(MODEL, "aarch64")
    for name in NAMES:
        inputs, wanted = _inputs(name)
        _require_close(regions.evaluate(name, inputs), wanted)


@pytest.mark.parametrize(
    "level",
    [
        "x86_64-v3",
        *(
            pytest.param(x, marks=pytest.mark.slow)
            for x in ("x86_64-v4-dot", "riscv64-v")
        ),
    ],
)
def test_kernels_and_archives_have_no_more_than_the_bits(level):
    unit = Unit(load(MODEL)).fork(Target.parse(level))
    for stage in PASS_STAGES[:2]:
        run_passes(unit, stage.passes(), silently=True)
    second = {
        Tensor.of(function.entry_block.arguments[1])
        for function in functions_of(unit.module).values()
        if (fused := fused_of(function)) and fused.kernel == "contraction"
    }
    assert {kind.dtype for kind in second} == {"i8", "u8"}
    largest = 192 * 256  # bytes of the largest weights together, in whole panels
    for array in unit.program.parameters.values():
        assert array.nbytes <= largest
    assert not [note for note in unit.notes if isinstance(note, KernelRefusal)]


BOTH_WAYS = """
import numpy
import aotc
from aotc import nn

SIZE = 2048  # more bytes than may be stored for nothing
weights = aotc.Weights({
    "q": numpy.arange(SIZE * SIZE).reshape(SIZE, SIZE).astype("i1") >> 4,
    "scale": numpy.ones((SIZE, SIZE // 32), "f2"),
})

@aotc.entry(weights=weights, x=aotc.Spec((4, SIZE)), dy=aotc.Spec((4, SIZE)))
def both_ways(weights, x, dy):
    scale = weights["scale"].astype("f32")
    w = nn.dequantize(weights["q"], scale, axis=1, block=32, bits=4)
    return x @ w.T, dy @ w
"""


def test_integers_that_are_read_both_ways_are_stored_in_both_orders_alone(tmp_path):
    (tmp_path / "model.py").write_text(BOTH_WAYS)
    unit = Unit(load(tmp_path / "model.py")).fork(Target.parse("x86_64-v4"))
    for stage in PASS_STAGES[:2]:
        run_passes(unit, stage.passes(), silently=True)
    size, scales = 2048 * 2048 // 2, 2 * 2048 * 2048 // 32
    stored = sum(each.nbytes for each in unit.program.parameters.values())
    assert stored == 2 * (size + scales)
    assert not [note for note in unit.notes if isinstance(note, KernelRefusal)]


def test_rows_of_bf16_are_read_as_they_are():
    unit = Unit(load(MODEL, ["narrow_one", "narrow_many"]))
    unit = unit.fork(Target.parse("x86_64-v4"))
    for stage in PASS_STAGES[:2]:
        run_passes(unit, stage.passes(), silently=True)
    functions = functions_of(unit.module)
    for name in ("narrow_one", "narrow_many"):
        for call in calls_in(functions[name]):
            left, *_ = functions[callee_of(call)].entry_block.arguments
            assert Tensor.of(left).dtype == "bf16"


SOURCE = """
import numpy
import aotc
from aotc import nn

weights = aotc.Weights(
    {"q": numpy.ones((96, 256), "i1"), "scale": numpy.ones((96, 8), "f4")}
)


@aotc.entry(weights=weights, x=aotc.Spec((4, 256, 8), "f32"))
def columns_first(weights, x):
    w = nn.dequantize(weights["q"], weights["scale"], axis=1, block=32)
    return aotc.numpy.einsum("bkm,nk->bmn", x, w)
"""


@pytest.mark.parametrize(
    ("target", "why"),
    [("x86_64-v4", "not beside each other"), ("vmvx", "none for vmvx")],
)
def test_a_weight_that_calls_dequantise_is_told_with_its_line(tmp_path, target, why):
    model = tmp_path / "model.py"
    model.write_text(SOURCE)
    with pytest.warns(UserWarning, match=rf"dequantises a weight \(.*:13\): .*{why}"):
        build(model, targets=[Target.parse(target)], stop_after="regions", dump=None)


TABLE = """
import numpy, aotc
from aotc import nn, numpy as np

rng = numpy.random.default_rng(0)
w = aotc.Weights({
    "q": rng.integers(-8, 8, (40, 64)).astype("i1"),
    "scales": rng.uniform(0.01, 0.1, (40, 2)).astype("f2"),
})

@aotc.entry(at=aotc.Spec((5,), "i32"))
def rows(w, at):
    scales = np.astype(w["scales"], "f32")
    return np.take(nn.dequantize(w["q"], scales, axis=1, block=32), at, 0, mode="clip")
"""


def test_scales_of_rows_are_converted_before_code_that_has_no_half_precision(tmp_path):
    model = tmp_path / "model.py"
    model.write_text(TABLE)
    dtypes = {}
    for target in map(Target.parse, ("vmvx", "x86_64-v4")):
        unit = Unit(load(model)).fork(target)
        for stage in PASS_STAGES[:2]:
            run_passes(unit, stage.passes(), silently=True)
        assert not [*refusals(unit.module, [target])]
        (entry,) = unit.program.entries
        ports = [port for port in entry.arguments if port.kind == "weight"]
        dtypes[str(target)] = sorted(port.type.dtype for port in ports)
    assert dtypes == {"vmvx": ["f32", "i8"], "x86_64-v4": ["f16", "i8"]}


def test_products_by_one_weight_read_one_packing_of_it():
    unit = Unit(load(MODEL)).fork(Target.parse("x86_64-v4"))
    for stage in PASS_STAGES[:2]:
        run_passes(unit, stage.passes(), silently=True)
    (entry,) = [each for each in unit.program.entries if each.name == "read_twice"]
    kinds = [port.type for port in entry.arguments if port.kind == "weight"]
    assert sorted(kind.dtype for kind in kinds) == ["f16", "i8"]


def test_products_of_one_operand_read_joined_packings_for_all_numbers_of_rows():
    unit = Unit(load(MODEL)).fork(Target.parse("x86_64-v4"))
    for stage in PASS_STAGES[:2]:
        run_passes(unit, stage.passes(), silently=True)
    functions = functions_of(unit.module)
    read = {}
    for name in ("joined_one", "joined_many"):
        calls = [functions[callee_of(call)] for call in calls_in(functions[name])]
        assert sorted(len(each.type.results) for each in calls) == [1, 2, 3]
        ports = unit.program.entry(name).ports("weight")
        read[name] = {port.name: port.type for port in ports}
    assert read["joined_one"] == read["joined_many"]
    kinds = [kind.dtype for kind in read["joined_one"].values()]
    assert sorted(kinds) == ["f16", "f16", "f16", "f32", "i8", "i8", "i8", "u8"]
