"""Lowered ops for GPUs, whose code IREE makes wrongly where it could be as on a CPU."""

import re
from functools import cache

import pytest

import aotc
import aotc.numpy as np
from aotc import nn
from aotc.backend import compile_units
from aotc.machine.target import Target
from aotc.passes import run_passes
from aotc.passes.base import Unit
from aotc.passes.stages import PASS_STAGES, all_passes
from aotc.tracing.assembly import trace

INTEGERS = ("i8", "i16", "i32", "i64")


@cache
def lowered(target: str) -> str:
    """The linalg of all entries for a target, in which no kernel computes any."""

    @aotc.entry(x=aotc.Spec((4, 8)))
    def reversed_part(x):
        return x[:, 1:4][:, ::-1], x[::2][:, ::-1], x[1:3][:, ::-1]

    @aotc.entry(**{d: aotc.Spec(("n", "m"), d) for d in INTEGERS})
    def extremes(i8, i16, i32, i64):
        every = (i8, i16, i32, i64)
        found = [f(x, 1) for x in every for f in (np.max, np.min, np.argmax)]
        return tuple(found)

    unit = Unit(trace([reversed_part, extremes], {})).fork(Target.parse(target))
    left_out = ("contraction", "attention", "rows", "pooling")
    for stage in PASS_STAGES[:3]:
        run_passes(unit, stage.passes(without=left_out), silently=True)
    return str(unit.module)


@pytest.mark.parametrize("target", ["cuda:sm_80", "rocm:gfx942", "vulkan"])
def test_signed_extremes_are_those_of_unsigned_integers(target: str) -> None:
    text = lowered(target)
    bodies = re.findall(r'"reduction"\].*?linalg\.yield', text, re.DOTALL)
    assert len(bodies) == 3 * len(INTEGERS)
    assert not any("arith.maxsi" in x or "arith.minsi" in x for x in bodies)
    assert sum("arith.xori" in x for x in bodies) == 2 * len(INTEGERS)


def test_on_processors_signed_extremes_are_what_they_are() -> None:
    text = lowered("x86_64-v3")
    assert text.count("arith.maxsi") == text.count("arith.minsi") == len(INTEGERS)
    assert "arith.xori" not in text


def test_parts_that_are_not_neighbours_are_in_memory_before_gpus_read_them() -> None:
    ways = {"cuda:sm_80": 2, "vulkan": 2, "x86_64-v3": 0}
    for target, count in ways.items():
        text = lowered(target)
        body = text[text.index("@reversed_part(") :]
        body = body[: body.index("return")]
        assert len(re.findall(r"call @iree\.barrier", body)) == count, target


def test_softmax_of_bytes_fits_into_shared_memory_of_vulkan() -> None:
    @aotc.entry(x=aotc.Spec((64, 1003), "i8"), y=aotc.Spec(("n", 90), "i8"))
    def shares(x, y):
        found = (nn.softmax(nn.dequantize(each, 0.25, 3)) for each in (x, y))
        return tuple(nn.quantize(each, 2.0**-8, 0, "u8") for each in found)

    unit = Unit(trace([shares], {}), Target.parse("vulkan"))
    run_passes(unit, all_passes(), silently=True)
    (variant,) = compile_units([unit])
    assert variant.vmfb
