"""Machine models of processors, and what schedules make of them."""

import json

import pytest

import aotc
from aotc import nn
from aotc.dialects.functions.functions import functions_of
from aotc.dialects.functions.fusion import fused_of
from aotc.kernels.gpu.machines import gpu_of
from aotc.kernels.machine import machine_of
from aotc.machine.target import TARGETS, Target
from aotc.passes import run_passes
from aotc.passes.base import Unit
from aotc.passes.stages import PASS_STAGES
from aotc.tracing.assembly import trace


def test_processors_with_multiply_adds_of_vectors_have_kernels():
    lanes = {name: machine_of(each) for name, each in TARGETS.items()}
    assert {name: found.lanes for name, found in lanes.items() if found} == {
        "x86_64-v3": 8,
        "x86_64-v3-dot": 8,
        "x86_64-v4": 16,
        "x86_64-v4-dot": 16,
        "aarch64": 4,
        "aarch64-v8.2": 4,
        "aarch64-v8.6": 4,
        "riscv64-v": 4,
    }


def test_models_of_machines_are_the_same_when_a_tuning_file_is_read():
    found = [machine_of(each) or gpu_of(each) for each in TARGETS.values()]
    told = [each.to_plain() for each in found if each]
    assert len(told) > 15
    assert json.loads(json.dumps(told)) == told


@pytest.mark.parametrize("target", ["x86_64-v3", "x86_64-v4", "aarch64"])
def test_eight_heads_that_share_keys_read_only_what_they_see(target):
    """On vectors of four as well: the kernel of many queries reads all positions."""
    spec = {"q": aotc.Spec((1, 1, 16, 64)), "k": aotc.Spec((1, 96, 2, 64))}

    @aotc.entry(**spec, bias=aotc.Spec((1, 1, 1, 96)))
    def step(q, k, bias):
        return nn.attention(q, k, k, bias=bias)

    unit = Unit(trace([step], {})).fork(Target.parse(target))
    for stage in PASS_STAGES[:2]:
        run_passes(unit, stage.passes())
    regions = [fused_of(each) for each in functions_of(unit.module).values()]
    assert [each.kernel for each in regions if each] == ["decoder"]
